"""Texts of the pages, one JSON file a language, which server and page both use (P6)."""

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Final, Literal

from schemas.base import Frozen

CODES: Final = ("en", "fr", "pt", "ha", "yo", "ig", "sw", "ar", "es", "de")
"""The languages of the pages, the one of last resort first."""


class Language(Frozen):
    """A language and its texts."""

    name: str
    """In itself."""
    dir: Literal["ltr", "rtl"]
    state: str
    """Who wrote the texts, and whether a speaker has reviewed them."""
    texts: Mapping[str, str]


@cache
def languages() -> Mapping[str, Language]:
    """Return every language by its code."""
    folder = files("app.web") / "texts"
    return MappingProxyType(
        {code: Language.from_bytes((folder / f"{code}.json").read_bytes()) for code in CODES}
    )


@cache
def console_language() -> Language:
    """Return the texts of the console, which is in English."""
    return Language.from_bytes((files("app.web") / "texts" / "console.json").read_bytes())


def language_of(wanted: str | None) -> str | None:
    """Return the code of the language that serves a BCP 47 tag; None when none does."""
    code = (wanted or "").partition("-")[0].lower()
    return code if code in CODES else None
