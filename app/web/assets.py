"""Static files of the pages under names that carry their hash, each with a gzip copy (P1)."""

import gzip
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Final

PREFIX: Final = "/assets/"
HASH_LENGTH: Final = 10
"""Hexadecimal digits of the SHA-256 in a name."""

MEDIA_TYPES: Final = {
    "css": "text/css",
    "js": "text/javascript",
    "json": "application/json",
    "svg": "image/svg+xml",
}

_IMPORT: Final = re.compile(r'(?:(?<=\bfrom )|(?<=\bawait import\())"\./([a-z]+\.js)"')
"""A module that another one imports, statically or when it is needed; types in comments stay as they are."""

_INCLUDE: Final = re.compile(r'^@import "\./([a-z]+\.css)";\n', re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Asset:
    """A static file as it is served."""

    name: str
    """With its hash."""
    media_type: str
    content: bytes
    gzipped: bytes


@dataclass(frozen=True, slots=True)
class AssetLibrary:
    """The static files by plain and by hashed name."""

    by_plain_name: Mapping[str, Asset]
    by_name: Mapping[str, Asset]

    def url(self, plain_name: str) -> str:
        """Return the address of a file."""
        return PREFIX + self.by_plain_name[plain_name].name


def load_assets(texts: Mapping[str, bytes]) -> AssetLibrary:
    """Read the static files of the package; `texts` are further ones by plain name."""
    sources = {
        entry.name: entry.read_bytes()
        for entry in (files("app.web") / "assets").iterdir()
        if entry.name.rpartition(".")[2] in MEDIA_TYPES
    }
    named: dict[str, Asset] = {}
    for plain_name in {**sources, **texts}:
        _add(plain_name, {**sources, **texts}, named)
    return AssetLibrary(named, {asset.name: asset for asset in named.values()})


def _add(plain_name: str, sources: Mapping[str, bytes], named: dict[str, Asset]) -> Asset:
    """Add a file after those it imports, whose hashed names it carries; imports make no circle."""
    if plain_name in named:
        return named[plain_name]
    content = sources[plain_name]
    if plain_name.endswith(".js"):
        replaced = _IMPORT.sub(lambda found: f'"./{_add(found[1], sources, named).name}"', content.decode())
        content = replaced.encode()
    if plain_name.endswith(".css"):
        content = _INCLUDE.sub(lambda found: sources[found[1]].decode(), content.decode()).encode()
    stem, _, suffix = plain_name.rpartition(".")
    digest = hashlib.sha256(content).hexdigest()[:HASH_LENGTH]
    zipped = gzip.compress(content, 9, mtime=0)
    named[plain_name] = Asset(f"{stem}.{digest}.{suffix}", MEDIA_TYPES[suffix], content, zipped)
    return named[plain_name]
