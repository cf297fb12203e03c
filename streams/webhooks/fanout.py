"""Create one delivery of an event for each subscribed endpoint, then send the `Deliver` commands."""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final
from weakref import WeakValueDictionary

import structlog

from schemas.base import to_milliseconds
from schemas.events import DecisionEvent
from schemas.ids import EndpointId, TenantId
from schemas.problems import StoreUnavailable
from schemas.topics import Topic
from schemas.webhooks import Deliver, StoredDelivery, StoredEndpoint
from streams.ports.records import Change, Journal, Position, Record, RecordKind, Records
from streams.runtime.event_publisher import key_of
from streams.runtime.guard import Contract
from streams.runtime.producer import Outgoing
from streams.webhooks.ports import Write
from streams.webhooks.records import delivery_records, firing_index, fresh
from streams.webhooks.rules import LOST_AFTER, is_deliverable

log = structlog.get_logger(__name__)

ENDPOINTS_PAGE: Final = 100
"""Above the limit of endpoints per tenant."""

CLOCKS_APART: Final = timedelta(minutes=1)
"""How much later than an event an endpoint may be created and still get it: clocks of two machines differ."""


READ_FOR_S: Final = 1.0
"""How long the cached endpoints of a tenant serve events older than the read."""

SOON_S: Final = 0.05
"""How long a look at the endpoints may keep the next event waiting."""

MOST_READINGS: Final = 1_000


@dataclass(frozen=True, slots=True)
class _Reading:
    """The endpoints of a mode as read; includes every endpoint in force at the time of an earlier event."""

    as_of: datetime
    read_at: float
    """By the monotonic clock."""
    endpoints: list[StoredEndpoint]

    def serves(self, event: DecisionEvent) -> bool:
        """Return whether this reading is recent enough for the event."""
        return event.timestamp < self.as_of and time.monotonic() - self.read_at < READ_FOR_S


CONTRACT: Final = Contract(DecisionEvent, key_of)
"""The contract of the decision topic."""


@dataclass(frozen=True, slots=True)
class FanOut:
    """Create the deliveries of an event; the same event again changes nothing."""

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
        """Commit a delivery for each endpoint in force, then send a `Deliver` command for each.

        Raises:
            StoreUnavailable: The outcome is unknown; the same event may be sent again.
        """
        await self.deliver(event, _wanting(event, await self._endpoints_for(event)))

    async def is_idle(self, event: DecisionEvent) -> bool:
        """Return whether no endpoint wants the event; False as well when the store does not soon say.

        A tenant whose rows come late holds up the events of others no longer than that.
        """
        reading = self._reading_for(event)
        if reading is not None:
            return not _wanting(event, reading.endpoints)
        try:
            async with asyncio.timeout(SOON_S):
                return not _wanting(event, await self._endpoints_for(event))
        except (StoreUnavailable, TimeoutError):
            return False

    async def _endpoints_for(self, event: DecisionEvent) -> list[StoredEndpoint]:
        """Return the endpoints in force, read once for the events of one decision or a backlog."""
        key = (event.tenant_id, event.livemode)
        async with self._locks.setdefault(key, asyncio.Lock()):  # concurrent events share a read
            reading = self._reading_for(event) or await self._read(key)
            return reading.endpoints

    def _reading_for(self, event: DecisionEvent) -> _Reading | None:
        """Return what was read of the event's tenant, if it serves the event."""
        reading = self._readings.get((event.tenant_id, event.livemode))
        return reading if reading is not None and reading.serves(event) else None

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
        """Commit the event's deliveries to these endpoints, then send a `Deliver` command for each.

        An event whose deliveries may be removed already gets none.
        """
        now = to_milliseconds(self.clock())
        if not is_deliverable(event, now):
            return
        deliveries = [fresh(event, endpoint, now) for endpoint in endpoints]
        await self._commit(event.tenant_id, deliveries, now + self.lost_after)
        await self.write(*map(deliver_record, deliveries))

    async def _commit(self, tenant_id: TenantId, left: Sequence[StoredDelivery], due: datetime) -> None:
        """Commit all in one change; while the first already exists, retry without it.

        The first exists after a replay of this event, or of a period to its endpoint.
        """
        while left:
            records = [record for stored in left for record in delivery_records(stored, due)]
            committed = await self.journal.commit(Change(tenant_id, tuple(records)))
            left = [] if committed.won else left[1:]


def _wanting(event: DecisionEvent, endpoints: Sequence[StoredEndpoint]) -> list[StoredEndpoint]:
    oldest = event.timestamp + CLOCKS_APART
    return [one for one in endpoints if one.wants(event) and one.endpoint.created_at <= oldest]


def deliver_record(stored: StoredDelivery) -> Outgoing:
    """Return the Kafka record of the `Deliver` command."""
    delivery = stored.delivery
    command = Deliver(
        tenant_id=stored.tenant_id, endpoint_id=delivery.endpoint_id, delivery_id=delivery.delivery_id
    )
    return command_record(command.endpoint_id, command.to_bytes())


def command_record(endpoint_id: EndpointId, raw: bytes) -> Outgoing:
    """Return the Kafka record of a command about an endpoint's deliveries, keyed by the endpoint."""
    return Outgoing(Topic.WEBHOOK_DELIVERIES, endpoint_id.encode(), raw)
