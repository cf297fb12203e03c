"""Kafka's own command line works against the embedded broker."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer  # type: ignore[import-untyped]  # ships no types
from structlog.testing import capture_logs

from app.broker.scram import Mechanism
from app.broker.server import Broker
from app.broker.settings import BrokerSettings
from app.broker.users import OWNER
from tests.broker.signing_in import READABLE, guarded_broker
from tests.engines.kafka_tools import KafkaTools
from tests.engines.kafka_topics import create_topic

pytestmark = pytest.mark.engines


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Keep what the broker logs off the screen."""
    with capture_logs():
        yield


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Broker]:
    """An embedded broker that makes no topic unasked."""
    async with Broker(BrokerSettings(tmp_path / "broker", auto_create_topics=False)) as running:
        yield running


@pytest.fixture
def tools(broker: Broker, tmp_path: Path) -> KafkaTools:
    """The tools of the release the tests run Kafka with."""
    return KafkaTools.at(broker.address, tmp_path / "tools")


def rows(table: str) -> list[list[str]]:
    """The rows of a table a tool printed, without its head, sorted."""
    lines = [line.split() for line in table.splitlines() if line.strip()]
    head = next(number for number, words in enumerate(lines) if words[0] == "GROUP")
    return sorted(lines[head + 1 :])


async def test_topics_are_made_shown_extended_and_deleted(tools: KafkaTools) -> None:
    await tools("topics", "--create", "--topic", "t", "--partitions", "2", "--config", "retention.ms=100000")
    again = await tools("topics", "--create", "--topic", "t")
    await tools("topics", "--alter", "--topic", "t", "--partitions", "3")
    described = await tools("topics", "--describe", "--topic", "t")
    listed = await tools("topics", "--list")
    await tools("topics", "--delete", "--topic", "t")
    left = await tools("topics", "--list")

    assert "topic 't' already exists" in again
    assert "PartitionCount: 3\tReplicationFactor: 1\tConfigs: retention.ms=100000" in described
    assert [line.split("\t")[2:4] for line in described.splitlines()[1:]] == [
        [f"Partition: {number}", "Leader: 1"] for number in range(3)
    ]
    assert (listed.split(), left.split()) == (["t"], [])


async def test_configurations_of_a_topic_are_set_and_shown(broker: Broker, tools: KafkaTools) -> None:
    await create_topic(broker.address, "t")
    of_topic = ("--entity-type", "topics", "--entity-name", "t")
    await tools("configs", "--alter", *of_topic, "--add-config", "cleanup.policy=compact,segment.ms=60000")
    refused = await tools("configs", "--alter", *of_topic, "--add-config", "segment.ms=soon")
    shown = await tools("configs", "--describe", *of_topic)

    assert "invalid value 'soon' for segment.ms" in refused
    assert {line.split()[0] for line in shown.splitlines()[1:]} == {
        "cleanup.policy=compact",
        "segment.ms=60000",
    }


async def test_what_the_console_produces_the_console_consumes_in_a_group(
    broker: Broker, tools: KafkaTools
) -> None:
    await create_topic(broker.address, "t")
    keyed = ("--reader-property", "parse.key=true", "--reader-property", "key.separator=:")
    await tools("produce", "--topic", "t", *keyed, given="a:one\nb:two\nc:three\n")
    reading = ("--topic", "t", "--from-beginning", "--group", "g", "--timeout-ms", "20000")
    keys = ("--formatter-property", "print.key=true")
    first = await tools("consume", *reading, *keys, "--max-messages", "2")
    lag = await tools("groups", "--describe", "--group", "g")
    second = await tools("consume", *reading, "--max-messages", "1")

    assert [line for line in first.splitlines() if "\t" in line] == ["a\tone", "b\ttwo"]
    assert rows(lag)[0][:6] == ["g", "t", "0", "2", "3", "1"]
    assert "three" in second.splitlines()


async def test_a_groups_offsets_are_reset_forgotten_and_the_group_deleted(
    broker: Broker, tools: KafkaTools
) -> None:
    await create_topic(broker.address, "t", partitions=2)
    await tools("produce", "--topic", "t", given="one\ntwo\n")
    reset = await tools(
        "groups", "--group", "g", "--reset-offsets", "--to-latest", "--topic", "t", "--execute"
    )
    listed = await tools("groups", "--list", "--state")
    forgotten = await tools("groups", "--group", "g", "--delete-offsets", "--topic", "t:1")
    shown = await tools("groups", "--describe", "--group", "g")
    deleted = await tools("groups", "--delete", "--group", "g")
    left = await tools("groups", "--list")

    assert sum(int(row[3]) for row in rows(reset)) == 2
    assert rows(listed) == [["g", "Empty"]]
    assert "Successful" in forgotten
    assert [row[:3] for row in rows(shown) if row[0] == "g"] == [["g", "t", "0"]]
    assert "successful" in deleted
    assert left.split() == []


async def test_the_members_of_a_group_are_shown_with_what_they_read(
    broker: Broker, tools: KafkaTools
) -> None:
    await create_topic(broker.address, "t", partitions=2)
    consumer = AIOKafkaConsumer("t", bootstrap_servers=broker.address, group_id="g", client_id="reader")
    await consumer.start()
    try:
        shown = await tools("groups", "--describe", "--group", "g", "--members", "--verbose")
        refused = await tools("groups", "--delete", "--group", "g")
    finally:
        await consumer.stop()

    (member,) = rows(shown)
    assert [member[3], member[4], member[6]] == ["reader", "2", "t:0,1"]
    assert "GroupNotEmptyException" in refused


async def test_offsets_are_found_by_place_and_by_time(broker: Broker, tools: KafkaTools) -> None:
    await create_topic(broker.address, "t")
    await tools("produce", "--topic", "t", given="one\ntwo\n")
    asked = ("earliest", "latest", "max-timestamp", "0")
    found = await asyncio.gather(*(tools("offsets", "--topic", "t", "--time", time) for time in asked))

    assert [line.strip() for line in found] == ["t:0:0", "t:0:2", "t:0:1", "t:0:0"]


async def test_many_compressed_records_arrive(broker: Broker, tools: KafkaTools) -> None:
    await create_topic(broker.address, "t", partitions=2)
    size = ("--num-records", "5000", "--record-size", "200", "--throughput", "-1")
    compressed = ("--command-property", "compression.type=zstd")
    sent = await tools("produce-many", "--topic", "t", *size, *compressed)
    read = await tools("consume-many", "--topic", "t", "--num-records", "5000", "--timeout", "20000")

    assert "5000 records sent" in sent
    assert [row.split(", ")[4] for row in read.splitlines() if row.startswith("20")] == ["5000"]


async def test_the_disk_a_partition_takes_is_shown(broker: Broker, tools: KafkaTools, tmp_path: Path) -> None:
    await create_topic(broker.address, "t")
    await tools("produce", "--topic", "t", given="one\n")
    shown = await tools("log-dirs", "--describe", "--topic-list", "t")

    described = json.loads(shown[shown.index("{") :])
    (log_dir,) = described["brokers"][0]["logDirs"]
    sizes = {partition["partition"]: partition["size"] for partition in log_dir["partitions"]}
    (file,) = await asyncio.to_thread(lambda: list((tmp_path / "broker").rglob("*.log")))
    assert sizes == {"t-0": file.stat().st_size}


async def test_the_files_on_disk_are_readable_to_kafkas_own_dump(
    broker: Broker, tools: KafkaTools, tmp_path: Path
) -> None:
    await create_topic(broker.address, "t")
    await tools("produce", "--topic", "t", given="one\ntwo\n")
    (file,) = await asyncio.to_thread(lambda: list((tmp_path / "broker").rglob("*.log")))
    dumped = await tools("dump", "--files", str(file), "--print-data-log", local=True)

    assert "isvalid: true" in dumped
    assert [line.rpartition("payload: ")[2] for line in dumped.splitlines() if "payload: " in line] == [
        "one",
        "two",
    ]


async def test_what_is_not_served_is_refused_by_its_name(
    broker: Broker, tools: KafkaTools, tmp_path: Path
) -> None:
    await create_topic(broker.address, "t")
    offsets_file = tmp_path / "wish.json"
    offsets_file.write_text('{"version": 1, "partitions": [{"topic": "t", "partition": 0, "offset": 0}]}')
    refused = await tools("delete-records", "--offset-json-file", str(offsets_file))

    assert "does not support DELETE_RECORDS" in refused


def signed_in(folder: Path, name: str, password: str, mechanism: Mechanism) -> str:
    """Write what a Java client signs in with and return the file's name."""
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    path = folder / f"{name}.properties"
    path.write_text(
        "security.protocol=SASL_PLAINTEXT\n"
        f"sasl.mechanism={mechanism.value}\n"
        f'sasl.jaas.config={module} required username="{name}" password="{password}";\n'
    )
    return str(path)


@pytest.mark.parametrize("mechanism", list(Mechanism))
async def test_java_clients_sign_in_and_readers_only_read(tmp_path: Path, mechanism: Mechanism) -> None:
    async with guarded_broker(tmp_path) as guarded:
        tools = KafkaTools.at(guarded.address, tmp_path / "tools")
        owner = signed_in(tmp_path, OWNER, guarded.owner_password, mechanism)
        reader = signed_in(tmp_path, "billing", guarded.reader_password, mechanism)
        asked = ("--topic", READABLE, "--from-beginning", "--max-messages", "1", "--timeout-ms", "20000")
        await tools("produce", "--topic", READABLE, "--command-config", owner, given="decided\n")
        read = await tools("consume", *asked, "--group", "billing", "--command-config", reader)
        foreign = await tools("consume", *asked, "--group", "veristream-v1", "--command-config", reader)
        refused = await tools("topics", "--create", "--topic", "t", "--command-config", reader)

    assert "decided" in read
    assert "GroupAuthorizationException" in foreign
    assert "TopicAuthorizationException" in refused
