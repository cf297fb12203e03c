"""Events on their way through the real log and agents to a receiver, whatever is lost in between."""

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, cast

import faust
import pytest

from app.adapters.memory.stores import open_memory_stores
from app.adapters.security.crypto import RootKey
from app.broker.server import Broker
from app.composition.agents import AGENTS, AgentDependencies
from app.composition.webhooks import WebhookPace, WebhookPorts, open_delivering
from app.kafka.cluster import TABLES
from schemas.events import DecisionEvent, EventType
from schemas.ids import EndpointId, EventId, derive_id
from schemas.topics import Topic
from schemas.webhooks import Deliver, DeliveryCommand, SealedSecret, StoredEndpoint
from streams.ports.records import Change, Record, RecordKind
from streams.ports.stores import Stores
from streams.runtime.app import GROUP, build_app
from streams.runtime.event_publisher import KafkaEventPublisher
from streams.runtime.kafka_client_config import LogAccess
from streams.runtime.producer import LogWriter, Outgoing
from streams.runtime.supervisor import running_worker
from streams.runtime.topics import ensure_topics
from streams.webhooks.records import endpoint_record, tenant_record
from streams.webhooks.rules import Pace
from streams.webhooks.scheduler import SweepPace
from streams.webhooks.signing import seal_secret
from tests.agents.support import (
    now,
    quick_guard,
    quick_settings,
    until,
    until_settled,
)
from tests.builders import ACME, build_decision_event, build_endpoint
from tests.webhook_receiver import Receiver, open_receiver, saying

SECRET: Final = "a secret of the tenant's receiver"  # noqa: S105 - of nobody
BOTH: Final = ("webhooks", "deliveries")
BRISK: Final = WebhookPace(
    attempts=Pace(
        schedule=tuple(timedelta(milliseconds=200 * step) for step in range(10)),
        lost_after=timedelta(milliseconds=500),
    ),
    sweep=SweepPace(again_after=timedelta(seconds=1)),
    sweep_every_s=0.1,
    settled_after=timedelta(milliseconds=500),
    refan_every_s=0.1,
)
"""What takes minutes takes a second."""


class LosingWriter:
    """A writer that loses the first command to deliver each delivery."""

    def __init__(self, writer: LogWriter) -> None:
        self._writer = writer
        self.lost: set[str] = set()

    async def write(self, *records: Outgoing) -> None:
        """Write what is not lost."""
        await self._writer.write(*(record for record in records if not self._loses(record)))

    def _loses(self, record: Outgoing) -> bool:
        if record.topic != Topic.WEBHOOK_DELIVERIES or record.value is None:
            return False
        command = DeliveryCommand.model_validate_json(record.value).root
        if not isinstance(command, Deliver) or command.delivery_id in self.lost:
            return False
        self.lost.add(command.delivery_id)
        return True


@dataclass
class Deployment:
    """Stores and a log, and what happens in them."""

    stores: Stores
    writer: LogWriter
    access: LogAccess
    directory: Path
    announcer: KafkaEventPublisher
    root_key: RootKey = field(default_factory=lambda: RootKey(b"r" * 32))

    async def register(self, url: str, name: str = "first", **changes: Any) -> StoredEndpoint:
        """Put an endpoint into the store."""
        key = EndpointId(derive_id("whe", ACME, name))
        secret = SealedSecret(sealed=await seal_secret(self.stores.vault, ACME, key, SECRET))
        made = now() - timedelta(minutes=1)
        stored = build_endpoint((secret,), url=url, endpoint_id=key, created_at=made, **changes)
        records = (endpoint_record(stored, 1), tenant_record(ACME, made))
        await self.stores.journal.commit(Change(ACME, records))
        return stored

    async def happen(self, name: str, *, announced: bool = True) -> DecisionEvent:
        """Commit an event; `announced`: it is announced as well."""
        event = build_decision_event(id=EventId(derive_id("evt", name)), timestamp=now())
        act = Record(ACME, RecordKind.ACT, derive_id("aud", name), b"", now())
        await self.stores.journal.commit(Change(ACME, (act,), events=(event,)))
        if announced:
            await self.announcer.announce(ACME, (event,), ())
        return event

    async def is_published(self) -> bool:
        """Return whether the log has every event."""
        return not await self.stores.journal.pending_events(1)

    @asynccontextmanager
    async def working(
        self, streams: Collection[str] = BOTH, writer: LogWriter | None = None, pace: WebhookPace = BRISK
    ) -> AsyncIterator[None]:
        """Run the agents."""
        chosen = writer or self.writer
        ports = WebhookPorts(self.stores, chosen, now, insecure=True, pace=pace)
        guard = quick_guard(chosen, self.access, lambda low, _: low)
        async with open_delivering(ports, streams) as delivering:
            around = AgentDependencies(
                self.stores, self.root_key, self.announcer, guard, chosen, now, None, delivering
            )

            def build() -> faust.App:
                app = build_app(quick_settings(self.access.bootstrap, self.directory))
                for name in streams:
                    AGENTS[name](app, around)
                return app

            async with running_worker(build) as worker, delivering.looked_after():
                await worker.wait_ready()
                yield


@pytest.fixture
async def deployment(broker: Broker, writer: LogWriter, tmp_path: Path) -> AsyncIterator[Deployment]:
    """An empty deployment over an embedded broker."""
    access = LogAccess(broker.address)
    await ensure_topics(access, GROUP, TABLES)
    stores = open_memory_stores(RootKey(b"r" * 32))
    async with KafkaEventPublisher(writer, stores) as announcer:
        yield Deployment(stores, writer, access, tmp_path, announcer)


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    """A receiver that takes everything."""
    async with open_receiver() as opened:
        yield opened


async def test_what_happens_arrives_signed(deployment: Deployment, receiver: Receiver) -> None:
    await deployment.register(receiver.url())
    async with deployment.working():
        events = [await deployment.happen(f"event-{number}") for number in range(20)]
        await receiver.until(lambda one: len(one.hits) >= 20)
        await until_settled(deployment.access.bootstrap, Topic.WEBHOOK_DELIVERIES)

    assert sorted(hit.event_id for hit in receiver.hits) == sorted(event.id for event in events)
    for hit in receiver.hits:
        hit.verify(SECRET)


async def test_an_event_that_never_reached_the_topic_is_delivered(
    deployment: Deployment, receiver: Receiver
) -> None:
    await deployment.register(receiver.url())
    async with deployment.working():
        event = await deployment.happen("never told", announced=False)
        await receiver.until(lambda one: len(one.hits) == 1)

    assert receiver.hits[0].event_id == event.id


async def test_deliveries_whose_messages_were_lost_are_made(
    deployment: Deployment, receiver: Receiver
) -> None:
    await deployment.register(receiver.url())
    losing = LosingWriter(deployment.writer)
    async with deployment.working(writer=cast("LogWriter", losing)):
        events = [await deployment.happen(f"event-{number}") for number in range(5)]
        await receiver.until(lambda one: len(one.hits) >= 5)

    assert len(losing.lost) == 5
    assert {hit.event_id for hit in receiver.hits} == {event.id for event in events}


async def test_what_fails_is_tried_until_it_is_taken(deployment: Deployment, receiver: Receiver) -> None:
    receiver.answer = saying(500)
    await deployment.register(receiver.url())
    async with deployment.working():
        await deployment.happen("refused twice")
        await receiver.until(lambda one: len(one.hits) == 2)
        receiver.answer = saying(204)
        await receiver.until(lambda one: len(one.hits) == 3)

    assert [hit.attempt for hit in receiver.hits] == [1, 2, 3]
    assert len({hit.body for hit in receiver.hits}) == 1


async def test_the_others_are_notified_of_an_endpoint_that_is_gone(
    deployment: Deployment, receiver: Receiver
) -> None:
    receiver.answers["/gone"] = saying(410)
    gone = await deployment.register(receiver.url("/gone"), "gone")
    named = (EventType.WEBHOOK_ENDPOINT_DISABLED,)
    await deployment.register(receiver.url("/other"), "other", event_types=named)
    async with deployment.working():
        await deployment.happen("the last straw")
        await receiver.until(lambda one: len(one.at("/other")) == 1)

    result = DecisionEvent.from_bytes(receiver.at("/other")[0].body)
    assert result.data.endpoint_id == gone.endpoint.endpoint_id


async def test_a_worker_without_deliveries_leaves_them_to_the_next(
    deployment: Deployment, receiver: Receiver
) -> None:
    await deployment.register(receiver.url())
    async with deployment.working(streams=("webhooks",)):
        event = await deployment.happen("fanned out")
        await until(deployment.is_published)
        await until_settled(deployment.access.bootstrap, Topic.DECISIONS)
    arrived = list(receiver.hits)
    async with deployment.working(streams=("deliveries",)):
        await receiver.until(lambda one: len(one.hits) == 1)

    assert (arrived, receiver.hits[0].event_id) == ([], event.id)
