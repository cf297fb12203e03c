"""Removal of records in Cassandra: one logged batch for a record and what lists it.

The rows of `records` are otherwise written by lightweight transactions only. A plain deletion is exact here
because nobody changes the record any more.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Final

from typing_extensions import override

from app.adapters.cassandra.records import key_of, place_writes
from app.adapters.cassandra.session import Session, Statement, Write
from streams.ports.records import Record
from streams.ports.retention import RecordRemoval, require_removable

REMOVED_AT_ONCE: Final = 25
"""Batches under way at the same time; a record has few places, so each batch is small."""

AHEAD_MICROS: Final = 60_000_000
"""How far ahead of this clock a removal is written; the clock behind the last write differs by less."""

_REMOVE: Final = Statement("DELETE FROM records USING TIMESTAMP ? WHERE tenant = ? AND kind = ? AND id = ?")


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
            await asyncio.gather(*(self._session.batch(self._writes(record)) for record in part))

    def _writes(self, record: Record) -> list[Write]:
        removed_at = self._micros() + AHEAD_MICROS
        return [*place_writes(record, (), record.indexes), (_REMOVE, (removed_at, *key_of(record)))]
