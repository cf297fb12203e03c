"""Hostile files: refused by name, quickly distinguished, and never dear in memory."""

import subprocess
import sys
from pathlib import Path

import pytest

from app.vision.images import check_header, decode, strip_metadata
from schemas.problems import ImageUndecodable
from tests.specimens.hostile import heavy, refused

REFUSED, HEAVY = refused(), heavy()
MEMORY_MB = 200
"""What a file may cost above the idle process (S41)."""

CHILD = """
import pathlib, sys
from app.vision.images import decode, strip_metadata
from schemas.problems import ImageNotEvaluable, ImageUndecodable

def status(field):
    lines = pathlib.Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(field)).split()[1]) / 1024

for path in sys.argv[1:]:
    file = pathlib.Path(path).read_bytes()
    pathlib.Path("/proc/self/clear_refs").write_text("5")
    idle = status("VmRSS:")
    try:
        strip_metadata(file)
        decode(file)
    except (ImageUndecodable, ImageNotEvaluable):
        pass
    print(path, round(status("VmHWM:") - idle))
"""


@pytest.mark.parametrize("name", REFUSED)
def test_it_is_refused_as_undecodable(name: str) -> None:
    with pytest.raises(ImageUndecodable):
        decode(REFUSED[name]())


@pytest.mark.parametrize("name", HEAVY)
def test_a_heavy_but_lawful_file_is_decoded(name: str) -> None:
    assert decode(HEAVY[name]()).pixels.shape[2] == 3


@pytest.mark.parametrize("name", HEAVY)
def test_stuffing_is_not_kept(name: str) -> None:
    file = HEAVY[name]()
    assert check_header(strip_metadata(file)) == check_header(file)
    assert not any(mark in strip_metadata(file) for mark in (b"ICC_PROFILE", b"iCCP", b"zTXt"))


def test_no_file_costs_more_than_its_share_of_memory(tmp_path: Path) -> None:
    """Measured in a process of its own, as the rise of the highest resident size."""
    paths = []
    for index, (name, make) in enumerate((REFUSED | HEAVY).items()):
        path = tmp_path / f"{index:02} {name}"
        path.write_bytes(make())
        paths.append(str(path))
    child = subprocess.run(  # noqa: S603 - our own interpreter and program
        [sys.executable, "-c", CHILD, *paths], capture_output=True, text=True, check=True
    )
    costs = {line.rpartition(" ")[0]: int(line.rpartition(" ")[2]) for line in child.stdout.splitlines()}
    assert len(costs) == len(paths)
    assert {path: cost for path, cost in costs.items() if cost > MEMORY_MB} == {}
