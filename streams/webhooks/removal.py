"""Remove deliveries once they were stored for their period after the last attempt."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from schemas.ids import PLATFORM, EndpointId, TenantId
from schemas.problems import NotFound
from schemas.webhooks import StoredDelivery
from streams.ports.records import Position, Record, RecordKind
from streams.ports.stores import Stores
from streams.runtime.record_removal import RemovalPace, pages
from streams.webhooks.records import ALL_TENANTS, DELETED_INDEX, endpoint_index, mode_index
from streams.webhooks.rules import REMOVED_AFTER, is_past

ENDPOINT_INDEXES: Final = (mode_index(livemode=True), mode_index(livemode=False), DELETED_INDEX)
"""List every endpoint of a tenant between them."""


@dataclass(frozen=True, slots=True)
class DeliveryRemoval:
    """Walk each endpoint's old deliveries through their index, and remove those that are over.

    The watch goes before its delivery, which lists it: a removal that was cut short is found again.
    """

    stores: Stores
    now: Callable[[], datetime]
    pace: RemovalPace = field(default_factory=RemovalPace)

    async def sweep(self) -> int:
        """Remove what is past its period; return how many deliveries.

        Raises:
            StoreUnavailable: Some may be removed; the next sweep removes the others.
        """
        now, removed = self.now(), 0
        records, page = self.stores.records, self.pace.page
        async for tenants in pages(records, PLATFORM, RecordKind.WEBHOOK_TENANT, ALL_TENANTS, limit=page):
            for tenant in tenants:
                removed += await self._sweep_tenant(TenantId(tenant.id), now, self.pace.most - removed)
                if removed >= self.pace.most:
                    return removed
        return removed

    async def _sweep_tenant(self, tenant_id: TenantId, now: datetime, most: int) -> int:
        removed = 0
        for index in ENDPOINT_INDEXES:
            async for endpoints in pages(
                self.stores.records, tenant_id, RecordKind.WEBHOOK_ENDPOINT, index, limit=self.pace.page
            ):
                for endpoint in endpoints:
                    removed += await self._sweep_endpoint(endpoint, now, most - removed)
                    if removed >= most:
                        return removed
        return removed

    async def _sweep_endpoint(self, endpoint: Record, now: datetime, most: int) -> int:
        """Remove at most so many deliveries to the endpoint; none is older than its creation."""
        removed, index = 0, endpoint_index(EndpointId(endpoint.id))
        async for page in pages(
            self.stores.records,
            endpoint.tenant_id,
            RecordKind.DELIVERY,
            index,
            limit=self.pace.page,
            before=Position(now - REMOVED_AFTER, ""),
        ):
            past = [one for one in page if is_past(StoredDelivery.from_bytes(one.body), REMOVED_AFTER, now)]
            await self._remove(past[: most - removed])
            removed += len(past[: most - removed])
            if removed >= most:
                break
        return removed

    async def _remove(self, deliveries: Sequence[Record]) -> None:
        found = await asyncio.gather(*(self._watch(record) for record in deliveries))
        await self.stores.removal.remove([watch for watch in found if watch is not None])
        await self.stores.removal.remove(deliveries)

    async def _watch(self, delivery: Record) -> Record | None:
        try:
            return await self.stores.records.get(PLATFORM, RecordKind.DELIVERY_WATCH, delivery.id)
        except NotFound:
            return None
