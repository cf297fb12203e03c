"""Convert values to columns: times as integers, index pairs as JSON."""

import json
from datetime import UTC, datetime, timedelta
from typing import Final

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND: Final = timedelta(microseconds=1)
MILLISECOND: Final = timedelta(milliseconds=1)

BEYOND: Final = 2**63 - 1
"""Later than every time."""


def to_micros(moment: datetime) -> int:
    """Return microseconds since 1970."""
    return (moment - EPOCH) // MICROSECOND


def from_micros(micros: int) -> datetime:
    """Return the moment `to_micros` was given."""
    return EPOCH + timedelta(microseconds=micros)


def to_millis(moment: datetime) -> int:
    """Return whole milliseconds since 1970."""
    return (moment - EPOCH) // MILLISECOND


def from_millis(millis: int) -> datetime:
    """Return the moment in whole milliseconds."""
    return EPOCH + timedelta(milliseconds=millis)


def to_pairs_text(pairs: tuple[tuple[str, str], ...]) -> str:
    """Write index pairs as JSON."""
    return json.dumps(pairs, separators=(",", ":"))


def from_pairs_text(text: str) -> tuple[tuple[str, str], ...]:
    """Read what `to_pairs_text` wrote."""
    return tuple((name, value) for name, value in json.loads(text))
