"""How alike two texts are when one of them was recognised from pixels."""

from typing import Final

_GROUPS: Final = ("0OQD", "1IL", "2Z", "5S", "8B", "6G")
_FOLDED: Final = str.maketrans({other: group[0] for group in _GROUPS for other in group[1:]})

_LATIN_OF: Final = str.maketrans(
    dict(
        zip(
            "\u0391\u0392\u0395\u0396\u0397\u0399\u039a\u039c\u039d\u039f\u03a1\u03a4\u03a5\u03a7",
            "ABEZHIKMNOPTYX",
            strict=True,
        )
    )
    | dict(
        zip(
            "\u0410\u0412\u0415\u041a\u041c\u041d\u041e\u0420\u0421\u0422\u0423\u0425\u0405\u0406\u0408",
            "ABEKMHOPCTYXSIJ",
            strict=True,
        )
    )
)
"""Greek and Cyrillic capitals that are drawn like Latin ones."""

SAME_TO_THE_EYE: Final = (frozenset("0O"), frozenset("1I"))
"""Characters that many typefaces draw alike, so that a recogniser's choice between them is unreliable."""


def latin(text: str) -> str:
    """Return a text in capitals, Greek and Cyrillic capitals drawn like Latin ones written as these."""
    return text.upper().translate(_LATIN_OF)


def compact(text: str) -> str:
    """Return the letters and digits of a text in Latin capitals."""
    return "".join(character for character in latin(text) if character.isalnum())


def fold(text: str) -> str:
    """Return a compact text with look-alikes made equal; what differs after it differs for the eye too."""
    return compact(text).translate(_FOLDED)


def distance(one: str, other: str) -> int:
    """Return how many characters must be put in, taken out or exchanged (Levenshtein)."""
    previous = list(range(len(other) + 1))
    for row, left in enumerate(one, start=1):
        current = [row]
        for column, right in enumerate(other, start=1):
            exchanged = previous[column - 1] + (left != right)
            current.append(min(previous[column] + 1, current[-1] + 1, exchanged))
        previous = current
    return previous[-1]


def begins_with(text: str, keyword: str) -> bool:
    """Return whether a compact text begins with a keyword, one slip allowed for each six letters of it."""
    long = len(keyword)
    beginnings = {text[:end] for end in (long - 1, long, long + 1)}  # a letter may be lost or added
    return any(distance(beginning, keyword) <= long // 6 for beginning in beginnings)
