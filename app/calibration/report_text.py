"""Print the results of a calibration."""

from collections.abc import Iterator, Sequence
from typing import Final

from app.calibration.error_rates import ERRORS_FOR_ESTIMATE
from app.calibration.pairs import shown
from app.calibration.report import AtThreshold, Report, ReportedBand, ReportedRate
from app.process.output import out, say_rows
from streams.verification.policy import FACE_PASS_MOST

LISTED: Final = 20
"""Photographs and pairs named; calibration.json has all."""
ROWS_APART: Final = 0.05
"""Thresholds of the table; calibration.json has one every 0.01."""


def print_report(report: Report) -> None:
    """Print what a person needs; everything else is in the JSON."""
    _say(f"Engine {report.model_version}")
    _say(
        f"{report.photographs} photographs of at most {report.people_at_most} people; "
        f"{report.failure_to_acquire.errors} left out (failure to acquire {_rate(report.failure_to_acquire)})"
    )
    _say(f"{report.same} pairs labelled same, {report.different} labelled different were compared")
    _say_some([f"{shown(one.photograph)}: {one.why}" for one in report.left_out if one.photograph])
    _say_some([f"line {one.line}: {shown(one.why)}" for one in report.left_out if not one.photograph])
    _say("")
    rows = [(f"{at.threshold:g}", _rate(at.fnmr), _rate(at.fmr)) for at in _rows(report)]
    say_rows(("accepted up to", "FNMR (interval)", "FMR (interval)"), rows)
    _say(f"Intervals: {report.interval}. Equal error rate {_percent(report.equal_error_rate)}.")
    _say("")
    _say_band("Recommended", report.recommended)
    _say_band("In force", report.in_force)
    _say("")
    for line in _how_to_set(report):
        _say(line)
    _say("")
    for caveat in _caveats(report):
        _say(caveat)
    if report.doubtful:
        _say("On the wrong side of the recommended band; look whether the label is right:")
        _say_some([f"line {one.line}, {one.label}: distance {one.distance:.3f}" for one in report.doubtful])


def _rows(report: Report) -> Iterator[AtThreshold]:
    """Yield the thresholds worth a row: those of both bands, and every 0.05 where an error changed."""
    bands = (report.recommended, report.in_force)
    wanted = {edge for band in bands for edge in (band.accept_at, band.reject_above)}
    before = None
    for at in report.thresholds:
        errors = at.fnmr.errors, at.fmr.errors
        even = round(at.threshold / ROWS_APART, 6).is_integer()
        if at.threshold in wanted or (even and errors != before):
            before = errors
            yield at


def _how_to_set(report: Report) -> Iterator[str]:
    """Yield the lines that put the recommendation into force."""
    band = report.recommended
    if not report.default_engine:
        yield "To put it into force, give the embedder in SERVICE_FACES these, and start the service again:"
        yield f'  "pass_at": {band.accept_at:g}, "fail_at": {band.reject_above:g}'
        return
    yield "To put it into force, start the service with these settings:"
    yield f"  SERVICE_FACE_ACCEPT_AT={min(band.accept_at, FACE_PASS_MOST):g}"
    yield f"  SERVICE_FACE_REJECT_ABOVE={band.reject_above:g}"
    if band.accept_at > FACE_PASS_MOST:
        yield f"  ({FACE_PASS_MOST:g} is the most that may be accepted; a person looks at what lies above.)"


def _caveats(report: Report) -> Iterator[str]:
    band = report.recommended
    for name, counted in (("FMR", band.fmr_at_accept), ("FNMR", band.fnmr_at_reject)):
        if counted.errors < ERRORS_FOR_ESTIMATE:
            yield (
                f"The recommended {name} rests on {counted.errors} errors: believe its interval, not its "
                f"value (rule of 30: {ERRORS_FOR_ESTIMATE} errors for an estimate within 30 %)."
            )
    yield (
        "The intervals take pairs for independent. Pairs that share a photograph or a person are not, so "
        "few people with many pairs are less certain than they look."
    )
    yield "The thresholds were chosen on these pairs: confirm them on pairs of other people."


def _say_band(name: str, band: ReportedBand) -> None:
    _say(f"{name}: accept up to {band.accept_at:g}, reject above {band.reject_above:g}, else a person looks")
    _say(f"  different people accepted (FMR)   {_rate(band.fmr_at_accept)}")
    _say(f"  the same person rejected (FNMR)   {_rate(band.fnmr_at_reject)}")
    same, different = band.same, band.different
    _say(
        f"  to a person                       {_percent(same.to_a_person)} of the same, "
        f"{_percent(different.to_a_person)} of the different"
    )


def _say_some(lines: Sequence[str]) -> None:
    for line in lines[:LISTED]:
        _say(f"  {line}")
    if len(lines) > LISTED:
        _say(f"  and {len(lines) - LISTED} more; calibration.json has all")


def _say(text: str) -> None:
    out.print(text, markup=False, highlight=False, soft_wrap=True)


def _rate(reported: ReportedRate) -> str:
    return f"{_percent(reported.rate)} ({_percent(reported.low)} to {_percent(reported.high)})"


def _percent(share: float) -> str:
    percent = share * 100
    return f"{percent:.2f} %" if percent == 0 or percent >= 0.01 else f"{percent:.2g} %"  # noqa: PLR2004
