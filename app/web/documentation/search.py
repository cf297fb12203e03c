"""The index by which the pages of the documentation are searched in the browser, without a request."""

import json
import re
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from app.web.documentation.markdown import anchor_of
from app.web.documentation.pages import address_of, names, source

MAX_BYTES: Final = 100_000
"""What the index may weigh, not compressed."""

_HEADING: Final = re.compile(r"^(#{1,3}) (.+)$")
_WORD: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{1,28}[A-Za-z0-9]")
_PATH: Final = re.compile(r"\([^)\s]*\)")
_COMMON: Final = frozenset({
    "about", "above", "after", "again", "against", "all", "alone", "already", "also", "always", "and",
    "another", "any", "are", "around", "asks", "because", "been", "before", "being", "beside", "both",
    "but", "can", "come", "comes", "does", "done", "each", "else", "even", "every", "everything", "for",
    "from", "get", "gets", "gives", "goes", "has", "have", "here", "how", "instead", "into", "its",
    "itself", "keep", "keeps", "kept", "left", "let", "lets", "long", "look", "looks", "made", "make",
    "makes", "may", "more", "most", "must", "need", "needs", "never", "nor", "not", "nothing", "now",
    "off", "old", "once", "one", "only", "other", "our", "out", "over", "own", "said", "same", "say",
    "says", "see", "seen", "should", "shows", "since", "some", "such", "take", "taken", "takes", "tell",
    "tells", "ten", "than", "that", "the", "their", "them", "then", "there", "these", "they", "this",
    "those", "three", "told", "too", "two", "under", "until", "very", "was", "way", "were", "what",
    "when", "where", "whether", "which", "while", "who", "whose", "why", "will", "with", "within",
    "without", "would", "yet", "you", "your",
})  # fmt: skip
"""Words that stand everywhere and find nothing."""


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a page that a search can lead to."""

    title: str
    """Of the page."""
    heading: str
    """Empty: the beginning of the page."""
    page: str
    """Its address."""
    anchor: str
    words: str
    """Of its text; those of title and heading are found there."""


def sections() -> Iterator[Section]:
    """Return the sections of every Markdown page."""
    for name in names():
        title, *rest = _parts(source(name))
        known = _words_of(title[0])
        yield Section(title[0], "", address_of(name), "", _words(title[1], known))
        for heading, text in rest:
            words = _words(text, {*known, *_words_of(heading)})
            yield Section(title[0], heading, address_of(name), anchor_of(heading), words)


def index(further: Iterable[Section]) -> bytes:
    """Return the index: pages once, and a row for each section; an anchor that is the heading is left out."""
    rows = [*sections(), *further]
    pages = list(dict.fromkeys((row.page, row.title) for row in rows))
    listed = [
        [
            pages.index((row.page, row.title)),
            row.heading,
            row.words,
            *([] if row.anchor == row.heading else [row.anchor]),
        ]
        for row in rows
    ]
    return json.dumps(
        {"pages": pages, "sections": listed}, ensure_ascii=False, separators=(",", ":")
    ).encode()


def _parts(text: str) -> list[tuple[str, str]]:
    """Part a page at its headings; a block of code has none."""
    found: list[tuple[str, list[str]]] = []
    fenced = False
    for line in text.splitlines():
        fenced ^= line.startswith("```")
        heading = None if fenced else _HEADING.match(line)
        if heading:
            found.append((heading[2], []))
        elif found:
            found[-1][1].append(line)
    return [(heading, "\n".join(lines)) for heading, lines in found]


def _words(text: str, known: Container[str]) -> str:
    """Return the different words of a text that are not `known`; numbers and targets of links are none."""
    words = _words_of(_PATH.sub(" ", text))
    return " ".join(word for word in words if word not in known and not word.isdigit())


def _words_of(text: str) -> list[str]:
    """Return the different words of a text in their order, without those that stand everywhere."""
    words = (word.lower() for word in _WORD.findall(text))
    return [word for word in dict.fromkeys(words) if word not in _COMMON]
