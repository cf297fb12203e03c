"""Dates and countries as lists write them."""

import re
from collections.abc import Iterator
from datetime import date
from typing import Final

from schemas.countries import NAME_OF
from streams.names.analysis import to_ascii_words

_MONTH_NAMES: Final = "jan feb mar apr may jun jul aug sep oct nov dec"
_MONTHS: Final = {name: number for number, name in enumerate(_MONTH_NAMES.split(), start=1)}
_ISO: Final = re.compile(r"^(\d{4})(?:-(\d{1,2}))?(?:-(\d{1,2}))?")
_NUMERIC: Final = re.compile(r"^(\d{1,2}|dd)/(\d{1,2}|mm)/(\d{4})$")
_WRITTEN: Final = re.compile(r"^(?:(\d{1,2}) )?([a-z]{3})[a-z]* (\d{4})$")
_YEARS: Final = re.compile(r"\b(1[89]\d\d|20\d\d)\b")
_MOST_YEARS: Final = 12
"""Years of a range that are listed one by one; a longer one says nothing."""

_OTHER_COUNTRY_NAMES: Final = """
IR Iran Islamic Republic of|IR Islamic Republic of Iran|KP Korea North|KP Democratic Peoples Republic of Korea
KP DPRK|KR Korea South|KR Republic of Korea|RU Russian Federation|SY Syrian Arab Republic
CD Democratic Republic of the Congo|CD Congo Democratic Republic of the|CG Republic of the Congo|GB UK
GB Great Britain|US United States of America|US USA|VE Venezuela Bolivarian Republic of
BO Bolivia Plurinational State
TZ United Republic of Tanzania|MM Burma|MK Macedonia|CZ Czech Republic|PS Palestinian|PS Palestine State of
TR Turkey|CI Ivory Coast|CI Cote d Ivoire|LY Libyan Arab Jamahiriya|YE Republic of Yemen|VN Viet Nam
LA Lao People s Democratic Republic|MD Republic of Moldova|HK Hong Kong China|AE UAE|BA Bosnia|SZ Swaziland
CV Cape Verde|TL East Timor|CN People s Republic of China|TW Taiwan Province of China|XK Kosovo
"""


def _key(name: str) -> str:
    return " ".join(word for word in to_ascii_words(name) if word not in {"the", "of"})


_CODE_OF: Final = {_key(name): code for code, name in NAME_OF.items()} | {
    _key(entry[3:]): entry[:2]
    for line in _OTHER_COUNTRY_NAMES.strip().splitlines()
    for entry in line.split("|")
}


def country_code(text: str | None) -> str | None:
    """Return the alpha-2 code of a country's code or name; None for what is neither."""
    plain = (text or "").strip()
    if plain.upper() in NAME_OF:
        return plain.upper()
    return _CODE_OF.get(_key(plain))


def country_codes(*texts: str | None) -> tuple[str, ...]:
    """Return the codes of the texts that name countries, each once."""
    return tuple(dict.fromkeys(code for code in map(country_code, texts) if code))


def partial_dates(*texts: str | None) -> tuple[str, ...]:
    """Return dates at their precision, as `1970`, `1970-03` or `1970-03-12`; nothing for other text."""
    return tuple(dict.fromkeys(found for text in texts for found in _dates_of((text or "").strip().lower())))


def make_date(year: int, month: int = 0, day: int = 0) -> str:
    """Return a date at its precision, 0 being unknown; empty for a year that is none.

    A day that does not exist leaves the month.
    """
    if not 1800 <= year <= 2100:  # noqa: PLR2004 - nobody listed was born before, nor will be later
        return ""
    try:
        return date(year, month, day).isoformat()
    except ValueError:
        return f"{year:04}-{month:02}" if 1 <= month <= len(_MONTHS) else f"{year:04}"


def date_of_parts(year: str | None, month: str | None, day: str | None) -> str:
    """Return a date whose parts stand apart at its precision; empty where one is no number."""
    try:
        return make_date(int(year or 0), int(month or 0), int(day or 0))
    except ValueError:
        return ""


def whole_date(text: str) -> date | None:
    """Return the date of a whole day as `2026-03-09`; None for other text."""
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None


def _dates_of(text: str) -> Iterator[str]:
    plain = text.removeprefix("circa ").removeprefix("c. ").replace(",", "")
    if found := _NUMERIC.match(plain):
        day, month, year = (int(part) if part.isdigit() else 0 for part in found.groups())
    elif found := _WRITTEN.match(plain):
        day, month, year = int(found[1] or 0), _MONTHS.get(found[2], 0), int(found[3])
    elif (found := _ISO.match(plain)) and len(_YEARS.findall(plain)) == 1:
        year, month, day = (int(part or 0) for part in found.groups())
    else:
        yield from _years(plain)
        return
    if made := make_date(year, month, day):
        yield made


def _years(text: str) -> Iterator[str]:
    """Yield the years of a range; the first and last of one that is long."""
    years = [int(year) for year in _YEARS.findall(text)]
    if not years:
        return
    first, last = min(years), max(years)
    spanned = range(first, last + 1) if last - first < _MOST_YEARS else (first, last)
    yield from map(str, spanned)
