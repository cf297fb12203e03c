"""Compare what is known beside the name, such as numbers in their normal form (G117)."""

import unicodedata
from collections.abc import Iterator
from typing import Final

from rapidfuzz import fuzz

from schemas.lists import NameEntry
from schemas.screenings import Evidence, EvidenceEffect, EvidenceFeature, ScreeningTarget
from streams.names.analysis import to_ascii_words

_LEAST_CHARS: Final = 5
"""Shorter numbers are shared by chance."""
_DAY_CHARS: Final = len("1970-03-12")
_YEAR_CHARS: Final = len("1970")
_SAME_ADDRESS: Final = 85
"""Share of the words of the shorter address, in percent."""

_ADDRESS_LEAST_WORDS: Final = 2
_ADDRESS_CHARS: Final = 512


def normal_identifier(value: str) -> str:
    """Return letters and digits only, in upper case; empty when too few to identify anybody."""
    plain = "".join(char for char in unicodedata.normalize("NFKC", value).upper() if char.isalnum())
    return plain if len(plain) >= _LEAST_CHARS and any(char.isdigit() for char in plain) else ""


def compare_facts(target: ScreeningTarget, entry: NameEntry) -> tuple[Evidence, ...]:
    """Return what supports or contradicts that both are the same; nothing for what either does not tell."""
    comparisons = (_birth_date, _country, _gender, _identifier, _address)
    return tuple(fact for compare in comparisons for fact in compare(target, entry))


def birth_years_apart(target: ScreeningTarget, entry: NameEntry) -> int:
    """Return the distance to the nearest listed birth year; 0 when either tells none."""
    if not target.birth_date or not entry.birth_dates:
        return 0
    return min(_years_apart(target.birth_date, listed) for listed in entry.birth_dates)


def _birth_date(target: ScreeningTarget, entry: NameEntry) -> Iterator[Evidence]:
    """Compare at the precision that both dates have."""
    query = target.birth_date
    if not query or not entry.birth_dates:
        return
    for listed in entry.birth_dates:
        if detail := _same_date(query, listed):
            yield _evidence(EvidenceFeature.BIRTH_DATE, EvidenceEffect.SUPPORTS, query, listed, detail)
            return
    nearest = min(entry.birth_dates, key=lambda listed: (_years_apart(query, listed), listed))
    apart = _years_apart(query, nearest)
    if apart > 1:
        detail = f"{apart} years apart"
        yield _evidence(EvidenceFeature.BIRTH_DATE, EvidenceEffect.CONTRADICTS, query, nearest, detail)
    elif len(query) == len(nearest) == _DAY_CHARS:
        yield _evidence(EvidenceFeature.BIRTH_DATE, EvidenceEffect.CONTRADICTS, query, nearest, "another day")


def _same_date(query: str, listed: str) -> str:
    """Return in what two dates agree; empty if in nothing."""
    precision = min(len(query), len(listed))
    if query[:precision] == listed[:precision]:
        return {_DAY_CHARS: "same day", _YEAR_CHARS: "same year"}.get(precision, "same month")
    if len(query) == len(listed) == _DAY_CHARS and query == f"{listed[:4]}-{listed[8:]}-{listed[5:7]}":
        return "day and month exchanged"
    return ""


def _years_apart(query: str, listed: str) -> int:
    return abs(int(query[:_YEAR_CHARS]) - int(listed[:_YEAR_CHARS]))


def _country(target: ScreeningTarget, entry: NameEntry) -> Iterator[Evidence]:
    if target.country and entry.countries:
        same = target.country in entry.countries
        effect = EvidenceEffect.SUPPORTS if same else EvidenceEffect.CONTRADICTS
        detail = "same country" if same else "another country"
        yield _evidence(EvidenceFeature.COUNTRY, effect, target.country, " ".join(entry.countries), detail)


def _gender(target: ScreeningTarget, entry: NameEntry) -> Iterator[Evidence]:
    """Tell another gender only: half of mankind has the same one."""
    if target.gender and entry.gender and target.gender is not entry.gender:
        effect = EvidenceEffect.CONTRADICTS
        yield _evidence(EvidenceFeature.GENDER, effect, target.gender, entry.gender, "another gender")


def _identifier(target: ScreeningTarget, entry: NameEntry) -> Iterator[Evidence]:
    """Compare numbers whatever their type: lists disagree about what to call one."""
    listed = {normal_identifier(known.value): known for known in entry.identifiers}
    listed.pop("", None)
    for identifier in target.identifiers:
        if known := listed.get(normal_identifier(identifier.value)):
            effect, detail = EvidenceEffect.SUPPORTS, f"same {known.type}"
            yield _evidence(EvidenceFeature.IDENTIFIER, effect, identifier.value, known.value, detail)


def _address(target: ScreeningTarget, entry: NameEntry) -> Iterator[Evidence]:
    """Tell a like address only: who moves is still the same."""
    query = to_ascii_words((target.address or "")[:_ADDRESS_CHARS])
    if len(query) < _ADDRESS_LEAST_WORDS:
        return
    for address in entry.addresses:
        listed = to_ascii_words(address[:_ADDRESS_CHARS])
        if len(listed) >= _ADDRESS_LEAST_WORDS and _alike(query, listed):
            effect = EvidenceEffect.SUPPORTS
            yield _evidence(EvidenceFeature.ADDRESS, effect, target.address or "", address, "like address")
            return


def _alike(query: list[str], listed: list[str]) -> bool:
    return fuzz.token_sort_ratio(" ".join(query), " ".join(listed)) >= _SAME_ADDRESS


def _evidence(
    feature: EvidenceFeature, effect: EvidenceEffect, query: str, listed: str, detail: str
) -> Evidence:
    return Evidence(feature=feature, effect=effect, query=query, listed=listed, detail=detail)
