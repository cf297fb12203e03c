"""F14: events come twice, late and out of order between keys; who follows the guidance ends where it should.

The guidance (interface G53): an event's resource is the noun of its type, `sequence` rises per resource,
and who has seen a higher one drops the lower.
"""

import asyncio
from collections.abc import Iterable
from pathlib import Path

from app.adapters.memory.stores import open_memory_stores
from app.adapters.security.crypto import RootKey
from schemas.events import DecisionEvent
from schemas.ids import SubjectId, VerificationId, derive_id
from schemas.topics import Topic
from streams.runtime.event_publisher import KafkaEventPublisher, decision_record
from streams.runtime.kafka_client_config import LogAccess
from streams.runtime.outbox_relay import SETTLED_AFTER, OutboxRelay
from streams.runtime.producer import LogWriter
from tests.agents.support import KEYS, everything_in, open_broker
from tests.agents.test_announcer import NOON, commit, event
from tests.builders import ACME
from tests.chaos.sizes import commands, seeded
from tests.handlers.verification_stage import Loudspeaker, Stage

ID_OF = {"verification": "verification_id", "review_case": "review_case_id"}
"""Which id of an event names its resource."""


class Receiver:
    """Somebody's system that follows the guidance; it knows each resource as its last event reported it."""

    def __init__(self) -> None:
        self.known: dict[tuple[str, str], DecisionEvent] = {}

    def take(self, event: DecisionEvent) -> None:
        """Take an event, or drop it when it is old news."""
        noun = event.type.partition(".")[0]
        resource = (noun, str(getattr(event.data, ID_OF[noun])))
        known = self.known.get(resource)
        if known is None or known.sequence < event.sequence:
            self.known[resource] = event

    @classmethod
    def after(cls, events: Iterable[DecisionEvent]) -> dict[tuple[str, str], DecisionEvent]:
        """What one knows after these events."""
        receiver = cls()
        for one in events:
            receiver.take(one)
        return receiver.known


async def published_events(count: int) -> list[DecisionEvent]:
    """Every event of that many verifications with all kinds of ends, in the order they were published."""
    stage, result = Stage(), Loudspeaker()
    stage.announcer = result
    for number in range(count):
        scenario = ("approved", "warn", "review", "reject", "fail")[number % 5]
        await stage.submit(
            verification_id=VerificationId(derive_id("ver", f"f14-{number}")),
            subject_id=SubjectId(f"sim:{scenario}@{number % 7}"),
            livemode=False,
            request_id=f"req-{number}",
        )
    return result.events


async def test_shuffled_and_repeated_events_lead_to_the_same_end() -> None:
    chance = seeded("F14")
    events = await published_events(commands(60))
    in_order = Receiver.after(events)

    for _ in range(20):
        mixed = events + chance.choices(events, k=len(events))
        chance.shuffle(mixed)
        assert Receiver.after(mixed) == in_order


async def test_an_event_of_a_lower_sequence_changes_nothing() -> None:
    events = await published_events(5)
    receiver = Receiver()
    for one in events:
        receiver.take(one)
    known = dict(receiver.known)

    for one in reversed(events):
        receiver.take(one)

    assert receiver.known == known


async def test_what_is_published_again_late_is_the_same_event_byte_for_byte(tmp_path: Path) -> None:
    """The reconciler tells an old event behind a newer one of the same subject; its id gives it away."""
    stores = open_memory_stores(RootKey(b"r" * 32))
    await commit(stores, "ada", "grace")
    async with open_broker(tmp_path) as broker, LogWriter(LogAccess(broker.address), KEYS) as writer:
        relay = OutboxRelay(stores.journal, stores.audit_log, writer, lambda: NOON + SETTLED_AFTER)
        await writer.write(decision_record(event("ada")))  # reported, and died before it was marked
        async with KafkaEventPublisher(writer, stores) as announcer:
            await announcer.announce(ACME, [event("grace")], [])
        await relay.relay_pending()
        published = [record.value for record in await everything_in(broker.address, Topic.DECISIONS)]

    assert sorted(published) == sorted([event("ada").to_bytes()] * 2 + [event("grace").to_bytes()])


async def test_one_subjects_events_keep_their_order_in_the_log(tmp_path: Path) -> None:
    chance = seeded("F14 order")
    events = await published_events(commands(60))
    async with open_broker(tmp_path) as broker, LogWriter(LogAccess(broker.address), KEYS) as writer:
        for start in range(0, len(events), 10):
            batch = events[start : start + 10]
            await asyncio.gather(*(writer.write(decision_record(one)) for one in batch))
            await asyncio.sleep(chance.choice([0, 0.001]))
        published = [
            DecisionEvent.from_bytes(record.value)
            for record in await everything_in(broker.address, Topic.DECISIONS)
        ]

    for subject in {one.data.subject_id for one in events}:
        of_subject = [one.id for one in events if one.data.subject_id == subject]
        assert [one.id for one in published if one.data.subject_id == subject] == of_subject
