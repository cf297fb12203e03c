"""Records written at the same time share a batch, and no caller decides what becomes of another's."""

import asyncio
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest
from aiokafka import TopicPartition  # type: ignore[import-untyped]  # ships no types

from app.broker.server import Broker
from schemas.topics import Topic
from streams.runtime.agents import buffered
from streams.runtime.producer import LogWriter, Outgoing, RecordTooLarge
from streams.runtime.record_batches import MAX_BATCH_BYTES, append
from tests.agents.support import everything_in

PLACE = TopicPartition(str(Topic.AUDIT), 1)


def record(value: bytes) -> Outgoing:
    """A record for one partition."""
    return Outgoing(Topic.AUDIT, b"tenant", value, partition=PLACE.partition)


async def values(broker: Broker) -> list[bytes]:
    """What stands in the log, in its order."""
    return [item.value for item in await everything_in(broker.address, Topic.AUDIT)]


async def test_records_of_one_turn_of_the_loop_share_a_batch_and_its_future(
    broker: Broker, writer: LogWriter
) -> None:
    batches = {append(writer._producer, PLACE, b"key", b"%d" % number, []) for number in range(100)}

    assert len(batches) == 1
    await batches.pop()
    assert await values(broker) == [b"%d" % number for number in range(100)]


async def test_what_a_batch_has_no_room_for_follows_in_the_next(broker: Broker, writer: LogWriter) -> None:
    written = [bytes([number]) * (MAX_BATCH_BYTES // 4) for number in range(20)]

    batches = {append(writer._producer, PLACE, b"key", value, []) for value in written}

    assert len(batches) > 1
    await asyncio.gather(*batches)
    assert await values(broker) == written


async def test_a_record_that_is_too_large_fails_its_own_caller_alone(
    broker: Broker, writer: LogWriter
) -> None:
    small = [record(b"%d" % number) for number in range(10)]

    async with asyncio.TaskGroup() as writing:
        for one in small:
            writing.create_task(writer.write(one))
        with pytest.raises(RecordTooLarge):
            await writer.write(record(b"x" * 2_000_000))

    assert await values(broker) == [one.value for one in small]


async def test_a_caller_that_is_cancelled_takes_its_batch_from_nobody(
    broker: Broker, writer: LogWriter
) -> None:
    first, second = (asyncio.create_task(writer.write(record(value))) for value in (b"first", b"second"))
    await asyncio.sleep(0)
    first.cancel()

    await second
    assert first.cancelled()
    assert b"second" in await values(broker)


class Buffer:
    """A stream with what was delivered to it, and the app around it."""

    def __init__(self, generations: list[int]) -> None:
        self.queue = asyncio.Queue[Any]()
        self.taken: list[Any] = []
        self.current: list[Any] = []
        for generation in generations:
            self.queue.put_nowait(SimpleNamespace(message=SimpleNamespace(generation_id=generation)))
        self.flows = True
        self.app = SimpleNamespace(
            consumer_generation_id=2,
            flow_control=SimpleNamespace(is_active=lambda: self.flows),
            consumer=SimpleNamespace(take=self.taken.append),
        )
        self.stream = SimpleNamespace(
            channel=SimpleNamespace(queue=self.queue), _set_current_event=self.current.append
        )

    def events(self) -> Iterator[Any]:
        """What an agent is given."""
        return buffered(cast("Any", self.app), cast("Any", self.stream), cast("Any", "first"))


async def test_an_agent_is_given_all_that_waits_in_its_buffer() -> None:
    buffer = Buffer([2, 2])

    first, *others = buffer.events()

    assert (first, others) == ("first", buffer.current)
    assert [event.message for event in others] == buffer.taken
    assert len(others) == 2


async def test_what_was_delivered_before_a_rebalance_is_passed_over() -> None:
    buffer = Buffer([1, 2, 1])

    assert len(list(buffer.events())) == 2
    assert buffer.queue.empty()


async def test_nothing_more_is_taken_while_the_flow_is_suspended() -> None:
    buffer = Buffer([2, 2])
    events = buffer.events()
    next(events)
    buffer.flows = False

    assert list(events) == []
    assert buffer.taken == []
