"""Deliver a tenant's events of a period again to one endpoint, page by page (G38)."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from schemas.base import to_milliseconds
from schemas.events import DecisionEvent
from schemas.problems import NotFound
from schemas.webhooks import ANY_TYPE, DeliveryStatus, ReplayEvents, StoredDelivery, StoredEndpoint
from streams.aggregate import Pause, retry_conflicts
from streams.ports.errors import Conflict
from streams.ports.events import FedEvent
from streams.ports.records import Change, Record, RecordKind
from streams.ports.stores import Stores
from streams.webhooks import rules
from streams.webhooks.fanout import command_record
from streams.webhooks.ports import Write
from streams.webhooks.records import delivery_id, delivery_records, fresh, rearmed

PAGE: Final = 200
"""Events per page; other commands of the endpoint run between two pages."""

APART: Final = timedelta(minutes=5)
"""How far the time of an event and the time it became visible may differ."""


@dataclass(frozen=True, slots=True)
class DeliverAgain:
    """Restart existing deliveries and create missing ones; the scheduler sends them at once."""

    stores: Stores
    write: Write
    clock: Callable[[], datetime]
    pause: Pause = asyncio.sleep

    async def __call__(self, command: ReplayEvents) -> None:
        """Restart the deliveries of one page of events, then send a command for the next page.

        Raises:
            StoreUnavailable: The outcome is unknown; the same command may be sent again.
            Conflict: A delivery changed at every attempt.
        """
        endpoint = await self._endpoint(command)
        if endpoint is None:
            return
        page = await self._page(command, livemode=endpoint.endpoint.livemode)
        for fed in page:
            if _is_selected(fed.event, command):
                await self._again(fed.event, endpoint)
        if len(page) == PAGE:
            rest = command.model_copy(update={"after": page[-1].place})
            await self.write(command_record(command.endpoint_id, rest.to_bytes()))

    async def _endpoint(self, command: ReplayEvents) -> StoredEndpoint | None:
        """Return the endpoint, or None when nothing is sent to it any more."""
        try:
            found = await self.stores.records.get(
                command.tenant_id, RecordKind.WEBHOOK_ENDPOINT, command.endpoint_id
            )
        except NotFound:
            return None
        endpoint = StoredEndpoint.from_bytes(found.body)
        return endpoint if rules.is_in_force(endpoint) else None

    async def _page(self, command: ReplayEvents, *, livemode: bool) -> Sequence[FedEvent]:
        """Return the next page of events after the command's position in the feed."""
        feed, tenant_id = self.stores.feed, command.tenant_id
        begin = command.since - APART
        place = command.after or await feed.place_at(tenant_id, livemode=livemode, moment=begin)
        until = command.until + APART
        return await feed.page(tenant_id, livemode=livemode, after=place, limit=PAGE, until=until)

    async def _again(self, event: DecisionEvent, endpoint: StoredEndpoint) -> None:
        key = delivery_id(event.tenant_id, endpoint.endpoint.endpoint_id, event.id)

        async def arm() -> None:
            now = to_milliseconds(self.clock())
            records = await self._records(key, event, endpoint, now)
            if records and not (await self.stores.journal.commit(Change(event.tenant_id, records))).won:
                raise Conflict("the delivery was just made or attempted")

        await retry_conflicts(arm, self.pause)

    async def _records(
        self, key: str, event: DecisionEvent, endpoint: StoredEndpoint, now: datetime
    ) -> tuple[Record, ...]:
        """Return the records to commit; none when the delivery is due already, or the event too old."""
        if not rules.is_deliverable(event, now):
            return ()
        try:
            found = await self.stores.records.get(event.tenant_id, RecordKind.DELIVERY, key)
        except NotFound:
            return delivery_records(fresh(event, endpoint, now), now)
        stored = StoredDelivery.from_bytes(found.body)
        next_at = stored.delivery.next_attempt_at
        if stored.delivery.status is DeliveryStatus.PENDING and next_at is not None and next_at <= now:
            return ()
        return delivery_records(rearmed(stored, now), now, found.version + 1)


def _is_selected(event: DecisionEvent, command: ReplayEvents) -> bool:
    """Return whether the event is within the period and of the selected types."""
    named = ANY_TYPE in command.event_types or event.type in command.event_types
    return named and command.since <= event.timestamp < command.until
