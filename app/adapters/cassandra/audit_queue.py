"""Queue of audit rows to seal: one for each tenant, in time slots.

A row of the queue is only a hint; whether a row was sealed is said by the row itself. So it does no harm
when a hint is written twice, comes back, or outlives a crash: its reader removes it.

The queue of `waiting` has slots of time too, and stays apart: here the coordinator dates a hint, so that
hints stand in the order of the commits, a hint carries the key of its row, and the slots of all tenants are
listed by shard. One table for both would rewrite what is stored.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Sequence
from itertools import groupby, takewhile
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
and a newer entry survives, because what is struck off is no younger than what was seen."""

_SLOTS: Final = Statement("SELECT slot FROM audit_slots WHERE shard = ? AND tenant = ?")
_ALL_SLOTS: Final = Statement("SELECT shard, tenant, slot, writetime(used) FROM audit_slots WHERE shard IN ?")
_STRIKE: Final = Statement(
    "DELETE FROM audit_slots USING TIMESTAMP ? WHERE shard = ? AND tenant = ? AND slot <= ?"
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


class _Entry(NamedTuple):
    """A slot on the list."""

    shard: int
    tenant: str
    slot: int
    used_at: int
    """When a row was last put into it, in microseconds."""


class WaitingRows:
    """The queues of all tenants; `audit_statements` fills them."""

    def __init__(self, session: Session, clock: Callable[[], float] = time.time) -> None:
        self._session = session
        self._clock = clock

    async def tenants(self) -> Sequence[TenantId]:
        """Return the tenants whose queues hold hints; strike off what has been empty for a while."""
        entries = [_Entry(*entry) async for entry in self._entries(_ALL_SLOTS, list(range(SHARDS)))]
        used = {place async for place in self._used([(entry.tenant, entry.slot) for entry in entries])}
        for (shard, tenant), listed in groupby(entries, lambda entry: (entry.shard, entry.tenant)):
            await self._strike(
                shard, tenant, takewhile(lambda one: (one.tenant, one.slot) not in used, listed)
            )
        return list(dict.fromkeys(TenantId(tenant) for tenant, _ in sorted(used)))

    async def _strike(self, shard: int, tenant: str, empty: Iterable["_Entry"]) -> None:
        """Strike off the oldest empty slots by one tombstone, which swallows the one before it."""
        settled = self._clock() * 1_000_000 - SETTLED_US
        over = list(takewhile(lambda one: one.used_at < settled, empty))
        if over:
            newest = max(entry.used_at for entry in over)
            await self._session.execute(_STRIKE, (newest, shard, tenant, over[-1].slot))

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
        async for _, slot in self._used([(tenant_id, slot) for slot in slots]):
            yield slot

    async def _used(self, places: Sequence[tuple[str, int]]) -> AsyncIterator[tuple[str, int]]:
        """Yield those of the tenants' slots that hold anything, in their order."""
        for start in range(0, len(places), PEEKS_AT_ONCE):
            group = places[start : start + PEEKS_AT_ONCE]
            peeks = await asyncio.gather(*(self._session.execute(_PEEK, place) for place in group))
            for place, peek in zip(group, peeks, strict=True):
                if peek:
                    yield place

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
