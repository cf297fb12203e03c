"""Compute the features of a policy for a transaction over the row of their key (G113).

Pure, and decimal throughout: sums, least and most are exact, averages and deviations have six places, half to
even. Values of more than the stored events come from panes; one that only part of the window covers is taken
whole, so COUNT and SUM are never less than the truth, and the value says that it is not exact.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from math import isqrt
from types import MappingProxyType
from typing import Final

from schemas.policies import (
    WINDOW_MS,
    AmountField,
    DistinctField,
    Feature,
    FeatureFilter,
    FeatureValue,
    Metric,
)
from streams.transactions.distinct import count, is_sketch, single
from streams.transactions.panes import Cell, Totals
from streams.transactions.row import Kind, RowEvent, VelocityEvent, VelocityRow

_PLACES: Final = 6
_MS_PER_SECOND: Final = 1_000
_POSITIONS: Final[Mapping[DistinctField, int]] = MappingProxyType(
    {name: position for position, name in enumerate(DistinctField)}
)


def values(features: Iterable[Feature], row: VelocityRow, event: VelocityEvent) -> dict[str, FeatureValue]:
    """Return the value of each feature by its name, for the transaction, over the earlier ones of the row.

    The features are those of the row's key. The transaction's outcome is not looked at, and it never counts
    itself, for only what occurred before it does.
    """
    looked_at = _LookedAt(row, event)
    return {feature.name: _value(feature, looked_at) for feature in features}


@dataclass(frozen=True, slots=True)
class _Selection:
    """The events and cells of a window that a feature is about."""

    t_ms: int
    start_ms: int
    events: list[RowEvent]
    inside: list[Cell]
    """Of which every event is in the window."""
    edge: list[Cell]
    """Of which some events may be outside it."""
    complete: bool
    """Whether nothing of the window was dropped."""

    @property
    def cells(self) -> list[Cell]:
        return self.inside + self.edge

    @property
    def exact(self) -> bool:
        return self.complete and not self.edge

    def count(self) -> int:
        return len(self.events) + sum(cell.count for cell in self.cells)


class _LookedAt:
    """The row as one transaction sees it; what several features need is found once."""

    def __init__(self, row: VelocityRow, event: VelocityEvent) -> None:
        self.event = event
        self._row = row
        self._times = [one.t_ms for one in row.events]
        self._cells = list(row.panes.cells())
        self._windows: dict[int, _Selection] = {}

    def select(self, feature: Feature) -> _Selection:
        """Return what of the feature's window matches its filter and its currency."""
        window = self._window(WINDOW_MS[feature.window])
        kinds = {
            position
            for position, kind in enumerate(self._row.kinds)
            if _matches(kind, feature.where) and self._is_of_currency(kind, feature.field)
        }
        if len(kinds) == len(self._row.kinds):
            return window
        return _Selection(
            window.t_ms,
            window.start_ms,
            [one for one in window.events if one.kind in kinds],
            [one for one in window.inside if one.kind in kinds],
            [one for one in window.edge if one.kind in kinds],
            window.complete,
        )

    def _window(self, length_ms: int) -> _Selection:
        if length_ms not in self._windows:
            t_ms, start_ms = self.event.t_ms, self.event.t_ms - length_ms
            events = self._row.events[bisect_left(self._times, start_ms) : bisect_left(self._times, t_ms)]
            cells = [one for one in self._cells if one.first_ms < t_ms and one.last_ms >= start_ms]
            inside = [one for one in cells if start_ms <= one.first_ms and one.last_ms < t_ms]
            edge = [one for one in cells if not (start_ms <= one.first_ms and one.last_ms < t_ms)]
            complete = self._row.panes.dropped_ms < start_ms
            self._windows[length_ms] = _Selection(t_ms, start_ms, events, inside, edge, complete)
        return self._windows[length_ms]

    def _is_of_currency(self, kind: Kind, field: AmountField | DistinctField | None) -> bool:
        if field is AmountField.AMOUNT:
            return kind.currency == self.event.amount.currency
        if field is AmountField.BASE_AMOUNT:
            base = self.event.base_amount
            return base is not None and kind.base_currency == base.currency
        return True


def _matches(kind: Kind, where: FeatureFilter) -> bool:
    return (
        where.direction in (None, kind.direction)
        and where.type in (None, kind.type)
        and where.currency in (None, kind.currency)
        and where.outcome in (None, kind.outcome)
    )


def _value(feature: Feature, looked_at: _LookedAt) -> FeatureValue:
    if feature.field is AmountField.BASE_AMOUNT and looked_at.event.base_amount is None:
        return FeatureValue(None)
    return _METRICS[feature.metric](looked_at.select(feature), feature)


def _count(found: _Selection, _feature: Feature) -> FeatureValue:
    return FeatureValue(found.count(), found.exact)


def _count_distinct(found: _Selection, feature: Feature) -> FeatureValue:
    if not isinstance(feature.field, DistinctField):
        raise TypeError(feature.field)
    position = _POSITIONS[feature.field]
    sets = [cell.distinct[position] for cell in found.cells]
    sets += [single(one.hashed(position)) for one in found.events]
    return FeatureValue(count(sets), found.exact and not any(map(is_sketch, sets)))


def _seconds_since_last(found: _Selection, _feature: Feature) -> FeatureValue:
    """Return the age of the last one; an event is never older than a cell, so one is exact."""
    if found.events:
        return FeatureValue((found.t_ms - found.events[-1].t_ms) // _MS_PER_SECOND, found.complete)
    last = max((min(cell.last_ms, found.t_ms) for cell in found.cells), default=None)
    return FeatureValue(None if last is None else (found.t_ms - last) // _MS_PER_SECOND, found.exact)


def _seconds_since_first(found: _Selection, _feature: Feature) -> FeatureValue:
    firsts = [max(cell.first_ms, found.start_ms) for cell in found.cells] + [
        one.t_ms for one in found.events[:1]
    ]
    age_ms = found.t_ms - min(firsts) if firsts else None
    return FeatureValue(None if age_ms is None else age_ms // _MS_PER_SECOND, found.exact)


@dataclass(frozen=True, slots=True)
class _Numbers:
    """The sum, the sum of squares, the least and the most, as whole numbers of 10 ** -scale."""

    count: int
    scale: int
    total: int
    squares: int
    least: int
    most: int


def _numbers(found: _Selection, field: AmountField | DistinctField | None) -> _Numbers | None:
    """Return what the amounts add up to, or None when there is none."""
    totals = [_event_totals(one, field) for one in found.events]
    totals += [cell.base if field is AmountField.BASE_AMOUNT else cell.amount for cell in found.cells]
    present = [one for one in totals if one is not None]
    if not present:
        return None
    scale = max(one.scale for one in present)
    total, squares, least, most = zip(*(one.numbers(scale) for one in present), strict=True)
    return _Numbers(found.count(), scale, sum(total), sum(squares), min(least), max(most))


def _event_totals(event: RowEvent, field: AmountField | DistinctField | None) -> Totals | None:
    if field is not AmountField.BASE_AMOUNT:
        return Totals.of(event.minor, event.scale)
    return None if event.base_minor is None else Totals.of(event.base_minor, event.base_scale)


def _of_amounts(pick: Callable[[_Numbers], Decimal], nothing: Decimal | None) -> "_Compute":
    def compute(found: _Selection, feature: Feature) -> FeatureValue:
        numbers = _numbers(found, feature.field)
        return FeatureValue(nothing if numbers is None else pick(numbers), found.exact)

    return compute


def _decimal(whole_number: int, scale: int) -> Decimal:
    """Return the number as it is: unlike arithmetic, the constructor does not round to a context."""
    return Decimal(f"{whole_number}E-{scale}")


def _average(numbers: _Numbers) -> Decimal:
    divided, rest = divmod(numbers.total * 10**_PLACES, numbers.count * 10**numbers.scale)
    return _rounded(divided, 2 * rest, numbers.count * 10**numbers.scale)


def _deviation(numbers: _Numbers) -> Decimal:
    """Return the population's: sqrt(n * sum of squares - sum squared) / n, rounded from the exact root."""
    radicand = (numbers.count * numbers.squares - numbers.total**2) * 10 ** (2 * _PLACES)
    divisor = numbers.count * 10**numbers.scale
    root = isqrt(radicand // divisor**2)
    return _rounded(root, 4 * radicand, (2 * root + 1) ** 2 * divisor**2)


def _rounded(floor: int, measure: int, half: int) -> Decimal:
    """Return the floor, or one more when the measure is past the half, or on it and the floor is odd."""
    up = measure > half or (measure == half and floor % 2 == 1)
    return _decimal(floor + up, _PLACES)


_Compute = Callable[[_Selection, Feature], FeatureValue]
_METRICS: Final[Mapping[Metric, _Compute]] = MappingProxyType(
    {
        Metric.COUNT: _count,
        Metric.COUNT_DISTINCT: _count_distinct,
        Metric.SUM: _of_amounts(lambda numbers: _decimal(numbers.total, numbers.scale), Decimal(0)),
        Metric.AVG: _of_amounts(_average, None),
        Metric.MIN: _of_amounts(lambda numbers: _decimal(numbers.least, numbers.scale), None),
        Metric.MAX: _of_amounts(lambda numbers: _decimal(numbers.most, numbers.scale), None),
        Metric.STDDEV: _of_amounts(_deviation, None),
        Metric.SECONDS_SINCE_LAST: _seconds_since_last,
        Metric.SECONDS_SINCE_FIRST: _seconds_since_first,
    }
)
