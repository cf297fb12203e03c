"""Positions in the feed as text: a moment, and a number for events of the same moment."""

import re
from typing import Final

_PLACE: Final = re.compile(r"([0-9]{1,16})\.([0-9a-z_]{0,40})")


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
