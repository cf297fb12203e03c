"""Removal of records and events in SQLite, a bounded number in one transaction."""

import asyncio
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, TypeVar

from typing_extensions import override

from app.adapters.shared.columns import to_micros, to_millis
from app.adapters.sqlite.batching import Job, write_rows
from app.adapters.sqlite.change_set import key_of
from app.adapters.sqlite.engine import Engine
from schemas.ids import TenantId
from streams.ports.records import Record
from streams.ports.retention import RecordRemoval, require_removable

REMOVED_AT_ONCE: Final = 50
"""Records or events in one transaction, some milliseconds of the writer's time (`tests.bench.removal`)."""

REST: Final = 4
"""Pause after a transaction, in multiples of its duration: a removal takes a fifth of the writer at most."""

SHARE: Final = 0.01
"""How much of the writer's time removals take in the long run: fewer than one commit in a hundred waits for
one, so that none shows in the 99th percentile."""

SAVED_S: Final = 0.5
"""How much of that share may be saved up: a removal of some thousand rows need not be spread over time."""

Answer = TypeVar("Answer")

_UNPLACE: Final = """
DELETE FROM record_places
WHERE tenant = ? AND value = ? AND name = ? AND kind = ? AND created_at = ? AND id = ?"""
"""Run row by row: as a list of keys, SQLite looks through everything listed under the same value."""

_REMOVE: Final = """
DELETE FROM records WHERE (tenant, kind, id) IN (SELECT * FROM (VALUES (?, ?, ?)) asked)"""
_REMOVE_VERSION: Final = "DELETE FROM records WHERE tenant = ? AND kind = ? AND id = ? AND version = ?"
_REMOVE_EVENTS: Final = """
DELETE FROM events WHERE seq IN (
    SELECT seq FROM events e
    WHERE tenant = ? AND livemode = ? AND seen_at <= ?
        AND NOT EXISTS (SELECT 1 FROM events_waiting w WHERE w.seq = e.seq)
        AND seq < (SELECT max(seq) FROM events)
    ORDER BY seen_at, seq LIMIT ?)"""
"""The newest row of all stays: the next event gets a later number and no earlier time than it."""


@dataclass(slots=True)
class WriterShare:
    """How long a removal rests, so that it takes no more than its share of the writer's time."""

    share: float = SHARE
    _paid_until: float = float("-inf")
    """When the share of the time up to then is as much as removals took."""

    def rest(self, begun: float, ended: float) -> float:
        """Return the seconds to wait after a transaction that began and ended at these moments."""
        took = ended - begun
        self._paid_until = max(self._paid_until, ended - SAVED_S / self.share) + took / self.share
        return max(took * REST, self._paid_until - ended)


class SqliteRecordRemoval(RecordRemoval):
    """One transaction removes a record and its places."""

    def __init__(self, engine: Engine, share: float = SHARE) -> None:
        self._engine = engine
        self._share = WriterShare(share)

    @override
    async def remove(self, records: Sequence[Record]) -> None:
        require_removable(records)
        for start in range(0, len(records), REMOVED_AT_ONCE):
            part = records[start : start + REMOVED_AT_ONCE]
            await self._write(lambda writer, part=part: _remove(writer, part))  # type: ignore[misc]

    @override
    async def remove_unchanged(self, records: Sequence[Record]) -> None:
        require_removable(records)
        for start in range(0, len(records), REMOVED_AT_ONCE):
            part = records[start : start + REMOVED_AT_ONCE]
            await self._write(lambda writer, part=part: _remove_unchanged(writer, part))  # type: ignore[misc]

    @override
    async def remove_events(self, tenant_id: TenantId, *, livemode: bool, until: datetime, limit: int) -> int:
        removed = 0
        while removed < limit:
            at_once = min(REMOVED_AT_ONCE, limit - removed)
            asked = (tenant_id, livemode, to_millis(until), at_once)
            count = await self._write(
                lambda writer, asked=asked: writer.execute(_REMOVE_EVENTS, asked).rowcount  # type: ignore[misc]
            )
            removed += count
            if count < at_once:
                break
        return removed

    async def _write(self, job: Job[Answer]) -> Answer:
        """Run the job in a transaction, and leave the writer to others for a multiple of what it took."""
        clock = asyncio.get_running_loop().time
        begun = clock()
        answer = await self._engine.write(job)
        await asyncio.sleep(self._share.rest(begun, clock()))
        return answer


def _remove(writer: sqlite3.Connection, records: Sequence[Record]) -> None:
    places = [
        (record.tenant_id, value, name, record.kind.value, to_micros(record.created_at), record.id)
        for record in records
        for name, value in record.indexes
    ]
    writer.executemany(_UNPLACE, places)
    write_rows(writer, _REMOVE, [key_of(record) for record in records])


def _remove_unchanged(writer: sqlite3.Connection, records: Sequence[Record]) -> None:
    """Decide by the row of each record; the writer is alone, so nothing changes in between."""
    gone = [
        record
        for record in records
        if writer.execute(_REMOVE_VERSION, (*key_of(record), record.version)).rowcount
    ]
    _remove(writer, gone)
