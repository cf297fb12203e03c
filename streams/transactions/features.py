"""Compute the features of a policy for a transaction over the row of their key (G113).

Pure, and decimal throughout: sums, least and most are exact, averages and deviations have six places, half to
even. Values of more than the stored events come from panes; one that only part of the window covers is taken
whole, so COUNT and SUM are never less than the truth, and the value says that it is not exact.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from math import isqrt
from types import MappingProxyType
from typing import Final

from schemas.policies import AmountField, DistinctField, Feature, FeatureKey, FeatureValue, Metric
from streams.transactions.distinct import count, is_sketch
from streams.transactions.row import VelocityEvent, VelocityRow
from streams.transactions.selections import Numbers, RowView

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
    view = RowView(row, event)
    return {feature.name: _value(feature, view) for feature in features}


def _value(feature: Feature, view: RowView) -> FeatureValue:
    if feature.field is AmountField.BASE_AMOUNT and view.event.base_amount is None:
        return FeatureValue(None)
    return _METRICS[feature.metric](view, feature)


def _count(view: RowView, feature: Feature) -> FeatureValue:
    found = view.select(feature)
    return FeatureValue(found.count(), found.exact)


def _count_distinct(view: RowView, feature: Feature) -> FeatureValue:
    if not isinstance(feature.field, DistinctField):
        raise TypeError(feature.field)
    found = view.select(feature)
    position = _POSITIONS[feature.field]
    sets = [cell.distinct[position] for cell in found.cells]
    hashes = (one.hashed(position) for one in found.events)
    number = count(sets, (hashed for hashed in hashes if hashed is not None))
    return FeatureValue(number, found.exact and not any(map(is_sketch, sets)))


def _seconds_since_last(view: RowView, feature: Feature) -> FeatureValue:
    """Return the age of the last one; an event is never older than a cell, so one is exact."""
    found = view.select(feature)
    if found.events:
        return FeatureValue((found.t_ms - found.events[-1].t_ms) // _MS_PER_SECOND, found.complete)
    last = max((min(cell.last_ms, found.t_ms) for cell in found.cells), default=None)
    return FeatureValue(None if last is None else (found.t_ms - last) // _MS_PER_SECOND, found.exact)


def _seconds_since_first(view: RowView, feature: Feature) -> FeatureValue:
    found = view.select(feature)
    firsts = [max(cell.first_ms, found.start_ms) for cell in found.cells] + [
        one.t_ms for one in found.events[:1]
    ]
    age_ms = found.t_ms - min(firsts) if firsts else None
    return FeatureValue(None if age_ms is None else age_ms // _MS_PER_SECOND, found.exact)


def _of_amounts(pick: Callable[[Numbers], Decimal], nothing: Decimal | None) -> "_Compute":
    def compute(view: RowView, feature: Feature) -> FeatureValue:
        numbers = view.numbers(feature)
        return FeatureValue(nothing if numbers is None else pick(numbers), view.select(feature).exact)

    return compute


def _decimal(whole_number: int, scale: int) -> Decimal:
    """Return the number as it is: unlike arithmetic, the constructor does not round to a context."""
    return Decimal(f"{whole_number}E-{scale}")


def _average(numbers: Numbers) -> Decimal:
    divided, rest = divmod(numbers.total * 10**_PLACES, numbers.count * 10**numbers.scale)
    return _rounded(divided, 2 * rest, numbers.count * 10**numbers.scale)


def _deviation(numbers: Numbers) -> Decimal:
    """Return the population's: sqrt(n * sum of squares - sum squared) / n, rounded from the exact root."""
    radicand = (numbers.count * numbers.squares - numbers.total**2) * 10 ** (2 * _PLACES)
    divisor = numbers.count * 10**numbers.scale
    root = isqrt(radicand // divisor**2)
    return _rounded(root, 4 * radicand, (2 * root + 1) ** 2 * divisor**2)


def _rounded(floor: int, measure: int, half: int) -> Decimal:
    """Return the floor, or one more when the measure is past the half, or on it and the floor is odd."""
    up = measure > half or (measure == half and floor % 2 == 1)
    return _decimal(floor + up, _PLACES)


_Compute = Callable[[RowView, Feature], FeatureValue]
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


@dataclass(frozen=True, slots=True)
class Earlier:
    """The earlier transactions, as features see them."""

    row: VelocityRow
    """Of the subject."""
    by_keys: Mapping[str, FeatureValue]
    """Features by other keys, as their actors computed them."""

    def features(self, features: Iterable[Feature], event: VelocityEvent) -> dict[str, FeatureValue]:
        """Return the value of each feature for the transaction."""
        features = tuple(features)
        own = [feature for feature in features if feature.key is FeatureKey.SUBJECT_ID]
        others = {one.name: self.by_keys[one.name] for one in features if one.name in self.by_keys}
        return values(own, self.row, event) | others
