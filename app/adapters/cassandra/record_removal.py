"""Removal of records and events in Cassandra.

The rows of `records` are otherwise written by lightweight transactions only. A plain deletion, in one logged
batch with what lists the records, is exact where nobody changes them any more; else a lightweight
transaction deletes each if it has the version. After each step a removal rests in proportion to what it took,
so that a busy cluster is asked less.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Final

from typing_extensions import override

from app.adapters.cassandra.event_removal import remove_days
from app.adapters.cassandra.records import key_of
from app.adapters.cassandra.removal_steps import resting, unplacing
from app.adapters.cassandra.session import Attempt, Session, Statement, Write
from schemas.ids import TenantId
from streams.ports.records import Record
from streams.ports.retention import RecordRemoval, require_removable

REMOVED_AT_ONCE: Final = 20
"""Records in one batch, or lightweight transactions under way at the same time."""

AHEAD_MICROS: Final = 60_000_000
"""How far ahead of this clock a removal is written; the clock behind the last write differs by less."""

_REMOVE: Final = Statement("DELETE FROM records USING TIMESTAMP ? WHERE tenant = ? AND kind = ? AND id = ?")
_REMOVE_VERSION: Final = Statement(
    "DELETE FROM records WHERE tenant = ? AND kind = ? AND id = ? AND part = 0 IF version = ?"
)
_STANDING: Final = Statement(
    "SELECT version FROM records WHERE tenant = ? AND kind = ? AND id = ? AND part = 0"
)
_UNSETTLE: Final = Statement(
    "DELETE FROM records USING TIMESTAMP ? WHERE tenant = ? AND kind = ? AND id = ? AND part = 1"
)
_NOBODY: Final = {"version": 0}
"""No deletion leaves a row by which to know whose it was."""


class CassandraRecordRemoval(RecordRemoval):
    """The batch is applied whole in the end, so no place is left that leads to nothing."""

    def __init__(self, session: Session, micros: Callable[[], int] = lambda: time.time_ns() // 1_000) -> None:
        self._session = session
        self._micros = micros

    @override
    async def remove(self, records: Sequence[Record]) -> None:
        require_removable(records)
        for start in range(0, len(records), REMOVED_AT_ONCE):
            part = records[start : start + REMOVED_AT_ONCE]
            async with resting():
                removed_at = self._micros() + AHEAD_MICROS
                removals: list[Write] = [(_REMOVE, (removed_at, *key_of(record))) for record in part]
                await self._session.batch([*await unplacing(self._session, part), *removals])

    @override
    async def remove_unchanged(self, records: Sequence[Record]) -> None:
        require_removable(records)
        for start in range(0, len(records), REMOVED_AT_ONCE):
            part = records[start : start + REMOVED_AT_ONCE]
            async with resting():
                removed = await asyncio.gather(*(self._remove_version(record) for record in part))
                gone = [record for record, is_gone in zip(part, removed, strict=True) if is_gone]
                await self._session.batch(await unplacing(self._session, gone))

    async def _remove_version(self, record: Record) -> bool:
        """Remove it if it has this version; tell whether it is gone.

        What says that the version is settled goes first: it must not speak of a later record. Without it a
        reader writes the outbox of the version again, which changes nothing.
        """
        key = key_of(record)
        await self._session.execute(_UNSETTLE, (record.version, *key))
        write = (_REMOVE_VERSION, (*key, record.version))
        settled = await self._session.lwt(Attempt(write, (_STANDING, key), _NOBODY))
        return settled.applied or not settled.rows

    @override
    async def remove_events(self, tenant_id: TenantId, *, livemode: bool, until: datetime, limit: int) -> int:
        return await remove_days(self._session, (tenant_id, livemode), until, limit)
