"""Turn a page of `app/docs` from Markdown into HTML that the policy of the pages allows."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any, Final

from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup

Address = Callable[[str], str | None]
"""Returns where a link of the source leads on the site; None: nowhere, so that its text stays alone."""

_MARK: Final = re.compile(r"^<!-- [a-z ]+ -->\n", re.MULTILINE)
"""Marks of blocks, which are for the tests."""


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading and the anchor that leads to it."""

    level: int
    anchor: str
    text: str


@dataclass(frozen=True, slots=True)
class Article:
    """A page as it is shown."""

    title: str
    body: Markup
    """Without the title."""
    headings: tuple[Heading, ...]


def anchor_of(heading: str) -> str:
    """Return the anchor of a heading, as GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def article(source: str, address: Address) -> Article:
    """Return a page; its first heading is its title."""
    tokens = _parser().parse(_MARK.sub("", source))
    title = tokens[1].content
    rest = tokens[3:]
    headings = tuple(_anchored(rest))
    for token in rest:
        _lead(token.children or (), address)
    return Article(title, Markup(_parser().renderer.render(rest, _parser().options, {})), headings)  # noqa: S704 - our own pages


def inline(text: str) -> Markup:
    """Return one line of Markdown, such as a description's, without a paragraph around it."""
    return Markup(_parser().renderInline(text))  # noqa: S704 - HTML in it is escaped


def block(text: str) -> Markup:
    """Return paragraphs, lists and tables of Markdown."""
    return Markup(_parser().render(text))  # noqa: S704 - HTML in it is escaped


def _anchored(tokens: Sequence[Token]) -> "Sequence[Heading]":
    found = []
    for token, content in pairwise(tokens):
        if token.type == "heading_open":
            anchor = anchor_of(content.content)
            token.attrSet("id", anchor)
            found.append(Heading(int(token.tag[1:]), anchor, _plain(content)))
    return found


def _plain(token: Token) -> str:
    return "".join(child.content for child in token.children or ())


def _lead(children: Sequence[Token], address: Address) -> None:
    """Give the links of a line their place on the site."""
    leading: list[bool] = []
    for child in children:
        if child.type == "link_open":
            place = address(str(child.attrGet("href")))
            leading.append(place is not None)
            child.hidden = place is None
            child.attrSet("href", place or "")
            if place and "://" in place:
                child.attrSet("rel", "noreferrer")
        elif child.type == "link_close":
            child.hidden = not leading.pop()


@cache
def _parser() -> MarkdownIt:
    """Return the parser: no HTML of the source comes through, and nothing carries a style of its own."""
    parser = MarkdownIt("commonmark", {"html": False}).enable("table")
    parser.add_render_rule("table_open", _open_table)
    parser.add_render_rule("table_close", _close_table)
    parser.add_render_rule("th_open", _open_cell)
    parser.add_render_rule("td_open", _open_cell)
    parser.add_render_rule("fence", _fence)
    return parser


def _open_table(_: Any, *__: Any) -> str:
    return '<div class="scroll" role="group" aria-label="Table" tabindex="0">\n<table>\n'


def _close_table(_: Any, *__: Any) -> str:
    return "</table>\n</div>\n"


def _open_cell(_: Any, tokens: Sequence[Token], index: int, *__: Any) -> str:
    return f"<{tokens[index].tag}>"


def _fence(_: Any, tokens: Sequence[Token], index: int, *__: Any) -> str:
    return f'<pre tabindex="0"><code>{Markup.escape(tokens[index].content)}</code></pre>\n'
