"""Split a text into trigrams of bytes, by which its fragments are found."""

from typing import Final
from zlib import crc32

LENGTH: Final = 3
"""Bytes of a gram: few texts share one, and there are not too many of them. At the end they are shorter."""

WINDOW: Final = 4
"""Neighbouring grams of which one is sampled: two of five are, and fragments of six bytes are found by them.
Texts are stored by their sampled grams, so neither this nor the checksum can change."""

ASKED: Final = 32
"""Grams of a fragment that are looked at at most, to find its rare ones.

Many, because one that nobody has ends a search at once: where common pieces adjoin, what lies over that place
is often rare.
"""


def grams_of(text: str) -> frozenset[str]:
    """Return the grams of a text, in hexadecimal: every fragment of it begins one, or is made of several.

    Bytes are those of UTF-8, where a text contains another exactly when its bytes contain the other's.
    """
    raw = text.encode().hex()
    return frozenset([raw[start : start + 2 * LENGTH] for start in range(0, len(raw), 2)])


def sampled_grams(text: str) -> tuple[str, ...]:
    """Return the least by checksum of every `WINDOW` neighbouring grams, in their order.

    A text that contains another one has its sampled grams among its own (winnowing): where an index costs
    much per gram, these are enough to find every fragment of a window or more.
    """
    raw = text.encode()
    grams = [raw[start : start + LENGTH] for start in range(len(raw) - LENGTH + 1)]
    ranked = [(crc32(gram), gram) for gram in grams]
    least = (min(ranked[start : start + WINDOW]) for start in range(len(ranked) - WINDOW + 1))
    return tuple(dict.fromkeys(gram.hex() for _, gram in least))


def is_window_or_longer(fragment: str) -> bool:
    """Return whether sampled grams find the texts that contain the fragment; a shorter one has none."""
    return len(fragment.encode()) >= LENGTH + WINDOW - 1


def grams_for(fragment: str, most: int = ASKED) -> tuple[str, ...]:
    """Return grams of every text that contains the fragment, all of them or `most` evenly over it.

    A fragment shorter than a gram is answered itself: the texts that contain it have a gram which begins so.
    """
    raw = fragment.encode().hex()
    length = min(len(raw), 2 * LENGTH)
    last = (len(raw) - length) // 2
    steps = min(last, most - 1) or 1
    starts = [2 * (last * step // steps) for step in range(steps + 1)]
    return tuple(dict.fromkeys([raw[start : start + length] for start in starts]))
