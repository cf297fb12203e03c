"""Evidence by age, and removal, in memory: a look through all of it, which the few pieces of a test allow."""

from collections.abc import MutableMapping, Sequence
from datetime import datetime
from typing import TypeAlias

from typing_extensions import override

from schemas.enums import RetentionPolicy
from schemas.ids import EvidenceId, TenantId
from streams.ports.evidence import EvidenceRow
from streams.ports.records import Position, Record, RecordKind
from streams.ports.retention import EvidenceAges, RecordRemoval, require_removable

EvidenceShelf: TypeAlias = MutableMapping[tuple[TenantId, EvidenceId], tuple[EvidenceRow, bytes]]
"""Rows with their sealed content."""

RecordShelf: TypeAlias = MutableMapping[tuple[TenantId, RecordKind, str], Record]
"""Records by their key."""


class MemoryEvidenceAges(EvidenceAges):
    """Sorts the rows at each question."""

    def __init__(self, evidence: EvidenceShelf) -> None:
        self._evidence = evidence

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
        rows = [
            row
            for row, _ in self._evidence.values()
            if (row.tenant_id, row.retention_policy) == (tenant_id, policy)
            and row.created_at <= created_until
            and (after is None or _position(row) > after)
        ]
        return sorted(rows, key=_position)[:limit]

    @override
    async def remove(self, tenant_id: TenantId, evidence_ids: Sequence[EvidenceId]) -> None:
        for evidence_id in evidence_ids:
            self._evidence.pop((tenant_id, evidence_id), None)


class MemoryRecordRemoval(RecordRemoval):
    """Removes records from a dictionary."""

    def __init__(self, records: RecordShelf) -> None:
        self._records = records

    @override
    async def remove(self, records: Sequence[Record]) -> None:
        require_removable(records)
        for record in records:
            self._records.pop((record.tenant_id, record.kind, record.id), None)


def _position(row: EvidenceRow) -> Position:
    return Position(row.created_at, row.evidence_id)
