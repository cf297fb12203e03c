"""Evidence by age in memory: a look through all of it, which the few pieces of a test allow."""

from collections.abc import MutableMapping, Sequence
from datetime import datetime
from typing import TypeAlias

from typing_extensions import override

from schemas.enums import RetentionPolicy
from schemas.ids import EvidenceId, TenantId
from streams.ports.evidence import EvidenceRow
from streams.ports.records import Position
from streams.ports.retention import EvidenceAges

EvidenceShelf: TypeAlias = MutableMapping[tuple[TenantId, EvidenceId], tuple[EvidenceRow, bytes]]
"""Rows with their sealed content."""


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


def _position(row: EvidenceRow) -> Position:
    return Position(row.created_at, row.evidence_id)
