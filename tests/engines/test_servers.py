"""The engines themselves: what they acknowledged is there after a kill, and a pause ends."""

import asyncio
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition  # type: ignore[import-untyped]  # no types
from typing_extensions import override

from tests.engines.cassandra_server import CassandraServer
from tests.engines.jvm import ARCHIVE, EngineNotStarted, JvmServer, archive_folder, leave_archive
from tests.engines.kafka_server import KafkaServer
from tests.engines.kafka_topics import create_topic
from tests.engines.maven import KAFKA_JARS, made_once, resolve

pytestmark = pytest.mark.engines

KEYSPACE = "CREATE KEYSPACE kept WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}"


class KilledKafka(KafkaServer):
    """A Kafka that is killed where it is asked to end."""

    @override
    async def stop(self) -> None:
        await self.kill()


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


@pytest.mark.parametrize("kind", [KafkaServer, CassandraServer])
async def test_a_server_maps_the_classes_that_one_before_it_archived(
    kind: type[JvmServer], tmp_path: Path
) -> None:
    async with kind.plain(tmp_path) as server:
        find: Any = psutil.Process  # untyped
        mapped = {one.path for one in find(server.pid).memory_maps()}

    assert str(archive_folder(server.jars.folder) / ARCHIVE) in mapped


def test_a_server_that_is_killed_before_it_archived_its_classes_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jars = resolve(KAFKA_JARS)
    monkeypatch.setenv("VERISTREAM_ENGINES_CACHE", str(tmp_path))
    KAFKA_JARS.folder.symlink_to(jars)
    folder = archive_folder(KAFKA_JARS.folder)
    with pytest.raises(EngineNotStarted, match="without leaving an archive"):
        made_once(folder, partial(leave_archive, KilledKafka))

    assert not folder.exists()


async def test_a_paused_kafka_answers_when_it_goes_on(tmp_path: Path) -> None:
    async with KafkaServer(tmp_path) as kafka:
        await create_topic(kafka.bootstrap, "paused")
        kafka.pause()
        writing = asyncio.create_task(write_one(kafka.bootstrap, "paused", b"late"))
        done, _ = await asyncio.wait({writing}, timeout=1)
        kafka.resume()
        await writing

        assert not done
        assert await read_one(kafka.bootstrap, "paused") == b"late"


async def test_cassandra_keeps_what_it_acknowledged_when_it_is_killed(tmp_path: Path) -> None:
    async with CassandraServer(tmp_path) as cassandra:
        await asyncio.to_thread(write_rows, cassandra)
        await cassandra.restart()

        assert await asyncio.to_thread(count_rows, cassandra) == 200


def write_rows(cassandra: CassandraServer) -> None:
    """Write two hundred rows, each acknowledged."""
    with cassandra.session() as session:
        session.execute(KEYSPACE)
        session.execute("CREATE TABLE kept.rows (id int PRIMARY KEY)")
        statement = session.prepare("INSERT INTO kept.rows (id) VALUES (?)")
        for future in [session.execute_async(statement, (number,)) for number in range(200)]:
            future.result()


def count_rows(cassandra: CassandraServer) -> int:
    """Count the rows that are there."""
    with cassandra.session("kept") as session:
        found: int = session.execute("SELECT count(*) FROM rows").one()[0]
        return found
