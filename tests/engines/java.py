"""Where Java and Maven are, and what to say when they are not."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

JAVA_MAJOR: Final = 17
"""Cassandra 5.0 runs on Java 11 and 17, Kafka 4.3 on 17 and later; 17 is what both share."""

FIX: Final = "install Java 17 and Maven"


@cache
def find_java() -> str | None:
    """The first `java` of the right major version: that of `JAVA_HOME`, then that of the path."""
    return next((path for path in _candidates() if _major(path) == JAVA_MAJOR), None)


@cache
def java_version() -> str:
    """What the java of `find_java` says of itself; nothing where there is none."""
    java = find_java()
    return _said(java) if java else ""


def find_maven() -> str | None:
    """Maven's command."""
    return shutil.which("mvn")


def _candidates() -> Iterator[str]:
    if home := os.environ.get("JAVA_HOME"):
        yield str(Path(home) / "bin" / "java")
    if found := shutil.which("java"):
        yield found


def _major(java: str) -> int | None:
    said = re.search(r'version "(\d+)', _said(java))
    return int(said[1]) if said else None


def _said(java: str) -> str:
    """Return what `java -version` prints, nothing where there is no such program."""
    try:
        run = subprocess.run([java, "-version"], capture_output=True, text=True, check=False, timeout=30)  # noqa: S603
    except OSError:
        return ""
    return run.stderr
