"""A text in pieces by which its fragments are found: all its runs of one, two and three bytes."""

from typing import Final

LONGEST: Final = 3
"""Bytes of the longest gram: of these few texts share one, and there are not too many of them."""

ASKED: Final = 8
"""Grams asked for at most; the texts that have all of them are compared with the fragment itself."""


def grams_of(text: str) -> frozenset[str]:
    """Return every gram of a text, in hexadecimal, so that its length tells its kind.

    Bytes are those of UTF-8, where a text contains another exactly when its bytes contain the other's.
    """
    raw = _raw(text)
    lengths = range(2, 2 * LONGEST + 1, 2)
    return frozenset(
        raw[start : start + length] for length in lengths for start in range(0, len(raw) - length + 1, 2)
    )


def grams_for(fragment: str) -> tuple[str, ...]:
    """Return grams that every text has which contains the fragment: the longest, evenly over all of it."""
    raw = _raw(fragment)
    length = min(len(raw), 2 * LONGEST)
    last = (len(raw) - length) // 2
    steps = min(last, ASKED - 1) or 1
    starts = [2 * (last * step // steps) for step in range(steps + 1)]
    return tuple(dict.fromkeys(raw[start : start + length] for start in starts))


def _raw(text: str) -> str:
    return text.encode("utf-8", "surrogatepass").hex()
