"""Run `veristream calibrate`: examine labelled photographs and compute error rates over thresholds."""

import csv
import math
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Final

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from app.adapters.files.data_dir import make_private
from app.calibration.charts import draw_det, draw_distributions
from app.calibration.error_rates import Band, Comparisons, rate, recommended, trials_needed
from app.calibration.pairs import PAIRS_FILE, CalibrationRefused, LabelledPairs, read_pairs, shown
from app.calibration.photographs import Comparison, Photograph, Photographer, compare
from app.calibration.report import Report, make_report
from app.composition.engines import open_chosen_engines
from app.observability.logging import configure_logging
from app.process.output import err
from app.settings import Settings
from streams.verification.checks import RequiredChecks
from streams.verification.policy import FaceBands, VerificationPolicy

OUTPUT: Final = "calibration"
"""The folder of the results, in that of the photographs unless another one is named."""


RULE_OF_3: Final = (
    "This is the rule of 3 (ISO/IEC 19795-1): after N trials without an error, a rate is known to be below "
    "3/N with 95 % confidence. One photograph may stand in many pairs."
)
MAX_LIMIT: Final = 0.5
"""The greatest rate that may be asked for; beyond it a comparison is worse than a coin."""
LISTED: Final = 20
"""Photographs named one by one in a refusal."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Error rates the recommended thresholds must keep below."""

    max_fmr: float
    max_fnmr: float


@dataclass(frozen=True, slots=True)
class Engine:
    """The face engine whose distances were measured."""

    model_version: str
    default: bool
    bands: FaceBands
    """In force now."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """A report, and the files that show it, by their names."""

    report: Report
    files: Mapping[str, bytes]


async def calibrate(settings: Settings, folder: Path, wanted: Wanted) -> Calibration:
    """Compare the pairs of a folder and recommend thresholds. Reads the folder, writes nothing.

    Raises:
        CalibrationRefused: Pairs are wrong or too few, or no thresholds keep to what is wanted.
        CannotStart: A model cannot be used, or this system cannot confine children.
    """
    labelled = read_pairs(folder)
    mated = sum(pair.mated for pair in labelled.pairs)
    _refuse_too_few(f"{folder / PAIRS_FILE} has", mated, len(labelled.pairs) - mated, wanted)
    configure_logging(settings.log_format, settings.log_level)
    policy = VerificationPolicy()
    async with AsyncExitStack() as stack:
        with err.status("loading the models"):
            engines = await stack.enter_async_context(open_chosen_engines(settings))
        at_once = min(settings.vision_workers, settings.vision_queue)
        with _progress(len(labelled.photographs)) as report:
            seen = await Photographer(engines, policy, at_once).look_at(labelled, report)
        compared = [*compare(engines, labelled.pairs, seen)]
    engine = Engine(
        engines.faces.model_version, settings.faces is None, RequiredChecks(engines, policy).face_bands()
    )
    return _evaluate(labelled, [*seen.values()], compared, wanted, engine)


def refuse_output(output: Path) -> None:
    """Return if results could be written there; looks before hours of work, and makes nothing. Blocking.

    Raises:
        CalibrationRefused: They could not.
    """
    existing = next(path for path in (output.absolute(), *output.absolute().parents) if path.exists())
    if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
        raise CalibrationRefused(f"results cannot be written to {output}; name a folder with --output")


def write_files(calibration: Calibration, output: Path) -> list[Path]:
    """Write each file whole, in place of one from an earlier run, and return their paths. Blocking.

    Raises:
        CalibrationRefused: The disk is full, or the folder not for us.
    """
    try:
        make_private(output)
        return [_write(output / name, content) for name, content in calibration.files.items()]
    except OSError as error:
        raise CalibrationRefused(f"results cannot be written to {output}: {error.strerror}") from error


def _evaluate(
    labelled: LabelledPairs,
    seen: Sequence[Photograph],
    compared: Sequence[Comparison],
    wanted: Wanted,
    engine: Engine,
) -> Calibration:
    """Count the errors, recommend a band and draw both."""
    comparisons = _counted(seen, compared, wanted)
    advised = recommended(comparisons, wanted.max_fmr, wanted.max_fnmr)
    if advised is None:
        raise CalibrationRefused(
            f"no threshold accepts at most {wanted.max_fmr:.3g} of the different people and rejects at most "
            f"{wanted.max_fnmr:.3g} of the same: this engine does not distinguish these photographs"
        )
    in_force = Band(engine.bands.accept_at, engine.bands.reject_above)
    report = make_report(
        model_version=engine.model_version,
        default_engine=engine.default,
        people=labelled.people,
        seen=seen,
        compared=compared,
        comparisons=comparisons,
        wanted=(wanted.max_fmr, wanted.max_fnmr),
        advised=advised,
        in_force=in_force,
    )
    files = {
        "calibration.json": report.model_dump_json(indent=2, exclude_none=True).encode() + b"\n",
        "comparisons.csv": _as_csv(compared),
    }
    for name, draw in (("distributions", draw_distributions), ("det", draw_det)):
        drawing = draw(comparisons, in_force, advised)
        files |= {f"{name}.svg": drawing.svg().encode(), f"{name}.png": drawing.png()}
    return Calibration(report, files)


def _counted(seen: Sequence[Photograph], compared: Sequence[Comparison], wanted: Wanted) -> Comparisons:
    """Return the distances of both kinds; raises `CalibrationRefused` if too many pairs were left out."""
    mated = [one.distance for one in compared if one.distance is not None and one.pair.mated]
    nonmated = [one.distance for one in compared if one.distance is not None and not one.pair.mated]
    left_out = [f"{shown(one.name)}: {one.left_out}" for one in seen if one.left_out]
    had = f"of the {len(compared)} pairs, those that can be compared are"
    _refuse_too_few(had, len(mated), len(nonmated), wanted, left_out)
    return Comparisons(mated, nonmated)


def _refuse_too_few(
    had: str, mated: int, nonmated: int, wanted: Wanted, left_out: Sequence[str] = ()
) -> None:
    """Return if pairs without any error would show what is wanted.

    Raises:
        CalibrationRefused: They would not, by the rule of 3.
    """
    kinds = (
        ("same", mated, wanted.max_fnmr, "--max-fnmr", "of the same people are rejected"),
        ("different", nonmated, wanted.max_fmr, "--max-fmr", "of different people are accepted"),
    )
    short = [
        f"{trials_needed(limit)} labelled {label} are needed to show that at most {limit * 100:g} % {means}, "
        f"even if none is wrong; {_enough_for(option, count)}"
        for label, count, limit, option, means in kinds
        if count < trials_needed(limit)
    ]
    if short:
        message = f"{had} {mated} labelled same and {nonmated} labelled different, which is too few:"
        more = [f"and {len(left_out) - LISTED} more"] if len(left_out) > LISTED else []
        raise CalibrationRefused("\n  ".join([message, *short, RULE_OF_3, *left_out[:LISTED], *more]))


def _enough_for(option: str, count: int) -> str:
    """Return which limit so many pairs could show."""
    rounded = math.ceil((rate(0, count).high if count else 1.0) * 1000) / 1000
    return f"{count} are enough for {option} {rounded:g}" if rounded <= MAX_LIMIT else "add some"


def _as_csv(compared: Sequence[Comparison]) -> bytes:
    text = StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(("line", "first", "second", "label", "distance", "left_out"))
    for one in compared:
        pair, label = one.pair, "same" if one.pair.mated else "different"
        distance = "" if one.distance is None else f"{one.distance:.6f}"
        rows.writerow((pair.line, pair.first, pair.second, label, distance, one.left_out or ""))
    return text.getvalue().encode()


def _write(path: Path, content: bytes) -> Path:
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
        made = Path(file.name)
        try:
            file.write(content)
            file.flush()
            made.replace(path)
        except OSError:
            made.unlink()
            raise
    return path


@contextmanager
def _progress(total: int) -> Iterator[Callable[[Photograph], None]]:
    """Show on stderr how far the photographs are: a bar on a terminal, else a line at each tenth."""
    columns = TextColumn("looking at photographs"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as bar:
        task, done = bar.add_task("", total=total), 0

        def report(_: Photograph) -> None:
            nonlocal done
            done += 1
            bar.advance(task)
            if not err.is_terminal and done * 10 // total > (done - 1) * 10 // total:
                err.print(f"{done} of {total} photographs", highlight=False)

        yield report
