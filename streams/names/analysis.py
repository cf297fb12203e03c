"""Analyse a name: its words in ASCII, what each of them is, how it sounds and how rare it is."""

import json
import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import resources
from typing import Final

import jellyfish
from anyascii import anyascii

from schemas.enums import TextEnum
from schemas.lists import EntityKind
from streams.names import legal_forms, vocabulary
from streams.names.vocabulary import COMMON_ORGANISATION_WORDS

_VERY_COMMON: Final = 0.3
_COMMON: Final = 0.6
_RARE: Final = 1.0
MAX_WORDS: Final = 32
"""The words of a name that are compared; the longest listed names have about twenty."""

_MAX_WORD_CHARS: Final = 48
"""What is compared of one word: longer ones are no words, and comparing takes the square of the length."""

_METAPHONE_CHARS: Final = 4
_SKELETON_LEAST: Final = 2

_QUOTES: Final = re.compile(
    "['`\u2018\u2019\u02bb\u02bc\u02bd\u02be\u02bf\u00b4\"\u201c\u201d\u201e\u00ab\u00bb]"
)
_INITIALS: Final = re.compile(r"\b(?:[^\W\d_]\.){2,}(?:[^\W\d_]\b)?")
_WORD: Final = re.compile(r"[a-z0-9]+")
_SOUNDS: Final = (
    ("sch", "s"), ("sh", "s"), ("tch", "c"), ("ch", "c"), ("kh", "k"), ("gh", "g"), ("ph", "f"), ("th", "t"),
    ("dh", "d"), ("zh", "z"), ("ts", "c"), ("ck", "k"), ("q", "k"), ("x", "ks"), ("w", "v"), ("j", "y"),
)  # fmt: skip
_SYLLABLES: Final = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
"""Characters of Kana, Han and Hangul, each a syllable or a word."""

_VOWELS: Final = re.compile("[aeiouyh]")
_REPEATED: Final = re.compile(r"(.)\1+")


@lru_cache(maxsize=65_536)
def background_rarity(word: str) -> float:
    """Return 0 to 1: how little one expects a second bearer of this word."""
    very_common, common = _background()
    if word in very_common:
        return _VERY_COMMON
    return _COMMON if word in common else _RARE


@cache
def _background() -> tuple[frozenset[str], frozenset[str]]:
    text = resources.files("streams.names").joinpath("common_names.json").read_text(encoding="utf-8")
    packaged = json.loads(text)
    return (
        frozenset(packaged["very_common"].split()) | COMMON_ORGANISATION_WORDS,
        frozenset(packaged["common"].split()),
    )


class WordKind(TextEnum):
    """What a word of a name is."""

    NAME = "NAME"
    STOP = "STOP"
    """A title, a particle, an article: it says little."""
    FORM = "FORM"
    """A legal form."""
    NUMBER = "NUMBER"
    INITIAL = "INITIAL"


_WEIGHT_OF_KIND: Final = {
    WordKind.NAME: 1.0,
    WordKind.STOP: 0.28,
    WordKind.FORM: 0.32,
    WordKind.NUMBER: 0.8,
    WordKind.INITIAL: 0.5,
}

_LEAST_WEIGHT: Final = 0.35
"""What the commonest word still weighs."""


def weight_of(kind: WordKind, rarity: float) -> float:
    """Return what a word of this kind and rarity counts."""
    return _WEIGHT_OF_KIND[kind] * (_LEAST_WEIGHT + (1 - _LEAST_WEIGHT) * rarity)


@dataclass(frozen=True, slots=True)
class Word:
    """A word of a name."""

    text: str
    kind: WordKind
    skeleton: str
    """Its consonants by sound; empty when they are too few to tell names apart."""
    rarity: float
    """0: everybody has it, 1: nearly nobody."""

    @property
    def weight(self) -> float:
        """How much it counts for or against a match."""
        return weight_of(self.kind, self.rarity)


@dataclass(frozen=True, slots=True)
class AnalysedName:
    """A name as it is compared."""

    text: str
    """As it was written."""
    kind: EntityKind
    words: tuple[Word, ...]
    characters: str = ""
    """Of a name in Han, Kana or Hangul its characters, sorted: in ASCII different ones are the same."""

    @property
    def is_person(self) -> bool:
        """Whether words may stand in any order and be shortened to initials."""
        return self.kind is EntityKind.PERSON


@lru_cache(maxsize=65_536)
def analyse(text: str, kind: EntityKind) -> AnalysedName:
    """Return the words of a name; a name without a letter or digit has none."""
    written = to_ascii_words(text)[:MAX_WORDS]
    words = tuple(_person(written) if kind is EntityKind.PERSON else _organisation(written))
    composed = unicodedata.normalize("NFKC", text)
    characters = "".join(sorted(composed.split())) if _SYLLABLES.search(composed) else ""
    return AnalysedName(text, kind, words, characters)


def to_ascii_words(text: str) -> list[str]:
    """Return the words in lower-case ASCII, without accents, quotes and the dots of initials."""
    composed = unicodedata.normalize("NFKC", text)
    dotted = _INITIALS.sub(lambda found: found.group().replace(".", ""), composed)
    plain = "".join(char for char in unicodedata.normalize("NFKD", dotted) if not unicodedata.combining(char))
    return [
        word[:_MAX_WORD_CHARS]
        for word in _WORD.findall(_QUOTES.sub("", anyascii(_QUOTES.sub("", plain))).casefold())
    ]


@lru_cache(maxsize=65_536)
def metaphone(text: str) -> str:
    """Return how a word sounds in English."""
    return jellyfish.metaphone(text)[:_METAPHONE_CHARS]


def make_word(text: str, kind: WordKind) -> Word:
    """Return a word with its sound and rarity."""
    return Word(text, kind, consonants(text), background_rarity(text))


@lru_cache(maxsize=65_536)
def consonants(text: str) -> str:
    """Return the consonants of a word, those that sound alike as one letter; empty when fewer than two."""
    for written, sound in _SOUNDS:
        text = text.replace(written, sound)
    skeleton = _REPEATED.sub(r"\1", text[:1] + _VOWELS.sub("", text[1:]))
    return skeleton if len(skeleton) >= _SKELETON_LEAST else ""


def _person(written: Sequence[str]) -> Iterator[Word]:
    for text in _without_last_form(written):
        if len(text) == 1 and not text.isdigit():
            yield make_word(text, WordKind.INITIAL)
        elif text in vocabulary.TITLES or text in vocabulary.PARTICLES:
            yield make_word(text, WordKind.STOP)
        else:
            yield make_word(text, WordKind.NAME)


def _without_last_form(written: Sequence[str]) -> Sequence[str]:
    """Drop a legal form behind the name of a person: it is a typist's, or a firm named for one."""
    for taken in range(min(legal_forms.LONGEST, len(written) - 2), 0, -1):
        if tuple(written[-taken:]) in legal_forms.FORMS and len("".join(written[-taken:])) > 1:
            return written[:-taken]
    return written


def _organisation(written: Sequence[str]) -> Iterator[Word]:
    position = 0
    while position < len(written):
        form, taken = _form_at(written, position)
        if form:
            yield make_word(form, WordKind.NAME if taken == len(written) else WordKind.FORM)
            position += taken
            continue
        text, taken = _number_at(written, position)
        yield make_word(text, _organisation_kind(text))
        position += taken


def _form_at(written: Sequence[str], position: int) -> tuple[str, int]:
    for taken in range(min(legal_forms.LONGEST, len(written) - position), 0, -1):
        form = legal_forms.FORMS.get(tuple(written[position : position + taken]))
        if form:
            return form, taken
    return legal_forms.misspelt_form(written[position]), 1


def _number_at(written: Sequence[str], position: int) -> tuple[str, int]:
    word = written[position]
    following = written[position + 1] if position + 1 < len(written) else ""
    units = vocabulary.NUMBER_WORDS.get(following, following)
    if word in vocabulary.TENS:
        if len(units) == 1 and units.isdigit():
            return str(vocabulary.TENS[word] + int(units)), 2
        return str(vocabulary.TENS[word]), 1
    numeral = vocabulary.ROMAN_NUMERALS.get(word) if position else None
    return numeral or vocabulary.NUMBER_WORDS.get(word, word), 1


def _organisation_kind(text: str) -> WordKind:
    if text.isdigit():
        return WordKind.NUMBER
    return WordKind.STOP if text in vocabulary.STOP_WORDS else WordKind.NAME
