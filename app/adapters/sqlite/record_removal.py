"""Removal of records in SQLite: rows and what lists them, a bounded number in one transaction."""

import sqlite3
from collections.abc import Sequence
from typing import Final

from typing_extensions import override

from app.adapters.shared.columns import to_micros
from app.adapters.sqlite.batching import write_rows
from app.adapters.sqlite.change_set import key_of
from app.adapters.sqlite.engine import Engine
from streams.ports.records import Record
from streams.ports.retention import RecordRemoval, require_removable

REMOVED_AT_ONCE: Final = 50
"""Records in one transaction: at most some 30 ms of the writer's time."""

_UNPLACE: Final = """
DELETE FROM record_places
WHERE (tenant, value, name, kind, created_at, id) IN (SELECT * FROM (VALUES (?, ?, ?, ?, ?, ?)) asked)"""
_REMOVE: Final = """
DELETE FROM records WHERE (tenant, kind, id) IN (SELECT * FROM (VALUES (?, ?, ?)) asked)"""


class SqliteRecordRemoval(RecordRemoval):
    """One transaction removes a record and its places."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @override
    async def remove(self, records: Sequence[Record]) -> None:
        require_removable(records)
        for start in range(0, len(records), REMOVED_AT_ONCE):
            part = records[start : start + REMOVED_AT_ONCE]
            await self._engine.write(lambda writer, part=part: _remove(writer, part))  # type: ignore[misc]


def _remove(writer: sqlite3.Connection, records: Sequence[Record]) -> None:
    places = [
        (record.tenant_id, value, name, record.kind.value, to_micros(record.created_at), record.id)
        for record in records
        for name, value in record.indexes
    ]
    write_rows(writer, _UNPLACE, places)
    write_rows(writer, _REMOVE, [key_of(record) for record in records])
