"""How alike two texts are when one of them was recognised from pixels."""

from typing import Final

_GROUPS: Final = ("0OQD", "1IL", "2Z", "5S", "8B", "6G")
_FOLDED: Final = str.maketrans({other: group[0] for group in _GROUPS for other in group[1:]})


def compact(text: str) -> str:
    """Return the letters and digits of a text in capitals."""
    return "".join(character for character in text.upper() if character.isalnum())


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
    """Tell whether a compact text begins with a keyword, one slip allowed for each six letters of it."""
    return distance(text[: len(keyword)], keyword) <= len(keyword) // 6
