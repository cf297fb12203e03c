"""Makes a delivery of an event for every endpoint that asks for it, once, and then says so."""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, Protocol
from weakref import WeakValueDictionary

import structlog

from schemas.base import to_milliseconds
from schemas.events import DecisionEvent
from schemas.ids import EndpointId, TenantId
from schemas.topics import Topic
from schemas.webhooks import Deliver, StoredDelivery, StoredEndpoint
from streams.ports.records import Change, Journal, Position, Record, RecordKind, Records
from streams.runtime.event_publisher import key_of
from streams.runtime.guard import Contract
from streams.runtime.producer import Outgoing
from streams.webhooks.rearm import fresh
from streams.webhooks.records import delivery_records, firing_index
from streams.webhooks.rules import LOST_AFTER

log = structlog.get_logger(__name__)

ENDPOINTS_PAGE: Final = 100
"""More than a tenant may have."""

CLOCKS_APART: Final = timedelta(minutes=1)
"""By so much an endpoint may seem to be younger than an event that it is told: two machines made them."""


class Write(Protocol):
    """Writes records to the log, as `LogWriter.write` does."""

    async def __call__(self, *records: Outgoing) -> None:
        """Write them in order; `StoreUnavailable` when the log did not take them all."""
        ...


READ_FOR_S: Final = 1.0
"""How long a reading of a tenant's endpoints serves what happened before it, whatever the clocks say."""

MOST_READINGS: Final = 1_000


@dataclass(frozen=True, slots=True)
class _Reading:
    """A mode's endpoints as they stood; whoever was in force when an earlier event happened is among them."""

    as_of: datetime
    read_at: float
    """By the monotonic clock."""
    endpoints: list[StoredEndpoint]

    def serves(self, event: DecisionEvent) -> bool:
        """Tell whether nothing younger needs to be known for the event."""
        return event.timestamp < self.as_of and time.monotonic() - self.read_at < READ_FOR_S


CONTRACT: Final = Contract(DecisionEvent, key_of)
"""What the decision topic carries."""


@dataclass(frozen=True, slots=True)
class FanOut:
    """Makes the deliveries of an event; the same event again changes nothing."""

    records: Records
    journal: Journal
    write: Write
    clock: Callable[[], datetime]
    lost_after: timedelta = LOST_AFTER
    _readings: dict[tuple[TenantId, bool], _Reading] = field(default_factory=dict)
    _locks: WeakValueDictionary[tuple[TenantId, bool], asyncio.Lock] = field(
        default_factory=WeakValueDictionary
    )

    async def __call__(self, event: DecisionEvent) -> None:
        """Commit a delivery for each endpoint in force, then ask for each to be attempted.

        Raises:
            StoreUnavailable: Nothing is known; the same event may be given again.
        """
        endpoints = await self._endpoints_for(event)
        oldest = event.timestamp + CLOCKS_APART
        wanted = [one for one in endpoints if one.wants(event) and one.endpoint.created_at <= oldest]
        await self.deliver(event, wanted)

    async def _endpoints_for(self, event: DecisionEvent) -> list[StoredEndpoint]:
        """Return the endpoints that may want it, read once for a decision's events or a backlog."""
        key = (event.tenant_id, event.livemode)
        async with self._locks.setdefault(key, asyncio.Lock()):  # events that come together share a reading
            reading = self._readings.get(key)
            if reading is None or not reading.serves(event):
                reading = await self._read(key)
            return reading.endpoints

    async def _read(self, key: tuple[TenantId, bool]) -> _Reading:
        as_of, read_at = self.clock(), time.monotonic()
        found = await self.endpoints(key[0], livemode=key[1])
        if len(self._readings) >= MOST_READINGS:
            self._readings.clear()
        reading = self._readings[key] = _Reading(as_of, read_at, found)
        return reading

    async def endpoints(self, tenant_id: TenantId, *, livemode: bool) -> list[StoredEndpoint]:
        """Return the endpoints of a mode that are in force now."""
        found: list[Record] = []
        before: Position | None = None
        while page := await self.records.page(
            tenant_id,
            RecordKind.WEBHOOK_ENDPOINT,
            firing_index(livemode=livemode),
            limit=ENDPOINTS_PAGE,
            before=before,
        ):
            found += page
            if len(page) < ENDPOINTS_PAGE:
                break
            before = Position(page[-1].created_at, page[-1].id)
        return [StoredEndpoint.from_bytes(record.body) for record in found]

    async def deliver(self, event: DecisionEvent, endpoints: Sequence[StoredEndpoint]) -> None:
        """Commit the event's deliveries to these endpoints, then ask for each to be attempted."""
        now = to_milliseconds(self.clock())
        deliveries = [fresh(event, endpoint, now) for endpoint in endpoints]
        await self._commit(event.tenant_id, deliveries, now + self.lost_after)
        await self.write(*map(deliver_record, deliveries))

    async def _commit(self, tenant_id: TenantId, left: Sequence[StoredDelivery], due: datetime) -> None:
        """Commit all in one change; when the first is there already, the others in changes of their own.

        The first is there after a replay of this event, or of a time to its endpoint.
        """
        while left:
            records = [record for stored in left for record in delivery_records(stored, due)]
            committed = await self.journal.commit(Change(tenant_id, tuple(records)))
            left = [] if committed.won else left[1:]


def deliver_record(stored: StoredDelivery) -> Outgoing:
    """Return the record that asks for a delivery to be attempted."""
    delivery = stored.delivery
    command = Deliver(
        tenant_id=stored.tenant_id, endpoint_id=delivery.endpoint_id, delivery_id=delivery.delivery_id
    )
    return command_record(command.endpoint_id, command.to_bytes())


def command_record(endpoint_id: EndpointId, raw: bytes) -> Outgoing:
    """Return the record of a wish about an endpoint's deliveries, keyed by the endpoint."""
    return Outgoing(Topic.WEBHOOK_DELIVERIES, endpoint_id.encode(), raw)
