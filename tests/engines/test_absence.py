"""Where there is no Java, the run says what it did not test."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_a_run_without_java_says_in_capitals_what_was_not_run(tmp_path: Path) -> None:
    asked = ["tests/engines/test_servers.py", "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", "-n", "1", *asked]  # one that hands on what it left out
    bare = {"PATH": str(tmp_path), "HOME": str(tmp_path)}
    done = subprocess.run(command, cwd=ROOT, env=bare, capture_output=True, text=True, check=False)  # noqa: S603

    assert "TESTS WERE NOT RUN, FOR THERE IS NO JAVA 17 OR NO MAVEN HERE" in done.stdout
    assert "INSTALL JAVA 17 AND MAVEN" in done.stdout
    assert "passed" not in done.stdout
