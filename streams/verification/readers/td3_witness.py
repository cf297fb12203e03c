"""Use the printed page of a passport to resolve what check digits cannot prove.

A check digit does not see an exchange of characters whose values are equal modulo 10 (G is 16, so G and 6;
L and 1; S and 8), and a year of two digits has no century. The page prints both in full.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from enum import Enum, auto
from typing import Final

from streams.verification.observations import grade
from streams.verification.readers.likeness import SAME_TO_THE_EYE, fold
from streams.verification.readers.td3_lines import FILLER, NUMBER, VALUE_OF, verify
from streams.verification.readers.td3_mrz import DOUBTED, PROVEN, PROVEN_TYPED, REQUIRED, Td3Reading

CLEAR: Final = 0.93
"""Recogniser's score from which a print counts as clearly read."""
VERY_CLEAR: Final = 0.98
"""The same where a single letter makes the difference."""
_BLIND: Final = frozenset("6G1L8S5FP")
"""Characters with a look-alike of the same check digit value."""
_LEGIBLE: Final = 0.97
"""Score of the second line from which its spelling is believed without the print."""
_SLIPS_MAX: Final = 2
"""Characters in which two readings of one number may differ."""
_AGE_MAX: Final = 120
"""Years."""


@dataclass(frozen=True, slots=True)
class Spelling:
    """The document number as it was read on the page."""

    text: str = field(repr=False)
    """Letters and digits."""
    score: float


@dataclass(frozen=True, slots=True)
class Printed:
    """What the page prints of what check digits do not prove."""

    numbers: tuple[Spelling, ...] = ()
    """At its label, or wherever a text reads like the zone's number."""
    births: tuple[date, ...] = field(default=(), repr=False)
    """What the printed birth date may mean, when it was clearly read."""
    expiries: tuple[date, ...] = ()
    """The same of the expiry date."""


class Spelt(Enum):
    """How a printed number agrees with the zone's."""

    SAME = auto()
    DOUBTFUL = auto()
    """The check digits allow both spellings, or a clear print contradicts them."""
    MISREAD = auto()
    """The check digits refute the print, which was not clearly read."""
    OTHER = auto()
    """Another number."""


def spelt(second: str, printed: Spelling) -> Spelt:
    """Compare a printed number with the number of a second line whose check digits hold."""
    number = second[NUMBER].rstrip(FILLER)
    if printed.text == number:
        return Spelt.SAME
    if len(printed.text) != len(number):
        return Spelt.OTHER
    pairs = [{one, other} for one, other in zip(number, printed.text, strict=True) if one != other]
    if len(pairs) <= _SLIPS_MAX and _holds(_with_number(second, printed.text)):
        return Spelt.DOUBTFUL if all(map(_is_slip, pairs)) else Spelt.OTHER
    if all(pair in SAME_TO_THE_EYE for pair in pairs):
        return Spelt.SAME
    if fold(printed.text) != fold(number):
        return Spelt.OTHER
    return Spelt.DOUBTFUL if printed.score >= VERY_CLEAR else Spelt.MISREAD


def best_spelt(second: str, spellings: Sequence[Spelling]) -> Spelt | None:
    """Return the agreement of the most legible print of the number: SAME, DOUBTFUL or None."""
    said = ((spelling.score, spelt(second, spelling)) for spelling in spellings)
    speaking = [pair for pair in said if pair[1] in (Spelt.SAME, Spelt.DOUBTFUL)]
    return max(speaking, key=lambda pair: pair[0])[1] if speaking else None


def settle(zone: Td3Reading, printed: Printed, today: date) -> Td3Reading:
    """Return the reading with the number's spelling and the centuries taken from the page."""
    completed = _completed(zone, printed.numbers)
    if not completed.holds:
        return zone
    return _in_century(_spelt_out(completed, printed.numbers), printed, today)


def could_be_settled(zone: Td3Reading) -> bool:
    """Return whether the print may still decide: the zone holds, or nothing but its number is in the way."""
    return all(
        holds for name, holds in zone.check_digits.items() if name not in ("document_number", "composite")
    )


def windows(text: str, number: str) -> Sequence[str]:
    """Return the parts of a compact text that may be the number, read with a slip or two."""
    parts = (text[start : start + len(number)] for start in range(len(text) - len(number) + 1))
    return [part for part in parts if _is_alike(part, number)]


def _is_alike(part: str, number: str) -> bool:
    pairs = [{one, other} for one, other in zip(part, number, strict=True) if one != other]
    return len(pairs) <= _SLIPS_MAX and all(map(_is_slip, pairs))


def _is_slip(pair: set[str]) -> bool:
    """Return whether two characters look alike, or are the same to a check digit."""
    return len(set(map(fold, pair))) == 1 or len({VALUE_OF.get(one, -1) % 10 for one in pair}) == 1


def _with_number(second: str, number: str) -> str:
    return number.ljust(NUMBER.stop, FILLER)[: NUMBER.stop] + second[NUMBER.stop :]


def _holds(second: str) -> bool:
    """Return whether all check digits hold; a text outside the zone's alphabet makes none hold."""
    return all(character in VALUE_OF for character in second) and all(verify(second).values())


def _completed(zone: Td3Reading, spellings: Sequence[Spelling]) -> Td3Reading:
    """Take the printed spelling where exactly one makes all check digits hold and the zone's does not.

    Only look-alikes may differ: a number that reads otherwise contradicts the zone and corrects nothing.
    """
    second = zone.lines[1]
    if zone.holds or not zone.number:
        return zone
    lines = {
        _with_number(second, spelling.text)
        for spelling in spellings
        if spelling.score >= CLEAR and fold(spelling.text) == fold(zone.number)
    }
    holding = [line for line in lines if _holds(line)]
    if len(holding) != 1:
        return zone
    checks, chosen = verify(holding[0]), holding[0]
    proven = dict.fromkeys(("date_of_birth", "expiry_date", "personal_number_present"), PROVEN_TYPED)
    confidence = {name: proven.get(name, weight) for name, weight in zone.confidence.items()}
    return replace(
        zone,
        number=chosen[NUMBER].rstrip(FILLER),
        lines=(zone.lines[0], chosen),
        check_digits=checks,
        fields={**zone.fields, "mrz_checks": {**checks, "calendar": zone.calendar}},
        repairs=zone.repairs + sum(one != other for one, other in zip(second, chosen, strict=True)),
        confidence=confidence,
    )


def _spelt_out(zone: Td3Reading, spellings: Sequence[Spelling]) -> Td3Reading:
    """Return the reading with the number's confidence adjusted by the best print of it."""
    second, number = zone.lines[1], zone.number
    if number is None:
        return zone
    how = best_spelt(second, spellings)
    if how is Spelt.SAME:
        return _weighed(zone, "document_number", max(PROVEN_TYPED, zone.confidence["document_number"]))
    unseen = how is None and _BLIND.intersection(number) and zone.confidence.get("sex", 0.0) < _LEGIBLE
    return _weighed(zone, "document_number", DOUBTED) if how or unseen else zone


def _in_century(zone: Td3Reading, printed: Printed, today: date) -> Td3Reading:
    """Return the reading with a date's century from the page, where it prints the day in another century.

    An earlier birth date is left to a review: a minor may have scratched out the year.
    """
    born = _same_day(zone.birth, printed.births)
    if born is not None and born <= today and today.year - born.year <= _AGE_MAX:
        zone = _weighed(zone, "date_of_birth", DOUBTED, birth=born)
    ends = _same_day(zone.expires, printed.expiries)
    if ends is not None:
        return _weighed(zone, "expiry_date", PROVEN, expires=ends)
    if zone.expires in printed.expiries and len({day.year for day in printed.expiries}) == 1:
        return _weighed(zone, "expiry_date", PROVEN)
    return zone


def _same_day(day: date | None, printed: Sequence[date]) -> date | None:
    """Return the printed day of the zone's YYMMDD, when the page prints it in another century only."""
    if day is None or day in printed:
        return None
    same = [one for one in printed if f"{one:%y%m%d}" == f"{day:%y%m%d}"]
    return same[0] if len(same) == 1 else None


def _weighed(
    zone: Td3Reading, name: str, weight: float, *, birth: date | None = None, expires: date | None = None
) -> Td3Reading:
    """Return the reading with another confidence of one field, and with its date where one is given."""
    confidence = {**zone.confidence, name: weight}
    day = birth or expires
    return replace(
        zone,
        confidence=confidence,
        status=grade(confidence, REQUIRED),
        fields={**zone.fields, name: day.isoformat()} if day else zone.fields,
        birth=birth or zone.birth,
        expires=expires or zone.expires,
    )
