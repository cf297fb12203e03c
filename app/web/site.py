"""Draw pages from their templates, with the addresses of their static files and the texts of a language."""

import json
from dataclasses import dataclass
from functools import cache
from typing import Any, Final
from unicodedata import bidirectional

from jinja2 import Environment, PackageLoader, StrictUndefined

from app.web.assets import AssetLibrary, load_assets
from app.web.texts import console_language, languages

_TURNING: Final = dict.fromkeys((*range(0x202A, 0x202F), *range(0x2066, 0x206A)))
"""Characters that change the direction of what follows them, to be left out."""


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
