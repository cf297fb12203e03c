"""librdkafka (confluent-kafka) against the broker: a client family that shares no code with aiokafka."""

import asyncio
import time
from collections.abc import Callable
from typing import Any, TypeVar

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # re-exported without saying so
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

from app.broker.server import Broker
from tests.broker.conftest import create_topic

T = TypeVar("T")

DEADLINE_S = 180.0


async def aside(work: Callable[[], T]) -> T:
    """Run a blocking client beside the broker."""
    return await asyncio.wait_for(asyncio.to_thread(work), DEADLINE_S + 10)


def produced(address: str, topic: str, count: int, **options: Any) -> list[str]:
    """Produce numbered records; return what was refused."""
    producer = Producer({"bootstrap.servers": address, **options})
    failures: list[str] = []

    def delivered(error: KafkaError | None, _: object) -> None:
        if error is not None:
            failures.append(error.str())

    for number in range(count):
        producer.produce(topic, b"value %d" % number, key=b"%d" % (number % 9), on_delivery=delivered)
        producer.poll(0)
    left = producer.flush(DEADLINE_S)
    return failures + ["not delivered"] * left


def consumed(consumers: list[Consumer], count: int) -> list[list[bytes]]:
    """Read with all consumers until there are so many records altogether."""
    found: list[list[bytes]] = [[] for _ in consumers]
    end = time.monotonic() + DEADLINE_S
    while sum(map(len, found)) < count and time.monotonic() < end:
        for consumer, mine in zip(consumers, found, strict=True):
            for message in consumer.consume(500, 0.1):
                assert message.error() is None
                mine.append(message.value() or b"")
    return found


def consumer_of(address: str, group: str, **options: Any) -> Consumer:
    """A member of a group that begins at the beginning."""
    return Consumer(
        {
            "bootstrap.servers": address,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "heartbeat.interval.ms": 100,
            "session.timeout.ms": 60_000,
            **options,
        }
    )


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
async def test_an_idempotent_producer_works_with_every_compression(broker: Broker, codec: str) -> None:
    await create_topic(broker.address, "t", partitions=3)
    options = {"enable.idempotence": True, "compression.type": codec, "linger.ms": 5}

    def run() -> None:
        assert produced(broker.address, "t", 3000, **options) == []
        consumer = consumer_of(broker.address, f"g-{codec}")
        consumer.subscribe(["t"])
        (found,) = consumed([consumer], 3000)
        consumer.close()
        assert sorted(found) == sorted(b"value %d" % number for number in range(3000))

    await aside(run)


async def test_two_members_share_the_partitions(broker: Broker) -> None:
    await create_topic(broker.address, "t", partitions=4)

    def run() -> None:
        members = [consumer_of(broker.address, "g") for _ in range(2)]
        for member in members:
            member.subscribe(["t"])
        end = time.monotonic() + DEADLINE_S
        while [len(m.assignment()) for m in members] != [2, 2] and time.monotonic() < end:
            for member in members:
                member.poll(0.05)
        assert produced(broker.address, "t", 2000) == []
        found = consumed(members, 2000)
        for member in members:
            member.close()
        assert all(found)
        assert len(found[0] + found[1]) == len({*found[0], *found[1]}) == 2000

    await aside(run)


async def test_static_members_and_cooperative_rebalancing_work(broker: Broker) -> None:
    await create_topic(broker.address, "t", partitions=4)
    assert await aside(lambda: produced(broker.address, "t", 400)) == []

    def run() -> None:
        options = {"partition.assignment.strategy": "cooperative-sticky", "auto.commit.interval.ms": 100}
        first = consumer_of(broker.address, "g", **{"group.instance.id": "one", **options})
        first.subscribe(["t"])
        (found,) = consumed([first], 400)
        second = consumer_of(broker.address, "g", **{"group.instance.id": "two", **options})
        second.subscribe(["t"])
        end = time.monotonic() + DEADLINE_S
        while len(second.assignment()) != 2 and time.monotonic() < end:
            first.poll(0.05)
            second.poll(0.05)
        shares = (len(first.assignment()), len(second.assignment()))
        first.close()
        second.close()
        assert len(found) == 400
        assert shares == (2, 2)

    await aside(run)


async def test_ordinary_tools_can_look_around(broker: Broker) -> None:
    await create_topic(broker.address, "t", partitions=2, cleanup_policy="compact")

    def run() -> None:
        admin = AdminClient({"bootstrap.servers": broker.address})
        member = consumer_of(broker.address, "g", **{"client.id": "looker"})
        member.subscribe(["t"])
        assert produced(broker.address, "t", 10) == []
        consumed([member], 10)
        member.commit(asynchronous=False)

        cluster = admin.describe_cluster().result(DEADLINE_S)
        assert [node.id for node in cluster.nodes] == [1]
        assert len(admin.list_topics("t", DEADLINE_S).topics["t"].partitions) == 2
        listing = admin.list_consumer_groups().result(DEADLINE_S)
        assert [group.group_id for group in listing.valid] == ["g"]
        described = admin.describe_consumer_groups(["g"])["g"].result(DEADLINE_S)
        assert described.state.name == "STABLE"
        assert [one.client_id for one in described.members] == ["looker"]
        assert len(described.members[0].assignment.topic_partitions) == 2
        resource = ConfigResource(ResourceType.TOPIC, "t")
        configs = admin.describe_configs([resource])[resource].result(DEADLINE_S)
        assert configs["cleanup.policy"].value == "compact"
        assert configs["retention.ms"].is_default
        ended = member.committed([TopicPartition("t", 0), TopicPartition("t", 1)], DEADLINE_S)
        member.close()
        assert sum(partition.offset for partition in ended) == 10
        admin.delete_consumer_groups(["g"])["g"].result(DEADLINE_S)
        assert admin.list_consumer_groups().result(DEADLINE_S).valid == []

    await aside(run)


async def test_topics_are_made_changed_and_deleted(broker: Broker) -> None:
    def run() -> None:
        admin = AdminClient({"bootstrap.servers": broker.address})
        admin.create_topics([NewTopic("t", 1, 1)])["t"].result(DEADLINE_S)
        with pytest.raises(KafkaException, match="already exists"):
            admin.create_topics([NewTopic("t", 1, 1)])["t"].result(DEADLINE_S)
        with pytest.raises(KafkaException, match="letters"):
            admin.create_topics([NewTopic("no spaces", 1, 1)])["no spaces"].result(DEADLINE_S)
        with pytest.raises(KafkaException, match="one replica"):
            admin.create_topics([NewTopic("u", 1, 3)])["u"].result(DEADLINE_S)
        with pytest.raises(KafkaException, match="retention"):
            admin.create_topics([NewTopic("u", 1, 1, config={"retention.ms": "soon"})])["u"].result(
                DEADLINE_S
            )
        admin.create_partitions([NewPartitions("t", 3)])["t"].result(DEADLINE_S)
        assert len(admin.list_topics("t", DEADLINE_S).topics["t"].partitions) == 3
        entry = ConfigEntry("retention.ms", "60000", incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, "t", incremental_configs=[entry])
        admin.incremental_alter_configs([resource])[resource].result(DEADLINE_S)
        configs = admin.describe_configs([resource])[resource].result(DEADLINE_S)
        assert configs["retention.ms"].value == "60000"
        admin.delete_topics(["t"])["t"].result(DEADLINE_S)
        with pytest.raises(KafkaException, match=r"UNKNOWN_TOPIC_OR_PART|[Uu]nknown topic"):
            admin.delete_topics(["t"])["t"].result(DEADLINE_S)

    await aside(run)


async def test_a_transactional_producer_is_refused_clearly(broker: Broker) -> None:
    def run() -> None:
        producer = Producer({"bootstrap.servers": broker.address, "transactional.id": "tx"})
        with pytest.raises(KafkaException, match=r"[Tt]ransaction"):
            producer.init_transactions(DEADLINE_S)

    await aside(run)
