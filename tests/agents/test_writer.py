"""The writer: what it returns from is in the log, and a producer that died is replaced."""

import asyncio
import time

import pytest
from aiokafka.errors import KafkaError  # type: ignore[import-untyped]  # ships no types
from kio.schema.errors import ErrorCode

from app.broker.errors import Refused
from app.broker.log import PartitionLog
from app.broker.server import Broker
from schemas.problems import StoreUnavailable
from schemas.topics import Topic
from streams.runtime import producer
from streams.runtime.kafka_client_config import LogAccess
from streams.runtime.producer import LogWriter, NeverSent, Outgoing, RecordTooLarge
from streams.runtime.replays import delivery_of
from tests.agents.support import (
    KEYS,
    everything_in,
)

GIVES_UP_MS = 2_000
"""When a write gives up in these tests; a busy machine can connect within it."""


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


def lead_nothing(monkeypatch: pytest.MonkeyPatch, for_s: float) -> None:
    """Let the broker lead no partition for so long from the first record on, as one that just created them.

    A write gives up before.
    """
    append = PartitionLog.append
    led_at: list[float] = []

    def take(log: PartitionLog, records: bytes) -> int:
        if not led_at:
            led_at.append(time.monotonic() + for_s)
        if time.monotonic() < led_at[0]:
            raise Refused(ErrorCode.not_leader_or_follower)
        return append(log, records)

    monkeypatch.setattr(PartitionLog, "append", take)
    monkeypatch.setattr(producer, "REQUEST_TIMEOUT_MS", GIVES_UP_MS)


async def test_a_start_waits_longer_than_a_write_for_partitions_to_have_leaders(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    lead_nothing(monkeypatch, for_s=1.5 * GIVES_UP_MS / 1_000)

    async with LogWriter(LogAccess(broker.address), KEYS) as writer:
        await writer.write(record(b"after the election"))

    assert [item.value for item in await everything_in(broker.address, Topic.AUDIT)] == [
        b"after the election"
    ]


async def test_a_start_that_waited_in_vain_says_why(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    lead_nothing(monkeypatch, for_s=600)
    monkeypatch.setattr(producer, "LEADER_ELECTION_S", 0.0)

    with pytest.raises(NeverSent, match="takes no record: NotLeaderForPartitionError"):
        async with LogWriter(LogAccess(broker.address), KEYS):
            pass


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
