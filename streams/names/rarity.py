"""How rare a word of a name is, by the packaged names that many people and organisations share."""

import json
from functools import cache, lru_cache
from importlib import resources
from typing import Final

from streams.names.vocabulary import COMMON_ORGANISATION_WORDS

_VERY_COMMON: Final = 0.3
_COMMON: Final = 0.6
_RARE: Final = 1.0


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
