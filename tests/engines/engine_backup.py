"""The documented backup over Kafka and Cassandra by the engines' own tools, and its restore."""

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from aiokafka import AIOKafkaConsumer, TopicPartition  # type: ignore[import-untyped]  # ships no types

from schemas.topics import TOPICS, Topic
from tests.engines.cassandra_server import CassandraServer
from tests.engines.cassandra_tools import NodeTool
from tests.engines.deployment import Deployment
from tests.engines.kafka_server import KafkaServer

KEYSPACE: Final = "veristream"
NAME: Final = "monday"

LEADS_S: Final = 120.0
"""How long a broker may take to lead its partitions on a busy machine."""


async def take(deployment: Deployment, backup: Path) -> None:
    """Back a deployment up while its roles are stopped; Kafka is stopped meanwhile as well."""
    node = await asyncio.to_thread(NodeTool.at, deployment.cassandra)
    await node("flush", KEYSPACE)
    await node("snapshot", "-t", NAME, KEYSPACE)
    schema = await asyncio.to_thread(describe, deployment.cassandra)
    await deployment.kafka.stop()
    await asyncio.to_thread(_copy, deployment, backup, schema)
    await node("clearsnapshot", "-t", NAME, KEYSPACE)
    await deployment.kafka.start()
    await serving(deployment.kafka)


async def serving(kafka: KafkaServer) -> None:
    """Return once a broker that was started on its old log leads every partition of the decisions."""
    consumer = AIOKafkaConsumer(bootstrap_servers=kafka.bootstrap)
    await consumer.start()
    count = next(spec.partitions for spec in TOPICS if spec.topic is Topic.DECISIONS)
    try:
        async with asyncio.timeout(LEADS_S):
            await consumer.end_offsets([TopicPartition(str(Topic.DECISIONS), n) for n in range(count)])
    finally:
        await consumer.stop()


def describe(cassandra: CassandraServer) -> list[str]:
    """The statements of `cqlsh -e "DESCRIBE KEYSPACE veristream WITH INTERNALS"`."""
    with cassandra.session() as session:
        rows: Any = session.execute(f"DESCRIBE KEYSPACE {KEYSPACE} WITH INTERNALS")
        return [row.create_statement for row in rows]


def _copy(deployment: Deployment, backup: Path, schema: list[str]) -> None:
    backup.mkdir()
    (backup / "schema.cql").write_text("\n".join(schema))
    for snapshot in _tables(deployment.cassandra).glob(f"*/snapshots/{NAME}"):
        shutil.copytree(snapshot, backup / "tables" / snapshot.parent.parent.name)
    shutil.copytree(deployment.kafka.folder / "kept", backup / "kafka")
    shutil.copytree(deployment.folder / "evidence", backup / "evidence")


def _tables(cassandra: CassandraServer) -> Path:
    return cassandra.folder / "kept" / "data" / KEYSPACE


@asynccontextmanager
async def restored(deployment: Deployment, backup: Path, folder: Path) -> AsyncIterator[Deployment]:
    """The backup in engines of its own, beside the service; its roles are not started."""
    shutil.copytree(backup / "kafka", folder / "kafka" / "kept")
    shutil.copytree(backup / "evidence", folder / "evidence")
    async with AsyncExitStack() as stack:
        cassandra = CassandraServer(folder / "cassandra")
        kafka = await stack.enter_async_context(KafkaServer(folder / "kafka"))
        await serving(kafka)
        await stack.enter_async_context(cassandra)
        await asyncio.to_thread(_define, cassandra, (backup / "schema.cql").read_text())
        await cassandra.stop()
        for table in (backup / "tables").iterdir():
            shutil.copytree(table, _tables(cassandra) / table.name, dirs_exist_ok=True)
        await cassandra.start()
        service = replace(deployment.service, data_dir=folder / "front")
        copy = Deployment(folder, kafka, cassandra, service, deployment.worker)
        yield copy


def _define(cassandra: CassandraServer, schema: str) -> None:
    with cassandra.session() as session:
        for statement in schema.split(";\n"):
            session.execute(statement, timeout=60)
