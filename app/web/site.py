"""Draw pages from their templates, with the addresses of their static files, in the languages there are."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any, Final, Literal
from unicodedata import bidirectional

from jinja2 import Environment, PackageLoader, StrictUndefined

from app.web.assets import AssetLibrary, load_assets
from schemas.base import Frozen

_TURNING: Final = dict.fromkeys((*range(0x202A, 0x202F), *range(0x2066, 0x206A)))
"""Characters that change the direction of what follows them, to be left out."""

CODES: Final = ("en", "fr", "pt", "ha", "yo", "ig", "sw", "ar", "es", "de")
"""The languages of the pages, the one of last resort first."""


def set_apart(value: object) -> object:
    """Return a value for the middle of a sentence, whose order its letters and marks must not change."""
    if not isinstance(value, str) or value.isascii():
        return value
    text = value.translate(_TURNING)
    from_the_right = any(bidirectional(letter) in {"R", "AL"} for letter in text)
    return f"\u2068{text}\u2069" if from_the_right else text


@dataclass(frozen=True, slots=True)
class Site:
    """The templates and the static files of all pages."""

    assets: AssetLibrary
    templates: Environment

    def draw(self, template: str, code: str, **values: Any) -> bytes:
        """Return a page in a language; every value is escaped."""
        page = self.templates.get_template(template)
        return page.render(
            code=code,
            language=languages()[code],
            languages=languages(),
            asset=self.assets.url,
            **values,
        ).encode()

    def draw_console(self, template: str, **values: Any) -> bytes:
        """Return a page of the console; its `say` returns a text with names filled in. Values are escaped.

        `script_texts` are those that scripts say.
        """
        language = console_language()

        def say(key: str, **named: object) -> str:
            return language.texts[key].format(**{name: set_apart(value) for name, value in named.items()})

        page = self.templates.get_template(f"console/{template}")
        said = {key: text for key, text in language.texts.items() if key.startswith("script")}
        return page.render(
            language=language, say=say, script_texts=said, asset=self.assets.url, **values
        ).encode()


@cache
def site() -> Site:
    """Return the site; it is read once a process."""
    texts = {
        f"texts-{name}.json": json.dumps(
            dict(language.texts), ensure_ascii=False, separators=(",", ":")
        ).encode()
        for name, language in languages().items()
    }
    loader = PackageLoader("app.web")
    templates = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return Site(load_assets(texts), templates)


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
