"""Dates as documents print them, and what two digits of a year may mean (G80)."""

import re
from datetime import date
from typing import Final

_MONTHS: Final = {
    name: number
    for number, names in enumerate(
        (
            "JAN JANVIER ENE GEN",
            "FEB FEV FÉV FEVRIER FÉVRIER",
            "MAR MARS MÄR",
            "APR AVR AVRIL ABR",
            "MAY MAI MAG",
            "JUN JUIN GIU",
            "JUL JUIL JUILLET LUG",
            "AUG AOU AOÛ AOUT AOÛT AGO",
            "SEP SEPT SET",
            "OCT OKT OUT OTT",
            "NOV",
            "DEC DÉC DEZ DIC",
        ),
        start=1,
    )
    for name in names.split()
}
"""Abbreviations of Doc 9303 part 3 section 4.8 and of French, Spanish, Portuguese, Italian and German."""

_WORDED: Final = re.compile(
    r"(\d{1,2})[\s.\-/]*([^\W\d_]{3,9})(?:[\s./]+([^\W\d_]{3,9}))?[\s.\-/]*(\d{4}|\d{2})(?!\d)"
)
_YEAR_FIRST: Final = re.compile(r"(?<!\d)(\d{4})[\-./ ]{1,2}(\d{1,2})[\-./ ]{1,2}(\d{1,2})(?!\d)")
_YEAR_LAST: Final = re.compile(r"(?<!\d)(\d{1,2})[\-./ ]{1,2}(\d{1,2})[\-./ ]{1,2}(\d{4}|\d{2}$)(?!\d)")
_FOREIGN: Final = re.compile(r"(?<=\d)\s+(?=\S*\d)[^\s/]{1,9}\s?[\u6708\uc6d4]?\s*/\s*(?=[^\W\d_]{3})")
"""A month before its name in English: by its number in Chinese or Korean, or in letters that were recognised
as digits too (`22 CI4/JAN 06`)."""


def real_date(year: int, month: int, day: int) -> date | None:
    """Return the date, or None when no calendar has it."""
    try:
        return date(year, month, day)
    except ValueError:
        return None


def birth_date(digits: str, today: date) -> date | None:
    """Return the date of YYMMDD in the latest century not in the future; None when there is none."""
    for century in (2000, 1900):
        found = _machine_date(century, digits)
        if found is not None and found <= today:
            return found
    return None


def expiry_date(digits: str) -> date | None:
    """Return the date of YYMMDD as 20YY; None when there is none."""
    return _machine_date(2000, digits)


def has_unknown_part(digits: str) -> bool:
    """Return whether month or day of a birth date is given as unknown: `<<` or 00 (part 3 section 4.8)."""
    return "<" in digits or digits[2:4] == "00" or digits[4:6] == "00"


def printed_dates(text: str) -> tuple[date, ...]:
    """Return every date a printed text may mean: none, one, or two when day and month could be swapped.

    A year of two digits is given in both centuries.
    """
    upper = _FOREIGN.sub(" ", text.strip().upper())
    if found := _WORDED.search(upper):
        return _worded(*found.groups())
    if found := _YEAR_FIRST.search(upper):
        year, month, day = (int(part) for part in found.groups())
        return _existing((year, month, day))
    if found := _YEAR_LAST.search(upper):
        one, other, _ = (int(part) for part in found.groups())
        years = _years(found[3])
        return _existing(*((year, *days) for year in years for days in ((other, one), (one, other))))
    return ()


def _worded(day: str, name: str, other: str | None, year: str) -> tuple[date, ...]:
    """Return the dates of a month named in one language or two, of which one is known."""
    named = [_MONTHS.get(one) or _MONTHS.get(one[:3]) for one in (name, other or "")]
    return _existing(*((one, month, int(day)) for one in _years(year) for month in named if month))


def _years(text: str) -> tuple[int, ...]:
    """Return the year of four digits, or of two in both centuries."""
    return (int(text),) if len(text) == 4 else (1900 + int(text), 2000 + int(text))  # noqa: PLR2004 - digits


def _existing(*candidates: tuple[int, int, int]) -> tuple[date, ...]:
    dates = (real_date(*candidate) for candidate in candidates)
    return tuple(dict.fromkeys(found for found in dates if found is not None))


def _machine_date(century: int, digits: str) -> date | None:
    if not (digits.isascii() and digits.isdigit()):
        return None
    return real_date(century + int(digits[:2]), int(digits[2:4]), int(digits[4:6]))
