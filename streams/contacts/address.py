"""Examine a postal address as it is written; nothing is looked up over a network (G127)."""

import re
from collections.abc import Mapping
from typing import Final

from anyascii import anyascii

from schemas.countries import NAME_OF
from schemas.reasons import ReasonCode
from streams.contacts.details import ContactDetail

_FEWEST_PARTS: Final = 2
"""A street and a place, beside the country."""

_LONGEST_ADDRESS: Final = 1_000

_SEPARATOR: Final = re.compile(r"[,;\n]")
_NOT_A_WORD: Final = re.compile(r"[^a-z ]+")

_OTHER_NAMES: Final = {
    "america": "US", "burma": "MM", "cape verde": "CV", "czech republic": "CZ", "england": "GB",
    "democratic peoples republic of korea": "KP", "dprk": "KP", "great britain": "GB",
    "holland": "NL", "islamic republic of iran": "IR", "ivory coast": "CI", "northern ireland": "GB",
    "republic of korea": "KR", "russian federation": "RU", "scotland": "GB", "swaziland": "SZ",
    "syrian arab republic": "SY", "the gambia": "GM", "the netherlands": "NL", "turkey": "TR", "uae": "AE",
    "uk": "GB", "united states of america": "US", "usa": "US", "vatican": "VA", "viet nam": "VN",
    "wales": "GB",
}  # fmt: skip
"""Countries by other names people write."""

_SANCTIONED_COUNTRIES: Final = frozenset({"CU", "IR", "KP"})
"""Under comprehensive sanctions of the United States: 31 CFR parts 515, 560 and 510."""

_SANCTIONED_PLACES: Final = frozenset(
    {
        "crimea", "republic of crimea", "krym", "sevastopol", "simferopol", "kerch", "feodosia", "yalta",
        "yevpatoria", "donetsk peoples republic", "dnr", "dpr", "donetsk", "makiivka", "makeyevka",
        "horlivka", "gorlovka", "luhansk peoples republic", "lugansk peoples republic", "lnr", "lpr",
        "luhansk", "lugansk", "alchevsk",
    }
)  # fmt: skip
"""Crimea and the so-called people's republics with their towns: Executive Orders 13685 and 14065."""

_ALSO_A_STATE: Final = "GE"
"""Georgia, the state of the United States or the country."""

_KINDS_OF_PLACE: Final = frozenset({"autonomous", "city", "oblast", "of", "region"})


def examine_address(address: str, country: str | None) -> ContactDetail:
    """Examine an address whose parts stand between commas, semicolons or on lines of their own.

    The last part may be the name of its country: not its code, for `CA` is a state too. `country` is that of
    the party. An address is incomplete without a street and a place, or if no country is known at all.
    """
    parts = [
        word
        for part in _SEPARATOR.split(address[:_LONGEST_ADDRESS])
        if (word := _plain(part)) or part.strip()
    ]
    written = _COUNTRY_OF.get(parts[-1]) if parts else None
    if written == _ALSO_A_STATE and country is not None:
        written = country
    places = parts[:-1] if written else parts
    findings = []
    if len(places) < _FEWEST_PARTS or not (written or country):
        findings.append(ReasonCode.ADDRESS_INCOMPLETE)
    if written and country and written != country:
        findings.append(ReasonCode.ADDRESS_COUNTRY_MISMATCH)
    if (written or country) in _SANCTIONED_COUNTRIES or any(_is_sanctioned(place) for place in places):
        findings.append(ReasonCode.ADDRESS_SANCTIONED_TERRITORY)
    return ContactDetail(tuple(findings), " ".join(parts) or None)


def _plain(text: str) -> str:
    """Return the words of a text in ASCII and lower case, without digits and signs."""
    return " ".join(_NOT_A_WORD.sub(" ", anyascii(text).lower().replace("'", "")).split())


def _is_sanctioned(place: str) -> bool:
    bare = " ".join(word for word in place.split() if word not in _KINDS_OF_PLACE)
    return place in _SANCTIONED_PLACES or bare in _SANCTIONED_PLACES


_COUNTRY_OF: Final[Mapping[str, str]] = {
    **{_plain(name): code for code, name in NAME_OF.items()},
    **_OTHER_NAMES,
}
