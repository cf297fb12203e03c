"""Time and size of the velocity row beside a baseline of the same run: `python -m tests.bench.velocity`.

The baseline is pydantic reading the last events alone from JSON, without any pane; each round times both, and
the ratio of the medians is what travels between machines.
"""

import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from pydantic import TypeAdapter

from schemas.base import Frozen
from schemas.policies import FeatureFilter
from schemas.transactions import Direction, OutcomeClass, TransactionType
from streams.transactions.features import values
from streams.transactions.row import Amount, VelocityEvent, VelocityRow, add, decode, encode
from tests.rules.velocity_streams import busy_stream, event_of, every_feature

ROUNDS: Final = 300
FEATURES: Final = 18
STREAM: Final = 9
"""A seed whose payments go on for weeks, so that there are panes of each length."""


class PlainEvent(Frozen):
    """A velocity event as a message of the topics would write it."""

    t_ms: int
    type: TransactionType
    direction: Direction
    outcome: OutcomeClass | None
    amount: Amount
    base_amount: Amount | None
    hashes: dict[str, str]


def plain(event: VelocityEvent) -> PlainEvent:
    """Return the event with its hashes in hexadecimal."""
    return PlainEvent(
        t_ms=event.t_ms,
        type=event.type,
        direction=event.direction,
        outcome=event.outcome,
        amount=event.amount,
        base_amount=event.base_amount,
        hashes={name: hashed.hex() for name, hashed in event.hashes.items()},
    )


def main(rounds: int) -> None:
    """Print the medians in microseconds, the ratios, and the sizes in bytes."""
    payments = (
        replace(payment, type="CARD", outcome="GO", currency="EUR", base_currency="USD")
        for payment in busy_stream(STREAM, 600)
    )
    events = [event_of(payment) for payment in payments]
    row = VelocityRow()
    for number, event in enumerate(events[:-1]):
        add(row, f"txn_{number}", event)
    stored = encode(row)
    adapter = TypeAdapter(list[PlainEvent])
    json = adapter.dump_json([plain(event) for event in events[-64:]])
    features = every_feature(FeatureFilter())[:: len(every_feature(FeatureFilter())) // FEATURES][:FEATURES]
    timed: dict[str, Callable[[], object]] = {
        "baseline: pydantic reads 64 events": lambda: adapter.validate_json(json),
        "decode": lambda: decode(stored),
        "encode": lambda: encode(row),
        f"{len(features)} features": lambda: values(features, row, events[-1]),
        "decode, add, encode": lambda: added(stored, events[-1]),
    }
    samples: dict[str, list[int]] = {name: [] for name in timed}
    for _ in range(rounds):
        for name, call in timed.items():
            samples[name].append(elapsed_ns(call))
    show(samples)
    cells = list(row.panes.cells())
    sys.stdout.write(
        f"row: {len(stored)} bytes, {len(row.events)} events and {len(cells)} cells;"
        f" {len(stored) / len(json):.2f} x the JSON of the events alone\n"
    )


def added(stored: bytes, event: VelocityEvent) -> bytes:
    """Return the stored row with one more event, as a transaction leaves it."""
    row = decode(stored)
    add(row, "txn_last", event)
    return encode(row)


def elapsed_ns(call: Callable[[], object]) -> int:
    """Return how long one call took."""
    begun = time.perf_counter_ns()
    call()
    return time.perf_counter_ns() - begun


def show(samples: dict[str, list[int]]) -> None:
    """Print each median and its ratio to the first."""
    medians = {name: statistics.median(taken) for name, taken in samples.items()}
    baseline = next(iter(medians.values()))
    for name, median in medians.items():
        sys.stdout.write(f"{name:<36}{median / 1_000:>8.1f} us{median / baseline:>8.2f} x\n")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS)
