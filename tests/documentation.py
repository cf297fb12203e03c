"""The README and the pages under `app/docs`: their blocks, links and tables, as the tests need them."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
DOCS: Final = ROOT / "app" / "docs"

SHELLS: Final = frozenset({"bash", "sh"})
"""Languages of blocks that are commands."""

_FENCE: Final = re.compile(
    r"(?:^<!-- (?P<mark>[a-z ]+) -->\n)?^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL
)
_LINK: Final = re.compile(r"\[[^\]]*\]\((?P<target>[^)\s]+)\)")
_HEADING: Final = re.compile(r"^#{1,6} (.+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block of a page, with the mark in the comment above it."""

    page: Path
    mark: str | None
    language: str
    text: str


def pages() -> tuple[Path, ...]:
    """Return every page that is written for readers of the product."""
    return (ROOT / "README.md", ROOT / "SECURITY.md", ROOT / "CHANGELOG.md", *sorted(DOCS.glob("*.md")))


def name_of(page: Path) -> str:
    """Return the path of a page from the root."""
    return str(page.relative_to(ROOT))


def blocks() -> Iterator[Block]:
    """Return every block of every page, in order."""
    for page in pages():
        for found in _FENCE.finditer(page.read_text(encoding="utf-8")):
            yield Block(page, found["mark"], found["language"], found["text"])


def marked(mark: str) -> Block:
    """Return the one block under a mark."""
    found = [block for block in blocks() if block.mark == mark]
    assert len(found) == 1, mark
    return found[0]


def prose(page: Path) -> str:
    """Return the text of a page without its blocks."""
    return _FENCE.sub("", page.read_text(encoding="utf-8"))


def links(page: Path) -> list[str]:
    """Return the targets of a page's links that lead into the repository."""
    targets = [found["target"] for found in _LINK.finditer(prose(page))]
    return [target for target in targets if "://" not in target]


def anchors(page: Path) -> set[str]:
    """Return what a link can name behind `#`: the headings, as GitHub turns them into anchors."""
    return {_anchor(heading) for heading in _HEADING.findall(prose(page))}


def _anchor(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
