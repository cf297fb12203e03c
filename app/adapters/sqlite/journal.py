"""Commit changes, one transaction each, and read the records they wrote."""

import sqlite3
import time
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any, Final, TypeAlias

from typing_extensions import override

from app.adapters.security.key_versions import ChainKeyRing
from app.adapters.shared.columns import BEYOND, from_micros, from_pairs_text, to_micros, to_pairs_text
from app.adapters.sqlite.audit_appending import append_audit, rows_of
from app.adapters.sqlite.batching import BatchJob, each, read_rows, write_rows
from app.adapters.sqlite.change_set import Ledger, RecordKey, key_of
from app.adapters.sqlite.engine import Engine
from app.adapters.sqlite.feed import append_events
from app.adapters.sqlite.search import COLUMNS, Search
from app.adapters.sqlite.search_index import keep_in_step, place_new
from schemas.events import DecisionEvent
from schemas.ids import PLATFORM, EventId, TenantId
from schemas.problems import NotFound, VeristreamError
from streams.ports.records import Change, Committed, Found, Journal, Position, Record, RecordKind, Records

_SELECT: Final = f"""
SELECT {COLUMNS} FROM records r
WHERE (r.tenant, r.kind, r.id) IN (SELECT * FROM (VALUES (?, ?, ?)) asked)"""  # noqa: S608 - constants only
_WRITE: Final = """
INSERT INTO records (tenant, kind, id, version, created_at, fingerprint, indexes, body, first_body, searched,
    sought_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (tenant, kind, id) DO UPDATE SET version = excluded.version, indexes = excluded.indexes,
    body = excluded.body, first_body = excluded.first_body"""
_PLACE: Final = "INSERT OR IGNORE INTO record_places VALUES (?, ?, ?, ?, ?, ?)"
_UNPLACE: Final = """
DELETE FROM record_places
WHERE tenant = ? AND value = ? AND name = ? AND kind = ? AND created_at = ? AND id = ?"""
_PAGE: Final = f"""
SELECT {COLUMNS} FROM record_places p
CROSS JOIN records r ON r.tenant = p.tenant AND r.kind = p.kind AND r.id = p.id
WHERE p.tenant = ? AND p.kind = ? AND p.name = ? AND p.value = ? AND (p.created_at, p.id) < (?, ?)
ORDER BY p.created_at DESC, p.id DESC LIMIT ?"""  # noqa: S608 - constants only
_PENDING: Final = """
SELECT e.body FROM events_waiting w CROSS JOIN events e ON e.seq = w.seq ORDER BY w.seq LIMIT ?"""
_EMITTED: Final = """
DELETE FROM events_waiting WHERE seq IN (SELECT seq FROM events WHERE id IN (VALUES (?)))"""
_TOUCH: Final = """
INSERT INTO settings (name, value) VALUES ('touched', randomblob(8))
ON CONFLICT (name) DO UPDATE SET value = excluded.value"""

_Row: TypeAlias = tuple[Any, ...]


def _to_record(row: _Row) -> Record:
    tenant, kind, record_id, body, created_at, version, fingerprint, indexes, first_body, searched = row
    return Record(
        tenant_id=TenantId(tenant),
        kind=RecordKind(kind),
        id=record_id,
        body=body,
        created_at=from_micros(created_at),
        version=version,
        fingerprint=fingerprint,
        indexes=from_pairs_text(indexes),
        first_body=first_body or body,
        searched=searched or "",
    )


def _to_row(record: Record, sought_at: int | None) -> _Row:
    return (
        *key_of(record),
        record.version,
        to_micros(record.created_at),
        record.fingerprint,
        to_pairs_text(record.indexes),
        record.body,
        record.first_body if record.version > 1 else None,
        record.searched or None,
        sought_at,
    )


class _Commit(BatchJob[Committed]):
    """One change, its rows made in the loop."""

    touches = "journal"

    def __init__(self, change: Change, millis: Callable[[], int], chain_keys: ChainKeyRing | None) -> None:
        if any(record.tenant_id not in (change.tenant_id, PLATFORM) for record in change.records):
            raise ValueError("a record of a change is this tenant's or the platform's")
        self.change = change
        self.audit = rows_of(change)
        self.events = [(one.id, one.tenant_id, one.livemode, one.to_bytes()) for one in change.events]
        self.millis = millis
        self.chain_keys = chain_keys

    @override
    @classmethod
    def run(
        cls, connection: sqlite3.Connection, jobs: Sequence["_Commit"]
    ) -> Sequence[Committed | VeristreamError]:
        ledger = Ledger(_find(connection, [record for job in jobs for record in job.change.records]))
        answers = each(jobs, lambda job: ledger.apply(job.change))
        pairs = zip(jobs, answers, strict=True)
        won = [job for job, answer in pairs if isinstance(answer, Committed) and answer.won]
        _write(connection, ledger)
        append_audit(connection, [row for job in won for row in job.audit], jobs[0].chain_keys)
        append_events(connection, [row for job in won for row in job.events], jobs[0].millis())
        return answers


def _find(connection: sqlite3.Connection, records: Sequence[Record]) -> dict[RecordKey, Record]:
    """Return those of the records that are there, as they stand."""
    keys = list(dict.fromkeys(map(key_of, records)))
    standing = [_to_record(row) for row in read_rows(connection, _SELECT, keys)]
    return {key_of(record): record for record in standing}


def _write(connection: sqlite3.Connection, ledger: Ledger) -> None:
    added, gone = ledger.places()
    places = place_new(connection, ledger)
    rows = [_to_row(record, places.get(key)) for key, record in ledger.after.items()]
    write_rows(connection, _WRITE, rows)
    keep_in_step(connection, ledger, places)
    connection.executemany(_UNPLACE, gone)  # row by row: few changes take a record from its places
    write_rows(connection, _PLACE, added)


class _Emitted(BatchJob[None]):
    """Events that was published."""

    touches = "journal"

    def __init__(self, event_ids: Sequence[EventId]) -> None:
        self.event_ids = event_ids

    @override
    @classmethod
    def run(cls, connection: sqlite3.Connection, jobs: Sequence["_Emitted"]) -> Sequence[None]:
        write_rows(connection, _EMITTED, [(event_id,) for job in jobs for event_id in job.event_ids])
        return [None] * len(jobs)


class _Find(BatchJob[Sequence[Record | None]]):
    """A question for a few records."""

    touches = "records"

    def __init__(self, *keys: RecordKey) -> None:
        self.keys = keys

    @override
    @classmethod
    def run(cls, connection: sqlite3.Connection, jobs: Sequence["_Find"]) -> Sequence[list[Record | None]]:
        asked = list(dict.fromkeys(chain.from_iterable(job.keys for job in jobs)))
        found = {row[:3]: row for row in read_rows(connection, _SELECT, asked)}
        return [[_to_record(found[key]) if key in found else None for key in job.keys] for job in jobs]


class _Touch(BatchJob[None]):
    """Changes a row nobody reads; one is enough for all who ask."""

    touches = "settings"

    @override
    @classmethod
    def run(cls, connection: sqlite3.Connection, jobs: Sequence["_Touch"]) -> list[None]:
        connection.execute(_TOUCH)
        return [None] * len(jobs)


class SqliteJournal(Journal):
    """Changes that wait at the same time share one transaction, its statements and one flush to the disk.

    With the key of the chains, audit rows that come in their canonical form are linked in it as well.
    """

    def __init__(
        self,
        engine: Engine,
        millis: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
        *,
        chain_keys: ChainKeyRing | None = None,
    ) -> None:
        self._engine = engine
        self._millis = millis
        self._chain_keys = chain_keys

    @override
    async def commit(self, change: Change) -> Committed:
        return await self._engine.write(_Commit(change, self._millis, self._chain_keys))

    @override
    async def pending_events(self, limit: int) -> Sequence[DecisionEvent]:
        rows = await self._engine.read(lambda reader: reader.execute(_PENDING, (limit,)).fetchall())
        return [DecisionEvent.from_bytes(body) for (body,) in rows]

    @override
    async def mark_emitted(self, event_ids: Sequence[EventId]) -> None:
        await self._engine.write(_Emitted(event_ids))

    @override
    async def touch(self) -> None:
        await self._engine.write(_Touch())


class SqliteRecords(Records):
    """Records by their key, and by the places they are listed under."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @override
    async def get(self, tenant_id: TenantId, kind: RecordKind, record_id: str) -> Record:
        (found,) = await self._engine.find(_Find((tenant_id, kind.value, record_id)))
        if found is None:
            raise NotFound(record_id)
        return found

    @override
    async def find(self, tenant_id: TenantId, *wanted: tuple[RecordKind, str]) -> Sequence[Record | None]:
        keys = [(tenant_id, kind.value, record_id) for kind, record_id in wanted]
        return await self._engine.find(_Find(*keys))

    @override
    async def page(
        self,
        tenant_id: TenantId,
        kind: RecordKind,
        index: tuple[str, str],
        *,
        limit: int,
        before: Position | None = None,
    ) -> Sequence[Record]:
        bound = (BEYOND, "") if before is None else (to_micros(before.created_at), before.id)
        parameters = (tenant_id, kind.value, *index, *bound, limit)
        rows = await self._engine.read(lambda reader: reader.execute(_PAGE, parameters).fetchall())
        return [_to_record(row) for row in rows]

    @override
    async def search(
        self,
        tenant_id: TenantId,
        kind: RecordKind,
        index: tuple[str, str],
        fragment: str,
        *,
        limit: int,
        before: Position | None = None,
    ) -> Found:
        search = Search(tenant_id, kind, index, fragment, limit, before)
        rows, further = await self._engine.read(search.run)
        return Found([_to_record(row) for row in rows], further)
