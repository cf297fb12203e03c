"""Values beside their printed labels: in the same line, to the right of it, or below it."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from functools import cache, lru_cache
from itertools import pairwise
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
_PARTS: Final = re.compile(r"[/.\u2022\u00b7|]")
"""What parts the languages of a label."""
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
    """Return the field a line is the label of; each part between signs may name it, in its language."""
    head = text.partition(":")[0]
    for part in _PARTS.split(head):
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
    """Part a line before each further label, where a recogniser joined cells of a table."""
    cuts = [*sorted({0, *_label_starts(line.text, labels)}), len(line.text)]
    return [_share(line, start, end) for start, end in pairwise(cuts)]


def _label_starts(text: str, labels: LabelWords) -> Iterator[int]:
    """Yield where another field's label begins within a line: behind a value, or behind a whole label."""
    head, colon, _ = text.rpartition(":")
    words = head.split(" ")
    for count in (1, 2):
        second = " ".join(words[-count:])
        start = len(head) - len(second)
        if colon and ":" in head[:start] and label_of(second, labels) is not None:
            yield start
            return
    before: str | None = None
    for part in re.finditer(rf"[^{_PARTS.pattern[1:-1]}]+", text):
        at: int | None = part.start()
        while at is not None:
            name = label_of(text[at : part.end()], labels)
            if None not in (before, name) and name != before:
                yield at
            before = name if name is not None else before
            at = _behind_label(text, at, part.end(), before, labels)


def _behind_label(text: str, start: int, stop: int, name: str | None, labels: LabelWords) -> int | None:
    """Return where a label follows a whole one of a field directly, None where none does."""
    keywords = (
        labels.get(name, ()) if name is not None else [one for words in labels.values() for one in words]
    )
    for end in range(start + 1, stop):
        joint = text[end] == " " or (text[end].isupper() and text[end - 1].islower())
        whole = joint and "".join(plain_words(text[start:end])) in keywords
        if whole and label_of(text[end:stop], labels) is not None:
            return end
    return None


def _share(line: Placed, start: int, end: int) -> Placed:
    """Return a part of a line's text, in the box that its characters take when all are alike."""
    if (start, end) == (0, len(line.text)):
        return line
    left, top, right, bottom = line.box
    wide = (right - left) / len(line.text)
    text = line.text[start:end]
    start += len(text) - len(text.lstrip())
    return replace(line, text=text.strip(), box=(left + wide * start, top, left + wide * end, bottom))


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
