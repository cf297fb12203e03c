"""Compare the printed fields of a passport with its machine-readable zone; conservative in doubt.

A checksum-valid zone outranks recognised print (G68): only a print that was clearly read and clearly says
something else is a mismatch. What is blurred, lost or printed in an unknown way is not found, which says
nothing.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date
from itertools import chain
from typing import Final

from streams.verification.observations import Agreement
from streams.verification.readers.anchors import (
    LabelWords,
    Side,
    Value,
    label_of,
    stands_below,
    stands_right,
    values,
)
from streams.verification.readers.dates import printed_dates
from streams.verification.readers.layout import Placed, level
from streams.verification.readers.likeness import compact, distance, fold
from streams.verification.readers.mrz_names import in_latin, is_cut_from, plain_words, words
from streams.verification.readers.td3_lines import FILLER, LENGTH
from streams.verification.readers.td3_mrz import Td3Reading
from streams.verification.readers.td3_text import normalise
from streams.verification.readers.td3_witness import (
    CLEAR,
    VERY_CLEAR,
    Printed,
    Spelling,
    Spelt,
    best_spelt,
    windows,
)
from streams.vision_ports import TextPage

LABELS: Final[LabelWords] = {
    "document_number": ("PASSPORTNO", "PASSPORTNUMBER", "DOCUMENTNO", "DOCUMENTNUMBER", "PASSEPORTNO"),
    "surname": ("SURNAME", "LASTNAME", "NAMESURNAME", "NOM", "APELLIDOS"),
    "given_names": ("GIVENNAME", "FIRSTNAME", "FORENAME", "PRENOM", "NOMBRES"),
    "date_of_birth": ("DATEOFBIRTH", "DATEDENAISSANCE"),
    "expiry_date": ("DATEOFEXPIR", "EXPIRYDATE", "DATEDEXPIRATION", "VALIDUNTIL"),
    "sex": ("SEX", "SEXE", "GENDER"),
    "": (
        "TYPE",
        "TIPO",
        "CODE",
        "CODIGO",
        "COUNTRYCODE",
        "CODEOF",
        "CODEDUPAYS",
        "NATIONALIT",
        "PERSONALN",
        "PLACEOFBIRTH",
        "LIEUDENAISSANCE",
        "DATEOFISSUE",
        "DATEDEDELIVRANCE",
        "FECHADEEXPEDICION",
        "AUTHORITY",
        "AUTORITE",
        "ISSUINGAUTHORITY",
        "PLACEOFISSUE",
        "HOLDERSSIGNATURE",
    ),
}
"""Labels of Doc 9303 part 4 section 4.1 in English, French and Spanish; the nameless ones are no values."""

_NAME_ALONE: Final[LabelWords] = {"name": ("NAME",), "": tuple(chain.from_iterable(LABELS.values()))}
"""A label that some states print for the surname and others for given names."""

_NUMBER_SHAPE: Final = re.compile(r"(?=.*\d)[A-Z0-9]{6,12}")
_SEX: Final = re.compile(r"(?:[^\s/]{,3}\s*/\s*)?([MFX])|([MFX])\s*/\s*[^\s/]{,3}")
"""The letter of Doc 9303, which stands behind a state's own: `M/F` is a woman in Lithuania. Of another script
a recogniser makes a digit, two letters or nothing: `4/M`, `XK/F`, `/F`."""
_ADDED: Final = re.compile(
    r"^[\[(]\w{1,2}[\])]|^(?:(?:DR|PROF)\b\.?\s*)+|\s(?:GEB|N[EÉ]E|[EÉ]P|[EÉ]POUSE|E/V)\b.*", re.IGNORECASE
)
"""What is printed with a surname and is no part of it: a field's letter, degrees, a name at birth or by
marriage."""
_LETTERS_A_SLIP: Final = 5
"""One letter in as many may be a slip of the recogniser, unless it was very sure."""
_LETTER_OF: Final = str.maketrans("012568", "OIZSGB")
"""Digits a recogniser sees among the letters of a name."""
_WITH_SHARP_S: Final = frozenset({"DE", "AT"})
"""Issuers that print ẞ, for which their zones have SS (part 3 section 6.A)."""
_CUT_FROM: Final = 30
"""Letters from which a name may have been cut: 39 places hold both names and what parts them."""
_ALTERED_MAX: Final = 2
"""Characters in which a number without a label is still the zone's, altered."""
_DATES: Final = 3
"""Birth, issue and expiry: of so many dates each is one that every passport prints."""
_BESIDE_MIN, _BESIDE_MAX = 0.5, 2.2
"""How far below a name its transliteration stands, in heights of it."""


def compare(page: TextPage, zone: Td3Reading) -> Mapping[str, Agreement]:
    """Return how the print agrees for document number, names, dates and sex.

    `page` holds every line of the page, turned as the zone was read.
    """
    lines = _lines(page)
    at_labels = values(lines, LABELS, (Side.BELOW, Side.RIGHT))
    surname = _name(at_labels.get("surname"), lines, zone, "surname")
    if surname is Agreement.NOT_FOUND and _contradicts_both(lines, zone):
        surname = Agreement.MISMATCH
    given_names = _name(at_labels.get("given_names"), lines, zone, "given_names")
    if given_names is Agreement.NOT_FOUND and _contradicts_below(lines, zone):
        given_names = Agreement.MISMATCH
    return {
        "document_number": _number(at_labels.get("document_number"), lines, zone),
        "surname": surname,
        "given_names": given_names,
        "date_of_birth": _date(at_labels.get("date_of_birth"), lines, zone, zone.birth),
        "expiry_date": _date(at_labels.get("expiry_date"), lines, zone, zone.expires),
        "sex": _sex(at_labels.get("sex"), lines, zone),
    }


def witness(page: TextPage, zone: Td3Reading) -> Printed:
    """Return the clearly read print of what check digits do not prove."""
    lines = _lines(page)
    at_labels = values(lines, LABELS, (Side.BELOW, Side.RIGHT))
    dates = {name: value for name, value in at_labels.items() if value.score >= CLEAR}
    births, expiries = (
        printed_dates(dates[name].text) if name in dates else () for name in ("date_of_birth", "expiry_date")
    )
    return Printed(tuple(_spellings(lines, zone.number)), births, expiries)


def _lines(page: TextPage) -> Sequence[Placed]:
    """Return the lines that are not of the zone."""
    return [line for line in level(page) if len(normalise(line.text)) < LENGTH - 6 or "<" not in line.text]


def _spellings(lines: Sequence[Placed], number: str | None) -> Iterator[Spelling]:
    """Yield every reading of the number on the page, wherever it stands."""
    for line in lines:
        for part in windows(compact(line.text), number or ""):
            if part:
                yield Spelling(part, line.score)


def _number(value: Value | None, lines: Sequence[Placed], zone: Td3Reading) -> Agreement:
    """Compare the number exactly: a print that differs in look-alikes agrees only by the digits."""
    number = zone.number
    if not number:
        return Agreement.NOT_FOUND
    if value is not None and not windows(printed := compact(value.text), number):
        other = len(printed) == len(number) or distance(fold(printed), fold(number)) > 2  # noqa: PLR2004 - slips
        if other and value.score >= CLEAR and _NUMBER_SHAPE.fullmatch(printed):
            return Agreement.MISMATCH
    how = best_spelt(zone.lines[1], tuple(_spellings(lines, number)))
    if how is None and any(_is_altered(line, number) for line in _unlabelled(lines)):
        return Agreement.MISMATCH
    return Agreement.MATCH if how is Spelt.SAME else Agreement.NOT_FOUND


def _is_altered(line: Placed, number: str) -> bool:
    """Return whether a line is the number but for a character or two that do not look alike."""
    printed = compact(line.text)
    return (
        len(printed) == len(number)
        and not windows(printed, number)
        and distance(printed, number) <= _ALTERED_MAX
    )


def _name(value: Value | None, lines: Sequence[Placed], zone: Td3Reading, key: str) -> Agreement:
    """Compare a name; `key` is surname or given_names."""
    name = zone.fields.get(key)
    if not name:
        return Agreement.NOT_FOUND
    if value is None:
        return _anywhere(lines, lambda text: _is_name(text, zone, key))
    bare = _ADDED.sub("", value.text.strip()) if key == "surname" else value.text
    text, whole = (in_latin(one).translate(_LETTER_OF) for one in (bare, value.text))
    alike = any(_unlikeness(one, name) == 0 for one in _beside(value, lines))
    if alike or any(_is_name(one, zone, key) for one in (text, whole)):
        return Agreement.MATCH
    printed = plain_words(text)
    continued = tuple(name.split())[: len(printed)] == printed  # the rest may stand on the next line
    needed = VERY_CLEAR if _unlikeness(text, name) <= len(name) // _LETTERS_A_SLIP else CLEAR
    unclear = value.score < needed or _differs_by_sharp_s(text, name, zone)
    return Agreement.MISMATCH if printed and not continued and not unclear else Agreement.NOT_FOUND


def _differs_by_sharp_s(printed: str, name: str, zone: Td3Reading) -> bool:
    """Return whether a name differs only where an ẞ may be printed, which the recogniser reads as S or B."""
    if zone.fields.get("issuing_state") not in _WITH_SHARP_S:
        return False
    spelt = fold(name.replace(" ", "")).replace(fold("SS"), f"(?:{fold('SS')}|[{fold('SB')}])")
    return re.fullmatch(spelt, fold("".join(plain_words(printed)))) is not None


def _contradicts_both(lines: Sequence[Placed], zone: Td3Reading) -> bool:
    """Return whether what stands at a label `Name` is neither the surname nor the given names."""
    value = values(lines, _NAME_ALONE, (Side.BELOW, Side.RIGHT)).get("name")
    if value is None or _name(value, lines, zone, "surname") is not Agreement.MISMATCH:
        return False
    # No other lines are given: those below a surname hold the given names, which would excuse any surname.
    return _name(value, (), zone, "given_names") is Agreement.MISMATCH


def _contradicts_below(lines: Sequence[Placed], zone: Td3Reading) -> bool:
    """Return whether other given names stand below the surname at a label `Name` for both."""
    value = values(lines, _NAME_ALONE, (Side.BELOW, Side.RIGHT)).get("name")
    if value is None or _unlikeness(value.text, zone.fields.get("surname", "")):
        return False
    below = [line for line in _next_lines(value, lines) if label_of(line.text, _NAME_ALONE) is None]
    others = (replace(value, text=line.text, score=line.score, line=line) for line in below[:1])
    return any(_name(other, (), zone, "given_names") is Agreement.MISMATCH for other in others)


def _is_name(text: str, zone: Td3Reading, key: str) -> bool:
    """Return whether a print is the name, or the whole name, where line 1 is full with its end cut off."""
    name, both = zone.fields[key], [zone.fields.get(one, "") for one in ("surname", "given_names")]
    if any(_unlikeness(text, one) == 0 for one in (name, " ".join(both), " ".join(reversed(both)))):
        return True
    if len(zone.lines[0].rstrip(FILLER)) < LENGTH - 1:
        return False
    last = key == "given_names" or not both[1]  # what stands at the end of the line
    cut = [tuple(" ".join(both).split()), *([tuple(name.split())] if last else [])]
    return any(is_cut_from(one, whole) for one in cut for whole in (words(text), plain_words(text)))


def _beside(value: Value, lines: Sequence[Placed]) -> Iterator[str]:
    """Yield the ways a name may be written beside its national spelling: in its line, or below it."""
    yield from re.split("[/|]", value.text)
    yield from (line.text for line in _next_lines(value, lines))


def _next_lines(value: Value, lines: Sequence[Placed]) -> Iterator[Placed]:
    """Yield the lines directly below a value, from its left edge on."""
    for line in lines:
        gap = (line.middle - value.line.middle) / max(value.line.height, 1.0)
        if _BESIDE_MIN < gap < _BESIDE_MAX and abs(line.left - value.line.left) < 1.5 * value.line.height:
            yield line


def _unlikeness(printed: str, name: str) -> int:
    """Return by how many letters a print differs from the name, whichever way its marks were written.

    Look-alikes are the same, and the zone may have cut the name at its end (part 4 section 4.2.3).
    """
    wanted = name.replace(" ", "")
    spellings = {"".join(words(printed)), "".join(plain_words(printed))}
    if len(wanted) > _CUT_FROM:
        spellings = {spelling[: len(wanted)] for spelling in spellings}
    return min(distance(fold(spelling), fold(wanted)) for spelling in spellings)


def _date(value: Value | None, lines: Sequence[Placed], zone: Td3Reading, day: date | None) -> Agreement:
    """Compare a date; without a label it contradicts where all dates are printed and it is none of them."""
    if day is None:
        return Agreement.NOT_FOUND
    if value is None:
        if any(day in printed_dates(line.text) for line in lines):
            return Agreement.MATCH
        every = {
            printed for line in lines if line.score >= VERY_CLEAR and (printed := printed_dates(line.text))
        }
        strange = any(_is_strange(line, zone) for line in _unlabelled(lines))
        return Agreement.MISMATCH if strange and len(every) >= _DATES else Agreement.NOT_FOUND
    printed = printed_dates(value.text)
    if day in printed:
        return Agreement.MATCH
    return Agreement.MISMATCH if printed and value.score >= CLEAR else Agreement.NOT_FOUND


def _is_strange(line: Placed, zone: Td3Reading) -> bool:
    """Return whether a line is a date that the zone does not have."""
    printed = printed_dates(line.text)
    return bool(printed) and not {zone.birth, zone.expires}.intersection(printed)


def printed_sex(text: str) -> str | None:
    """Return the letter of the sex that a text gives, None when it gives none."""
    found = _SEX.fullmatch(text.upper().strip())
    return (found[1] or found[2]) if found else None


def _sex(value: Value | None, lines: Sequence[Placed], zone: Td3Reading) -> Agreement:
    """Compare the sex; without a label its letter, alone in a line, can only contradict."""
    printed, sex = printed_sex(value.text) if value else None, zone.fields.get("sex")
    if not sex:
        return Agreement.NOT_FOUND
    if value is None or printed is None:
        names = words(" ".join(zone.fields.get(one, "") for one in ("surname", "given_names")))
        alone = {printed_sex(line.text) for line in _unlabelled(lines)}.intersection("MF").difference(names)
        return Agreement.MISMATCH if alone and sex not in alone else Agreement.NOT_FOUND
    if printed == sex:
        return Agreement.MATCH
    return Agreement.MISMATCH if value.score >= CLEAR else Agreement.NOT_FOUND


def _unlabelled(lines: Sequence[Placed]) -> Iterator[Placed]:
    """Yield the very clearly read lines in capitals that stand at no label that was read."""
    labels = [line for line in lines if label_of(line.text, LABELS) is not None]
    for line in lines:
        labelled = any(stands_below(one, line) or stands_right(one, line) for one in labels)
        if (
            line.score >= VERY_CLEAR
            and line not in labels
            and not labelled
            and line.text == line.text.upper()
        ):
            yield line


def _anywhere(lines: Sequence[Placed], says_it: Callable[[str], bool]) -> Agreement:
    """Without a label a print can only agree."""
    return Agreement.MATCH if any(says_it(line.text) for line in lines) else Agreement.NOT_FOUND
