"""Remove what ended capture sessions leave behind: their watches, and the slots of subjects."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final

from schemas.ids import PLATFORM, TenantId
from schemas.problems import NotFound
from schemas.sessions import SessionSlot, stored_of
from streams.ports.records import Position, Record, RecordKind
from streams.ports.stores import Stores
from streams.runtime.record_removal import (
    MONTHS_BACK,
    MONTHS_BACK_FIRST,
    MonthlyRecords,
    RemovalPace,
    pages,
    remove_months,
    tenant_ids,
)
from streams.sessions import rules
from streams.sessions.queries import opened_index
from streams.tenants.handler import TENANTS_INDEX

REMOVED_AFTER: Final = timedelta(days=31)
"""How long after the opening of a session its watch is removed, and after the end of its month its slot."""


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
        async for tenant_id in tenant_ids(self.stores.records, TENANTS_INDEX, self.pace.page):
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
        """Remove the slots of months that ended a period ago."""

        async def is_taken(slot: Record) -> bool:
            return await self._is_taken(slot, now)

        return await remove_months(
            self.stores,
            tenant_id,
            MonthlyRecords(RecordKind.SESSION_SLOT, opened_index, is_taken),
            now - REMOVED_AFTER,
            MONTHS_BACK if self._swept else MONTHS_BACK_FIRST,
            replace(self.pace, most=most),
        )

    async def _is_taken(self, slot: Record, now: datetime) -> bool:
        session_id = SessionSlot.from_bytes(slot.body).session_id
        try:
            found = await self.stores.records.get(slot.tenant_id, RecordKind.SESSION, session_id)
        except NotFound:
            return False
        stored = stored_of(found.body)
        return stored is not None and rules.is_running(stored, now)
