"""Remove what ended capture sessions leave behind: their watches, and the slots of subjects."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from schemas.ids import PLATFORM, TenantId
from schemas.problems import NotFound
from schemas.sessions import SessionSlot, stored_of
from streams.ports.records import Position, Record, RecordKind
from streams.ports.stores import Stores
from streams.runtime.record_removal import RemovalPace, pages
from streams.sessions import rules
from streams.tenants.handler import TENANTS_INDEX

REMOVED_AFTER: Final = timedelta(days=31)
"""How long after the opening of a session its watch is removed, and after the end of its month its slot."""

MONTHS_BACK_FIRST: Final = 24
"""How many months of slots the first sweep of a process reads, in case none ran for so long."""

MONTHS_BACK: Final = 2
"""How many months every other sweep reads."""


@dataclass(slots=True)
class SessionRemoval:
    """Sweeps the watches and slots of every tenant; the sessions themselves stay."""

    stores: Stores
    now: Callable[[], datetime]
    pace: RemovalPace = field(default_factory=RemovalPace)
    _swept: bool = False

    async def sweep(self) -> int:
        """Remove what is past its period; return how many records.

        Raises:
            StoreUnavailable: Some may be removed; the next sweep removes the others.
        """
        now, removed = self.now(), 0
        async for page in pages(
            self.stores.records, PLATFORM, RecordKind.TENANT, TENANTS_INDEX, limit=self.pace.page
        ):
            for tenant in page:
                tenant_id = TenantId(tenant.id)
                removed += await self._sweep_watches(tenant_id, now, self.pace.most - removed)
                removed += await self._sweep_slots(tenant_id, now, self.pace.most - removed)
                if removed >= self.pace.most:
                    return removed
        self._swept = True
        return removed

    async def _sweep_watches(self, tenant_id: TenantId, now: datetime, most: int) -> int:
        """Remove watches that are due no more; a session that has ended has no other."""
        removed = 0
        async for page in pages(
            self.stores.records,
            PLATFORM,
            RecordKind.SESSION_WATCH,
            rules.ended_index(tenant_id),
            limit=self.pace.page,
            before=Position(now - REMOVED_AFTER, ""),
        ):
            await self.stores.removal.remove(page[: most - removed])
            removed += len(page[: most - removed])
            if removed >= most:
                break
        return removed

    async def _sweep_slots(self, tenant_id: TenantId, now: datetime, most: int) -> int:
        """Remove the slots of months that ended a period ago: a slot is listed where it was taken last."""
        removed = 0
        for month in _months(now - REMOVED_AFTER, MONTHS_BACK if self._swept else MONTHS_BACK_FIRST):
            index = rules.opened_index(month)
            async for page in pages(
                self.stores.records, tenant_id, RecordKind.SESSION_SLOT, index, limit=self.pace.page
            ):
                past = [slot for slot in page if not await self._is_taken(slot, now)][: most - removed]
                await self.stores.removal.remove_unchanged(past)
                removed += len(past)
                if removed >= most:
                    return removed
        return removed

    async def _is_taken(self, slot: Record, now: datetime) -> bool:
        session_id = SessionSlot.from_bytes(slot.body).session_id
        try:
            found = await self.stores.records.get(slot.tenant_id, RecordKind.SESSION, session_id)
        except NotFound:
            return False
        stored = stored_of(found.body)
        return stored is not None and rules.is_running(stored, now)


def _months(moment: datetime, count: int) -> Sequence[datetime]:
    """Return the last day of each of so many months before the moment's, newest first."""
    found = []
    for _ in range(count):
        moment = moment.replace(day=1) - timedelta(days=1)
        found.append(moment)
    return found
