"""Jars are brought once, whole or not at all, and a Maven that fails is quoted."""

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.engines.maven import EnginesNotResolved, Jars, resolve

JARS = Jars("engine-1", ("org.example:engine:1",))

STAND_IN = """#!{python}
import pathlib, sys, time
with open({calls!r}, "a") as calls:
    calls.write("called ")
if {fails}:
    sys.exit("[ERROR] Could not find artifact org.example:engine:jar:1")
given = dict(word.split("=", 1) for word in sys.argv if word.startswith("-DoutputDirectory="))
folder = pathlib.Path(given["-DoutputDirectory"])
folder.mkdir()
(folder / "engine-1.jar").write_text("jar")
"""


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, a path with nothing on it but a Maven of the test's own, and the file of its calls."""
    monkeypatch.setenv("VERISTREAM_ENGINES_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    return tmp_path / "calls"


def install_maven(calls: Path, *, fails: bool = False) -> None:
    """Put a program in Maven's place that notes its calls and makes a jar, or fails."""
    program = calls.parent / "bin" / "mvn"
    program.parent.mkdir()
    program.write_text(STAND_IN.format(python=sys.executable, calls=str(calls), fails=fails))
    program.chmod(0o700)


def test_two_runs_that_need_the_jars_at_once_call_maven_once(calls: Path) -> None:
    install_maven(calls)
    with ThreadPoolExecutor(2) as runs:
        folders = list(runs.map(resolve, [JARS, JARS]))

    assert calls.read_text() == "called "
    assert [[jar.name for jar in folder.iterdir()] for folder in folders] == [["engine-1.jar"]] * 2


def test_a_maven_that_fails_is_quoted_and_leaves_nothing(calls: Path) -> None:
    install_maven(calls, fails=True)
    with pytest.raises(EnginesNotResolved, match="Could not find artifact"):
        resolve(JARS)

    assert [path.name for path in JARS.folder.parent.iterdir()] == [f"{JARS.folder.name}.lock"]


def test_without_maven_the_mend_is_named(calls: Path) -> None:
    assert not calls.exists()
    with pytest.raises(EnginesNotResolved, match="install Java 17 and Maven"):
        resolve(JARS)


def test_another_version_has_another_place(calls: Path) -> None:
    del calls
    assert Jars("engine-1", ("org.example:engine:1.0.1",)).folder != JARS.folder
