"""Read the machine-readable zone of a TD3 passport (ICAO Doc 9303 part 4): recognised lines to fields."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any, Final

from schemas.enums import ExtractionStatus
from streams.verification.observations import grade
from streams.verification.readers.dates import birth_date, expiry_date, has_unknown_part
from streams.verification.readers.layout import Placed, level
from streams.verification.readers.mrz_names import country, is_known
from streams.verification.readers.td3_lines import (
    BIRTH,
    EXPIRY,
    FILLER,
    NAMES,
    NATIONALITY,
    NUMBER,
    OPTIONAL,
    SEX,
)
from streams.verification.readers.td3_text import (
    MAX_LENGTH,
    MIN_LENGTH,
    RepairKind,
    SecondLine,
    first_line,
    likeness,
    normalise,
    second_line,
)
from streams.vision_ports import Quad, TextPage

REQUIRED: Final = (
    "document_number",
    "full_name",
    "nationality",
    "issuing_state",
    "date_of_birth",
    "sex",
    "expiry_date",
)
"""Without one of these a passport is read in part only (G10)."""

PROVEN: Final = 0.99
"""Its own check digit and the composite one hold, as it was read."""
PROVEN_TYPED: Final = 0.95
"""The same after look-alikes were put right by position."""
_CHOSEN: Final = 0.45
"""The check digits themselves chose a character; one wrong choice in ten would pass too: not `ENOUGH`."""
_BROKEN: Final = 0.3
"""Its check digit contradicts it."""
DOUBTED: Final = 0.45
"""An unknown code, an expiry decades ahead, or a spelling that differs between two readings."""
_AHEAD_MAX: Final = 20
"""Years a document may be valid for; an expiry farther ahead is rather of the last century."""
_CANDIDATES_MAX: Final = 12
"""Lines looked at as lines of a zone; a page has two, and repairing near ones takes 6 ms each."""
_GAP_MIN, _GAP_MAX = 0.6, 4.0
"""From line to line, in line heights: 6.35 mm of pitch over a box of 2.5 to 5 mm (part 3 section 4.2)."""


@dataclass(frozen=True, slots=True)
class Td3Reading:
    """The fields of a machine-readable zone. Personal parts are not in its representation."""

    status: ExtractionStatus
    """EXTRACTED, PARTIAL or FAILED, by `REQUIRED` and `ENOUGH`."""
    fields: Mapping[str, Any] = field(repr=False)
    """By the keys of G11. A field that was not read is left out; `mrz_checks` holds six booleans: the
    five check digits, and `calendar`: both dates exist and the holder is born already."""
    confidence: Mapping[str, float]
    """Of each field, 0-1; `document_number` is that of `number`."""
    number: str | None = field(repr=False)
    """The full document number without fillers."""
    birth: date | None = field(repr=False)
    expires: date | None
    check_digits: Mapping[str, bool]
    """document_number, date_of_birth, expiry_date, personal_number, composite (part 4 section 4.2.2.2)."""
    calendar: bool
    """Whether both dates exist; a birth date may have unknown parts (part 3 section 4.8)."""
    repairs: int
    """Characters that were chosen by the check digits, or fillers added or removed; never silently."""
    typed: int
    """Look-alikes put right because the position holds only letters or only digits."""
    lines: tuple[str, str] = field(repr=False)
    """Both lines at 44 characters; the first is empty when none was found."""
    second_quad: Quad | None = field(default=None, compare=False)
    """Where the second line stands on the turned page."""

    @property
    def holds(self) -> bool:
        """Whether all five check digits hold."""
        return all(self.check_digits.values())


def read_td3(page: TextPage, today: date) -> Td3Reading | None:
    """Return the best reading of a zone on the page, or None when nothing on it is one.

    Both lines are paired by where they stand, and a line counts by its digits, not by how it begins: a
    document number may begin with P too. `today` decides the century of the birth date (G80).
    """
    readings = [_interpret(first, second, today) for first, second in _pairs(level(page))]
    return max(readings, key=_rank, default=None)


def _rank(reading: Td3Reading) -> tuple[int, bool, int, float]:
    valid = sum(reading.check_digits.values())
    return valid, bool(reading.lines[0]), -reading.repairs, sum(reading.confidence.values())


@dataclass(frozen=True, slots=True)
class _First:
    text: str
    score: float


@dataclass(frozen=True, slots=True)
class _Second:
    line: SecondLine
    score: float
    quad: Quad


def _pairs(lines: Sequence[Placed]) -> Iterator[tuple[_First | None, _Second]]:
    """Yield each possible second line with the first line above it, or with none."""
    candidates = [(line, normalise(line.text)) for line in lines]
    candidates = [(line, text) for line, text in candidates if MIN_LENGTH <= len(text) <= MAX_LENGTH]
    if len(candidates) > _CANDIDATES_MAX:  # the ones most like a zone's
        candidates.sort(key=lambda pair: -likeness(pair[1]))
        candidates = sorted(candidates[:_CANDIDATES_MAX], key=lambda pair: pair[0].middle)
    for lower, text in candidates:
        second = second_line(text)
        if second is None:
            continue
        above = [
            _First(first, upper.score)
            for upper, upper_text in candidates
            if _is_above(upper, lower) and (first := first_line(upper_text)) is not None
        ]
        if above or second.holds:
            yield (above[-1] if above else None), _Second(second, lower.score, lower.quad)


def _is_above(upper: Placed, lower: Placed) -> bool:
    """Return whether a line stands directly above another of like size."""
    tallest = max(upper.height, lower.height)
    if not tallest > 0:
        return False
    gap = (lower.middle - upper.middle) / tallest
    alike = _alike(upper.height, lower.height, 0.6) and _alike(upper.width, lower.width, 0.8)
    return _GAP_MIN < gap < _GAP_MAX and alike and abs(upper.left - lower.left) < 0.15 * lower.width


def _alike(one: float, other: float, share: float) -> bool:
    return min(one, other) > share * max(one, other)


def _interpret(first: _First | None, second: _Second, today: date) -> Td3Reading:
    line = second.line
    text = line.text
    birth, expires = birth_date(text[BIRTH], today), expiry_date(text[EXPIRY])
    calendar = (birth is not None or has_unknown_part(text[BIRTH])) and expires is not None
    number = text[NUMBER].rstrip(FILLER) or None
    fields = {
        **_names(first),
        "date_of_birth": birth and birth.isoformat(),
        "sex": {"M": "M", "F": "F", FILLER: "X", "X": "X"}.get(text[SEX]),
        "nationality": country(text[NATIONALITY].rstrip(FILLER)) or None,
        "expiry_date": expires and expires.isoformat(),
        "personal_number_present": bool(text[OPTIONAL].strip(FILLER)),
        "mrz_checks": {**line.checks, "calendar": calendar},
    }
    known = {name: value for name, value in fields.items() if value is not None}
    confidence = _confidence(first, second, known, number)
    if expires is not None and expires.year - today.year > _AHEAD_MAX:
        confidence["expiry_date"] = min(confidence["expiry_date"], DOUBTED)
    kinds = [repair.kind for repair in line.repairs]
    typed = kinds.count(RepairKind.ALPHABET)
    return Td3Reading(
        status=grade(confidence, REQUIRED),
        fields=known,
        confidence=confidence,
        number=number,
        birth=birth,
        expires=expires,
        check_digits=line.checks,
        calendar=calendar,
        repairs=len(kinds) - typed,
        typed=typed,
        lines=(first.text if first else "", text),
        second_quad=second.quad,
    )


def _names(first: _First | None) -> Mapping[str, str | None]:
    """Return the fields of the first line (part 4 section 4.2.2.1); a single name is the surname."""
    if first is None:
        return {}
    surname, _, given = first.text[NAMES].strip(FILLER).partition(FILLER * 2)
    surname, given = (" ".join(part.replace(FILLER, " ").split()) for part in (surname, given))
    return {
        "document_code": first.text[:2].rstrip(FILLER),
        "issuing_state": country(first.text[2:5].rstrip(FILLER)) or None,
        "surname": surname or None,
        "given_names": given or None,
        "full_name": " ".join(part for part in (given, surname) if part) or None,
    }


def _confidence(
    first: _First | None, second: _Second, known: Mapping[str, Any], number: str | None
) -> dict[str, float]:
    """Weigh each field: check digits prove some, the recogniser's own score must do for the others."""
    line = second.line
    nationality = line.text[NATIONALITY].rstrip(FILLER)
    weights = {
        "document_number": _proof(line, "document_number", NUMBER) if number else 0.0,
        "date_of_birth": _proof(line, "date_of_birth", BIRTH),
        "expiry_date": _proof(line, "expiry_date", EXPIRY),
        "sex": second.score,
        "nationality": second.score if is_known(nationality) else DOUBTED,
        "personal_number_present": _proof(line, "personal_number", OPTIONAL),
    }
    if first is not None:
        issuer = first.text[2:5].rstrip(FILLER)
        weights |= dict.fromkeys(("document_code", "surname", "given_names", "full_name"), first.score)
        weights["issuing_state"] = first.score if is_known(issuer) else DOUBTED
    return {
        name: round(weight, 4)
        for name, weight in weights.items()
        if name in known or (name == "document_number" and number)
    }


def _proof(line: SecondLine, name: str, part: slice) -> float:
    """Return how far the check digits prove a field."""
    if not (line.checks[name] and line.checks["composite"]):
        return _BROKEN
    inside = [repair.kind for repair in line.repairs if part.start <= repair.position <= part.stop]
    if RepairKind.CHECK_DIGITS in inside:
        return _CHOSEN
    return PROVEN_TYPED if inside else PROVEN
