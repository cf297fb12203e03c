"""The writer: what it returns from is in the log, and a producer that died is replaced."""

import asyncio

import pytest
from aiokafka.errors import KafkaError  # type: ignore[import-untyped]  # ships no types

from app.broker.server import Broker
from schemas.problems import StoreUnavailable
from schemas.topics import Topic
from streams.runtime.producer import LogWriter, Outgoing, RecordTooLarge
from streams.runtime.replays import delivery_of
from tests.agents.support import (
    KEYS,
    everything_in,
)


def record(value: bytes) -> Outgoing:
    """A record for one partition."""
    return Outgoing(Topic.AUDIT, b"tenant", value, (("name", b"content"),), partition=1)


async def test_records_stand_in_the_log_in_the_order_they_were_written(
    broker: Broker, writer: LogWriter
) -> None:
    values = [str(number).encode() for number in range(200)]

    await writer.write(*map(record, values))

    found = await everything_in(broker.address, Topic.AUDIT)
    assert [item.value for item in found] == values
    assert {(item.partition, item.key, item.headers[:-1]) for item in found} == {
        (1, b"tenant", (("name", b"content"),))
    }
    assert len({KEYS.check(delivery_of(item)).id for item in found}) == len(values)


async def test_a_record_the_log_never_takes_is_distinguished_from_an_outage(writer: LogWriter) -> None:
    with pytest.raises(RecordTooLarge):
        await writer.write(record(b"x" * 2_000_000))

    await writer.write(record(b"small"))


async def test_a_producer_that_died_is_replaced(broker: Broker, writer: LogWriter) -> None:
    writer._producer._message_accumulator.fail_all(KafkaError("the sender died"))

    with pytest.raises(StoreUnavailable):
        await writer.write(record(b"lost"))
    await asyncio.gather(*(writer.write(record(b"found")) for _ in range(5)))

    assert [item.value for item in await everything_in(broker.address, Topic.AUDIT)] == [b"found"] * 5
