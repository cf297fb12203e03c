"""Records found by a fragment of a text: rows of `record_grams`, in step with the records they stand for.

A row's number is the millisecond of its record's creation and a number within it. So the newest come first
by the order in which the index lies, and a page ends as soon as it is full; only what was created within
one millisecond is put in order afterwards.
"""

import hashlib
import sqlite3
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Final, TypeAlias

from app.adapters.columns import BEYOND, to_micros, to_millis
from app.adapters.grams import grams_for, grams_of
from app.adapters.sqlite.changes import Ledger, RecordKey, key_of
from app.adapters.sqlite.together import read_rows, write_rows
from schemas.ids import TenantId
from streams.ports import SEARCHED_UNDER, Position, Record, RecordKind

_WITHIN_BITS: Final = 20
"""A million rows within one millisecond; 43 bits are left for milliseconds since 1970, enough until 2248."""

_PLACES_KNOWN: Final = 4_096

COLUMNS: Final = (
    "r.tenant, r.kind, r.id, r.body, r.created_at, r.version, r.fingerprint, r.indexes, r.first_body, "
    "r.searched"
)
"""What makes a record, in the order `to_record` of the journal reads it."""

_LAST_WITHIN: Final = f"""
SELECT asked.column1, (
    SELECT max(r.sought_at) FROM records r
    WHERE r.sought_at BETWEEN asked.column1 AND asked.column1 + {(1 << _WITHIN_BITS) - 1}
) FROM (VALUES (?)) asked"""  # noqa: S608 - constants only
_STANDING: Final = """
SELECT r.tenant, r.kind, r.id, r.sought_at FROM records r
WHERE (r.tenant, r.kind, r.id) IN (SELECT * FROM (VALUES (?, ?, ?)) asked)"""
_TOKENS: Final = "INSERT INTO record_grams (record_grams, rowid, tokens) VALUES (?, ?, ?)"
_FOUND: Final = f"""
SELECT {COLUMNS}, r.sought_at FROM record_grams g CROSS JOIN records r ON r.sought_at = g.rowid
WHERE g.record_grams MATCH ? AND g.rowid BETWEEN ? AND ? AND r.tenant = ? AND r.kind = ?
    AND instr(r.searched, ?) AND (r.created_at, r.id) < (?, ?)
ORDER BY g.rowid DESC LIMIT ?"""  # noqa: S608 - constants only

_Row: TypeAlias = tuple[Any, ...]


def number_new(connection: sqlite3.Connection, ledger: Ledger) -> Mapping[RecordKey, int]:
    """Return the numbers of the rows that new records with a text get, each a free one."""
    new = [one for key, one in ledger.after.items() if one.searched and key not in ledger.before]
    if not new:
        return {}
    firsts = {key_of(one): to_millis(one.created_at) << _WITHIN_BITS for one in new}
    moments = list(dict.fromkeys((first,) for first in firsts.values()))
    found = read_rows(connection, _LAST_WITHIN, moments)
    free: dict[int, int] = {first: first if last is None else last + 1 for first, last in found}
    numbers: dict[RecordKey, int] = {}
    for key, first in firsts.items():
        numbers[key] = free[first]
        free[first] += 1
    return numbers


def write_tokens(connection: sqlite3.Connection, ledger: Ledger, numbers: Mapping[RecordKey, int]) -> None:
    """Write the tokens of new records, and those of records that moved to other places."""
    moved = [
        (before, after)
        for key, after in ledger.after.items()
        if after.searched and (before := ledger.before.get(key)) and _places(before) != _places(after)
    ]
    rows: list[_Row] = [(None, number, _tokens(ledger.after[key])) for key, number in numbers.items()]
    if moved:
        keys = [key_of(after) for _, after in moved]
        standing = {row[:3]: row[3] for row in read_rows(connection, _STANDING, keys)}
        for before, after in moved:
            number = standing[key_of(after)]
            rows += [("delete", number, _tokens(before)), (None, number, _tokens(after))]
    rows.sort(key=lambda row: row[1])  # FTS5 ends a segment wherever the numbers do not rise
    write_rows(connection, _TOKENS, rows)


def find(
    connection: sqlite3.Connection,
    place: tuple[TenantId, RecordKind, tuple[str, str]],
    fragment: str,
    limit: int,
    before: Position | None,
) -> list[_Row]:
    """Return the columns of the newest records at a place whose text contains the fragment."""
    tenant_id, kind, (name, value) = place
    if limit < 1:
        return []
    wanted = " AND ".join((_place_token(tenant_id, kind, name, value), *grams_for(fragment)))
    bound = (BEYOND, "") if before is None else (to_micros(before.created_at), before.id)
    newest = BEYOND if before is None else _last_number(to_millis(before.created_at))

    def ask(first: int, last: int, most: int) -> list[_Row]:
        parameters = (wanted, first, last, tenant_id, kind.value, fragment, *bound, most)
        return connection.execute(_FOUND, parameters).fetchall()

    rows = ask(0, newest, limit)
    if len(rows) == limit:  # the last moment may hold more, and nothing says which of it comes first
        oldest = rows[-1][-1]
        rows += ask(oldest >> _WITHIN_BITS << _WITHIN_BITS, oldest - 1, -1)
    rows.sort(key=lambda row: (row[4], row[2]), reverse=True)
    return [row[:-1] for row in rows[:limit]]


def _last_number(millis: int) -> int:
    return (millis + 1 << _WITHIN_BITS) - 1


def _places(record: Record) -> list[tuple[str, str]]:
    return sorted(pair for pair in record.indexes if pair[0] in SEARCHED_UNDER)


def _tokens(record: Record) -> str:
    return " ".join((*_place_tokens(record), *sorted(grams_of(record.searched))))


def _place_tokens(record: Record) -> Iterator[str]:
    for pair in _places(record):
        yield _place_token(record.tenant_id, record.kind, *pair)


@lru_cache(_PLACES_KNOWN)
def _place_token(tenant_id: str, kind: RecordKind, name: str, value: str) -> str:
    """Return a word for a place that is no gram."""
    raw = f"{tenant_id}\0{kind.value}\0{name}\0{value}".encode()
    return "x" + hashlib.blake2b(raw, digest_size=12).hexdigest()
