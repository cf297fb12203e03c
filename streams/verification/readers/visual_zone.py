"""Compares what a passport prints for the eye with its machine-readable zone; conservative in doubt.

A checksum-valid zone outranks recognised print (G68): only a print that was clearly read and clearly says
something else is a mismatch. What is blurred, lost or printed in an unknown way is not found, which says
nothing.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from typing import Final

from streams.sight import TextPage
from streams.verification.findings import Agreement
from streams.verification.readers.anchors import LabelWords, Side, Value, values
from streams.verification.readers.dates import printed_dates
from streams.verification.readers.layout import Placed, level
from streams.verification.readers.likeness import compact, distance, fold
from streams.verification.readers.names import plain_words, words
from streams.verification.readers.td3_lines import LENGTH
from streams.verification.readers.td3_mrz import Td3Reading
from streams.verification.readers.td3_text import normalise

LABELS: Final[LabelWords] = {
    "document_number": ("PASSPORTNO", "PASSPORTNUMBER", "DOCUMENTNO", "DOCUMENTNUMBER", "PASSEPORTNO"),
    "surname": ("SURNAME", "LASTNAME", "NOM", "APELLIDOS"),
    "given_names": ("GIVENNAME", "FIRSTNAME", "FORENAME", "PRENOM", "NOMBRES"),
    "date_of_birth": ("DATEOFBIRTH", "DATEDENAISSANCE"),
    "expiry_date": ("DATEOFEXPIR", "EXPIRYDATE", "DATEDEXPIRATION", "VALIDUNTIL"),
    "sex": ("SEX", "SEXE", "GENDER"),
    "": (
        "TYPE",
        "COUNTRYCODE",
        "CODEOF",
        "CODEDUPAYS",
        "NATIONALIT",
        "PERSONALN",
        "PLACEOFBIRTH",
        "LIEUDENAISSANCE",
        "DATEOFISSUE",
        "DATEDEDELIVRANCE",
        "AUTHORITY",
        "AUTORITE",
        "ISSUINGAUTHORITY",
        "PLACEOFISSUE",
        "HOLDERSSIGNATURE",
    ),
}
"""Labels of Doc 9303 part 4 section 4.1 in English, French and Spanish; the nameless ones are no values."""

CLEAR: Final = 0.93
"""Recogniser's score from which a print counts as clearly read."""
VERY_CLEAR: Final = 0.98
"""The same where a single letter makes the difference."""
_NUMBER_SHAPE: Final = re.compile(r"(?=.*\d)[A-Z0-9]{6,12}")
_SEX: Final = re.compile(r"([MFX])(?:\s*/\s*[A-Z])?")
_LETTERS_A_SLIP: Final = 5
"""One letter in as many may be a slip of the recogniser, unless it was very sure."""
_LETTER_OF: Final = str.maketrans("012568", "OIZSGB")
"""Digits a recogniser sees among the letters of a name."""
_CUT_FROM: Final = 30
"""Letters from which a name may have been cut: 39 places hold both names and what parts them."""


def compare(page: TextPage, zone: Td3Reading) -> Mapping[str, Agreement]:
    """Say of document_number, surname, given_names, date_of_birth, expiry_date and sex how the print agrees.

    `page` holds every line of the page, turned as the zone was read.
    """
    lines = [line for line in level(page) if len(normalise(line.text)) < LENGTH - 6 or "<" not in line.text]
    at_labels = values(lines, LABELS, (Side.BELOW, Side.RIGHT))
    return {
        "document_number": _number(at_labels.get("document_number"), lines, zone.number),
        "surname": _name(at_labels.get("surname"), lines, zone.fields.get("surname")),
        "given_names": _name(at_labels.get("given_names"), lines, zone.fields.get("given_names")),
        "date_of_birth": _date(at_labels.get("date_of_birth"), lines, zone.birth),
        "expiry_date": _date(at_labels.get("expiry_date"), lines, zone.expires),
        "sex": _sex(at_labels.get("sex"), zone.fields.get("sex")),
    }


def _number(value: Value | None, lines: Sequence[Placed], number: str | None) -> Agreement:
    if not number:
        return Agreement.NOT_FOUND
    wanted = fold(number)
    if value is None:
        return _anywhere(lines, lambda text: wanted in fold(text))
    if wanted in fold(value.text):
        return Agreement.MATCH
    printed = compact(value.text)
    other = len(printed) == len(number) or distance(fold(printed), wanted) > 2  # noqa: PLR2004 - two slips
    clear = value.score >= CLEAR and _NUMBER_SHAPE.fullmatch(printed) is not None
    return Agreement.MISMATCH if clear and other else Agreement.NOT_FOUND


def _name(value: Value | None, lines: Sequence[Placed], name: str | None) -> Agreement:
    if not name:
        return Agreement.NOT_FOUND
    if value is None:
        return _anywhere(lines, lambda text: _unlikeness(text, name) == 0)
    text = value.text.translate(_LETTER_OF)
    printed = plain_words(text)
    unlike = _unlikeness(text, name)
    if unlike == 0:
        return Agreement.MATCH
    continued = tuple(name.split())[: len(printed)] == printed  # the rest may stand on the next line
    needed = VERY_CLEAR if unlike <= len(name) // _LETTERS_A_SLIP else CLEAR
    contradicts = printed and not continued and value.score >= needed
    return Agreement.MISMATCH if contradicts else Agreement.NOT_FOUND


def _unlikeness(printed: str, name: str) -> int:
    """Return by how many letters a print differs from the name, whichever way its marks were written.

    Look-alikes are the same, and the zone may have cut the name at its end (part 4 section 4.2.3).
    """
    wanted = name.replace(" ", "")
    spellings = {"".join(words(printed)), "".join(plain_words(printed))}
    if len(wanted) > _CUT_FROM:
        spellings = {spelling[: len(wanted)] for spelling in spellings}
    return min(distance(fold(spelling), fold(wanted)) for spelling in spellings)


def _date(value: Value | None, lines: Sequence[Placed], day: date | None) -> Agreement:
    if day is None:
        return Agreement.NOT_FOUND
    if value is None:
        return _anywhere(lines, lambda text: day in printed_dates(text))
    printed = printed_dates(value.text)
    if day in printed:
        return Agreement.MATCH
    return Agreement.MISMATCH if printed and value.score >= CLEAR else Agreement.NOT_FOUND


def _sex(value: Value | None, sex: str | None) -> Agreement:
    found = _SEX.fullmatch(value.text.upper().strip()) if value else None
    if not sex or value is None or found is None:
        return Agreement.NOT_FOUND
    if found[1] == sex:
        return Agreement.MATCH
    return Agreement.MISMATCH if value.score >= CLEAR else Agreement.NOT_FOUND


def _anywhere(lines: Sequence[Placed], says_it: Callable[[str], bool]) -> Agreement:
    """Without a label a print can only agree."""
    return Agreement.MATCH if any(says_it(line.text) for line in lines) else Agreement.NOT_FOUND
