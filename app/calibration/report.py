"""Models of a calibration's results, as written to calibration.json."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Self

from app.calibration.error_rates import CONFIDENCE, Band, Comparisons, Rate, rate
from app.calibration.photographs import Comparison, Photograph
from schemas.base import Frozen


class ReportedRate(Frozen):
    """A share of errors with its interval."""

    errors: int
    trials: int
    rate: float
    low: float
    high: float

    @classmethod
    def of(cls, counted: Rate) -> Self:
        """Return the rate with six digits behind the point."""
        return cls(
            errors=counted.errors,
            trials=counted.trials,
            rate=round(counted.value, 6),
            low=round(counted.low, 6),
            high=round(counted.high, 6),
        )


class AtThreshold(Frozen):
    """Both error rates where distances up to a threshold match."""

    threshold: float
    fnmr: ReportedRate
    fmr: ReportedRate


class Shares(Frozen):
    """Shares of the outcomes of the pairs of one kind."""

    accepted: float
    to_a_person: float
    rejected: float


class ReportedBand(Frozen):
    """Two thresholds and what they would make of the pairs."""

    accept_at: float
    reject_above: float
    fmr_at_accept: ReportedRate
    fnmr_at_reject: ReportedRate
    same: Shares
    different: Shares


class LeftOut(Frozen):
    """A photograph or a pair that counts for nothing, and why."""

    photograph: str | None = None
    line: int | None = None
    why: str


class Doubtful(Frozen):
    """A pair on the wrong side of the recommended band: mislabelled, or an error of the engine."""

    line: int
    first: str
    second: str
    label: str
    distance: float


class Report(Frozen):
    """All that was measured."""

    model_version: str
    default_engine: bool
    """Whether it is the product's own engine, whose thresholds are settings of their own."""
    photographs: int
    people_at_most: int
    failure_to_acquire: ReportedRate
    left_out: tuple[LeftOut, ...]
    same: int
    different: int
    interval: str
    equal_error_rate: float
    equal_error_threshold: float
    max_fmr: float
    max_fnmr: float
    recommended: ReportedBand
    in_force: ReportedBand
    doubtful: tuple[Doubtful, ...]
    thresholds: tuple[AtThreshold, ...]


def make_report(
    *,
    model_version: str,
    default_engine: bool,
    people: int,
    seen: Sequence[Photograph],
    compared: Sequence[Comparison],
    comparisons: Comparisons,
    wanted: tuple[float, float],
    advised: Band,
    in_force: Band,
) -> Report:
    """Build the report from the measurements; `wanted` is the greatest FMR and the greatest FNMR allowed."""
    threshold, equal = comparisons.equal_error()
    edges = {edge for band in (advised, in_force) for edge in (band.accept_at, band.reject_above)}
    failures = sum(photograph.left_out is not None for photograph in seen)
    return Report(
        model_version=model_version,
        default_engine=default_engine,
        photographs=len(seen),
        people_at_most=people,
        failure_to_acquire=ReportedRate.of(rate(failures, len(seen))),
        left_out=tuple(_left_out(seen, compared)),
        same=len(comparisons.mated),
        different=len(comparisons.nonmated),
        interval=f"Clopper-Pearson, {CONFIDENCE:.0%}; each end alone {(1 + CONFIDENCE) / 2:.0%}",
        equal_error_rate=round(equal, 6),
        equal_error_threshold=threshold,
        max_fmr=wanted[0],
        max_fnmr=wanted[1],
        recommended=_reported_band(comparisons, advised),
        in_force=_reported_band(comparisons, in_force),
        doubtful=tuple(_doubtful(compared, advised)),
        thresholds=tuple(_at(comparisons, threshold) for threshold in sorted({*comparisons.grid(), *edges})),
    )


def _left_out(seen: Sequence[Photograph], compared: Sequence[Comparison]) -> Iterator[LeftOut]:
    for photograph in seen:
        if photograph.left_out is not None:
            yield LeftOut(photograph=photograph.name, why=photograph.left_out)
    for one in compared:
        if one.left_out is not None:
            yield LeftOut(line=one.pair.line, why=one.left_out)


def _doubtful(compared: Iterable[Comparison], band: Band) -> list[Doubtful]:
    """Return the pairs that would be rejected or accepted wrongly, the worst first."""
    wrong = []
    for one in compared:
        if one.distance is None:
            continue
        beyond = one.distance - band.reject_above if one.pair.mated else band.accept_at - one.distance
        if beyond > 0 or (beyond == 0 and not one.pair.mated):
            wrong.append((beyond, one.pair, one.distance))
    wrong.sort(key=lambda found: (-found[0], found[1].line))
    return [
        Doubtful(
            line=pair.line,
            first=pair.first,
            second=pair.second,
            label="same" if pair.mated else "different",
            distance=round(distance, 6),
        )
        for _, pair, distance in wrong
    ]


def _reported_band(comparisons: Comparisons, band: Band) -> ReportedBand:
    def shares(accepted: float, rejected: float) -> Shares:
        between = 1 - accepted - rejected
        return Shares(
            accepted=round(accepted, 6), to_a_person=round(max(between, 0), 6), rejected=round(rejected, 6)
        )

    accept, reject = band.accept_at, band.reject_above
    return ReportedBand(
        accept_at=accept,
        reject_above=reject,
        fmr_at_accept=ReportedRate.of(comparisons.fmr(accept)),
        fnmr_at_reject=ReportedRate.of(comparisons.fnmr(reject)),
        same=shares(1 - comparisons.fnmr(accept).value, comparisons.fnmr(reject).value),
        different=shares(comparisons.fmr(accept).value, 1 - comparisons.fmr(reject).value),
    )


def _at(comparisons: Comparisons, threshold: float) -> AtThreshold:
    return AtThreshold(
        threshold=threshold,
        fnmr=ReportedRate.of(comparisons.fnmr(threshold)),
        fmr=ReportedRate.of(comparisons.fmr(threshold)),
    )
