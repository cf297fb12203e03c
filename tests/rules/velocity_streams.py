"""Streams of payments for one key, their rows, and how a value is compared with the judge's."""

import hashlib
from collections.abc import Sequence
from decimal import Decimal
from typing import Final

from schemas.policies import (
    AmountField,
    DistinctField,
    Feature,
    FeatureFilter,
    FeatureKey,
    FeatureValue,
    Metric,
    Window,
)
from schemas.transactions import Direction, OutcomeClass, TransactionType
from streams.transactions.features import values
from streams.transactions.row import Amount, VelocityEvent, VelocityRow, add, decode, encode
from tests.rules.velocity_judge import Payment, expected, window, with_edge_panes

MAX_EXACT: Final = 64
START_MS: Final = 1_790_000_000_000
AMOUNTS: Final = (AmountField.AMOUNT, AmountField.BASE_AMOUNT)
FIELDS_OF: Final[dict[Metric, Sequence[AmountField | DistinctField | None]]] = {
    Metric.COUNT: (None,),
    Metric.COUNT_DISTINCT: tuple(DistinctField),
    Metric.SUM: AMOUNTS,
    Metric.AVG: AMOUNTS,
    Metric.MIN: AMOUNTS,
    Metric.MAX: AMOUNTS,
    Metric.STDDEV: AMOUNTS,
    Metric.SECONDS_SINCE_LAST: (None,),
    Metric.SECONDS_SINCE_FIRST: (None,),
}


def every_feature(where: FeatureFilter) -> list[Feature]:
    """Return a feature of each metric, field and window with the filter."""
    return [
        Feature(
            name=f"{metric}_{window.name}_{position}".lower(),
            metric=metric,
            window=window,
            key=FeatureKey.SUBJECT_ID,
            field=field,
            where=where,
        )
        for metric, fields in FIELDS_OF.items()
        for window in Window
        for position, field in enumerate(fields)
    ]


def event_of(payment: Payment) -> VelocityEvent:
    """Return the payment as the product's event."""
    base = payment.base_amount
    return VelocityEvent(
        t_ms=payment.t_ms,
        type=TransactionType(payment.type),
        direction=Direction(payment.direction),
        amount=amount_of(payment.amount, payment.currency),
        base_amount=None if base is None else amount_of(base, payment.base_currency or ""),
        outcome=OutcomeClass(payment.outcome),
        hashes={
            DistinctField(name): hashlib.sha256(text.encode()).digest()[:8]
            for name, text in payment.fields.items()
        },
    )


def amount_of(value: Decimal, currency: str) -> Amount:
    """Return the decimal as a whole number and its scale."""
    _, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    return Amount(int("".join(map(str, digits))), -exponent, currency)


def row_of(payments: Sequence[Payment]) -> VelocityRow:
    """Return the row after the payments in the order of their arrival, stored and read again after each."""
    row = VelocityRow()
    for number, payment in enumerate(payments):
        add(row, f"txn_{number}", event_of(payment))
        row = decode(encode(row))
    return row


def wrong(feature: Feature, value: FeatureValue, earlier: Sequence[Payment], now: Payment) -> str | None:
    """Return what is wrong with a value, or None: an exact one is the judge's, another one is bounded."""
    times = window(feature, now)
    right = expected(feature, earlier, now, times)
    since_start = sum(one.t_ms >= times.start for one in earlier)
    if value.exact:
        return None if value.value == right else f"{feature.name} is {value.value}, not {right}"
    if since_start <= MAX_EXACT:
        return f"{feature.name} is not exact though only {since_start} are at or after its start"
    if feature.metric not in {Metric.COUNT, Metric.SUM}:
        return None
    newest_ms = max(one.t_ms for one in earlier)
    most = expected(feature, earlier, now, with_edge_panes(times, newest_ms))
    assert right is not None
    assert most is not None
    if value.value is not None and right <= value.value <= most:
        return None
    return f"{feature.name} is {value.value}, not from {right} to {most}"


def findings(features: Sequence[Feature], payments: Sequence[Payment], now: Payment) -> list[str]:
    """Return what is wrong with the features for `now` after the payments, in the order of arrival."""
    computed = values(features, row_of(payments), event_of(now))
    judged = (wrong(feature, computed[feature.name], payments, now) for feature in features)
    return [one for one in judged if one is not None]
