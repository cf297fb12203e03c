"""`veristream calibrate` as an operator uses it: on photographs, on too few of them, and stopped half-way."""

import asyncio
import csv
import itertools
import json
import os
import random
import signal
import sys
from functools import partial
from pathlib import Path
from typing import Any, Final
from xml.etree import ElementTree as ET

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from app.calibration.pairs import CalibrationRefused, Pair
from app.calibration.photographs import NO_FACE, Comparison, Photograph
from app.cli.actions import calibrate as commands
from app.cli.main import app
from app.process.output import err, say_error
from app.vision.faces.core import FaceCore
from app.vision.faces.dlib_engine import load_core
from streams.vision_ports import Picture
from tests.journeys.service import START_S, entries, environment, veristream
from tests.specimens.photographs import a_shot, another_photograph, to_jpeg
from tests.vision import portraits

SHOTS: Final = 5
"""Photographs of each of two people: 20 pairs of the same and 25 of different ones."""
PEOPLES_SHOTS: Final = 30
"""Photographs of each person: looking at them all takes longer than reading a line does on any machine."""
ENOUGH: Final = ("--max-fmr", "0.15", "--max-fnmr", "0.15")
"""For which 19 pairs of either kind are enough."""
IN_FORCE: Final = {"SERVICE_FACE_ACCEPT_AT": "0.45", "SERVICE_FACE_REJECT_ABOVE": "0.7"}
"""Thresholds of an earlier calibration."""
RESULTS: Final = [
    "calibration.json", "comparisons.csv", "det.png", "det.svg", "distributions.png", "distributions.svg",
]  # fmt: skip


def photograph(core: FaceCore, folder: Path, person: str, picture: Picture) -> list[str]:
    """Take photographs of a person, as small as a verification wants them."""
    chance, face = random.Random(person), core.find(picture)[0]
    names = [f"{person}-{number}.jpg" for number in range(SHOTS)]
    for name in names:
        (folder / name).write_bytes(another_photograph(picture.pixels, face, a_shot(chance), chance))
    return names


def write_pairs(folder: Path, people: list[list[str]], *more: str) -> None:
    """Write down every pair of the photographs of two people."""
    same = [f"{one},{other},same" for names in people for one, other in itertools.combinations(names, 2)]
    different = [f"{one},{other},different" for one, other in itertools.product(*people)]
    (folder / "pairs.csv").write_text("\n".join(["first,second,label", *same, *different, *more]) + "\n")


def spoil(folder: Path) -> dict[str, str]:
    """Put photographs into the folder that count for nothing; why, by name."""
    astronaut = portraits.astronaut()
    blank = np.full((300, 300, 3), 200, np.uint8)
    spoiled = {
        "blank.jpg": (to_jpeg(blank), "no face"),
        "both.jpg": (to_jpeg(portraits.beside(astronaut, astronaut).pixels), "several faces of like size"),
        "blurred.jpg": (to_jpeg(portraits.blur(astronaut, 3).pixels), "blurred, so that a person decides"),
        "small.jpg": (to_jpeg(blank[:20, :20]), "too few pixels"),
        "text.jpg": (b"no picture", "not one still JPEG, PNG or WebP"),
        "large.jpg": (bytes(10_000_001), "larger than 10 MB"),
    }
    for name, (content, _) in spoiled.items():
        (folder / name).write_bytes(content)
    return {name: why for name, (_, why) in spoiled.items()}


async def test_photographs_of_two_people_give_rates_drawings_and_a_band_between_them(tmp_path: Path) -> None:
    folder, core = tmp_path / "photographs", load_core()
    folder.mkdir()
    people = [
        photograph(core, folder, "collins", portraits.astronaut()),
        photograph(core, folder, "hopper", portraits.grace_hopper()),
    ]
    spoiled = spoil(folder)
    with Image.open(folder / people[0][0]) as image:
        image.save(folder / "copy.png")
    more = [f"{name},{people[1][0]},different" for name in spoiled]
    write_pairs(folder, people, *more, f"{people[0][0]},copy.png,same", f"copy.png,{people[1][1]},different")
    results = folder / "calibration"
    results.mkdir()
    (results / "det.svg").write_text("of an earlier run")
    (results / "notes.txt").write_text("of the operator's")

    status, out, progress = await veristream(
        tmp_path / "data", "calibrate", str(folder), *ENOUGH, given=IN_FORCE
    )

    assert status == 0, progress
    assert entries(results) == sorted([*RESULTS, "notes.txt"])
    assert not (tmp_path / "data").exists()
    answer = json.loads((results / "calibration.json").read_text())
    check_counts(answer, spoiled)
    check_band(answer)
    rows = [*csv.DictReader((results / "comparisons.csv").open())]
    check_rates(answer, rows)
    assert "Recommended: accept up to " in out
    assert "In force: accept up to 0.45, reject above 0.7" in out
    assert f"  SERVICE_FACE_REJECT_ABOVE={answer['recommended']['reject_above']:g}" in out
    assert "Clopper-Pearson" in out
    assert f"written: {results / 'det.png'}" in out
    assert "17 of 17 photographs" in progress
    for name in ("det", "distributions"):
        assert ET.parse(results / f"{name}.svg").getroot().tag.endswith("svg")  # noqa: S314 - our own file
        with Image.open(results / f"{name}.png") as drawn:
            assert drawn.format == "PNG"


def check_counts(answer: dict[str, Any], spoiled: dict[str, str]) -> None:
    """Each photograph that counts for nothing is named with its reason, and each pair that rests on one."""
    left_out = {one["photograph"]: one["why"] for one in answer["left_out"] if "photograph" in one}
    lines = {one["line"]: one["why"] for one in answer["left_out"] if "line" in one}

    assert (answer["photographs"], answer["same"], answer["different"]) == (17, 20, 26)
    assert answer["people_at_most"] == 2 + len(spoiled)
    assert set(left_out) == set(spoiled)
    assert {name: left_out[name][: len(why)] for name, why in spoiled.items()} == spoiled
    assert answer["failure_to_acquire"]["errors"] == len(spoiled)
    assert lines[53] == "both are the same picture, pixel by pixel"
    assert sorted(lines) == [*range(47, 54)]


def check_band(answer: dict[str, Any]) -> None:
    """The two people lie apart, so the band is what lies between them."""
    band = answer["recommended"]

    assert 0.3 < band["accept_at"] < band["reject_above"] < 0.7
    assert band["fmr_at_accept"]["high"] <= 0.15
    assert band["fnmr_at_reject"]["high"] <= 0.15
    assert (answer["in_force"]["accept_at"], answer["in_force"]["reject_above"]) == (0.45, 0.7)
    for kind in (band["same"], band["different"], answer["in_force"]["same"]):
        assert sum(kind.values()) == pytest.approx(1)


def check_rates(answer: dict[str, Any], rows: list[dict[str, str]]) -> None:
    """The rates are those of the distances beside them, counted anew."""
    distances = {
        label: [float(row["distance"]) for row in rows if row["label"] == label and row["distance"]]
        for label in ("same", "different")
    }

    assert [len(found) for found in distances.values()] == [20, 26]
    for at in answer["thresholds"]:
        wrong = sum(distance > at["threshold"] for distance in distances["same"])
        matching = sum(distance <= at["threshold"] for distance in distances["different"])
        assert (at["fnmr"]["errors"], at["fmr"]["errors"]) == (wrong, matching)


def test_too_few_pairs_are_refused_before_a_model_is_loaded_and_shown_how_many_are_needed(
    tmp_path: Path,
) -> None:
    names = [[f"{person}-{number}.jpg" for number in range(5)] for person in ("ada", "obi")]
    for name in itertools.chain(*names):
        (tmp_path / name).write_bytes(b"never opened")
    write_pairs(tmp_path, names)
    refusal = CliRunner().invoke(app, ["calibrate", str(tmp_path), "--max-fmr", "0.01"]).exception
    said = str(refusal)

    assert isinstance(refusal, CalibrationRefused)
    assert "20 labelled same and 25 labelled different, which is too few" in said
    assert "59 labelled same are needed to show that at most 5 %" in said
    assert "20 are enough for --max-fnmr 0.14" in said
    assert "299 labelled different are needed to show that at most 1 %" in said
    assert "rule of 3 (ISO/IEC 19795-1)" in said
    assert not (tmp_path / "calibration").exists()


def test_where_no_photograph_has_a_face_there_are_too_few_and_each_is_named() -> None:
    seen = [Photograph(f"{number}.jpg", left_out=NO_FACE) for number in range(60)]
    pairs = [Pair(n + 2, "0.jpg", f"{n}.jpg", mated=bool(n % 2)) for n in range(1, 60)]
    compared = [Comparison(pair, None, "0.jpg: no face") for pair in pairs]

    with pytest.raises(CalibrationRefused) as refused:
        commands._counted(seen, compared, commands.Wanted(0.1, 0.1))
    said = str(refused.value)

    assert "of the 59 pairs, those that can be compared are 0 labelled same and 0 labelled different" in said
    assert (said.count(": no face"), said.endswith("and 40 more")) == (20, True)


def test_an_output_that_cannot_be_written_is_refused_first(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    given = ["calibrate", str(tmp_path), "--output", str(tmp_path / "file" / "results")]
    refusal = CliRunner().invoke(app, given).exception

    assert isinstance(refusal, CalibrationRefused)
    assert "--output" in str(refusal)


def test_an_error_names_a_file_as_it_is_called() -> None:
    with err.capture() as said:
        say_error("eze [2].jpg, [bold]ada[/].jpg")

    assert said.get() == "error: eze [2].jpg, [bold]ada[/].jpg\n"


async def test_ctrl_c_stops_it_at_once_with_a_word_and_without_a_file(tmp_path: Path) -> None:
    names = [[f"{person}-{number}.png" for number in range(PEOPLES_SHOTS)] for person in ("ada", "obi")]
    for number, name in enumerate(itertools.chain(*names)):
        Image.new("RGB", (400, 400), (number, 0, 0)).save(tmp_path / name)
    write_pairs(tmp_path, names)
    before = entries(tmp_path)
    command = (sys.executable, "-m", "app", "calibrate", str(tmp_path), *ENOUGH)
    pipe = asyncio.subprocess.PIPE
    run = await asyncio.create_subprocess_exec(
        *command,
        stdout=pipe,
        stderr=pipe,
        env=environment(),
        start_new_session=True,
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),  # the background ignores it
    )
    assert run.stderr is not None
    try:
        async with asyncio.timeout(START_S):
            first = await run.stderr.readline()
            os.killpg(run.pid, signal.SIGINT)  # as a terminal does
            out, output = await run.communicate()
    finally:
        if run.returncode is None:
            run.kill()

    assert f"of {2 * PEOPLES_SHOTS} photographs".encode() in first
    assert (run.returncode, out) == (130, b"")
    assert output.splitlines()[-1] == b"stopped; nothing was written"
    assert entries(tmp_path) == before
