"""Remove deliveries once they were stored for their period after the last attempt."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import structlog

from schemas.ids import PLATFORM, EndpointId, TenantId
from schemas.problems import NotFound, StoreUnavailable
from schemas.webhooks import StoredDelivery
from streams.ports.records import Position, Record, RecordKind
from streams.ports.stores import Stores
from streams.runtime.outbox_relay import beside
from streams.webhooks.records import ALL_TENANTS, DELETED_INDEX, endpoint_index, mode_index
from streams.webhooks.rules import REMOVED_AFTER, is_past

log = structlog.get_logger(__name__)

EVERY_S: Final = 600.0
"""Interval between two sweeps; short beside a period of 30 days."""

ENDPOINT_INDEXES: Final = (mode_index(livemode=True), mode_index(livemode=False), DELETED_INDEX)
"""List every endpoint of a tenant between them."""


@dataclass(frozen=True, slots=True)
class RemovalPace:
    """How much one sweep reads and removes."""

    page: int = 200
    most: int = 20_000
    """Deliveries removed in one sweep; the next removes the others. More than 30 a second for all tenants."""


@dataclass(frozen=True, slots=True)
class DeliveryRemoval:
    """Walk each endpoint's old deliveries through their index, and remove those that are over.

    The watch goes before its delivery, which lists it: a removal that was cut short is found again.
    """

    stores: Stores
    now: Callable[[], datetime]
    pace: RemovalPace = RemovalPace()

    async def sweep(self) -> int:
        """Remove what is past its period; return how many deliveries.

        Raises:
            StoreUnavailable: Some may be removed; the next sweep removes the others.
        """
        now, removed = self.now(), 0
        async for tenant in self._listed(PLATFORM, RecordKind.WEBHOOK_TENANT, ALL_TENANTS):
            for index in ENDPOINT_INDEXES:
                async for endpoint in self._listed(TenantId(tenant.id), RecordKind.WEBHOOK_ENDPOINT, index):
                    removed += await self._sweep_endpoint(endpoint, now, self.pace.most - removed)
                    if removed >= self.pace.most:
                        return removed
        return removed

    async def _sweep_endpoint(self, endpoint: Record, now: datetime, most: int) -> int:
        """Remove at most so many deliveries to the endpoint; none is older than its creation."""
        removed, index = 0, endpoint_index(EndpointId(endpoint.id))
        before: Position | None = Position(now - REMOVED_AFTER, "")
        while removed < most and before is not None:
            page = await self._page(endpoint.tenant_id, RecordKind.DELIVERY, index, before)
            past = [one for one in page if is_past(StoredDelivery.from_bytes(one.body), REMOVED_AFTER, now)][
                : most - removed
            ]
            await self._remove(past)
            removed += len(past)
            before = _following(page, self.pace.page)
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

    async def _listed(
        self, tenant_id: TenantId, kind: RecordKind, index: tuple[str, str]
    ) -> AsyncIterator[Record]:
        before: Position | None = None
        while True:
            page = await self._page(tenant_id, kind, index, before)
            for record in page:
                yield record
            before = _following(page, self.pace.page)
            if before is None:
                return

    async def _page(
        self, tenant_id: TenantId, kind: RecordKind, index: tuple[str, str], before: Position | None
    ) -> Sequence[Record]:
        records = self.stores.records
        return await records.page(tenant_id, kind, index, limit=self.pace.page, before=before)

    async def run(self, is_responsible: Callable[[], bool], every_s: float = EVERY_S) -> None:
        """Sweep until cancelled while this process is responsible; a failed sweep is repeated later."""
        while True:
            try:
                removed = await self.sweep() if is_responsible() else 0
            except StoreUnavailable:
                log.warning("webhooks.removal_deferred")
            else:
                if removed:
                    log.info("webhooks.deliveries_removed", deliveries=removed)
            await asyncio.sleep(every_s)


def _following(page: Sequence[Record], limit: int) -> Position | None:
    """Return where the page after this one begins, None: this was the last."""
    return Position(page[-1].created_at, page[-1].id) if len(page) == limit else None


@asynccontextmanager
async def removing_deliveries(
    removal: DeliveryRemoval, is_responsible: Callable[[], bool], every_s: float = EVERY_S
) -> AsyncIterator[None]:
    """Sweep in the background for the length of the context."""
    async with beside(lambda: removal.run(is_responsible, every_s), "delivery-removal", every_s):
        yield
