"""When fetches are sent, and how long they wait: long where a record ends the wait."""

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pytest
from aiokafka import (  # type: ignore[import-untyped]  # ships no types
    AIOKafkaConsumer,
    AIOKafkaProducer,
    TopicPartition,
)
from aiokafka.protocol.fetch import FetchRequest  # type: ignore[import-untyped]  # ships no types

from app.broker.server import Broker
from schemas.topics import Topic
from streams.runtime import fetch_waits
from streams.runtime.fetch_waits import FETCH_WAIT_MS, LEAST_PAUSE_S, PATIENT_WAIT_MS, FetchWaits

BUSY, QUIET = TopicPartition(Topic.DECISIONS, 0), TopicPartition(Topic.DECISIONS, 1)


@dataclass(slots=True)
class Reader:
    """A consumer of two partitions, the waits of its fetches, and when planning each began and ended."""

    consumer: Any
    steady: bool = True
    notified: int = 0
    waits_ms: list[int] = field(default_factory=list)
    planned_s: list[tuple[float, float]] = field(default_factory=list)
    taken: int = 0

    def begin(self) -> None:
        """Choose the waits, and note those that are asked for."""
        fetcher = self.consumer._fetcher
        FetchWaits(fetcher, lambda: self.steady, on_records=self.notify, last_taken=lambda: self.taken)
        client = self.consumer._client
        send = client.send

        async def noting(node: int, request: Any, **more: Any) -> Any:
            if isinstance(request, FetchRequest):
                self.waits_ms.append(request._max_wait_ms)
            return await send(node, request, **more)

        client.send = noting
        plan = fetcher._get_actions_per_node

        def planning(assignment: Any) -> Any:
            began_s = time.monotonic()
            planned = plan(assignment)
            if planned[0]:
                self.planned_s.append((began_s, time.monotonic()))
            return planned

        fetcher._get_actions_per_node = planning
        self.consumer.assign([BUSY, QUIET])

    def notify(self) -> None:
        """Note that records wait."""
        self.notified += 1

    async def until_next(self, wait_ms: int) -> None:
        """Return once another fetch was sent with this wait."""
        seen = len(self.waits_ms)
        async with asyncio.timeout(120):
            while wait_ms not in self.waits_ms[seen:]:  # noqa: ASYNC110 - the library tells nobody
                await asyncio.sleep(0.01)


@pytest.fixture
async def reader(broker: Broker) -> AsyncIterator[Reader]:
    consumer = AIOKafkaConsumer(bootstrap_servers=broker.address, fetch_max_wait_ms=FETCH_WAIT_MS)
    await consumer.start()
    reading = Reader(consumer)
    reading.begin()
    yield reading
    await consumer.stop()


async def test_a_fetch_that_leaves_nothing_out_waits_long(reader: Reader) -> None:
    await reader.until_next(PATIENT_WAIT_MS)


async def test_a_fetch_waits_shortly_while_a_seek_may_come(reader: Reader) -> None:
    reader.steady = False

    await reader.until_next(FETCH_WAIT_MS)


async def test_a_fetch_waits_shortly_while_records_of_a_partition_wait_to_be_taken(
    reader: Reader, broker: Broker
) -> None:
    await reader.until_next(PATIENT_WAIT_MS)
    await produce(broker)

    await reader.until_next(FETCH_WAIT_MS)
    assert reader.notified
    assert await reader.consumer.getmany(BUSY, timeout_ms=10_000)
    await reader.until_next(PATIENT_WAIT_MS)


async def test_fetches_rest_while_records_come_one_after_another(
    reader: Reader, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch_waits, "PAUSE_S", 0.1)
    monkeypatch.setattr(fetch_waits, "MOST_PAUSE_S", 1.0)
    reader.taken = 2
    await reader.until_next(PATIENT_WAIT_MS)
    for _ in range(4):
        await produce(broker)
        assert await reader.consumer.getmany(BUSY, timeout_ms=60_000)

    pauses = [ended_s - began_s for (began_s, _), (_, ended_s) in pairwise(reader.planned_s)]
    assert len(pauses) >= 3
    assert min(pauses) >= LEAST_PAUSE_S + 2 * 0.1


async def test_no_fetch_rests_while_a_seek_may_come(reader: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch_waits, "LEAST_PAUSE_S", 600.0)
    monkeypatch.setattr(fetch_waits, "MOST_PAUSE_S", 600.0)
    await reader.until_next(PATIENT_WAIT_MS)
    reader.steady = False

    await reader.until_next(FETCH_WAIT_MS)


async def test_partitions_are_not_looked_through_while_their_fetch_is_under_way(
    reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch_waits, "LEAST_PAUSE_S", 0.0)
    looked_at: list[Any] = []
    fetcher = reader.consumer._fetcher
    look = fetcher._select_read_replica

    def looking(partition: Any) -> Any:
        looked_at.append(partition)
        return look(partition)

    fetcher._select_read_replica = looking
    await reader.until_next(PATIENT_WAIT_MS)
    assert {*looked_at} == {BUSY, QUIET}

    looked_at.clear()
    while not fetcher._in_flight:  # noqa: ASYNC110 - the library tells nobody
        await asyncio.sleep(0.01)
    requests, _, rest_s, *_ = fetcher._get_actions_per_node(
        reader.consumer._subscription.subscription.assignment
    )

    assert (requests, rest_s, looked_at) == ([], PATIENT_WAIT_MS / 1000, [])


async def test_what_follows_a_waiting_fetch_on_its_connection_does_not_wait_for_it(broker: Broker) -> None:
    consumer = AIOKafkaConsumer(
        bootstrap_servers=broker.address, fetch_max_wait_ms=300_000, request_timeout_ms=400_000
    )
    await consumer.start()
    consumer.assign([BUSY])
    await consumer.seek_to_end(BUSY)
    await consumer.position(BUSY)
    while not consumer._fetcher._in_flight:  # noqa: ASYNC110 - the library tells nobody
        await asyncio.sleep(0.01)

    async with asyncio.timeout(120):
        assert await consumer.end_offsets([BUSY]) == {BUSY: 0}
    await consumer.stop()


async def produce(broker: Broker) -> None:
    """Write one record to the busy partition."""
    producer = AIOKafkaProducer(bootstrap_servers=broker.address)
    await producer.start()
    await producer.send_and_wait(BUSY.topic, b"record", partition=BUSY.partition)
    await producer.stop()
