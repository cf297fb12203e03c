"""The features of G113 by brute force over all earlier transactions, written apart from the product.

It knows every transaction and looks at each one for each value, with `Decimal` and `Fraction` arithmetic; of
the product it takes the vocabularies alone.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from decimal import ROUND_HALF_EVEN, Context, Decimal
from fractions import Fraction
from typing import Final

from schemas.policies import Feature, FeatureFilter

EXACTLY: Final = Context(prec=400, rounding=ROUND_HALF_EVEN)
MINUTE: Final = timedelta(minutes=1)
DAY: Final = timedelta(days=1)
FOR_EVER: Final = timedelta(days=10_000)
WINDOWS: Final = {
    "1m": timedelta(minutes=1),
    "5m": timedelta(minutes=5),
    "15m": timedelta(minutes=15),
    "1h": timedelta(hours=1),
    "6h": timedelta(hours=6),
    "24h": timedelta(hours=24),
    "7d": timedelta(days=7),
    "30d": timedelta(days=30),
    "90d": timedelta(days=90),
}


@dataclass(frozen=True)
class Payment:
    """A transaction as its sender wrote it."""

    t_ms: int
    type: str
    direction: str
    outcome: str
    amount: Decimal
    currency: str
    base_amount: Decimal | None
    base_currency: str | None
    fields: Mapping[str, str]


def window(feature: Feature, now: Payment) -> range:
    """Return the milliseconds that the feature looks at."""
    length_ms = WINDOWS[feature.window.value] // timedelta(milliseconds=1)
    return range(now.t_ms - length_ms, now.t_ms)


def with_edge_panes(times: range, newest_ms: int) -> range:
    """Return the milliseconds with the whole of the panes in which they begin and end."""
    return range(pane(times.start, newest_ms).start, pane(times.stop, newest_ms).stop)


def pane(t_ms: int, newest_ms: int) -> range:
    """Return the pane of a time: a minute in the last hour, half an hour in the last day, else a day."""
    for size, reach in ((MINUTE, timedelta(hours=1)), (30 * MINUTE, timedelta(hours=24)), (DAY, FOR_EVER)):
        size_ms = size // timedelta(milliseconds=1)
        begin = t_ms - t_ms % size_ms
        if begin + size_ms > newest_ms - reach // timedelta(milliseconds=1):
            return range(begin, begin + size_ms)
    raise AssertionError(t_ms)


def passes(where: FeatureFilter, one: Payment) -> bool:
    """Return whether the payment matches each filter that is set."""
    wanted = {
        "direction": where.direction,
        "type": where.type,
        "currency": where.currency,
        "outcome": where.outcome,
    }
    return all(value is None or getattr(one, name) == value for name, value in wanted.items())


def expected(
    feature: Feature, earlier: Iterable[Payment], now: Payment, times: range
) -> int | Decimal | None:
    """Return the value of the feature for the payment `now` over the earlier ones of the times."""
    found = [one for one in earlier if one.t_ms in times and passes(feature.where, one)]
    metric, field = feature.metric.value, None if feature.field is None else feature.field.value
    if metric == "COUNT":
        return len(found)
    if metric == "COUNT_DISTINCT":
        assert field is not None
        return len({one.fields[field] for one in found if field in one.fields})
    if metric == "SECONDS_SINCE_LAST":
        return (now.t_ms - max(one.t_ms for one in found)) // 1000 if found else None
    if metric == "SECONDS_SINCE_FIRST":
        return (now.t_ms - min(one.t_ms for one in found)) // 1000 if found else None
    if field == "base_amount" and now.base_amount is None:
        return None
    return of_amounts(metric, amounts(field, found, now))


def amounts(field: str | None, found: Iterable[Payment], now: Payment) -> list[Decimal]:
    """Return the amounts in the currency of the payment."""
    if field == "amount":
        return [one.amount for one in found if one.currency == now.currency]
    return [
        one.base_amount
        for one in found
        if one.base_amount is not None and one.base_currency == now.base_currency
    ]


def of_amounts(metric: str, found: list[Decimal]) -> Decimal | None:
    """Return the metric of the amounts."""
    if metric == "SUM":
        total = Decimal(0)
        for one in found:
            total = EXACTLY.add(total, one)
        return total
    if not found:
        return None
    if metric == "MIN":
        return min(found)
    if metric == "MAX":
        return max(found)
    mean = sum(map(Fraction, found), Fraction(0)) / len(found)
    if metric == "AVG":
        return six_places(EXACTLY.divide(Decimal(mean.numerator), Decimal(mean.denominator)))
    variance = sum(((Fraction(one) - mean) ** 2 for one in found), Fraction(0)) / len(found)
    root = EXACTLY.sqrt(EXACTLY.divide(Decimal(variance.numerator), Decimal(variance.denominator)))
    return six_places(root)


def six_places(number: Decimal) -> Decimal:
    """Return the number with six places, half to even."""
    return number.quantize(Decimal("0.000001"), context=EXACTLY)
