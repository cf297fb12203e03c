"""Names of people and of states as machine-readable zones write them (ICAO Doc 9303 part 3)."""

import re
import unicodedata
from typing import Final

from schemas.countries import ALPHA_2
from streams.verification.readers.likeness import latin

_TRANSLITERATIONS: Final = {
    "Ä": "AE",
    "Å": "AA",
    "Æ": "AE",
    "Ð": "D",
    "Đ": "D",
    "Ħ": "H",
    "Ĳ": "IJ",
    "Ł": "L",
    "Ŋ": "N",
    "Ö": "OE",
    "Ø": "OE",
    "Œ": "OE",
    "ẞ": "SS",
    "Þ": "TH",
    "Ŧ": "T",
    "Ü": "UE",
}
"""Part 3 section 6.A, where it is more than dropping a mark."""
_SHORTENED: Final = 3
"""Letters left of a name that is cut in the middle of the field."""
_NOT_LETTERS: Final = re.compile(r"[^A-Z]+")
_DROPPED: Final = re.compile("['`.\u2019\u00b4]")
"""Apostrophes and full stops disappear (section 4.6), anything else between letters becomes a filler."""

WITHOUT_ISO: Final = frozenset(
    {"UTO", "UNO", "UNA", "UNK", "EUE", "RKS", "XAA", "XBA", "XCC", "XCE", "XCO", "XDC", "XEC", "XES", "XIM"}
    | {"XMP", "XOM", "XPO", "XXA", "XXB", "XXC", "XXX", "XEX", "XAU", "IAO", "XCT", "NTZ"}
)
"""Issuers and nationalities of Doc 9303 part 3 section 5 that ISO cannot express; they stay three letters."""


def to_machine_zone(name: str) -> str:
    """Return a name in A-Z with `<` between its words."""
    return "<".join(words(name))


def words(name: str) -> tuple[str, ...]:
    """Return the words of a name in A-Z, transliterated as the machine-readable zone does."""
    capital = _DROPPED.sub("", unicodedata.normalize("NFC", name).replace("ß", "ẞ").upper())
    spelt = "".join(_TRANSLITERATIONS.get(character, character) for character in capital)
    return _plain(spelt)


def plain_words(name: str) -> tuple[str, ...]:
    """Return the words of a name in A-Z, marks simply dropped, as some states and most readers do."""
    return _plain(_DROPPED.sub("", name.upper()))


def _plain(text: str) -> tuple[str, ...]:
    decomposed = unicodedata.normalize("NFD", text)
    base = "".join(character for character in decomposed if not unicodedata.combining(character))
    return tuple(word for word in _NOT_LETTERS.split(base) if word)


def in_latin(name: str) -> str:
    """Return a name with Greek and Cyrillic look-alikes as Latin letters; a name of that script stays."""
    mapped = latin(name)
    letters = (character for character in mapped if character.isalpha())
    return mapped if all(unicodedata.name(letter, "").startswith("LATIN") for letter in letters) else name


def is_cut_from(name: tuple[str, ...], whole: tuple[str, ...]) -> bool:
    """Return whether a name is another cut at its end, words before it shortened to three letters at most.

    Part 4 section 4.2.3 lets issuers choose; a longer word that differs is another name.
    """
    if not name or len(name) > len(whole):
        return False
    *before, last = zip(name, whole, strict=False)
    shortened = (part == word or (len(part) <= _SHORTENED and word.startswith(part)) for part, word in before)
    return last[1].startswith(last[0]) and all(shortened)


def country(code: str) -> str:
    """Return the alpha-2 of a code of Doc 9303, or the code itself when ISO 3166-1 has none (G79)."""
    return ALPHA_2.get(code, code)


def is_known(code: str) -> bool:
    """Return whether a code is known for machine-readable zones; unknown ones are not impossible."""
    return code in ALPHA_2 or code in WITHOUT_ISO
