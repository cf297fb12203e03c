"""Find committed events that were never fanned out, and fan them out."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

import structlog

from schemas.base import Frozen
from schemas.events import DecisionEvent
from schemas.ids import PLATFORM, TenantId
from schemas.problems import NotFound, StoreUnavailable
from schemas.webhooks import StoredEndpoint
from streams.ports.errors import Conflict
from streams.ports.records import Change, Position, Record, RecordKind
from streams.ports.stores import Stores
from streams.runtime.outbox_relay import beside
from streams.webhooks.fanout import FanOut
from streams.webhooks.records import ALL_TENANTS, delivery_id

log = structlog.get_logger(__name__)

EVERY_S: Final = 30.0
SETTLED_AFTER: Final = timedelta(seconds=60)
"""Younger events are still on their way through the outbox relay and the fan-out agent."""

EARLIER: Final = timedelta(minutes=15)
"""How far before a tenant's first endpoint its feed is read; clocks differ by less."""

PASSED_EVERY: Final = timedelta(minutes=10)
"""How often the position of a feed without endpoints is advanced; each time is a write."""

PAGE: Final = 200
TENANTS_PAGE: Final = 100


class FannedOutTo(Frozen):
    """The position reached in each of a tenant's feeds; the body of its WEBHOOK_TENANT record."""

    live: str = ""
    test: str = ""

    def of(self, *, livemode: bool) -> str:
        """Return the position of a mode, "" before the first round."""
        return self.live if livemode else self.test

    def at(self, place: str, *, livemode: bool) -> "FannedOutTo":
        """Return a copy with another position of one mode."""
        return self.model_copy(update={"live" if livemode else "test": place})


class FanOutRecovery:
    """Read tenants' feeds from a stored position and create missing deliveries."""

    def __init__(
        self,
        stores: Stores,
        fan_out: FanOut,
        clock: Callable[[], datetime],
        settled_after: timedelta = SETTLED_AFTER,
    ) -> None:
        self._stores = stores
        self._feed = stores.feed
        self._fan_out = fan_out
        self._clock = clock
        self._settled_after = settled_after
        self._passed: dict[tuple[TenantId, bool], datetime] = {}
        """When the feed of a mode without endpoints was last skipped."""

    async def recover(self) -> int:
        """Continue from the stored positions; return how many deliveries were missing.

        Raises:
            StoreUnavailable: The store or the log is away; the next round tries again.
        """
        missing, before = 0, None
        while page := await self._stores.records.page(
            PLATFORM, RecordKind.WEBHOOK_TENANT, ALL_TENANTS, limit=TENANTS_PAGE, before=before
        ):
            for record in page:
                missing += await self._tenant(record)
            before = Position(page[-1].created_at, page[-1].id)
        return missing

    async def _tenant(self, record: Record) -> int:
        tenant_id = TenantId(record.id)
        reached = FannedOutTo.from_bytes(record.body) if record.body else FannedOutTo()
        missing, until = 0, self._clock() - self._settled_after
        after = reached
        for livemode in (True, False):
            walked = await self._mode(record, after.of(livemode=livemode), until, livemode=livemode)
            missing += walked.missing
            after = after.at(walked.place, livemode=livemode)
        if after != reached:
            moved = replace(record, body=after.to_bytes(), version=record.version + 1)
            with suppress(Conflict):  # moved by another process
                await self._stores.journal.commit(Change(tenant_id, (moved,)))
        if missing:
            log.warning("webhooks.deliveries_recovered", tenant_id=tenant_id, deliveries=missing)
        return missing

    async def _mode(self, record: Record, place: str, until: datetime, *, livemode: bool) -> "_Walked":
        tenant_id = TenantId(record.id)
        endpoints = await self._fan_out.endpoints(tenant_id, livemode=livemode)
        if not endpoints:
            return _Walked(await self._pass_over(tenant_id, place, until, livemode=livemode), 0)
        if not place:
            begin = record.created_at - EARLIER
            place = await self._feed.place_at(tenant_id, livemode=livemode, moment=begin)
        missing = 0
        while page := await self._feed.page(
            tenant_id, livemode=livemode, after=place, limit=PAGE, until=until
        ):
            for fed in page:
                missing += await self._event(fed.event, endpoints)
            place = page[-1].place
        return _Walked(place, missing)

    async def _pass_over(self, tenant_id: TenantId, place: str, until: datetime, *, livemode: bool) -> str:
        """Return a position after events without endpoints, so that a later endpoint does not get them."""
        last = self._passed.get((tenant_id, livemode))
        if place and last is not None and last <= until < last + PASSED_EVERY:
            return place
        self._passed[tenant_id, livemode] = until
        return await self._feed.place_at(tenant_id, livemode=livemode, moment=until)

    async def _event(self, event: DecisionEvent, endpoints: Sequence[StoredEndpoint]) -> int:
        """Create the deliveries the event lacks; endpoints created after the event get none."""
        wanted = [one for one in endpoints if one.wants(event) and one.endpoint.created_at <= event.timestamp]
        lacking = [one for one in wanted if not await self._has(event, one)]
        if lacking:
            await self._fan_out.deliver(event, lacking)
        return len(lacking)

    async def _has(self, event: DecisionEvent, endpoint: StoredEndpoint) -> bool:
        key = delivery_id(event.tenant_id, endpoint.endpoint.endpoint_id, event.id)
        try:
            await self._stores.records.get(event.tenant_id, RecordKind.DELIVERY, key)
        except NotFound:
            return False
        return True

    async def run(self, every_s: float = EVERY_S) -> None:
        """Recover until cancelled; an unavailable store or Kafka is retried in the next round."""
        while True:
            try:
                await self.recover()
            except StoreUnavailable:
                log.warning("webhooks.recovery_deferred")
            await asyncio.sleep(every_s)


@dataclass(frozen=True, slots=True)
class _Walked:
    """The position reached in a feed, and how many deliveries were missing."""

    place: str
    missing: int


@asynccontextmanager
async def recovering_fan_out(recovery: FanOutRecovery, every_s: float = EVERY_S) -> AsyncIterator[None]:
    """Run the recovery in the background for the length of the context."""
    async with beside(lambda: recovery.run(every_s), "fan-out-recovery", every_s):
        yield
