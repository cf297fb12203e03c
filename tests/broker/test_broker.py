"""The broker as a whole: its directory, its address, its topics, its housekeeping."""

import asyncio
import os
import resource
from collections.abc import Callable
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer  # type: ignore[import-untyped]  # ships no types
from kio.index import load_request_schema
from kio.schema.delete_topics.v6.request import DeleteTopicsRequest, DeleteTopicState
from kio.schema.init_producer_id.v4.request import InitProducerIdRequest
from kio.schema.metadata.v12.request import MetadataRequest, MetadataRequestTopic
from kio.schema.types import TopicName
from structlog.typing import EventDict

from app.broker.errors import BrokerLocked, RemoteAddressRefused
from app.broker.server import Broker, raise_file_limit
from app.broker.settings import DAY_MS, BrokerSettings, Fsync
from tests.broker.builders import T0_S, Talk, one
from tests.broker.conftest import create_topic
from tests.broker.requests import fetch_request, milliseconds, produce_request
from tests.broker.runner import BrokerProcess
from tests.broker.test_versions import smallest


async def until(holds: Callable[[], object]) -> None:
    """Wait for something the broker does in the background."""
    async with asyncio.timeout(60):
        while not holds():  # noqa: ASYNC110 - the broker says this to nobody
            await asyncio.sleep(0.01)


async def test_the_address_is_where_it_listens_and_what_it_logs(
    settings: BrokerSettings, logs: list[EventDict]
) -> None:
    async with Broker(settings) as broker, await Talk.to(broker.port) as talk:
        assert broker.address == f"127.0.0.1:{broker.port}"
        assert (await talk.ask(smallest(load_request_schema(60, 0)))).brokers[0].port == broker.port
    started = next(entry for entry in logs if entry["event"] == "broker.started")
    assert started["address"] == broker.address
    assert logs[-1]["event"] == "broker.stopped"


@pytest.mark.usefixtures("broker")
async def test_a_directory_has_one_broker(settings: BrokerSettings) -> None:
    with pytest.raises(BrokerLocked, match=f"in use by process {os.getpid()}"):
        async with Broker(settings):
            pass


async def test_a_directory_in_use_by_another_process_is_refused_until_that_one_dies(tmp_path: Path) -> None:
    async with BrokerProcess(tmp_path) as process:
        with pytest.raises(BrokerLocked, match="choose another directory"):
            async with Broker(BrokerSettings(tmp_path)):
                pass
        await process.kill()
    async with Broker(BrokerSettings(tmp_path)) as broker:
        assert broker.port


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "broker.example"])  # noqa: S104 - refused
async def test_an_address_others_can_reach_is_refused_with_its_fix(tmp_path: Path, host: str) -> None:
    with pytest.raises(RemoteAddressRefused, match="allow_remote"):
        async with Broker(BrokerSettings(tmp_path, host=host)):
            pass


async def test_clients_learn_the_address_they_reached_it_at(tmp_path: Path) -> None:
    everywhere = "0.0.0.0"  # noqa: S104 - allowed for this test
    async with (
        Broker(BrokerSettings(tmp_path, host=everywhere, allow_remote=True)) as broker,
        await Talk.to(broker.port) as talk,
    ):
        answer = await talk.ask(smallest(load_request_schema(60, 0)))
    assert answer.brokers[0].host == "127.0.0.1"


async def test_a_port_in_use_leaves_the_directory_free(broker: Broker, tmp_path: Path) -> None:
    other = tmp_path / "other"
    with pytest.raises(OSError, match="address already in use"):
        async with Broker(BrokerSettings(other, port=broker.port)):
            pass
    flushers = [task for task in asyncio.all_tasks() if task.get_name() == "broker-flusher"]
    assert len(flushers) == 1
    async with Broker(BrokerSettings(other)) as second:
        assert second.port


async def test_closing_twice_is_closing_once(settings: BrokerSettings) -> None:
    async with Broker(settings) as broker:
        await broker.aclose()
    async with Broker(settings):
        pass


def test_the_limit_of_open_files_is_raised_as_far_as_allowed() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)

    assert raise_file_limit() == hard
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == (hard, hard)


def asking_for(topic: str, *, allow: bool = True) -> MetadataRequest:
    """Return a question about a topic that may be made by asking."""
    named = MetadataRequestTopic(topic_id=None, name=TopicName(topic))
    return MetadataRequest(
        topics=(named,), allow_auto_topic_creation=allow, include_topic_authorized_operations=False
    )


async def test_a_topic_is_made_by_asking_for_it_when_both_sides_allow_that(tmp_path: Path) -> None:
    settings = BrokerSettings(tmp_path, default_partitions=3)
    async with Broker(settings) as broker, await Talk.to(broker.port) as talk:
        unasked = await talk.ask(asking_for("t", allow=False))
        made = await talk.ask(asking_for("t"))
        bad = await talk.ask(asking_for("no spaces"))
    assert [answer.topics[0].error_code.value for answer in (unasked, made, bad)] == [3, 0, 17]
    assert len(made.topics[0].partitions) == 3


async def test_no_topic_is_made_by_asking_when_that_is_off(tmp_path: Path) -> None:
    settings = BrokerSettings(tmp_path, auto_create_topics=False)
    async with Broker(settings) as broker, await Talk.to(broker.port) as talk:
        answer = await talk.ask(asking_for("t"))
    assert answer.topics[0].error_code.value == 3


async def test_producer_ids_are_never_given_out_twice(settings: BrokerSettings) -> None:
    given = []
    for _ in range(2):
        async with Broker(settings) as broker, await Talk.to(broker.port) as talk:
            for _ in range(3):
                request = InitProducerIdRequest(transactional_id=None, transaction_timeout=milliseconds(1000))
                given.append((await talk.ask(request)).producer_id)
    assert len(set(given)) == 6


async def test_a_deleted_topic_made_again_is_empty(settings: BrokerSettings) -> None:
    async with Broker(settings) as broker, await Talk.to(broker.port) as talk:
        await create_topic(broker.address, "t")
        await talk.ask(produce_request("t", one(b"old")))
        async with AIOKafkaConsumer("t", bootstrap_servers=broker.address, group_id="g") as consumer:
            await consumer.seek_to_end()
            await consumer.commit()
        await broker._topics.delete("t")
        broker._groups.forget_topic("t")
        gone = await talk.ask(produce_request("t", one(b"lost")))
        await create_topic(broker.address, "t")
        fetched = await talk.ask(fetch_request("t", 0))
        assert broker._groups.committed("g") == {}
    assert gone.responses[0].partition_responses[0].error_code.value == 3
    assert fetched.responses[0].partitions[0].high_watermark == 0
    assert len(list((settings.directory / "topics").iterdir())) == 1


async def test_a_consumer_waiting_for_a_topic_is_notified_of_its_deletion(broker: Broker) -> None:
    await create_topic(broker.address, "t")
    partition = broker._topics.partition("t", 0)
    assert partition is not None
    request = fetch_request("t", 0, wait_ms=60_000)
    async with await Talk.to(broker.port) as talk:
        talk.send(request)
        await until(lambda: partition.watchers)
        async with await Talk.to(broker.port) as other:
            deletion = DeleteTopicsRequest(
                topics=(DeleteTopicState(topic_id=None, name=TopicName("t")),), timeout=milliseconds(1000)
            )
            await other.ask(deletion)
        answer = await talk.receive(request)
    assert answer.responses[0].partitions[0].error_code.value == 3


async def test_a_long_poll_may_be_capped(tmp_path: Path) -> None:
    settings = BrokerSettings(tmp_path, max_fetch_wait_s=0.01)
    async with Broker(settings) as broker, await Talk.to(broker.port) as talk:
        await create_topic(broker.address, "t")
        answer = await talk.ask(fetch_request("t", 0, wait_ms=10_000_000))
    assert answer.responses[0].partitions[0].records == b""


async def test_nothing_is_shown_before_it_is_synced_when_every_write_is(tmp_path: Path) -> None:
    async with Broker(BrokerSettings(tmp_path, fsync=Fsync.ALWAYS)) as broker:
        await create_topic(broker.address, "t")
        partition = broker._topics.partition("t", 0)
        assert partition is not None
        partition.append(one(b"v"))
        async with await Talk.to(broker.port) as talk:
            before = await talk.ask(fetch_request("t", 0))
            await talk.ask(produce_request("t", one(b"w")))
            after = await talk.ask(fetch_request("t", 0))
    assert before.responses[0].partitions[0].high_watermark == 0
    assert after.responses[0].partitions[0].high_watermark == 2


async def test_old_segments_are_retired_in_the_background(tmp_path: Path, logs: list[EventDict]) -> None:
    settings = BrokerSettings(tmp_path, upkeep_interval_s=0.02)
    async with Broker(settings, now_ms=lambda: T0_S * 1000 + DAY_MS) as broker:
        await create_topic(broker.address, "t", segment_bytes="1024", retention_ms="60000")
        async with await Talk.to(broker.port) as talk:
            for number in range(20):
                await talk.ask(produce_request("t", one(b"x" * 300, at_s=T0_S + number)))
            partition = broker._topics.partition("t", 0)
            assert partition is not None
            await until(lambda: partition.start_offset == 20)
            gone = await talk.ask(fetch_request("t", 0))
            answer = await talk.ask(produce_request("t", one(b"v", at_s=T0_S + DAY_MS // 1000)))
    assert gone.responses[0].partitions[0].error_code.value == 1
    assert answer.responses[0].partition_responses[0].base_offset == 20
    assert [entry for entry in logs if entry["event"] == "broker.segments_retired"]


async def test_a_table_is_compacted_while_it_is_written_and_read(tmp_path: Path) -> None:
    settings = BrokerSettings(tmp_path, upkeep_interval_s=0.05, flush_interval_s=0.01)
    async with Broker(settings) as broker:
        await create_topic(
            broker.address, "table", cleanup_policy="compact", segment_bytes="20000",
            min_cleanable_dirty_ratio="0.1",
        )  # fmt: skip
        async with AIOKafkaProducer(bootstrap_servers=broker.address, enable_idempotence=True) as producer:
            for start in range(0, 5000, 100):
                sent = [
                    await producer.send("table", b"%d" % number, key=b"k%d" % (number % 50))
                    for number in range(start, start + 100)
                ]
                await asyncio.gather(*sent)
        partition = broker._topics.partition("table", 0)
        assert partition is not None
        await until(lambda: partition.closed_segments() and partition.compact_to > 2500)
        async with AIOKafkaConsumer(
            "table", bootstrap_servers=broker.address, auto_offset_reset="earliest"
        ) as consumer:
            table: dict[bytes, int] = {}
            count, last = 0, -1
            async with asyncio.timeout(60):
                while last < 4999:
                    record = await consumer.getone()
                    assert record.offset > last
                    table[record.key], count, last = int(record.value), count + 1, record.offset
    assert sorted(table.values()) == list(range(4950, 5000))
    assert count < 4000, (count, partition.compact_to)
    assert all(value % 50 == int(key[1:]) for key, value in table.items())
