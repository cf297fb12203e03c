"""Values beside their printed labels: in the same line, to the right of it, or below it."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from functools import cache, lru_cache
from typing import Final

from streams.verification.readers.layout import Placed, share_row
from streams.verification.readers.likeness import begins_with
from streams.verification.readers.mrz_names import plain_words

LabelWords = Mapping[str, tuple[str, ...]]
"""Field name to the labels it may have, in capitals without spaces."""

_SHORT: Final = 4
"""Labels up to this long must be the whole of their part: `SEX` is no label in `ESSEX`."""
_SLIP_LETTERS: Final = 6
"""Letters of a keyword for each slip that `begins_with` allows."""
_BELOW_MAX: Final = 3.2
"""How far below its label a value begins at most, in heights of the label."""
_LEFT_MAX: Final = 1.5
"""How far a value's left edge may stand from its label's, in heights of the label."""
_RIGHT_MAX: Final = 8.0
"""How far to the right of its label a value begins at most, in heights of the label."""
_STROKES: Final = str.maketrans("MV", "NN")
_LATIN: Final = re.compile(r"[A-Z0-9]", re.IGNORECASE)
"""What a value must have: pictures read as text give signs and scripts these documents do not use."""


class Side(Enum):
    """Where a value may stand when no colon parts it from its label."""

    SAME = auto()
    """In the label's own line, after the words of the label."""
    BELOW = auto()
    RIGHT = auto()


@dataclass(frozen=True, slots=True)
class Value:
    """A text found at a label."""

    text: str
    score: float
    label: Placed
    line: Placed
    """Where it stands; the label's own line when both are in one."""


def label_of(text: str, labels: LabelWords) -> str | None:
    """Return the field a line is the label of; each part between slashes may name it, in its language."""
    head = text.partition(":")[0]
    for part in head.split("/"):
        plain = "".join(plain_words(part))
        for name, keywords in labels.items():
            if any(_names(plain, keyword) for keyword in keywords):
                return name
    return None


def after_label(text: str, labels: LabelWords) -> str:
    """Return what follows the label's words in its own line, empty when nothing does."""
    keywords = (keyword for keywords in labels.values() for keyword in keywords)
    for keyword in sorted(keywords, key=len, reverse=True):
        for end in range(len(keyword), len(text)):
            if "".join(plain_words(text[:end])) == keyword and not text[end].isalpha():
                return text[end:].strip()
    return ""


def values(lines: Sequence[Placed], labels: LabelWords, sides: Sequence[Side]) -> dict[str, Value]:
    """Return the value of each label that has one; the first label of a name wins."""
    cells = [cell for line in lines for cell in _cells(line, labels)]
    named = [(cell, label_of(cell.text, labels)) for cell in cells]
    plain = [line for line, name in named if name is None and _LATIN.search(line.text)]
    found: dict[str, Value] = {}
    for label, name in named:
        if name is None or name in found:
            continue
        value = _beside(label, plain, sides, labels)
        if value is not None:
            found[name] = value
    return found


def _names(plain: str, keyword: str) -> bool:
    if len(keyword) <= _SHORT:
        return plain == keyword
    seen, wanted = _blurred(plain), _blurred(keyword)
    return any(piece in seen for piece in _pieces(wanted)) and begins_with(seen, wanted)


@lru_cache(maxsize=1024)
def _blurred(text: str) -> str:
    """Return a label as motion leaves it: strokes run into one, so M, N, V and RN are one."""
    return text.replace("RN", "M").translate(_STROKES)


@cache
def _pieces(keyword: str) -> tuple[str, ...]:
    """Return parts of a keyword of which each text that `begins_with` accepts contains one; a fast filter."""
    slips = len(keyword) // _SLIP_LETTERS
    size = -(-len(keyword) // (slips + 1))
    return tuple(keyword[start : start + size] for start in range(0, len(keyword), size))


def _beside(
    label: Placed, lines: Sequence[Placed], sides: Sequence[Side], labels: LabelWords
) -> Value | None:
    inline = label.text.partition(":")[2].strip()
    if not inline and Side.SAME in sides:
        inline = after_label(label.text, labels).strip(" :;.")
    if inline:
        return Value(inline, label.score, label, label)
    for side in (side for side in sides if side is not Side.SAME):
        line = _below(label, lines) if side is Side.BELOW else _right(label, lines)
        if line is not None:
            return Value(line.text.strip(), line.score, label, line)
    return None


def _cells(line: Placed, labels: LabelWords) -> list[Placed]:
    """Part a line before a second label, where a recogniser joined two cells of a table."""
    head, colon, _ = line.text.rpartition(":")
    words = head.split(" ")
    for count in (1, 2):
        second = " ".join(words[-count:])
        start = len(head) - len(second)
        if colon and ":" in head[:start] and label_of(second, labels) is not None:
            edge = line.left + line.width * start / len(line.text)
            left, top, right, bottom = line.box
            return [
                replace(line, text=line.text[:start].strip(), box=(left, top, edge, bottom)),
                replace(line, text=line.text[start:], box=(edge, top, right, bottom)),
            ]
    return [line]


def stands_below(label: Placed, line: Placed) -> bool:
    """Return whether a line may be the value of a label above it."""
    down = line.middle - label.middle
    return (
        0.5 * label.height < down < _BELOW_MAX * label.height
        and abs(line.left - label.left) < _LEFT_MAX * label.height
    )


def stands_right(label: Placed, line: Placed) -> bool:
    """Return whether a line may be the value of a label to its left."""
    return (
        share_row(label, line)
        and line.left > label.left + 0.5 * label.width
        and line.left - label.right < _RIGHT_MAX * label.height
    )


def _below(label: Placed, lines: Sequence[Placed]) -> Placed | None:
    reach = [line for line in lines if stands_below(label, line)]
    return min(reach, key=lambda line: line.middle, default=None)


def _right(label: Placed, lines: Sequence[Placed]) -> Placed | None:
    reach = [line for line in lines if stands_right(label, line)]
    return min(reach, key=lambda line: line.left, default=None)
