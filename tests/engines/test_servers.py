"""The engines themselves: they keep what they acknowledged, and guard the doors they are told to guard."""

import asyncio
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition  # type: ignore[import-untyped]  # no types
from aiokafka.errors import KafkaError  # type: ignore[import-untyped]  # ships no types
from cassandra.cluster import NoHostAvailable

from tests.engines.cassandra_server import CassandraServer
from tests.engines.certificates import Authority
from tests.engines.kafka_server import KafkaServer, Lock
from tests.engines.kafka_topics import create_topic

pytestmark = pytest.mark.engines

KEYSPACE = "CREATE KEYSPACE kept WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}"


async def write_one(bootstrap: str, topic: str, value: bytes, **options: Any) -> None:
    """Write one record and wait for its acknowledgement."""
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, acks="all", **options)
    await producer.start()
    try:
        await producer.send_and_wait(topic, value)
    finally:
        await producer.stop()


async def read_one(bootstrap: str, topic: str) -> bytes:
    """Read the first record of the first partition."""
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap)
    await consumer.start()
    try:
        partition = TopicPartition(topic, 0)
        consumer.assign([partition])
        await consumer.seek_to_beginning(partition)
        found: bytes = (await consumer.getone()).value
        return found
    finally:
        await consumer.stop()


async def test_kafka_keeps_what_it_acknowledged_when_it_is_killed(tmp_path: Path) -> None:
    async with KafkaServer(tmp_path) as kafka:
        await create_topic(kafka.bootstrap, "kept")
        await write_one(kafka.bootstrap, "kept", b"acknowledged")
        await kafka.restart()

        assert await read_one(kafka.bootstrap, "kept") == b"acknowledged"


async def test_cassandra_keeps_what_it_acknowledged_when_it_is_killed(tmp_path: Path) -> None:
    async with CassandraServer(tmp_path) as cassandra:
        await asyncio.to_thread(write_rows, cassandra.cluster())
        await cassandra.restart()

        assert await asyncio.to_thread(count_rows, cassandra.cluster()) == 200


def write_rows(cluster: Any) -> None:
    """Write two hundred rows, each acknowledged."""
    with cluster:
        session = cluster.connect()
        session.execute(KEYSPACE)
        session.execute("CREATE TABLE kept.rows (id int PRIMARY KEY)")
        statement = session.prepare("INSERT INTO kept.rows (id) VALUES (?)")
        for future in [session.execute_async(statement, (number,)) for number in range(200)]:
            future.result()


def count_rows(cluster: Any) -> int:
    """Count the rows that are there."""
    with cluster:
        found: int = cluster.connect("kept").execute("SELECT count(*) FROM rows").one()[0]
        return found


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
async def test_a_locked_kafka_lets_in_who_knows_the_password(mechanism: str, tmp_path: Path) -> None:
    authority = Authority.make(tmp_path / "authority")
    lock = Lock("alice", "a password", authority.sign("kafka"))
    login = {"sasl_mechanism": mechanism, "sasl_plain_username": "alice", "sasl_plain_password": "a password"}
    login |= {"security_protocol": "SASL_SSL"}
    topic, trust = f"locked-{uuid4()}", authority.client_context()
    async with KafkaServer(tmp_path / "kafka", lock=lock) as kafka:
        await create_topic(kafka.bootstrap, topic)
        await write_one(kafka.locked_bootstrap, topic, b"in", ssl_context=trust, **login)

        assert await read_one(kafka.bootstrap, topic) == b"in"
        with pytest.raises(KafkaError):
            await write_one(
                kafka.locked_bootstrap,
                topic,
                b"out",
                ssl_context=trust,
                **login | {"sasl_plain_password": "x"},
            )


async def test_a_locked_cassandra_lets_in_who_knows_the_password_and_has_a_certificate(
    tmp_path: Path,
) -> None:
    authority = Authority.make(tmp_path / "authority")
    identity, login = authority.sign("cassandra"), ("alice", "it's secret")
    server = CassandraServer(tmp_path / "cassandra", login=login, identity=identity, clients=authority)
    async with server as cassandra:
        assert await asyncio.to_thread(can_enter, cassandra.cluster())
        assert not await asyncio.to_thread(can_enter, cassandra.cluster(("alice", "wrong")))
        assert not await asyncio.to_thread(can_enter, cassandra.stranger())


def can_enter(cluster: Any) -> bool:
    """Whether the server lets this client in."""
    try:
        with cluster:
            cluster.connect()
    except NoHostAvailable:
        return False
    return True
