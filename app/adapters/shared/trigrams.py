"""Split a text into trigrams of bytes, by which its fragments are found."""

from typing import Final

LENGTH: Final = 3
"""Bytes of a gram: few texts share one, and there are not too many of them. At the end they are shorter."""

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


def whole_grams_of(text: str) -> frozenset[str]:
    """Return the grams of full length, for a store without prefix search; shorter fragments begin none."""
    return frozenset(gram for gram in grams_of(text) if len(gram) == 2 * LENGTH)


def is_gram_or_longer(fragment: str) -> bool:
    """Return whether the grams of full length find the texts that contain the fragment."""
    return len(fragment.encode()) >= LENGTH


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
