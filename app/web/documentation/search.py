"""The index by which the pages of the documentation are searched in the browser, without a request."""

import json
import re
from collections.abc import Iterable, Iterator
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
    "all", "also", "and", "any", "are", "been", "before", "being", "both", "but", "can", "does", "each",
    "else", "even", "every", "for", "from", "has", "have", "here", "how", "into", "its", "itself",
    "may", "more", "most", "must", "never", "nor", "not", "now", "off", "once", "one", "only", "other",
    "our", "out", "over", "own", "same", "should", "since", "some", "such", "than", "that", "the",
    "their", "them", "then", "there", "these", "they", "this", "those", "too", "two", "under", "until",
    "very", "was", "were", "what", "when", "where", "which", "who", "whose", "why", "will", "with",
    "within", "without", "would", "yet", "you", "your",
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


def sections() -> Iterator[Section]:
    """Return the sections of every Markdown page."""
    for name in names():
        title, *rest = _parts(source(name))
        yield Section(title[0], "", address_of(name), "", _words(title[1]))
        for heading, text in rest:
            yield Section(title[0], heading, address_of(name), anchor_of(heading), _words(text))


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


def _words(text: str) -> str:
    """Return the different words of a text; a number alone and the target of a link are none."""
    words = (word.lower() for word in _WORD.findall(_PATH.sub(" ", text)))
    return " ".join(dict.fromkeys(word for word in words if word not in _COMMON and not word.isdigit()))
