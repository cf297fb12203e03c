"""Remove stored entries that belong to no version of a list any more, or never did."""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from schemas.ids import PLATFORM, TenantId
from streams.lists.storage import ListStorage
from streams.ports.records import BY_AGE, Position, RecordKind
from streams.ports.stores import Stores
from streams.runtime.record_removal import RemovalPace, pages, tenant_ids
from streams.tenants.handler import TENANTS_INDEX

REMOVED_AFTER: Final = timedelta(days=1)
"""How long entries stay at least; a load takes minutes, and so does who still reads the version before."""


@dataclass(frozen=True, slots=True)
class ListEntryRemoval:
    """Sweeps the platform and every tenant."""

    stores: Stores
    now: Callable[[], datetime]
    pace: RemovalPace = field(default_factory=RemovalPace)

    async def sweep(self) -> int:
        """Remove what no list names; return how many records.

        Raises:
            StoreUnavailable: Some may be removed; the next sweep removes the others.
        """
        removed = 0
        async for tenant_id in self._owners():
            removed += await self._sweep_tenant(tenant_id, self.pace.most - removed)
            if removed >= self.pace.most:
                break
        return removed

    async def _owners(self) -> AsyncIterator[TenantId]:
        yield PLATFORM
        async for tenant_id in tenant_ids(self.stores.records, TENANTS_INDEX, self.pace.page):
            yield tenant_id

    async def _sweep_tenant(self, tenant_id: TenantId, most: int) -> int:
        storage = ListStorage(self.stores.records, self.stores.journal, self.stores.vault)
        removed, before = 0, Position(self.now() - REMOVED_AFTER, "")
        kind, limit = RecordKind.LIST_ENTRIES, self.pace.page
        async for page in pages(self.stores.records, tenant_id, kind, BY_AGE, limit=limit, before=before):
            lists, _ = await storage.load(tenant_id)
            places = {one.place for one in lists.lists}
            past = [one for one in page if one.id.rpartition(".")[0] not in places][: most - removed]
            await self.stores.removal.remove(past)
            removed += len(past)
            if removed >= most:
                break
        return removed
