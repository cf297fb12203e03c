"""Removal of records and events in SQLite, a bounded number in one transaction."""

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from datetime import datetime
from time import monotonic
from typing import Final, TypeVar

from typing_extensions import override

from app.adapters.shared.columns import to_micros, to_millis
from app.adapters.sqlite.batching import Job, read_rows, write_rows
from app.adapters.sqlite.change_set import key_of
from app.adapters.sqlite.engine import Engine
from schemas.ids import TenantId
from streams.ports.records import Record
from streams.ports.retention import RecordRemoval, require_removable

ALONE_AT_ONCE: Final = 256
"""Records or events in a transaction of its own, some milliseconds of the writer (`tests.bench.removal`)."""

ALONG_AT_ONCE: Final = 32
"""Records or events that go along with one transaction of others: four for each write of theirs, so that
more can end than begins."""

QUIET_S: Final = 0.5
"""How long nobody may have written before a removal commits by itself."""

REST: Final = 4
"""Pause after a transaction of its own, in multiples of its duration."""

Answer = TypeVar("Answer")

_UNPLACE: Final = """
DELETE FROM record_places WHERE tenant = ? AND value = ? AND name = ? AND kind = ?
    AND (created_at, id) IN (SELECT * FROM (VALUES (?, ?)) asked)"""
"""With all six columns in the list, SQLite would look through everything listed under the same value."""

_REMOVE: Final = """
DELETE FROM records WHERE (tenant, kind, id) IN (SELECT * FROM (VALUES (?, ?, ?)) asked)"""
_UNCHANGED: Final = """
SELECT tenant, kind, id FROM records
WHERE (tenant, kind, id, version) IN (SELECT * FROM (VALUES (?, ?, ?, ?)) asked)"""
_REMOVE_EVENTS: Final = """
DELETE FROM events WHERE seq IN (
    SELECT seq FROM events e
    WHERE tenant = ? AND livemode = ? AND seen_at <= ?
        AND NOT EXISTS (SELECT 1 FROM events_waiting w WHERE w.seq = e.seq)
        AND seq < (SELECT max(seq) FROM events)
    ORDER BY seen_at, seq LIMIT ?)"""
"""The newest row of all stays: the next event gets a later number and no earlier time than it."""


class SqliteRecordRemoval(RecordRemoval):
    """One transaction removes a record and its places.

    While others write, a part goes along with every eighth write of theirs: no commit waits for one more sync
    to disk, and the work grows with theirs. While nobody writes, a part commits by itself, and the writer
    rests four times as long.
    """

    def __init__(self, engine: Engine, quiet_s: float = QUIET_S) -> None:
        self._engine = engine
        self._quiet_s = quiet_s

    @override
    async def remove(self, records: Sequence[Record]) -> None:
        await self._remove_parts(records, _remove)

    @override
    async def remove_unchanged(self, records: Sequence[Record]) -> None:
        await self._remove_parts(records, _remove_unchanged)

    async def _remove_parts(
        self, records: Sequence[Record], remove: Callable[[sqlite3.Connection, Sequence[Record]], None]
    ) -> None:
        require_removable(records)
        start = 0
        while start < len(records):
            part = records[start : start + self._at_once()]
            await self._write(lambda writer, part=part: remove(writer, part))  # type: ignore[misc]
            start += len(part)

    @override
    async def remove_events(self, tenant_id: TenantId, *, livemode: bool, until: datetime, limit: int) -> int:
        removed = 0
        while removed < limit:
            at_once = min(self._at_once(), limit - removed)
            asked = (tenant_id, livemode, to_millis(until), at_once)
            count = await self._write(
                lambda writer, asked=asked: writer.execute(_REMOVE_EVENTS, asked).rowcount  # type: ignore[misc]
            )
            removed += count
            if count < at_once:
                break
        return removed

    def _at_once(self) -> int:
        return ALONE_AT_ONCE if self._engine.is_quiet(self._quiet_s) else ALONG_AT_ONCE

    async def _write(self, job: Job[Answer]) -> Answer:
        """Run the job in a transaction of others, or in its own and leave the writer alone for a while."""
        alone, begun = self._engine.is_quiet(self._quiet_s), monotonic()
        answer = await self._engine.write_along(job, self._quiet_s)
        if alone:
            await asyncio.sleep((monotonic() - begun) * REST)
        return answer


def _remove(writer: sqlite3.Connection, records: Sequence[Record]) -> None:
    places: dict[tuple[str, ...], list[tuple[int, str]]] = {}
    for record in records:
        for name, value in record.indexes:
            listed = places.setdefault((record.tenant_id, value, name, record.kind.value), [])
            listed.append((to_micros(record.created_at), record.id))
    for index, rows in places.items():
        write_rows(writer, _UNPLACE, rows, index)
    write_rows(writer, _REMOVE, [key_of(record) for record in records])


def _remove_unchanged(writer: sqlite3.Connection, records: Sequence[Record]) -> None:
    """Remove those of this version; the writer is alone, so nothing changes in between."""
    standing = set(read_rows(writer, _UNCHANGED, [(*key_of(one), one.version) for one in records]))
    _remove(writer, [one for one in records if key_of(one) in standing])
