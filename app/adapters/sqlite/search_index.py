"""Full-text index of record fragments, and how it follows writes.

A record's place among all that can be sought is the millisecond of its creation and a number within it. So
the newest come first in the order the index lies in.

The index takes many records at once, for that costs a tenth of taking each by itself. What waits for it, some
hundreds in sum of all tenants, is found by looking at each. Most sessions have ended by the time they are
indexed, so the index need not follow their moves.

FTS5's own trigram tokenizer would keep one list per trigram for all tenants; a token here begins with a hash
of tenant and mode, so a query reads the records of one tenant only.
"""

import hashlib
import sqlite3
import zlib
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Final, TypeAlias

from app.adapters.shared.columns import from_pairs_text, to_millis
from app.adapters.shared.trigrams import grams_of
from app.adapters.sqlite.batching import read_rows, write_rows
from app.adapters.sqlite.change_set import Ledger, RecordKey, key_of
from streams.ports.records import SEARCHED_UNDER, Record

WAITING: Final = 512
"""So many records beyond the index are too many."""

KEPT_WAITING: Final = 256
"""So many of them stay beyond it, the newest."""

COUNTED_EVERY: Final = 16
"""One new record in so many, by its id, has those counted that wait."""

WITHIN_BITS: Final = 20
"""A million places within one millisecond; 43 bits are left for milliseconds since 1970, until 2248."""

_INDEXES_KNOWN: Final = 4_096

MARK: Final = "mark"
"""A token of the first record of each batch: where FTS5 sees whether it has gone too far.

Looking for records that are under two tokens it minds no bound before it has found one.
"""

BAR: Final = "|"
"""Stands in an index value between the mode and the rest."""

_LAST_WITHIN: Final = f"""
SELECT asked.column1, (
    SELECT max(r.sought_at) FROM records r
    WHERE r.sought_at BETWEEN asked.column1 AND asked.column1 + {(1 << WITHIN_BITS) - 1}
) FROM (VALUES (?)) asked"""  # noqa: S608 - constants only
_STANDING: Final = """
SELECT r.tenant, r.kind, r.id, r.sought_at FROM records r
WHERE (r.tenant, r.kind, r.id) IN (SELECT * FROM (VALUES (?, ?, ?)) asked)"""
GATHERED: Final = "SELECT max(sought_at) FROM gathered"
_GATHER: Final = "INSERT INTO gathered VALUES (?)"
_ANY_WAITING: Final = """
SELECT sought_at FROM records WHERE sought_at > ? ORDER BY sought_at LIMIT 1 OFFSET ?"""
_LAST_WAITING: Final = """
SELECT sought_at FROM records WHERE sought_at > ? ORDER BY sought_at DESC LIMIT 1 OFFSET ?"""
_TO_GATHER: Final = """
SELECT sought_at, tenant, kind, indexes, searched FROM records WHERE sought_at > ? AND sought_at <= ?
ORDER BY sought_at"""
_TOKENS: Final = "INSERT INTO record_grams (record_grams, rowid, tokens) VALUES (?, ?, ?)"

_Row: TypeAlias = tuple[Any, ...]

_Pairs: TypeAlias = tuple[tuple[str, str], ...]


def place_new(connection: sqlite3.Connection, ledger: Ledger) -> Mapping[RecordKey, int]:
    """Return the places that new records with a text get, each a free one."""
    new = [one for key, one in ledger.after.items() if one.searched and key not in ledger.before]
    firsts = {key_of(one): to_millis(one.created_at) << WITHIN_BITS for one in new}
    found = read_rows(connection, _LAST_WITHIN, [(first,) for first in dict.fromkeys(firsts.values())])
    free: dict[int, int] = {first: first if last is None else last + 1 for first, last in found}
    places: dict[RecordKey, int] = {}
    for key, first in firsts.items():
        places[key] = free[first]
        free[first] += 1
    return places


def keep_in_step(connection: sqlite3.Connection, ledger: Ledger, places: Mapping[RecordKey, int]) -> None:
    """Update the index from the ledger, whose records are written; `places` are those of the new ones."""
    moved = list(_moved(ledger))
    if not places and not moved:
        return
    gathered: int = connection.execute(GATHERED).fetchone()[0]
    rows = [_added(at, ledger.after[key]) for key, at in places.items() if at <= gathered]
    if moved:
        standing = {row[:3]: row[3] for row in read_rows(connection, _STANDING, [*map(key_of, moved)])}
        for record in moved:
            key = key_of(record)
            if standing[key] <= gathered:
                gone = _tokens(key[0], key[1], ledger.before[key].indexes, record.searched)
                rows += [("delete", standing[key], gone), _added(standing[key], record)]
    if any(zlib.crc32(key[2].encode()) % COUNTED_EVERY == 0 for key in places):
        rows += _gather(connection, gathered)
    rows.sort(key=lambda row: row[1])  # FTS5 begins anew wherever the places do not rise
    write_rows(connection, _TOKENS, rows)


def _moved(ledger: Ledger) -> Iterator[Record]:
    for key, after in ledger.after.items():
        before = ledger.before.get(key)
        if before is None or not after.searched:
            continue
        if _sought_under(before.indexes) != _sought_under(after.indexes):
            yield after


def _gather(connection: sqlite3.Connection, gathered: int) -> list[_Row]:
    """Return the rows of what no longer waits for the index."""
    if connection.execute(_ANY_WAITING, (gathered, WAITING - 1)).fetchone() is None:
        return []
    (last,) = connection.execute(_LAST_WAITING, (gathered, KEPT_WAITING)).fetchone()
    rows = connection.execute(_TO_GATHER, (gathered, last)).fetchall()
    connection.execute(_GATHER, (last,))
    added = [
        (None, at, _tokens(tenant, kind, from_pairs_text(indexes), searched))
        for at, tenant, kind, indexes, searched in rows
    ]
    none, at, tokens = added[0]
    return [(none, at, f"{tokens} {MARK}"), *added[1:]]


def _added(at: int, record: Record) -> _Row:
    return None, at, _tokens(record.tenant_id, record.kind.value, record.indexes, record.searched)


def _tokens(tenant: str, kind: str, indexes: _Pairs, searched: str) -> str:
    grams, tokens, heads = grams_of(searched), [], set()
    for name, value in _sought_under(indexes):
        head = value.partition(BAR)[0]
        heads.add(head)
        if head != value:
            tokens.append(index_token(tenant, kind, name, value))
    for head in sorted(heads):
        own = initials(tenant, kind, head)
        tokens += [own + gram for gram in grams]
    return " ".join(tokens)


def _sought_under(indexes: _Pairs) -> list[tuple[str, str]]:
    return sorted(pair for pair in indexes if pair[0] in SEARCHED_UNDER)


@lru_cache(_INDEXES_KNOWN)
def initials(tenant: str, kind: str, head: str) -> str:
    """Return what the grams begin with of records whose index values begin so, that is of one mode."""
    raw = f"{tenant}\0{kind}\0{head}".encode()
    return hashlib.blake2b(raw, digest_size=4).hexdigest()


@lru_cache(_INDEXES_KNOWN)
def index_token(tenant: str, kind: str, name: str, value: str) -> str:
    """Return a word that is no gram."""
    raw = f"{tenant}\0{kind}\0{name}\0{value}".encode()
    return "x" + hashlib.blake2b(raw, digest_size=12).hexdigest()
