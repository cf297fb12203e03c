"""What is acknowledged outlives the process: kill -9 in the middle of writes, a full disk, a failed fsync."""

import asyncio
import contextlib
import errno
import os
import time
from pathlib import Path

import pytest
from aiokafka import (  # type: ignore[import-untyped]  # ships no types
    AIOKafkaConsumer,
    AIOKafkaProducer,
    TopicPartition,
)
from aiokafka.errors import KafkaError  # type: ignore[import-untyped]  # ships no types
from kio.schema.errors import ErrorCode
from kio.schema.offset_commit.v8 import request as committing
from kio.schema.offset_fetch.v7 import request as fetching
from kio.schema.types import GroupId, TopicName
from kio.static.primitive import i32, i64
from structlog.typing import EventDict

from app.broker.groups import Group
from app.broker.server import Broker
from app.broker.settings import BrokerSettings, Fsync
from tests.broker.builders import Talk, batch, one
from tests.broker.conftest import create_topic
from tests.broker.requests import fetch_request, produce_request
from tests.broker.runner import BrokerProcess
from tests.broker.test_groups import join_request


async def everything(address: str, topic: str, partitions: int) -> list[int]:
    """Read a topic to its end; return the numbers in it."""
    consumer = AIOKafkaConsumer(bootstrap_servers=address, auto_offset_reset="earliest")
    await consumer.start()
    try:
        places = [TopicPartition(topic, number) for number in range(partitions)]
        consumer.assign(places)
        ends = await consumer.end_offsets(places)
        await consumer.seek_to_beginning()
        found: list[int] = []
        async with asyncio.timeout(60):
            while len(found) < sum(ends.values()):
                for records in (await consumer.getmany(timeout_ms=500)).values():
                    found += [int(record.value.split()[0]) for record in records]
        return found
    finally:
        await consumer.stop()


async def write_until_killed(process: BrokerProcess, first: int, kill_after: int) -> set[int]:
    """Keep 50 records in flight, kill the broker after some; return what was acknowledged."""
    producer = AIOKafkaProducer(
        bootstrap_servers=process.address, enable_idempotence=True, request_timeout_ms=2000
    )
    await producer.start()
    acknowledged: set[int] = set()
    enough = asyncio.Event()

    async def write(number: int) -> None:
        with contextlib.suppress(KafkaError):
            await producer.send_and_wait("t", b"%d %s" % (number, b"x" * 300))
            acknowledged.add(number)
            if len(acknowledged) >= kill_after:
                enough.set()

    async def keep_writing(offset: int) -> None:
        for number in range(first + offset, first + 100_000, 50):
            await write(number)

    writers = [asyncio.create_task(keep_writing(offset)) for offset in range(50)]
    await enough.wait()
    await process.kill()
    for writer in writers:
        writer.cancel()
    await asyncio.gather(*writers, return_exceptions=True)
    with contextlib.suppress(KafkaError, TimeoutError):
        async with asyncio.timeout(0.1):
            await producer.stop()
    return acknowledged


@pytest.mark.parametrize("fsync", list(Fsync))
async def test_a_killed_broker_keeps_every_acknowledged_record(tmp_path: Path, fsync: Fsync) -> None:
    acknowledged: set[int] = set()
    for attempt, kill_after in enumerate((40, 700, 1500)):
        async with BrokerProcess(tmp_path, fsync=fsync) as process:
            if not attempt:
                await create_topic(process.address, "t", partitions=2)
            acknowledged |= await write_until_killed(process, attempt * 100_000, kill_after)

    async with BrokerProcess(tmp_path, fsync=fsync) as process:
        found = await everything(process.address, "t", 2)

    assert acknowledged <= set(found)
    assert len(found) == len(set(found))


async def test_a_full_disk_is_asked_to_the_producer_and_ends_with_the_shortage(tmp_path: Path) -> None:
    async with BrokerProcess(tmp_path, file_limit=60_000) as process:
        # the records are old, and the first sweep must not remove them on a slow machine
        await create_topic(process.address, "t", retention_ms="-1")
        async with await Talk.to(int(process.address.split(":")[1])) as talk:
            codes = []
            for number in range(10):
                answer = await talk.ask(produce_request("t", one(b"%d %s" % (number, b"x" * 9000))))
                codes.append(answer.responses[0].partition_responses[0].error_code)
            process.give_space()
            again = await talk.ask(produce_request("t", one(b"100")))
            fetched = await talk.ask(fetch_request("t", 0))

        found = await everything(process.address, "t", 1)
        await process.kill()
    async with BrokerProcess(tmp_path) as process:
        after_restart = await everything(process.address, "t", 1)

    written = [number for number, code in enumerate(codes) if code is ErrorCode.none]
    assert set(codes) == {ErrorCode.none, ErrorCode.kafka_storage_error}
    assert again.responses[0].partition_responses[0].error_code is ErrorCode.none
    assert fetched.responses[0].partitions[0].error_code is ErrorCode.none
    assert found == after_restart == [*written, 100]


async def test_a_new_topic_fails_cleanly_on_a_full_disk(tmp_path: Path) -> None:
    async with BrokerProcess(tmp_path, file_limit=1) as process:
        with pytest.raises(AssertionError):
            await create_topic(process.address, "t")
        process.give_space()

        await create_topic(process.address, "t")


async def test_a_commit_on_a_full_disk_is_refused_and_the_one_before_stays(tmp_path: Path) -> None:
    async with BrokerProcess(tmp_path, file_limit=100_000) as process:
        await create_topic(process.address, "t")
        async with await Talk.to(int(process.address.split(":")[1])) as talk:
            codes = [await _commit(talk, position) for position in range(60)]
            refused = codes.index(ErrorCode.coordinator_not_available)
            stored = await _committed(talk)
            process.give_space()
            again = await _commit(talk, 1000)
        await process.kill()
    async with BrokerProcess(tmp_path) as process, await Talk.to(int(process.address.split(":")[1])) as talk:
        after_restart = await _committed(talk)

    assert set(codes[:refused]) == {ErrorCode.none}
    assert stored == max(position for position, code in enumerate(codes) if code is ErrorCode.none)
    assert (again, after_restart) == (ErrorCode.none, 1000)


async def _commit(talk: Talk, position: int) -> ErrorCode:
    part = committing.OffsetCommitRequestPartition(
        partition_index=i32(0), committed_offset=i64(position), committed_metadata=None
    )
    topic = committing.OffsetCommitRequestTopic(name=TopicName("t"), partitions=(part,))
    request = committing.OffsetCommitRequest(group_id=GroupId("g"), member_id="", topics=(topic,))
    code: ErrorCode = (await talk.ask(request)).topics[0].partitions[0].error_code
    return code


async def _committed(talk: Talk) -> int:
    topic = fetching.OffsetFetchRequestTopic(name=TopicName("t"), partition_indexes=(i32(0),))
    request = fetching.OffsetFetchRequest(group_id=GroupId("g"), topics=(topic,), require_stable=False)
    return int((await talk.ask(request)).topics[0].partitions[0].committed_offset)


class FailingSync:
    """An fsync that fails as often as it is asked to."""

    def __init__(self, error: Exception | None = None) -> None:
        self.failures = 0
        self._error = error or OSError(errno.EIO, "the disk gave up")
        self._sync = os.fsync

    def __call__(self, fd: int) -> None:
        """Fail or sync."""
        if self.failures:
            self.failures -= 1
            raise self._error
        self._sync(fd)


async def test_a_failed_fsync_takes_the_records_back_before_anyone_saw_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing = FailingSync()
    monkeypatch.setattr(os, "fsync", failing)
    async with Broker(BrokerSettings(tmp_path, fsync=Fsync.ALWAYS)) as broker:
        await create_topic(broker.address, "t")
        async with await Talk.to(broker.port) as talk:
            records = [batch([(b"k", b"%d" % n)], producer_id=5, epoch=0, sequence=n) for n in range(3)]
            await talk.ask(produce_request("t", records[0]))
            failing.failures = 1
            refused = await talk.ask(produce_request("t", records[1]))
            retried = await talk.ask(produce_request("t", records[1]))
            last = await talk.ask(produce_request("t", records[2]))
            fetched = await talk.ask(fetch_request("t", 0))

    outcomes = [answer.responses[0].partition_responses[0] for answer in (refused, retried, last)]
    assert [outcome.error_code for outcome in outcomes] == [
        ErrorCode.kafka_storage_error,
        ErrorCode.none,
        ErrorCode.none,
    ]
    assert [outcome.base_offset for outcome in outcomes] == [-1, 1, 2]
    assert fetched.responses[0].partitions[0].high_watermark == 3


async def test_an_unexpected_error_while_syncing_refuses_its_writers_and_stops_nobody_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, logs: list[EventDict]
) -> None:
    failing = FailingSync(RuntimeError("a defect"))
    monkeypatch.setattr(os, "fsync", failing)
    async with Broker(BrokerSettings(tmp_path, fsync=Fsync.ALWAYS)) as broker:
        await create_topic(broker.address, "t")
        async with await Talk.to(broker.port) as talk, asyncio.timeout(60):
            failing.failures = 1
            refused = await talk.ask(produce_request("t", one(b"1")))
            retried = await talk.ask(produce_request("t", one(b"1")))

    outcomes = [answer.responses[0].partition_responses[0] for answer in (refused, retried)]
    assert [outcome.error_code for outcome in outcomes] == [ErrorCode.kafka_storage_error, ErrorCode.none]
    assert [outcome.base_offset for outcome in outcomes] == [-1, 0]
    assert [entry["task"] for entry in logs if entry["event"] == "background.task_ended"] == [
        "broker-flusher"
    ]


async def test_a_group_that_cannot_be_looked_at_does_not_end_the_expiry_of_silent_members(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expire = Group.expire
    looks: list[float] = []

    def failing_once(group: Group, now: float) -> None:
        looks.append(now)
        if len(looks) == 1:
            raise RuntimeError("a defect")
        expire(group, now)

    monkeypatch.setattr(Group, "expire", failing_once)
    async with Broker(BrokerSettings(tmp_path)) as broker, asyncio.timeout(60):
        broker._groups.group("watched")
        while len(looks) < 2:  # noqa: ASYNC110 - the look has no event
            await asyncio.sleep(0.01)


async def test_a_broker_that_did_not_run_for_a_while_removes_nobody_whose_heartbeats_it_could_not_read(
    tmp_path: Path,
) -> None:
    async with Broker(BrokerSettings(tmp_path, group_initial_delay_s=0.0)) as broker, asyncio.timeout(60):
        group = broker._groups.group("watched")
        joined = await group.join(join_request(session_s=1), asyncio.get_running_loop().time())
        await asyncio.sleep(0.01)  # the broker looks at its groups once a second
        time.sleep(2)  # noqa: ASYNC251 - the process gets no processor
        await asyncio.sleep(0.5)
        after_stall = set(group.members)
        while group.members:  # noqa: ASYNC110 - the look has no event
            await asyncio.sleep(0.01)

    assert after_stall == {joined.member_id}


async def test_a_failed_fsync_at_an_interval_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing = FailingSync()
    monkeypatch.setattr(os, "fsync", failing)
    failing.failures = 1
    async with Broker(BrokerSettings(tmp_path, flush_interval_s=0.01)) as broker:
        await create_topic(broker.address, "t")
        async with await Talk.to(broker.port) as talk:
            answer = await talk.ask(produce_request("t", one(b"1")))

    assert answer.responses[0].partition_responses[0].error_code is ErrorCode.none
    assert failing.failures == 0
