"""Plants faults in a copy of the product, one after the other, and shows which test turns red.

`python -m tests.browser.planted_faults`; it needs Chromium and some minutes, and is no part of the suite.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
PACKAGES: Final = ("app", "schemas", "streams", "tests", "deploy", "pyproject.toml")
LONGEST_S: Final = 600


@dataclass(frozen=True, slots=True)
class Fault:
    """A change for the worse, and the test that is to notice it."""

    name: str
    file: str
    right: str
    wrong: str
    test: str


FAULTS: Final = (
    Fault(
        "a video without playsinline",
        "app/web/templates/verify.html",
        'data-slot="video" class="feed" playsinline',
        'data-slot="video" class="feed"',
        "tests/browser/test_capture_journeys.py::test_a_face_is_taken_with_the_front_camera_and_sent_as_it_is",
    ),
    Fault(
        "a picture without alt",
        "app/web/templates/verify.html",
        ' alt="{{ language.texts["check.alt"] }}" data-alt="check.alt"',
        "",
        "tests/browser/test_capture_journeys.py::test_a_person_is_verified_with_the_camera",
    ),
    Fault(
        "a policy without Trusted Types",
        "app/http/pages.py",
        "require-trusted-types-for 'script'; ",
        "",
        "tests/browser/test_capture_limits.py::test_the_policy_holds",
    ),
    Fault(
        "a request that is not sent again",
        "app/web/assets/api.js",
        "await pause(error.after ?? wait);",
        "throw error;",
        "tests/browser/test_capture_journeys.py::test_what_the_network_loses_is_sent_again_by_itself_and_kept_once",
    ),
    Fault(
        "a page that every role may see",
        "app/http/routes/console/flows.py",
        "        require(call, Permission.VERIFICATION_FLOWS_MANAGE)\n",
        "",
        "tests/http/test_console.py::test_a_role_is_offered_and_shown_what_its_permissions_say",
    ),
)


def passes(folder: Path, *tests: str) -> bool:
    """Run tests in a copy of the product."""
    command = [sys.executable, "-m", "pytest", "-n", "0", "-q", "-p", "no:cacheprovider", *tests]
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    ran = subprocess.run(  # noqa: S603 - fixed words
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=LONGEST_S, check=False
    )
    if ran.returncode not in {0, 1}:
        raise RuntimeError(ran.stdout + ran.stderr)
    return ran.returncode == 0


def say(line: str) -> None:
    """Print a line at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> int:
    """Print what notices each fault; return how many are noticed by nothing."""
    unnoticed = 0
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        for name in PACKAGES:
            source = ROOT / name
            (shutil.copytree if source.is_dir() else shutil.copy)(source, folder / name)
        say(f"without a fault: {'green' if passes(folder, *(one.test for one in FAULTS)) else 'RED'}")
        for fault in FAULTS:
            file = folder / fault.file
            text = file.read_text(encoding="utf-8")
            if fault.right not in text:
                raise RuntimeError(f"{fault.name}: {fault.file} has changed")
            file.write_text(text.replace(fault.right, fault.wrong), encoding="utf-8")
            noticed = not passes(folder, fault.test)
            file.write_text(text, encoding="utf-8")
            unnoticed += not noticed
            say(f"{fault.name}: {'red' if noticed else 'NOTICED BY NOTHING'} ({fault.test})")
    return unnoticed


if __name__ == "__main__":
    sys.exit(main())
