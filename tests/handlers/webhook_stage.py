"""One deployment with all that delivers: memory stores, a log that waits, a clock set by hand, real POSTs."""

import random
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from app.adapters.memory.stores import Shelves, open_memory_stores
from app.adapters.security.crypto import RootKey
from app.adapters.webhooks.sender import open_sender
from schemas.events import DecisionEvent
from schemas.ids import PLATFORM, DeliveryId, EndpointId, EventId, TenantId, derive_id
from schemas.problems import StoreUnavailable
from schemas.topics import Topic
from schemas.webhooks import DeliveryCommand, EndpointHealth, SealedSecret, StoredDelivery, StoredEndpoint
from streams.audit.commit import CommitAndPublish
from streams.ports.records import Change, Record, RecordKind
from streams.ports.stores import Stores
from streams.runtime.producer import Outgoing
from streams.webhooks.attempt import AttemptDelivery
from streams.webhooks.dispatcher import Dispatcher
from streams.webhooks.fanout import FanOut
from streams.webhooks.fanout_recovery import FanOutRecovery
from streams.webhooks.handler import HandleDelivery
from streams.webhooks.health import NoteAttempts, UpdateHealth
from streams.webhooks.ports import AttemptResult, WebhookSender
from streams.webhooks.records import delivery_id, endpoint_index, endpoint_record, tenant_record
from streams.webhooks.replay import DeliverAgain
from streams.webhooks.scheduler import DeliveryScheduler
from streams.webhooks.signing import seal_secret
from tests.builders import ACME, NOW, build_decision_event, build_endpoint
from tests.handlers.verification_stage import DictState, Loudspeaker
from tests.http.receivers import PATIENCE_S, TRUSTING_NOBODY

SECRET: Final = "a secret of the tenant's receiver"  # noqa: S105 - of nobody
AT_FIRST: Final = timedelta(days=1)
"""How long before the stage's time endpoints were made."""


class Log:
    """A log that keeps what is written until somebody takes it; it can be away, or lose things."""

    def __init__(self) -> None:
        self.waiting: deque[Outgoing] = deque()
        self.written: list[Outgoing] = []
        self.away = False
        self.losing = False

    async def write(self, *records: Outgoing) -> None:
        """Take the records."""
        if self.away:
            raise StoreUnavailable("away")
        self.written += records
        if not self.losing:
            self.waiting.extend(records)


@dataclass
class WebhookStage:
    """Everything a test may look at is public; `aclose` ends what was opened."""

    sender: WebhookSender
    shelves: Shelves = field(default_factory=Shelves)
    log: Log = field(default_factory=Log)
    now: datetime = NOW
    dice: random.Random = field(default_factory=lambda: random.Random(7))
    health: DictState[EndpointHealth] = field(default_factory=DictState)
    announcer: Loudspeaker = field(default_factory=Loudspeaker)
    attempted: list[AttemptResult] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Assemble everything."""
        self.shelves.feed.millis = lambda: int(self.now.timestamp() * 1000)
        self.stores: Stores = open_memory_stores(RootKey(bytes(range(32))), self.shelves)
        self.fan_out = FanOut(self.stores.records, self.stores.journal, self.log.write, self.clock)
        self.attempt = AttemptDelivery(
            self.stores, self.sender, NoteAttempts(self.log.write), self.clock, self.dice.uniform
        )
        self.dispatcher = Dispatcher(self.attempt, grace_s=0.1)
        self.sweeper = DeliveryScheduler(self.stores, self.log.write, self.clock)
        self.recovery = FanOutRecovery(self.stores, self.fan_out, self.clock)

    def clock(self) -> datetime:
        """The time that was set."""
        return self.now

    @property
    def carry(self) -> HandleDelivery:
        """The endpoint's actor, as after a death when the memory was emptied."""
        commit = CommitAndPublish(self.stores.journal, self.announcer)
        return HandleDelivery(
            self.dispatcher.offer,
            UpdateHealth(self.stores.records, commit, self.clock, self.health),
            DeliverAgain(self.stores, self.log.write, self.clock),
        )

    def passes(self, **time: float) -> None:
        """Let time pass."""
        self.now += timedelta(**time)

    async def register(
        self, url: str, name: str = "first", tenant_id: TenantId = ACME, **changes: Any
    ) -> StoredEndpoint:
        """Put an endpoint into the store."""
        endpoint_id = EndpointId(derive_id("whe", tenant_id, name))
        sealed = await seal_secret(self.stores.vault, tenant_id, endpoint_id, SECRET)
        known = {"url": url, "endpoint_id": endpoint_id, "created_at": self.now - AT_FIRST}
        stored = build_endpoint((SealedSecret(sealed=sealed),), tenant_id=tenant_id, **known | changes)
        records = (endpoint_record(stored, 1), tenant_record(tenant_id, stored.endpoint.created_at))
        await self.stores.journal.commit(Change(tenant_id, records))
        return stored

    async def change(self, stored: StoredEndpoint, **changes: Any) -> None:
        """Change an endpoint as its tenant would."""
        found = await self.endpoint(stored.endpoint.endpoint_id, stored.tenant_id)
        endpoint = found.endpoint.model_copy(update=changes)
        version = self.shelves.records[
            stored.tenant_id, RecordKind.WEBHOOK_ENDPOINT, endpoint.endpoint_id
        ].version
        record = endpoint_record(found.model_copy(update={"endpoint": endpoint}), version + 1)
        await self.stores.journal.commit(Change(stored.tenant_id, (record,)))

    async def happen(self, name: str = "first", tenant_id: TenantId = ACME, **changes: Any) -> DecisionEvent:
        """Commit an event, as its actor does; nobody is notified of it."""
        event = build_decision_event(
            id=EventId(derive_id("evt", tenant_id, name)),
            tenant_id=tenant_id,
            timestamp=self.now,
            **changes,
        )
        act = Record(tenant_id, RecordKind.ACT, derive_id("aud", event.id), b"", self.now)
        await self.stores.journal.commit(Change(tenant_id, (act,), events=(event,)))
        return event

    async def settle(self) -> None:
        """Carry out all that waits in the log and in the dispatcher."""
        while self.log.waiting or self.dispatcher.waiting or self.dispatcher.under_way:
            await self.hand_on()
            await self.dispatcher.until_quiet()

    async def hand_on(self) -> None:
        """Let the actors of endpoints take what waits in the log."""
        carry = self.carry
        while self.log.waiting:
            record = self.log.waiting.popleft()
            assert record.topic == Topic.WEBHOOK_DELIVERIES
            assert record.value is not None
            await carry(DeliveryCommand.model_validate_json(record.value))

    async def publish(self, event: DecisionEvent) -> None:
        """Fan an event out and carry out what follows at once."""
        await self.fan_out(event)
        await self.settle()

    async def sweep(self) -> int:
        """Ask for what is due and carry it out."""
        sent = await self.sweeper.sweep()
        await self.settle()
        return sent

    async def endpoint(self, endpoint_id: EndpointId, tenant_id: TenantId = ACME) -> StoredEndpoint:
        """An endpoint as it stands."""
        record = await self.stores.records.get(tenant_id, RecordKind.WEBHOOK_ENDPOINT, endpoint_id)
        return StoredEndpoint.from_bytes(record.body)

    async def delivery(self, event: DecisionEvent, endpoint: StoredEndpoint) -> StoredDelivery:
        """A delivery as it stands."""
        key = delivery_id(event.tenant_id, endpoint.endpoint.endpoint_id, event.id)
        record = await self.stores.records.get(event.tenant_id, RecordKind.DELIVERY, key)
        return StoredDelivery.from_bytes(record.body)

    async def deliveries(self, endpoint: StoredEndpoint) -> list[StoredDelivery]:
        """Every delivery to an endpoint."""
        index = endpoint_index(endpoint.endpoint.endpoint_id)
        page = await self.stores.records.page(endpoint.tenant_id, RecordKind.DELIVERY, index, limit=1_000)
        return [StoredDelivery.from_bytes(record.body) for record in page]

    def watched(self, delivery: DeliveryId) -> int:
        """Under how many minutes a sweep finds a delivery."""
        return len(self.shelves.records[PLATFORM, RecordKind.DELIVERY_WATCH, delivery].indexes)


@asynccontextmanager
async def open_stage() -> AsyncIterator[WebhookStage]:
    """A stage whose sender posts to loopback receivers."""
    async with open_sender(
        insecure=True, version="0.1.0", tls=TRUSTING_NOBODY, connect_s=PATIENCE_S, total_s=PATIENCE_S
    ) as sender:
        stage = WebhookStage(sender)
        async with stage.dispatcher:
            yield stage
