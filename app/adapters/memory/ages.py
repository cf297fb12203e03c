"""Evidence by age, and removals, in memory: a look through everything, as the few pieces of a test allow."""

from collections.abc import MutableMapping, MutableSet, Sequence
from datetime import datetime
from typing import TypeAlias

from typing_extensions import override

from app.adapters.memory.feed import FeedShelf
from app.adapters.shared.columns import to_millis
from schemas.enums import RetentionPolicy
from schemas.events import DecisionEvent
from schemas.ids import EventId, EvidenceId, TenantId
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
    """Removes records and events from dictionaries."""

    def __init__(
        self,
        records: RecordShelf,
        feed: FeedShelf,
        events: MutableMapping[EventId, DecisionEvent],
        emitted: MutableSet[EventId],
    ) -> None:
        self._records = records
        self._feed = feed
        self._events = events
        self._emitted = emitted

    @override
    async def remove(self, records: Sequence[Record]) -> None:
        require_removable(records)
        for record in records:
            self._records.pop((record.tenant_id, record.kind, record.id), None)

    @override
    async def remove_unchanged(self, records: Sequence[Record]) -> None:
        standing = (self._records.get((one.tenant_id, one.kind, one.id)) for one in records)
        pairs = zip(records, standing, strict=True)
        await self.remove([one for one, stored in pairs if stored and stored.version == one.version])

    @override
    async def remove_events(self, tenant_id: TenantId, *, livemode: bool, until: datetime, limit: int) -> int:
        past = [
            row
            for row in self._feed.rows
            if (row[2].tenant_id, row[2].livemode) == (tenant_id, livemode)
            and row[0] <= to_millis(until)
            and row[2].id in self._emitted
        ][: max(limit, 0)]
        for row in past:
            self._feed.rows.remove(row)
            self._events.pop(row[2].id, None)
            self._emitted.discard(row[2].id)
        return len(past)


def _position(row: EvidenceRow) -> Position:
    return Position(row.created_at, row.evidence_id)
