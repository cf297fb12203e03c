"""The row of the velocity table: what it remembers, stores and forgets."""

import hashlib
from dataclasses import replace
from decimal import Decimal

import pytest

from schemas.policies import WINDOW_MS, DistinctField, FeatureFilter, Metric, Window
from schemas.transactions import Direction, TransactionType
from streams.transactions import distinct
from streams.transactions.features import values
from streams.transactions.row import (
    MAX_BYTES,
    MAX_EVENTS,
    MAX_IDS,
    Amount,
    VelocityEvent,
    VelocityRow,
    add,
    decode,
    encode,
)
from tests.rules.velocity_streams import START_MS, busy_stream, every_feature, row_of

DAY_MS = 86_400_000


def event(t_ms: int, minor: int = 100, currency: str = "EUR", device: str | None = None) -> VelocityEvent:
    """Return a payment of the time."""
    hashes = {} if device is None else {DistinctField.DEVICE_ID: hashlib.sha256(device.encode()).digest()[:8]}
    amount = Amount(minor, 2, currency)
    return VelocityEvent(t_ms, TransactionType.CARD, Direction.OUTBOUND, amount, hashes=hashes)


def value(row: VelocityRow, metric: Metric, window: Window, t_ms: int) -> tuple[object, bool]:
    """Return a feature without a filter, of the first of its fields, and whether it is exact."""
    features = [f for f in every_feature(FeatureFilter()) if (f.metric, f.window) == (metric, window)]
    found = values(features[:1], row, event(t_ms))[features[0].name]
    return found.value, found.exact


def test_a_transaction_is_counted_once_however_often_its_command_is_repeated() -> None:
    row = VelocityRow()

    added = [add(row, f"txn_{number % MAX_IDS}", event(START_MS + number)) for number in range(3 * MAX_IDS)]

    assert added == [True] * MAX_IDS + [False] * (2 * MAX_IDS)
    assert value(row, Metric.COUNT, Window.HOUR_1, START_MS + 4_000) == (MAX_IDS, True)


@pytest.mark.parametrize("seed", range(2))
def test_a_row_read_again_is_the_row_that_was_stored(seed: int) -> None:
    row = row_of(busy_stream(seed, 400))

    assert decode(encode(row)) == row


def test_amounts_of_any_size_are_added_exactly() -> None:
    row = VelocityRow()
    for number in range(200):
        add(row, f"txn_{number}", event(START_MS + number, 10**30 + number))
    row = decode(encode(row))

    total, exact = value(row, Metric.SUM, Window.HOUR_1, START_MS + 200)

    assert (total, exact) == (Decimal("2000000000000000000000000000199.00"), True)


def test_what_no_window_can_reach_is_dropped() -> None:
    row = VelocityRow()
    for day in range(400):
        add(row, f"txn_{day}", event(START_MS + day * DAY_MS))
    now_ms = START_MS + 400 * DAY_MS

    assert len(row.events) + sum(cell.count for cell in row.panes.cells()) <= 93
    assert value(row, Metric.COUNT, Window.DAYS_90, now_ms) == (90, True)
    assert value(row, Metric.COUNT, Window.DAYS_90, START_MS + 200 * DAY_MS)[1] is False


def test_kinds_that_nothing_refers_to_are_forgotten() -> None:
    row = VelocityRow()
    for number in range(2_000):
        add(row, f"txn_{number}", event(START_MS + number * DAY_MS, currency=f"X{number}"))

    assert len(row.kinds) <= 257
    assert value(row, Metric.COUNT, Window.DAYS_90, START_MS + 2_000 * DAY_MS) == (90, True)


@pytest.mark.parametrize("size", [0, 1, 64, 65, 300, 1_000, 20_000])
def test_distinct_values_are_counted_exactly_while_few_and_then_within_the_error_of_the_paper(
    size: int,
) -> None:
    sets = [distinct.single(hashlib.sha256(str(number).encode()).digest()[:8]) for number in range(size)]
    halves = [distinct.union(sets[: size // 2]), distinct.union(sets[size // 3 :])]

    estimate = distinct.count(halves, ())

    assert abs(estimate - size) <= (0 if size <= 64 else 4 * 1.04 / 16 * size)
    assert all(len(half) <= 1 + 64 * 8 for half in halves)


def test_a_key_that_sees_a_thousand_devices_counts_them_with_a_stated_error() -> None:
    row = VelocityRow()
    for number in range(1_000):
        add(row, f"txn_{number}", event(START_MS + number, device=f"device {number}"))
    features = [
        feature
        for feature in every_feature(FeatureFilter())
        if feature.field is DistinctField.DEVICE_ID and feature.window is Window.HOUR_1
    ]

    found = values(features, row, event(START_MS + 1_000))[features[0].name]

    assert not found.exact
    assert isinstance(found.value, int)
    assert 740 <= found.value <= 1_260


def test_a_very_hot_row_is_bounded_and_its_values_are_exact_or_more() -> None:
    """A device of ten thousand payments in an hour and of ninety busy days, of a thousand subjects."""
    row, times = VelocityRow(), list[int]()
    for number in range(16_000):
        step_ms = 12 * 60_000 if number < 6_000 else 360
        times.append((times[-1] if times else START_MS) + step_ms)
        hashed = hashlib.sha256(str(number).encode()).digest()[:8]
        payment = event(times[-1], currency=f"X{number % 7}")
        add(row, f"txn_{number}", replace(payment, hashes=dict.fromkeys(DistinctField, hashed)))
        if number % 500 == 0 or number > 15_990:
            row = decode(encode(row))
    now_ms = times[-1] + 1

    for window in Window:
        found, exact = value(row, Metric.COUNT, window, now_ms)
        truth = sum(now_ms - WINDOW_MS[window] <= one < now_ms for one in times)
        assert isinstance(found, int)
        assert found == truth if exact else found >= truth, window
    assert len(encode(row)) <= MAX_BYTES
    assert len(row.events) == MAX_EVENTS
    assert [one.t_ms for one in row.events] == times[-MAX_EVENTS:]
