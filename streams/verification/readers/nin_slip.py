"""Read the two current paper forms of Nigeria's NIN slip: recognised lines to fields.

The long slip is a table of labelled cells; the improved slip is a card with a QR code and the number in
groups of 4, 3 and 4 digits. No check digit is published for the number, so nothing here proves it.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from math import hypot
from typing import Any, Final

from schemas.enums import ExtractionStatus, TextEnum
from streams.verification.observations import Agreement, grade
from streams.verification.readers.anchors import LabelWords, Side, Value, values
from streams.verification.readers.dates import printed_dates
from streams.verification.readers.layout import Placed, height, level, share_row
from streams.verification.readers.likeness import compact
from streams.verification.readers.mrz_names import plain_words
from streams.vision_ports import Quad, TextLine, TextPage

DIGITS: Final = 11
"""Length of a National Identification Number."""
REQUIRED: Final = ("document_number", "surname", "first_name")
"""Without one of these a slip is read in part only (G10); both forms print them."""

LABELS: Final[LabelWords] = {
    "tracking_id": ("TRACKINGID",),
    "document_number": ("NIN",),
    "surname": ("SURNAME",),
    "first_name": ("FIRSTNAME",),
    "middle_name": ("MIDDLENAME",),
    "given_names": ("GIVENNAME",),
    # a slash may be read as a letter or not at all, and motion makes an N of an X
    "gender": ("GENDER", "SEX", "SEXE", "SEXISEXE", "SEXVSEXE", "SENSENE"),
    "date_of_birth": ("DATEOFBIRTH",),
    "": ("ISSUEDATE", "NATIONALIDENTIFICATIONNUMBER", "NOTE", "ADDRESS"),
}
"""The labels of both forms; the nameless ones are no values."""
_ADDRESS: Final[LabelWords] = {"address": ("ADDRESS",)}
"""Its lines stand below it, the portrait beside it."""

_TRACKING: Final = re.compile(r"[A-Z0-9]{15}")
_MARKS: Final = ("NATIONALIDENTITYMANAGEMENT", "IDENTIFICATIONNUMBERSLIP", "DIGITALNINSLIP", "TRACKINGID")
"""Headings only a slip has; two of the marks of both lists make a page one."""
_WEAK_MARKS: Final = ("FEDERALREPUBLICOFNIGERIA", "NATIONALIDENTIFICATIONNUMBER", "TRUSTBUTVERIFY")
_DIGIT_OF: Final = str.maketrans("OQDILZSBG", "000112586")
_GROUP: Final = 3
"""Digits of the number's shortest group."""
_ROW_MIN, _ROW_MAX = 7, 14
"""Digits found in a row that may be the number's: one group lost, or boxes that share digits."""


class SlipForm(TextEnum):
    """The paper forms in use."""

    LONG = "long"
    CARD = "card"


@dataclass(frozen=True, slots=True)
class SlipReading:
    """The fields of a slip. Personal parts are not in its representation."""

    status: ExtractionStatus
    """EXTRACTED, PARTIAL or FAILED, by `REQUIRED` and `ENOUGH`."""
    form: SlipForm
    fields: Mapping[str, Any] = field(repr=False)
    """By the keys of G11; no dates. A field that was not read is left out."""
    confidence: Mapping[str, float]
    """Of each field, 0-1; `document_number` is that of `number`."""
    number: str | None = field(repr=False)
    """The eleven digits; None when none or several different ones were read."""
    ambiguous: bool
    """Whether several different numbers were read, which needs a review."""
    birth: date | None = field(repr=False)
    """As printed on the card; for comparison only, not a field of G11."""
    lines: Mapping[str, tuple[Placed, ...]] = field(default_factory=dict, repr=False)
    """Where each field stands on the page; `document_number` is that of `number`."""


@dataclass(frozen=True, slots=True)
class _Number:
    digits: str
    score: float


def read_slip(page: TextPage, extra: Sequence[tuple[str, float]] = ()) -> SlipReading | None:
    """Return the reading of a slip, or None when the page does not bear a slip's marks.

    `extra` are further readings (text, score) of the number's row, see `number_row`.
    """
    lines = level(page)
    if not _is_slip(lines):
        return None
    form = SlipForm.CARD if any("DIGITALNIN" in compact(line.text) for line in lines) else SlipForm.LONG
    sides = (Side.BELOW, Side.RIGHT) if form is SlipForm.CARD else (Side.SAME, Side.RIGHT, Side.BELOW)
    at_labels = values(lines, LABELS, sides) | values(lines, _ADDRESS, (Side.SAME, Side.BELOW, Side.RIGHT))
    fields, confidence = _fields(at_labels, lines)
    number, ambiguous = _number(at_labels.get("document_number"), lines, extra)
    if number is not None:
        confidence["document_number"] = round(number.score, 4)
    births = printed_dates(at_labels["date_of_birth"].text) if "date_of_birth" in at_labels else ()
    return SlipReading(
        status=grade(confidence, REQUIRED),
        form=form,
        fields=fields,
        confidence=confidence,
        number=number.digits if number else None,
        ambiguous=ambiguous,
        birth=births[0] if len(births) == 1 else None,
        lines=_lines_of(at_labels, lines, number.digits if number else ""),
    )


def number_row(page: TextPage) -> Quad | None:
    """Return where a number in groups stands when its groups were not all found, or overlap, else None.

    The row reaches one group and gap beyond what was found on both sides; read it as one line.
    """
    for row in _digit_rows(level(page)):
        found = sum(len(_digits(line.text)) for line in row)
        if _ROW_MIN <= found <= _ROW_MAX and found != DIGITS:
            return _stretched(row[0].quad, row[-1].quad)
    return None


def compare_codes(number: str | None, codes: Sequence[str]) -> Agreement:
    """Return how the QR codes agree with the printed number; codes without eleven digits are ignored."""
    found = {run for code in codes for run in re.findall(rf"(?<!\d)\d{{{DIGITS}}}(?!\d)", code)}
    if number is None or not found:
        return Agreement.NOT_FOUND
    return Agreement.MATCH if number in found else Agreement.MISMATCH


def is_headed(page: TextPage) -> bool:
    """Return whether some lines bear two of a slip's headings: the page is no other document, and upright.

    Whether it is a slip is for `read_slip` to say, of all lines.
    """
    return len(_marks_on(page.lines)) > 1


def _is_slip(lines: Sequence[Placed]) -> bool:
    marks = _marks_on(lines)
    return len(marks) > 1 and not marks.isdisjoint(_MARKS)


def _marks_on(lines: Sequence[Placed | TextLine]) -> set[str]:
    texts = ["".join(plain_words(line.text)) for line in lines]
    return {mark for mark in (*_MARKS, *_WEAK_MARKS) if any(mark in text for text in texts)}


def _fields(
    at_labels: Mapping[str, Value], lines: Sequence[Placed]
) -> tuple[dict[str, Any], dict[str, float]]:
    """Return the fields of G11 and how sure each is."""
    texts = {name: (_name(value.text), value.score) for name, value in at_labels.items() if name in _NAMES}
    if given := texts.pop("given_names", None):
        first, _, middle = at_labels["given_names"].text.partition(",")
        texts |= {"first_name": (_name(first), given[1]), "middle_name": (_name(middle), given[1])}
    if value := at_labels.get("gender"):
        letter = value.text.strip()[:1].upper()
        texts["gender"] = (letter if letter in "MF" else "", value.score)
    if value := at_labels.get("tracking_id"):
        tracking = compact(value.text)
        texts["tracking_id"] = (tracking if _TRACKING.fullmatch(tracking) else "", value.score)
    if value := at_labels.get("address"):
        texts["address"] = _address(value, lines)
    parts = [texts[name] for name in ("first_name", "middle_name", "surname") if texts.get(name, ("",))[0]]
    if parts:
        texts["full_name"] = " ".join(text for text, _ in parts), min(score for _, score in parts)
    texts["issuing_state"] = "NG", 1.0
    found = {name: (text, score) for name, (text, score) in texts.items() if text}
    return {name: text for name, (text, _) in found.items()}, {
        name: round(score, 4) for name, (_, score) in found.items()
    }


_NAMES: Final = frozenset({"surname", "first_name", "middle_name", "given_names"})


def _name(text: str) -> str:
    """Return a printed name in capitals, without what a recogniser adds at its ends.

    Between capitals a small l is an I: names on slips are printed in capitals.
    """
    if (capitals := text.replace("l", "I")).isupper():
        text = capitals
    return " ".join(re.sub(r"[^\w' -]|[\d_]", " ", text.upper()).split()).strip("-' ")


def _lines_of(
    at_labels: Mapping[str, Value], lines: Sequence[Placed], number: str
) -> dict[str, tuple[Placed, ...]]:
    """Return the lines of each field; the number's are its groups, or the line of its label."""
    found: dict[str, tuple[Placed, ...]] = {
        name: (value.line,) for name, value in at_labels.items() if name and name != "document_number"
    }
    if (given := found.pop("given_names", None)) is not None:
        found |= {"first_name": given, "middle_name": given}
    if value := at_labels.get("address"):
        found["address"] = _block(value, lines)
    groups = [line for line in lines if len(digits := _digits(line.text)) >= _GROUP and digits in number]
    labelled = at_labels.get("document_number")
    if not groups and labelled and number:
        groups = [labelled.line]
    return found | {"document_number": tuple(groups)}


def _address(value: Value, lines: Sequence[Placed]) -> tuple[str, float]:
    """Join the lines of an address."""
    block = _block(value, lines)
    texts = [value.text, *(line.text for line in block[1:])]
    return ", ".join(text.strip(" ,") for text in texts), min(line.score for line in block)


def _block(value: Value, lines: Sequence[Placed]) -> tuple[Placed, ...]:
    """Return a value's line and those below one another at its left edge."""
    block = [value.line]
    for line in lines:
        last = block[-1]
        gap = line.middle - last.middle
        if (
            0.5 * last.height < gap < 2.5 * last.height
            and abs(line.left - value.line.left) < 1.5 * last.height
        ):
            block.append(line)
    return tuple(block)


def _number(
    anchored: Value | None, lines: Sequence[Placed], extra: Sequence[tuple[str, float]]
) -> tuple[_Number | None, bool]:
    """Choose the number: at its label, else as a row of groups, else as a run anywhere; never guess."""
    sources = (
        [(anchored.text, anchored.score)] if anchored else [],
        [_joined(row) for row in _digit_rows(lines)],
        list(extra),
        [(line.text, line.score) for line in lines],
    )
    for source in sources:
        found = [_Number(digits, score) for text, score in source if (digits := _digits(text))]
        found = [number for number in found if len(number.digits) == DIGITS]
        if found:
            several = len({number.digits for number in found}) > 1
            return (None if several else max(found, key=lambda number: number.score)), several
    return None, False


def _joined(row: Sequence[Placed]) -> tuple[str, float]:
    return "".join(line.text for line in row), min(line.score for line in row)


def _digits(text: str) -> str:
    """Return the digits of a text that is a number, look-alikes read as digits; empty for other texts."""
    plain = compact(text)
    mapped = plain.translate(_DIGIT_OF)
    mostly = 2 * sum(character.isdigit() for character in plain) > len(plain)
    return mapped if mostly and mapped.isascii() and mapped.isdigit() else ""


def _digit_rows(lines: Sequence[Placed]) -> Iterator[Sequence[Placed]]:
    """Yield the lines of digits that stand side by side at one height, from left to right."""
    numbers = [line for line in lines if line.height > 0 and _digits(line.text)]
    placed: set[int] = set()
    for index, first in enumerate(numbers):
        if index in placed:
            continue
        beside = [
            other
            for other, line in enumerate(numbers)
            if other == index or (other not in placed and share_row(first, line) and _like_size(first, line))
        ]
        placed.update(beside)
        yield sorted((numbers[other] for other in beside), key=lambda line: line.left)


def _like_size(one: Placed, other: Placed) -> bool:
    return 0.7 < one.height / other.height < 1 / 0.7  # noqa: PLR2004 - one typeface, boxes of the detector


def _stretched(first: Quad, last: Quad) -> Quad:
    """Return the quad from the first to the last group, reaching as far again as four digits and a gap."""
    reach = 3.6 * height(first)
    along = (last[1][0] - first[0][0], last[1][1] - first[0][1])
    long = max(1.0, hypot(*along))
    step = (along[0] / long * reach, along[1] / long * reach)
    return (
        (first[0][0] - step[0], first[0][1] - step[1]),
        (last[1][0] + step[0], last[1][1] + step[1]),
        (last[2][0] + step[0], last[2][1] + step[1]),
        (first[3][0] - step[0], first[3][1] - step[1]),
    )
