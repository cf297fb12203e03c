"""The jars of an engine: resolved once by Maven, kept in a cache that several test runs may share."""

import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from tests.engines.java import FIX, find_maven

RESOLVE_S: Final = 280
"""How long Maven may take over an empty cache; half a minute was measured."""

DEPENDENCY: Final = """    <dependency>
      <groupId>{0}</groupId><artifactId>{1}</artifactId><version>{2}</version>
    </dependency>
"""

PROJECT: Final = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>veristream.tests</groupId><artifactId>{name}</artifactId><version>1</version>
  <packaging>pom</packaging>
  <dependencies>
{dependencies}  </dependencies>
</project>
"""


class EnginesNotResolved(Exception):
    """Java is there, the jars are not; the message carries Maven's own words."""


@dataclass(frozen=True, slots=True)
class Jars:
    """A named set of artifacts, each `group:artifact:version`, with everything they depend on at run time."""

    name: str
    artifacts: tuple[str, ...]

    @property
    def pom(self) -> str:
        """A project that does nothing but depend on them."""
        dependencies = "".join(DEPENDENCY.format(*artifact.split(":")) for artifact in self.artifacts)
        return PROJECT.format(name=self.name, dependencies=dependencies)

    @property
    def folder(self) -> Path:
        """Where they are kept; another version has another place. A folder that exists is whole."""
        return cache_folder() / f"{self.name}-{hashlib.sha256(self.pom.encode()).hexdigest()[:12]}"


KAFKA_JARS: Final = Jars(
    "kafka-4.3.1",
    (
        "org.apache.kafka:kafka_2.13:4.3.1",
        "org.apache.kafka:kafka-tools:4.3.1",  # what its command line runs
        "org.apache.logging.log4j:log4j-slf4j-impl:2.25.4",  # without it the broker is silent
    ),
)
CASSANDRA_JARS: Final = Jars("cassandra-5.0.9", ("org.apache.cassandra:cassandra-all:5.0.9",))


def cache_folder() -> Path:
    """`VERISTREAM_ENGINES_CACHE`, or a folder in the user's cache."""
    if given := os.environ.get("VERISTREAM_ENGINES_CACHE"):
        return Path(given)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "veristream-engines"


def resolve(jars: Jars) -> Path:
    """The folder of the jars; blocks while Maven, or another test run, brings them.

    Raises:
        EnginesNotResolved: Maven is absent or could not bring them.
    """
    return made_once(jars.folder, partial(_bring, jars))


def made_once(folder: Path, make: Callable[[Path], None]) -> Path:
    """The folder, made under another name unless it exists; blocks while another process makes it."""
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with _locked(folder.with_name(f"{folder.name}.lock")):
        if not folder.is_dir():
            work = Path(tempfile.mkdtemp(prefix=".making-", dir=folder.parent))
            try:
                make(work / "made")
                (work / "made").rename(folder)
            finally:
                shutil.rmtree(work, ignore_errors=True)
    return folder


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _bring(jars: Jars, folder: Path) -> None:
    maven = find_maven()
    if maven is None:
        raise EnginesNotResolved(f"the jars of {jars.name} are not in {jars.folder}: {FIX}")
    (project := folder.with_name("pom.xml")).write_text(jars.pom)
    _run_maven(maven, project, folder, jars)


def _run_maven(maven: str, project: Path, folder: Path, jars: Jars) -> None:
    goal = ("dependency:copy-dependencies", f"-DoutputDirectory={folder}", "-DincludeScope=runtime")
    command = (maven, "-q", "-B", "-Dstyle.color=never", "-f", str(project), *goal)
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=RESOLVE_S)  # noqa: S603
    except subprocess.TimeoutExpired as error:
        raise EnginesNotResolved(f"Maven did not bring {jars.name} within {RESOLVE_S} s") from error
    if done.returncode != 0 or not any(folder.glob("*.jar")):
        said = (done.stdout + done.stderr).strip()[-4_000:]
        raise EnginesNotResolved(f"Maven could not bring {jars.name}:\n{said}")


if __name__ == "__main__":  # `.ci/run` has them brought while it installs the rest
    for needed in (CASSANDRA_JARS, KAFKA_JARS):
        resolve(needed)
