"""Convert values to columns: times as integers, index pairs as JSON, positions in the feed as text."""

import json
import re
from datetime import UTC, datetime, timedelta
from typing import Final

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND: Final = timedelta(microseconds=1)
MILLISECOND: Final = timedelta(milliseconds=1)

BEYOND: Final = 2**63 - 1
"""Later than every time."""
_PLACE: Final = re.compile(r"([0-9]{1,16})\.([0-9a-z_]{0,40})")


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


def write_place(moment: int, rest: object = "") -> str:
    """Return the place; without a rest it is before all others of its moment. No moment is before 1970."""
    return f"{max(moment, 0)}.{rest}"


def read_place(place: str) -> tuple[int, str]:
    """Return the moment and the rest of a place; "" is before all.

    Raises:
        ValueError: It is no place.
    """
    if not place:
        return 0, ""
    found = _PLACE.fullmatch(place)
    if found is None:
        raise ValueError("this is no place of the feed")
    return int(found[1]), found[2]


def read_numbered(place: str) -> tuple[int, int]:
    """Return the moment and the number of a numbered position; raises as `read_place` does."""
    moment, rest = read_place(place)
    number = int(rest or 0)
    if number >= 1 << 63:
        raise ValueError("this is no place of the feed")
    return moment, number
