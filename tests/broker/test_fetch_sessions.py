"""Fetch sessions (KIP-227): the broker keeps what a client asked for, the consumer names what changed."""

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiokafka import (  # type: ignore[import-untyped]  # ships no types
    AIOKafkaConsumer,
    AIOKafkaProducer,
    TopicPartition,
)
from aiokafka.protocol.fetch import (  # type: ignore[import-untyped]  # ships no types
    FetchRequest_v11,
    FetchResponse_v6,
    FetchResponse_v11,
)
from kio.schema.fetch.v11 import request as fetching
from kio.schema.types import TopicName
from kio.static.primitive import i32

from app.broker.apis import fetch_sessions
from app.broker.server import Broker
from streams.runtime.fetch_sessions import FetchSession, FetchSessions, SessionFetchRequest
from tests.broker.builders import Talk, one
from tests.broker.conftest import create_topic
from tests.broker.requests import fetch_request, milliseconds, produce_request

PARTITIONS = 8
UNKNOWN, INVALID_EPOCH, UNKNOWN_TOPIC = 70, 71, 3


@pytest.fixture
async def talk(broker: Broker) -> AsyncIterator[Talk]:
    await create_topic(broker.address, "t", PARTITIONS)
    async with await Talk.to(broker.port) as talking:
        yield talking


def fetch(
    offsets: dict[int, int], session_id: int, epoch: int, forgotten: Sequence[int] = (), wait_ms: int = 0
) -> fetching.FetchRequest:
    """Fetch in a session."""
    template = fetch_request("t", 0)
    parts = tuple(
        fetch_request("t", at, partition=number).topics[0].partitions[0] for number, at in offsets.items()
    )
    gone = fetching.ForgottenTopic(topic=TopicName("t"), partitions=tuple(map(i32, forgotten)))
    return fetching.FetchRequest(
        replica_id=template.replica_id,
        max_wait=milliseconds(wait_ms),
        min_bytes=i32(1),
        session_id=i32(session_id),
        session_epoch=i32(epoch),
        topics=(fetching.FetchTopic(topic=TopicName("t"), partitions=parts),) if parts else (),
        forgotten_topics_data=(gone,) if forgotten else (),
    )


def answered(answer: Any) -> dict[int, int]:
    """Return the bytes of records of each partition that was answered."""
    parts = [part for topic in answer.responses for part in topic.partitions]
    return {part.partition_index: len(part.records or b"") for part in parts}


async def test_a_session_answers_what_is_new_and_goes_on_where_nothing_is_said(talk: Talk) -> None:
    first = await talk.ask(fetch(dict.fromkeys(range(PARTITIONS), 0), 0, 0))
    assert (answered(first), bool(first.session_id)) == (dict.fromkeys(range(PARTITIONS), 0), True)
    sent = one(b"v")
    await talk.ask(produce_request("t", sent, partition=5))

    own = first.session_id
    reported = await talk.ask(fetch({}, own, 1, wait_ms=60_000))
    again = await talk.ask(fetch({}, own, 2))
    taken = await talk.ask(fetch({5: 1}, own, 3))
    await talk.ask(produce_request("t", one(b"w"), partition=5))
    forgotten = await talk.ask(fetch({}, own, 4, forgotten=[5]))
    back = await talk.ask(fetch({5: 1}, own, 5))

    assert answered(reported) == answered(again) == {5: len(sent)}
    assert answered(taken) == answered(forgotten) == {}
    assert answered(back) == {5: len(one(b"w"))}


async def test_a_session_that_is_not_there_or_not_in_step_is_refused(talk: Talk) -> None:
    own = (await talk.ask(fetch({0: 0}, 0, 0))).session_id

    assert (await talk.ask(fetch({}, own + 1, 1))).error_code.value == UNKNOWN
    assert (await talk.ask(fetch({}, own, 2))).error_code.value == INVALID_EPOCH
    anew = await talk.ask(fetch({0: 0}, own, 0))
    assert anew.session_id not in (0, own)
    assert (await talk.ask(fetch({}, own, 1))).error_code.value == UNKNOWN
    assert answered(await talk.ask(fetch({0: 0}, anew.session_id, -1))) == {0: 0}
    assert (await talk.ask(fetch({}, anew.session_id, 1))).error_code.value == UNKNOWN


async def test_a_session_tells_of_a_partition_that_is_gone(talk: Talk, broker: Broker) -> None:
    own = (await talk.ask(fetch({0: 0}, 0, 0))).session_id
    await broker._topics.delete("t")

    for epoch in (1, 2):
        answer = await talk.ask(fetch({}, own, epoch))
        assert [part.error_code.value for part in answer.responses[0].partitions] == [UNKNOWN_TOPIC]


async def test_who_asks_for_more_partitions_than_a_broker_has_gets_no_session(
    talk: Talk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch_sessions, "MAX_SESSION_PARTITIONS", 2)

    none = await talk.ask(fetch({0: 0, 1: 0, 2: 0}, 0, 0))
    assert (none.session_id, answered(none)) == (0, {0: 0, 1: 0, 2: 0})
    own = (await talk.ask(fetch({0: 0, 1: 0}, 0, 0))).session_id
    assert (await talk.ask(fetch({2: 0}, own, 1))).error_code.value == UNKNOWN
    assert (await talk.ask(fetch({}, own, 2))).error_code.value == UNKNOWN


def test_the_epoch_after_the_last_is_the_first() -> None:
    session = fetch_sessions.FetchSession(epoch=2**31 - 1)
    session.next_epoch()

    assert session.epoch == 1


class Reader:
    """A consumer of all partitions, in sessions, and the fetches it sent."""

    def __init__(self, consumer: Any) -> None:
        self.consumer = consumer
        self.named: list[int] = []
        self.sessions = FetchSessions(consumer._fetcher)
        build = SessionFetchRequest.build

        def noting(request: Any, struct_class: Any) -> Any:
            struct = build(request, struct_class)
            self.named.append(sum(len(parts) for _, parts in struct.topics))
            return struct

        self.noting = noting
        consumer.assign([TopicPartition("t", number) for number in range(PARTITIONS)])

    async def read(self, wanted: int) -> list[bytes]:
        """Return so many records."""
        found: list[bytes] = []
        async with asyncio.timeout(120):
            while len(found) < wanted:
                batch = await self.consumer.getmany(timeout_ms=1_000)
                found += [record.value for records in batch.values() for record in records]
        return found


@pytest.fixture
async def reader(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Reader]:
    await create_topic(broker.address, "t", PARTITIONS)
    consumer = AIOKafkaConsumer(bootstrap_servers=broker.address, auto_offset_reset="earliest")
    await consumer.start()
    reading = Reader(consumer)
    monkeypatch.setattr(SessionFetchRequest, "build", reading.noting)
    yield reading
    await consumer.stop()


@pytest.fixture
async def producer(broker: Broker) -> AsyncIterator[Any]:
    made = AIOKafkaProducer(bootstrap_servers=broker.address)
    await made.start()
    yield made
    await made.stop()


async def test_a_consumer_names_all_partitions_once_and_then_what_changed(
    reader: Reader, producer: Any
) -> None:
    for number in range(5):
        await producer.send_and_wait("t", b"%d" % number, partition=number)
        assert await reader.read(1) == [b"%d" % number]

    assert reader.named[0] == PARTITIONS
    assert len(reader.named) >= 5
    assert max(reader.named[1:]) <= 1


@dataclass(slots=True)
class Trial:
    """Records on their way to a reader, and what may happen to it meanwhile."""

    reader: Reader
    producer: Any
    broker: Broker
    chance: random.Random = field(default_factory=lambda: random.Random(5))
    sent: dict[int, list[bytes]] = field(default_factory=lambda: {number: [] for number in range(PARTITIONS)})
    read: dict[int, list[bytes]] = field(default_factory=lambda: {number: [] for number in range(PARTITIONS)})

    async def send_some(self, number: int) -> None:
        """Send a few records to any partitions."""
        for _ in range(self.chance.randrange(1, 6)):
            partition = self.chance.randrange(PARTITIONS)
            self.sent[partition].append(b"%d" % number)
            await self.producer.send_and_wait("t", b"%d" % number, partition=partition)

    def disturb(self) -> None:
        """End the session, cut the connection, read a partition again, or stop reading one for a moment."""
        consumer, partition = self.reader.consumer, self.chance.randrange(PARTITIONS)
        match self.chance.randrange(5):
            case 0:
                listener = self.broker._listener
                assert listener is not None
                for connection in listener.connections:
                    connection._sessions.current = None
            case 1:
                next(iter(consumer._client._conns.values())).close()
            case 2:
                consumer.seek(TopicPartition("t", partition), 0)
                self.read[partition] = []
            case 3:
                consumer.pause(TopicPartition("t", partition))
                consumer.resume(TopicPartition("t", partition))

    async def take_all(self) -> None:
        """Read until nothing is missing; every record in its place."""
        async with asyncio.timeout(120):
            while self.read != self.sent:
                for tp, records in (await self.reader.consumer.getmany(timeout_ms=1_000)).items():
                    found = self.read[tp.partition]
                    found += [record.value for record in records]
                    assert found == self.sent[tp.partition][: len(found)]


async def test_a_consumer_reads_every_record_in_order_whatever_breaks_its_session(
    reader: Reader, producer: Any, broker: Broker
) -> None:
    trial = Trial(reader, producer, broker)
    for number in range(60):
        await trial.send_some(number)
        trial.disturb()
        await trial.take_all()

    assert sum(named == PARTITIONS for named in reader.named) > 5
    assert min(reader.named) <= 1


@pytest.mark.parametrize("answer", [FetchResponse_v11(0, 0, 0, []), FetchResponse_v6(0, [])])
def test_a_session_that_an_old_or_full_broker_does_not_give_is_not_used(answer: Any) -> None:
    session, topics = FetchSession(), [("t", [(0, -1, 0, -1, 1)])]
    session.note(answer)
    request = FetchRequest_v11(-1, 500, 1, 9, 0, 0, -1, topics, [], "")
    session.apply(request, {("t", 0): (0, 1)})

    assert (request.session_id, request.session_epoch, request.topics) == (0, 0, topics)
