"""Queue of audit rows to seal: one for each tenant, in time slots.

A row of the queue is only a hint; whether a row was sealed is said by the row itself. So it does no harm
when a hint is written twice, comes back, or outlives a crash: its reader removes it.

The queue of `waiting` has slots of time too, and stays apart: here the coordinator dates a hint, so that
hints stand in the order of the commits, a hint carries the key of its row, and the slots of all tenants are
listed by shard. One table for both would rewrite what is stored.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from typing import Final, NamedTuple
from uuid import UUID

from app.adapters.cassandra.audit_rows import SHARDS, RowKey, shard_of
from app.adapters.cassandra.session import Row, Session, Statement
from schemas.ids import AuditEventId, TenantId

READ_AT_ONCE: Final = 500
"""Hints of one slot read at a time."""

PEEKS_AT_ONCE: Final = 64
"""Slots looked into at the same time."""

REMOVED_AT_ONCE: Final = 100
"""Hints taken away in one request."""

SETTLED_US: Final = 120_000_000
"""How long after its last use an empty slot is struck off the list, in microseconds: long enough for a batch
that was under way to arrive, with clocks that differ. A later commit puts the slot on the list again,
and a newer entry survives, because only the one that was seen is struck off."""

_SLOTS: Final = Statement("SELECT slot FROM audit_slots WHERE shard = ? AND tenant = ?")
_ALL_SLOTS: Final = Statement("SELECT shard, tenant, slot, writetime(used) FROM audit_slots WHERE shard IN ?")
_STRIKE: Final = Statement(
    "DELETE FROM audit_slots USING TIMESTAMP ? WHERE shard = ? AND tenant = ? AND slot = ?"
)
_PEEK: Final = Statement("SELECT at FROM audit_waiting WHERE tenant = ? AND slot = ? LIMIT 1")
_READ: Final = Statement(
    "SELECT at, event_id, created_at, livemode FROM audit_waiting WHERE tenant = ? AND slot = ?"
)
_REMOVE: Final = Statement("DELETE FROM audit_waiting WHERE tenant = ? AND slot = ? AND at IN ?")


class Hint(NamedTuple):
    """A row of the queue."""

    slot: int
    at: UUID
    """When it was queued (a version 1 UUID); hints of a slot come in this order."""
    key: RowKey


class WaitingRows:
    """The queues of all tenants; `audit_statements` fills them."""

    def __init__(self, session: Session, clock: Callable[[], float] = time.time) -> None:
        self._session = session
        self._clock = clock

    async def tenants(self) -> Sequence[TenantId]:
        """Return the tenants whose queues hold hints; strike off what has been empty for a while."""
        entries = [entry async for entry in self._entries(_ALL_SLOTS, list(range(SHARDS)))]
        found: dict[TenantId, None] = {}
        for start in range(0, len(entries), PEEKS_AT_ONCE):
            group = entries[start : start + PEEKS_AT_ONCE]
            for tenant_id in await asyncio.gather(*(self._look_into(*entry) for entry in group)):
                if tenant_id is not None:
                    found[tenant_id] = None
        return list(found)

    async def _look_into(self, shard: int, tenant: str, slot: int, used_at: int | None) -> TenantId | None:
        """Return the tenant when the slot holds anything."""
        if await self._session.execute(_PEEK, (tenant, slot)):
            return TenantId(tenant)
        if used_at is not None and used_at < self._clock() * 1_000_000 - SETTLED_US:
            await self._session.execute(_STRIKE, (used_at, shard, tenant, slot))
        return None

    async def read(self, tenant_id: TenantId, at_once: int = READ_AT_ONCE) -> AsyncIterator[Sequence[Hint]]:
        """Yield the tenant's hints in the order of the commits, some at a time."""
        async for slot in self._used_slots(tenant_id):
            async for rows in self._session.pages(_READ, (tenant_id, slot), fetch_size=at_once):
                yield [
                    Hint(slot, at, RowKey(created_at, AuditEventId(event_id), livemode))
                    for at, event_id, created_at, livemode in rows
                ]

    async def _used_slots(self, tenant_id: TenantId) -> AsyncIterator[int]:
        """Yield the slots that hold anything, oldest first; many may be empty and not struck off yet."""
        slots = [slot async for (slot,) in self._entries(_SLOTS, shard_of(tenant_id), tenant_id)]
        for start in range(0, len(slots), PEEKS_AT_ONCE):
            group = slots[start : start + PEEKS_AT_ONCE]
            peeks = await asyncio.gather(*(self._session.execute(_PEEK, (tenant_id, slot)) for slot in group))
            for slot, peek in zip(group, peeks, strict=True):
                if peek:
                    yield slot

    async def find(self, tenant_id: TenantId, event_ids: Collection[AuditEventId]) -> Sequence[Hint]:
        """Return the hints at those of the rows that have any, read from the front as far as need be."""
        missing = set(event_ids)
        found: list[Hint] = []
        async for hints in self.read(tenant_id):
            found += [hint for hint in hints if hint.key.event_id in event_ids]
            missing -= {hint.key.event_id for hint in hints}
            if not missing:
                break
        return found

    async def remove(self, tenant_id: TenantId, hints: Sequence[Hint]) -> None:
        """Take hints away."""
        slots: dict[int, list[UUID]] = {}
        for hint in hints:
            slots.setdefault(hint.slot, []).append(hint.at)
        for slot, moments in slots.items():
            for start in range(0, len(moments), REMOVED_AT_ONCE):
                part = moments[start : start + REMOVED_AT_ONCE]
                await self._session.execute(_REMOVE, (tenant_id, slot, part))

    async def _entries(self, statement: Statement, *parameters: object) -> AsyncIterator[Row]:
        async for rows in self._session.pages(statement, parameters):
            for row in rows:
                yield row
