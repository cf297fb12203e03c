"""Names as the machine-readable zone writes them (ICAO Doc 9303 part 3 section 6)."""

import re
import unicodedata
from typing import Final

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
_NOT_LETTERS: Final = re.compile(r"[^A-Z]+")
_DROPPED: Final = re.compile("['`.\u2019\u00b4]")
"""Apostrophes and full stops disappear (section 4.6), anything else between letters becomes a filler."""


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
