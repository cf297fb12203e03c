"""The pages of the documentation, in the order in which they are read."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import metadata
from importlib.resources import files
from types import MappingProxyType
from typing import Final

from app.web.documentation.markdown import Article, article

HOME: Final = "/docs"
FIRST: Final = "start"
"""The page that stands at `/docs` itself."""

WRITTEN: Final = MappingProxyType({
    "Begin": ("start", "concepts", "capture", "reviewers", "policies", "webhooks", "glossary"),
    "Run it": ("configuration", "operations", "runbook", "engines"),
    "Trust": ("threats", "privacy", "security-checks", "accessibility"),
    "Build it": ("architecture", "development", "interface"),
})  # fmt: skip
"""Names of the Markdown files by the group they are shown in."""

DRAWN: Final = MappingProxyType({
    "reference": "Interface",
    "problems": "Problem codes",
    "reasons": "Reason codes",
    "events": "Events",
})  # fmt: skip
"""Pages that are drawn from what the service knows of itself, and their titles."""


ELSEWHERE: Final = MappingProxyType({"README.md": FIRST, "SECURITY.md": "threats"})
"""Files that pages link to, and the pages that stand for them."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A page in the navigation."""

    title: str
    address: str


def names() -> Iterator[str]:
    """Return the names of the Markdown pages in their order."""
    for group in WRITTEN.values():
        yield from group


def address_of(name: str) -> str:
    """Return the address of a page."""
    return HOME if name == FIRST else f"{HOME}/{name}"


def source(name: str) -> str:
    """Return the Markdown of a page; the first one is the README, which is part of the package's metadata."""
    if name == FIRST:
        return str(metadata("veristream").json["description"]).lstrip()
    return (files("app") / "docs" / f"{name}.md").read_text(encoding="utf-8")


def title_of(name: str) -> str:
    """Return how the navigation names a page: by its first line."""
    return "Start" if name == FIRST else source(name).partition("\n")[0].removeprefix("# ")


@cache
def page(name: str) -> Article:
    """Return a page; it is read and converted once a process."""
    return article(source(name), _place)


@cache
def navigation() -> Mapping[str, tuple[Entry, ...]]:
    """Return the entries by group; the reference stands behind what begins."""
    groups = {
        group: tuple(Entry(title_of(name), address_of(name)) for name in WRITTEN[group]) for group in WRITTEN
    }
    drawn = tuple(Entry(title, address_of(name)) for name, title in DRAWN.items())
    begin, *others = groups.items()
    return MappingProxyType(dict([begin, ("Reference", drawn), *others]))


def _place(target: str) -> str | None:
    """Return where a link leads: another page, a heading of this one, or out of the site."""
    if "://" in target or target.startswith("#"):
        return target
    path, mark, anchor = target.partition("#")
    file = path.rpartition("/")[2]
    name = ELSEWHERE.get(file, file.removesuffix(".md"))
    return address_of(name) + mark + anchor if name in names() else None
