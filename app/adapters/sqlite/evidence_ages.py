"""Evidence by age in SQLite: an index over its rows; a row that is removed leaves it in the same step."""

import sqlite3
from collections.abc import Sequence
from datetime import datetime
from typing import Final

from typing_extensions import override

from app.adapters.files.blobs import BlobFiles
from app.adapters.shared.columns import to_micros
from app.adapters.sqlite.engine import Engine
from app.adapters.sqlite.evidence_rows import COLUMNS, find_files, remove, to_row
from schemas.enums import RetentionPolicy
from schemas.ids import EvidenceId, TenantId
from streams.ports.evidence import EvidenceRow
from streams.ports.records import Position
from streams.ports.retention import EvidenceAges

_OLDEST: Final = f"""
SELECT {COLUMNS} FROM evidence e
WHERE e.tenant = ? AND e.retention_policy = ? AND e.created_at <= ? AND (e.created_at, e.evidence_id) > (?, ?)
ORDER BY e.created_at, e.evidence_id LIMIT ?"""  # noqa: S608 - constants only

REMOVED_AT_ONCE: Final = 100
"""Rows in one transaction: no writer waits long for it."""


class SqliteEvidenceAges(EvidenceAges):
    """The row is what lists a piece, so its file is removed before it."""

    def __init__(self, engine: Engine, blobs: BlobFiles) -> None:
        self._engine = engine
        self._blobs = blobs

    @override
    async def oldest(
        self,
        tenant_id: TenantId,
        policy: RetentionPolicy,
        *,
        created_until: datetime,
        limit: int,
        after: Position | None = None,
    ) -> Sequence[EvidenceRow]:
        behind = (-1, "") if after is None else (to_micros(after.created_at), after.id)
        asked = (tenant_id, policy.value, to_micros(created_until), *behind, limit)
        rows = await self._engine.read(lambda reader: reader.execute(_OLDEST, asked).fetchall())
        return [to_row(row[:8]) for row in rows]

    @override
    async def remove(self, tenant_id: TenantId, evidence_ids: Sequence[EvidenceId]) -> None:
        for start in range(0, len(evidence_ids), REMOVED_AT_ONCE):
            keys = [(tenant_id, one) for one in evidence_ids[start : start + REMOVED_AT_ONCE]]

            def unlink(
                reader: sqlite3.Connection, keys: Sequence[tuple[TenantId, EvidenceId]] = keys
            ) -> None:
                for file in find_files(reader, keys):
                    self._blobs.remove(file)

            await self._engine.read(unlink)
            await self._engine.write(lambda writer, keys=keys: remove(writer, keys))  # type: ignore[misc]
