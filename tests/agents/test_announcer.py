"""Announcer and reconciler: what was committed is reported, at once or in the end, and marked when it was."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import cast

import pytest

from app.adapters.memory.stores import open_memory_stores
from app.adapters.security.crypto import RootKey
from app.broker.server import Broker
from schemas.audit import AuditAction, AuditEvent, SealAudit
from schemas.enums import ActorType
from schemas.events import DecisionEvent, EventData, EventType
from schemas.ids import AuditEventId, EventId, TenantId, derive_id
from schemas.topics import Topic
from streams.ports.records import Change, Journal, Record, RecordKind
from streams.ports.stores import Stores
from streams.runtime.event_publisher import KafkaEventPublisher, publishing_beside
from streams.runtime.outbox_relay import SETTLED_AFTER, OutboxRelay, relaying_outbox
from streams.runtime.producer import LogWriter
from tests.agents.support import ACME, everything_in, now

GLOBEX = TenantId("ten_globex")
NOON = datetime.fromisoformat("2026-01-01T12:00:00+00:00")


@pytest.fixture
def stores() -> Stores:
    """Stores in memory."""
    return open_memory_stores(RootKey(b"r" * 32))


def event(name: str, tenant_id: TenantId = ACME, at: datetime = NOON) -> DecisionEvent:
    """A decision event about the subject of that name."""
    return DecisionEvent(
        id=EventId(derive_id("evt", name)),
        type=EventType.VERIFICATION_COMPLETED,
        timestamp=at,
        tenant_id=tenant_id,
        livemode=True,
        sequence=1,
        data=EventData(subject_id=name),
    )


def row(name: str) -> AuditEvent:
    """An audit row about the subject of that name."""
    return AuditEvent(
        event_id=AuditEventId(derive_id("aud", name)),
        action=AuditAction.VERIFICATION_EVALUATED,
        actor_type=ActorType.API_KEY,
        subject_id=name,
        detail="A verification was evaluated.",
        created_at=NOON,
    )


async def commit(stores: Stores, *names: str, tenant_id: TenantId = ACME) -> None:
    """Commit one record per name, with its event and its audit row."""
    for name in names:
        record = Record(tenant_id, RecordKind.VERIFICATION, derive_id("ver", name), b"{}", NOON)
        change = Change(tenant_id, (record,), (row(name),), (event(name, tenant_id),))
        await stores.journal.commit(change)


async def seals(broker: Broker) -> list[SealAudit]:
    """Every request to seal in the log."""
    return [SealAudit.from_bytes(record.value) for record in await everything_in(broker.address, Topic.AUDIT)]


async def test_events_are_published_under_their_subject_and_marked(
    broker: Broker, writer: LogWriter, stores: Stores
) -> None:
    await commit(stores, "ada", "grace")

    async with KafkaEventPublisher(writer, stores) as announcer:
        await announcer.announce(ACME, [event("ada"), event("grace")], [])

    published = {record.key: record.value for record in await everything_in(broker.address, Topic.DECISIONS)}
    assert published == {
        b"ten_acme:ada": event("ada").to_bytes(),
        b"ten_acme:grace": event("grace").to_bytes(),
    }
    assert await stores.journal.pending_events(10) == []


async def test_what_outlives_a_command_waits_for_its_events_itself(
    broker: Broker, writer: LogWriter, stores: Stores
) -> None:
    over = asyncio.Event()

    async with KafkaEventPublisher(writer, stores) as announcer:

        async def announce_later() -> None:
            await over.wait()
            await announcer.announce(ACME, [event("ada")], [])

        with publishing_beside() as published:
            later = asyncio.create_task(announce_later())
        over.set()
        await later

        assert published == []
        assert len(await everything_in(broker.address, Topic.DECISIONS)) == 1


async def test_commands_of_one_tenant_become_one_command(
    broker: Broker, writer: LogWriter, stores: Stores
) -> None:
    ids = {name: row(name).event_id for name in ("ada", "grace", "mary")}

    async with KafkaEventPublisher(writer, stores) as announcer:
        await announcer.announce(ACME, [], [ids["ada"]])
        await announcer.announce(GLOBEX, [], [ids["mary"]])
        await announcer.announce(ACME, [], [ids["grace"]])

    assert sorted(await seals(broker), key=lambda command: command.tenant_id) == [
        SealAudit(tenant_id=ACME, event_ids=(ids["ada"], ids["grace"])),
        SealAudit(tenant_id=GLOBEX, event_ids=(ids["mary"],)),
    ]


async def test_rows_that_are_linked_in_their_commit_need_no_command(
    broker: Broker, writer: LogWriter, stores: Stores
) -> None:
    async with KafkaEventPublisher(writer, replace(stores, links_in_commit=True)) as announcer:
        await announcer.announce(ACME, [], [row("ada").event_id])

    assert await seals(broker) == []


async def test_the_reconciler_tells_what_was_forgotten_once(
    broker: Broker, writer: LogWriter, stores: Stores
) -> None:
    await commit(stores, "ada", "grace")
    relay = OutboxRelay(stores.journal, stores.audit_log, writer, lambda: NOON + SETTLED_AFTER)

    await relay.relay_pending()
    await relay.relay_pending()

    assert len(await everything_in(broker.address, Topic.DECISIONS)) == 2
    assert await stores.journal.pending_events(10) == []


async def test_the_reconciler_leaves_young_events_to_the_announcer(
    broker: Broker, writer: LogWriter, stores: Stores
) -> None:
    await commit(stores, "ada")
    just_before = NOON + SETTLED_AFTER - timedelta(milliseconds=1)

    await OutboxRelay(stores.journal, stores.audit_log, writer, lambda: just_before).relay_pending()

    assert await everything_in(broker.address, Topic.DECISIONS) == []


async def test_the_reconciler_asks_for_chains_found_open_twice(
    broker: Broker, writer: LogWriter, stores: Stores
) -> None:
    relay = OutboxRelay(stores.journal, stores.audit_log, writer, now)
    await commit(stores, "ada")
    await relay.relay_pending()
    assert await seals(broker) == []

    await commit(stores, "mary", tenant_id=GLOBEX)
    await relay.relay_pending()

    assert await seals(broker) == [SealAudit(tenant_id=ACME)]


async def test_a_round_that_breaks_is_not_the_last_one(
    broker: Broker, writer: LogWriter, stores: Stores
) -> None:
    """What one row makes impossible in one round does not take the net away from all the others."""
    await commit(stores, "ada")
    emitted = asyncio.Event()

    class BrokenAtFirst:
        """Hands on to the journal, but for the first question."""

        asked = 0

        async def pending_events(self, limit: int) -> Sequence[DecisionEvent]:
            """Break once."""
            self.asked += 1
            if self.asked == 1:
                raise KeyError("an event that cannot be read")
            return await stores.journal.pending_events(limit)

        async def mark_emitted(self, event_ids: Sequence[EventId]) -> None:
            """Say that it came so far."""
            await stores.journal.mark_emitted(event_ids)
            emitted.set()

    journal = cast("Journal", BrokenAtFirst())
    relay = OutboxRelay(journal, stores.audit_log, writer, lambda: NOON + SETTLED_AFTER)
    async with relaying_outbox(relay, every_s=0.01), asyncio.timeout(60):
        await emitted.wait()

    assert len(await everything_in(broker.address, Topic.DECISIONS)) == 1
