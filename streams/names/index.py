"""Find the listed entities whose names are near a name, among millions, without comparing with each."""

import hashlib
import json
import math
from array import array
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from schemas.lists import EntityKind, NameEntry
from streams.names.analysis import AnalysedName, Word, analyse, metaphone, weight_of
from streams.names.evidence import normal_identifier

_LEAST_ENTRIES: Final = 1_000
"""A smaller list says nothing about how common a name is."""

_RARE_SHARE_LOG10: Final = 4.0
"""A word of one name in 10^4 is rare."""

_LEAST_RARITY: Final = 0.1
_WORD_WEIGHT: Final = 1.0
_SKELETON_WEIGHT: Final = 0.75
_METAPHONE_WEIGHT: Final = 0.65
_PREFIX_WEIGHT: Final = 0.4
_KEY_WEIGHTS: Final = (_WORD_WEIGHT, _SKELETON_WEIGHT, _METAPHONE_WEIGHT, _PREFIX_WEIGHT)
"""What a key in common is worth, in the order of `_keys`."""

_PREFIX_CHARS: Final = 4

_CUT: Final = 0.3
"""Names that share less of the query's weight are no candidates."""

_DECODED: Final = 4_096
"""Entries kept decoded: the same few are found again and again."""

Int32s = NDArray[np.int32]
Float32s = NDArray[np.float32]


class ListRarity:
    """Weighs words by the packaged names and by the share of a list's names that have them."""

    def __init__(self, entries: int, holders: Callable[[str], int]) -> None:
        self._entries = entries
        self._holders = holders
        self._of_text = lru_cache(maxsize=65_536)(self._on_list)

    def weigh(self, word: Word) -> float:
        """Return the weight of a word: the commoner of both counts."""
        return weight_of(word.kind, min(word.rarity, self._of_text(word.text)))

    def _on_list(self, text: str) -> float:
        if self._entries < _LEAST_ENTRIES:
            return 1.0
        share = max(self._holders(text), 1) / self._entries
        return min(1.0, max(_LEAST_RARITY, -math.log10(share) / _RARE_SHARE_LOG10))


class Candidate(NamedTuple):
    """A listed name that shares words or sounds with the query."""

    entity: int
    """Position of its entry in the list."""
    name: int
    """Which of the entry's names, the weak ones behind the others."""


class NameIndex:
    """The names of a list by word, consonants, sound and beginning; immutable once built.

    Entries are held as bytes and decoded on demand: a million of them fit in memory.
    """

    def __init__(self, entries: Iterable[NameEntry] = (), build: "IndexBuild | None" = None) -> None:
        """Index what was added to the build, if there is one, and the entries."""
        build = build or IndexBuild()
        for entry in entries:
            build.add(entry)
        self._raw = build.raw
        self._keys, self._starts, self._postings = build.postings()
        self._entities = np.frombuffer(build.entities, dtype=np.int32)
        self._ordinals = np.frombuffer(build.ordinals, dtype=np.int32)
        self._persons = np.frombuffer(build.persons, dtype=np.int8).astype(np.bool_)
        self._identifiers = build.identifiers
        self._rarity = ListRarity(len(self._raw), self._holders)
        self.entry = lru_cache(maxsize=_DECODED)(self._decode)

    def __len__(self) -> int:
        return len(self._raw)

    def __iter__(self) -> Iterator[NameEntry]:
        return map(NameEntry.from_bytes, self._raw)

    def weigh(self, word: Word) -> float:
        """Weigh a word by how many have it, in general and on this list."""
        return self._rarity.weigh(word)

    def with_identifier(self, value: str) -> tuple[int, ...]:
        """Return the entities that have the identifier, whatever its type."""
        return tuple(self._identifiers.get(normal_identifier(value), ()))

    def find(self, entity_id: str) -> NameEntry | None:
        """Return the entry of an entity, found by reading the list from its beginning."""
        quoted = json.dumps(entity_id, ensure_ascii=False).encode()
        for raw in self._raw:
            if quoted in raw and (entry := NameEntry.from_bytes(raw)).entity_id == entity_id:
                return entry
        return None

    def candidates(self, query: AnalysedName, limit: int) -> list[Candidate]:
        """Return the names that are worth comparing, the most promising first; persons only with persons."""
        shares, wanted = self._shares(query)
        of_kind = self._persons == query.is_person
        names = np.flatnonzero((shares >= _CUT * wanted) & of_kind) if wanted else np.empty(0, dtype=np.int64)
        best = names[np.lexsort((names, -shares[names]))][:limit]
        return [Candidate(int(self._entities[name]), int(self._ordinals[name])) for name in best]

    def _shares(self, query: AnalysedName) -> tuple[Float32s, float]:
        """Return for each name the weight of the query's words it shares, and their whole weight."""
        shares = np.zeros(len(self._entities), dtype=np.float32)
        best = np.zeros(len(self._entities), dtype=np.float32)
        wanted = 0.0
        for word in dict.fromkeys(query.words):
            weight = self.weigh(word)
            wanted += weight
            found = [
                (share, self._names_of(key))
                for key, share in reversed([*zip(_keys(word), _KEY_WEIGHTS, strict=True)])
            ]
            for share, names in found:
                best[names] = share * weight
            for _, names in found:
                shares[names] += best[names]
                best[names] = 0
        return shares, wanted

    def _names_of(self, key: int) -> Int32s:
        at = int(np.searchsorted(self._keys, np.uint64(key)))
        if at == len(self._keys) or self._keys[at] != key:
            return self._postings[:0]
        return self._postings[self._starts[at] : self._starts[at + 1]]

    def _holders(self, text: str) -> int:
        """Return how many names have the word."""
        return len(self._names_of(_key("w", text)))

    def _decode(self, entity: int) -> NameEntry:
        return NameEntry.from_bytes(self._raw[entity])


class IndexBuild:
    """What is collected while an index is built."""

    def __init__(self) -> None:
        self.raw: list[bytes] = []
        """The entries."""
        self.entities = array("i")
        self.ordinals = array("i")
        self.persons = array("b")
        self.identifiers: dict[str, list[int]] = {}
        self._keys = array("Q")
        self._names = array("i")

    def add(self, entry: NameEntry) -> None:
        """Add an entry with its names and identifiers."""
        entity = len(self.raw)
        self.raw.append(entry.to_bytes())
        for ordinal, text in enumerate((*entry.names, *entry.weak_names)):
            name = analyse.__wrapped__(text, entry.kind)
            keys = {key for word in name.words for key in _keys(word) if key}
            self._keys.extend(keys)
            self._names.extend([len(self.entities)] * len(keys))
            self.entities.append(entity)
            self.ordinals.append(ordinal)
            self.persons.append(entry.kind is EntityKind.PERSON)
        for identifier in entry.identifiers:
            if normal := normal_identifier(identifier.value):
                self.identifiers.setdefault(normal, []).append(entity)

    def postings(self) -> tuple[NDArray[np.uint64], Int32s, Int32s]:
        """Return the keys in order, where the names of each begin, and the names."""
        keys = np.frombuffer(self._keys, dtype=np.uint64) if self._keys else np.empty(0, dtype=np.uint64)
        names = np.frombuffer(self._names, dtype=np.int32) if self._names else np.empty(0, dtype=np.int32)
        order = np.argsort(keys, kind="stable")
        distinct, starts = np.unique(keys[order], return_index=True)
        return distinct, np.append(starts, len(keys)).astype(np.int32), names[order]


def _keys(word: Word) -> tuple[int, int, int, int]:
    """Return the keys of a word: itself, its consonants, its sound, its beginning; 0 for none."""
    return _keys_of(word.text, word.skeleton)


@lru_cache(maxsize=65_536)
def _keys_of(text: str, skeleton: str) -> tuple[int, int, int, int]:
    if len(text) == 1:
        return _key("w", text), 0, 0, 0
    sound = metaphone(text) if text.isalpha() else ""
    return _key("w", text), _key("s", skeleton), _key("m", sound), _key("p", text[:_PREFIX_CHARS])


def _key(kind: str, text: str) -> int:
    """Return 64 bits for a key; two that share them only make a candidate more."""
    return int.from_bytes(hashlib.blake2b(f"{kind}{text}".encode(), digest_size=8).digest()) if text else 0
