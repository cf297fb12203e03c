"""Changes committed in one transaction each, and the records they leave."""

import sqlite3
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final, TypeAlias

from typing_extensions import override

from app.adapters.sqlite.audit_rows import INSERT_AUDIT, INSERT_WAITING, AuditColumns, to_columns
from app.adapters.sqlite.columns import BEYOND, from_micros, from_pairs_text, to_micros, to_pairs_text
from app.adapters.sqlite.engine import Engine
from schemas.events import DecisionEvent
from schemas.ids import PLATFORM, EventId, TenantId
from schemas.problems import NotFound
from streams.ports import Change, Committed, Conflict, Journal, Position, Record, RecordKind, Records

_COLUMNS: Final = (
    "r.tenant, r.kind, r.id, r.body, r.created_at, r.version, r.fingerprint, r.indexes, r.first_body"
)
_SELECT: Final = f"SELECT {_COLUMNS} FROM records r WHERE r.tenant = ? AND r.kind = ? AND r.id = ?"  # noqa: S608 - constants only
_INSERT: Final = """
INSERT OR IGNORE INTO records (tenant, kind, id, version, created_at, fingerprint, indexes, body)
VALUES (?, ?, ?, 1, ?, ?, ?, ?)"""
_STANDING: Final = (
    "SELECT seq, version, created_at, indexes, body FROM records WHERE tenant = ? AND kind = ? AND id = ?"
)
_UPDATE: Final = """
UPDATE records SET first_body = coalesce(first_body, body), version = ?, indexes = ?, body = ?
WHERE seq = ?"""
_PLACE: Final = "INSERT OR IGNORE INTO record_places VALUES (?, ?, ?, ?, ?, ?, ?)"
_UNPLACE: Final = """
DELETE FROM record_places
WHERE tenant = ? AND kind = ? AND name = ? AND value = ? AND created_at = ? AND id = ?"""
_PAGE: Final = f"""
SELECT {_COLUMNS} FROM record_places p CROSS JOIN records r ON r.seq = p.record
WHERE p.tenant = ? AND p.kind = ? AND p.name = ? AND p.value = ? AND (p.created_at, p.id) < (?, ?)
ORDER BY p.created_at DESC, p.id DESC LIMIT ?"""  # noqa: S608 - constants only
_EVENT: Final = "INSERT OR IGNORE INTO events (id, tenant, body) VALUES (?, ?, ?)"
_PENDING: Final = "SELECT body FROM events INDEXED BY events_pending WHERE emitted = 0 ORDER BY seq LIMIT ?"
_EMITTED: Final = "UPDATE events SET emitted = 1 WHERE id = ? AND emitted = 0"

_Row: TypeAlias = tuple[Any, ...]


def _to_record(row: _Row) -> Record:
    tenant, kind, record_id, body, created_at, version, fingerprint, indexes, first_body = row
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
    )


class _Commit:
    """One change as rows, made in the loop; called on the writer's thread."""

    def __init__(self, change: Change) -> None:
        if any(record.tenant_id not in (change.tenant_id, PLATFORM) for record in change.records):
            raise ValueError("a record of a change is this tenant's or the platform's")
        self._records = change.records
        self._audit = [to_columns(change.tenant_id, event) for event in change.audit]
        self._events = [(event.id, event.tenant_id, event.to_bytes()) for event in change.events]

    def __call__(self, connection: sqlite3.Connection) -> Committed:
        deciding, *others = self._records
        if not _write(connection, deciding):
            return Committed(_find(connection, deciding.tenant_id, deciding.kind, deciding.id), won=False)
        for record in others:
            _write(connection, record)
        for row in self._audit:
            _append_audit(connection, row)
        connection.executemany(_EVENT, self._events)
        if deciding.version == 1:
            return Committed(replace(deciding, first_body=deciding.body), won=True)
        return Committed(_find(connection, deciding.tenant_id, deciding.kind, deciding.id), won=True)


def _write(connection: sqlite3.Connection, record: Record) -> bool:
    """Write one record; False when this very version stands there already, or a new one is not new."""
    if record.version > 1:
        return _replace(connection, record)
    created_at = to_micros(record.created_at)
    owner = (record.tenant_id, record.kind.value, record.id)
    indexes = to_pairs_text(record.indexes)
    written = connection.execute(_INSERT, (*owner, created_at, record.fingerprint, indexes, record.body))
    if written.rowcount == 0:
        return False
    _place(connection, record, created_at, written.lastrowid, record.indexes)
    return True


def _replace(connection: sqlite3.Connection, record: Record) -> bool:
    owner = (record.tenant_id, record.kind.value, record.id)
    standing = connection.execute(_STANDING, owner).fetchone()
    if standing is None:
        raise Conflict(f"{record.id} is not there")
    seq, version, created_at, indexes, body = standing
    if version == record.version and body == record.body:
        return False
    if version != record.version - 1:
        raise Conflict(f"{record.id} has version {version}")
    before = from_pairs_text(indexes)
    connection.execute(_UPDATE, (record.version, to_pairs_text(record.indexes), record.body, seq))
    gone = set(before) - set(record.indexes)
    connection.executemany(
        _UNPLACE,
        [(record.tenant_id, record.kind.value, name, value, created_at, record.id) for name, value in gone],
    )
    added = tuple(pair for pair in record.indexes if pair not in before)
    _place(connection, record, created_at, seq, added)
    return True


def _place(
    connection: sqlite3.Connection,
    record: Record,
    created_at: int,
    seq: int | None,
    pairs: tuple[tuple[str, str], ...],
) -> None:
    tenant_id, kind, record_id = record.tenant_id, record.kind.value, record.id
    connection.executemany(
        _PLACE, [(tenant_id, kind, name, value, created_at, record_id, seq) for name, value in pairs]
    )


def _append_audit(connection: sqlite3.Connection, row: AuditColumns) -> None:
    written = connection.execute(INSERT_AUDIT, row)
    if written.rowcount:
        connection.execute(INSERT_WAITING, (row[0], written.lastrowid))


def _find(connection: sqlite3.Connection, tenant_id: TenantId, kind: RecordKind, record_id: str) -> Record:
    row = connection.execute(_SELECT, (tenant_id, kind.value, record_id)).fetchone()
    if row is None:
        raise NotFound(record_id)
    return _to_record(row)


class SqliteJournal(Journal):
    """One transaction per change; changes that wait at the same time share one flush to the disk."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @override
    async def commit(self, change: Change) -> Committed:
        return await self._engine.write(_Commit(change))

    @override
    async def pending_events(self, limit: int) -> Sequence[DecisionEvent]:
        rows = await self._engine.read(lambda reader: reader.execute(_PENDING, (limit,)).fetchall())
        return [DecisionEvent.from_bytes(body) for (body,) in rows]

    @override
    async def mark_emitted(self, event_ids: Sequence[EventId]) -> None:
        ids = [(event_id,) for event_id in event_ids]
        await self._engine.write(lambda writer: writer.executemany(_EMITTED, ids).rowcount)


class SqliteRecords(Records):
    """Records by their key, and by the places they are listed under."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @override
    async def get(self, tenant_id: TenantId, kind: RecordKind, record_id: str) -> Record:
        return await self._engine.find(lambda reader: _find(reader, tenant_id, kind, record_id))

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
