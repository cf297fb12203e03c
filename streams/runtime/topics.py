"""Create every topic before its first use, without relying on the broker's defaults."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

import structlog
from aiokafka.admin import AIOKafkaAdminClient, NewTopic  # type: ignore[import-untyped]  # ships no types
from aiokafka.errors import (  # type: ignore[import-untyped]  # ships no types
    InvalidReplicationFactorError,
    KafkaError,
    TopicAlreadyExistsError,
    for_code,
)

from schemas.problems import StoreUnavailable, VeristreamError
from schemas.topics import TOPICS, Topic
from streams.runtime.kafka_client_config import LogAccess
from streams.runtime.kafka_clients import started
from streams.runtime.tables import partitions_of

log = structlog.get_logger(__name__)

CHANGELOG_RETENTION_MS: Final = 30 * 24 * 3_600_000
"""What a table forgets with its changelog is still in the store."""

TIMESTAMP_TYPE, APPEND_TIME = "message.timestamp.type", "LogAppendTime"
"""Records carry the broker's time, so that a later copy can be distinguished from a new record."""

REQUEST_TIMEOUT_MS: Final = 10_000

VISIBLE_S: Final = 10.0
"""How long a topic just created may take to be known to every broker."""

_LOOK_AGAIN_S: Final = 0.1


class TopicUnfit(VeristreamError):
    """A topic exists in another form than needed; the message names the topic and the fix."""


class BrokersMissing(StoreUnavailable):
    """There are fewer brokers alive than copies are wanted of a topic."""


async def ensure_topics(access: LogAccess, group: str, tables: Mapping[str, Topic]) -> None:
    """Create the topics of `schemas.topics` and the changelogs of the tables; existing ones stay.

    `tables` names each table and the topic whose partitions it shares; `group` is the agents' id, which
    Faust puts before the changelog's name. Safe to run from several processes at once.

    Raises:
        StoreUnavailable: No broker answers, or it refuses to create a topic.
        BrokersMissing: Fewer brokers are alive than the replication factor.
        TopicUnfit: A topic exists with another number of partitions, or with fewer copies.
    """
    wanted = topics_wanted(access, group, tables)
    async with open_admin(access) as admin:
        found = await _described(admin)
        missing = [topic for topic in wanted if topic.name not in found]
        if missing:
            await _create(admin, access, missing)
            found = await _until_visible(admin, [topic.name for topic in wanted])
    for topic in wanted:
        refuse_unfit(topic, found[topic.name])


def changelog_of(group: str, table: str) -> str:
    """Return the name Faust gives a table's changelog."""
    return f"{group}-{table}-changelog"


def topics_wanted(access: LogAccess, group: str, tables: Mapping[str, Topic]) -> list[Any]:
    """Return every topic there must be, as aiokafka's `NewTopic`."""
    copies, in_sync = access.replication_factor, {"min.insync.replicas": str(access.min_insync_replicas)}
    dated = {"cleanup.policy": "delete", TIMESTAMP_TYPE: APPEND_TIME}
    configs = {"cleanup.policy": "compact,delete", "retention.ms": str(CHANGELOG_RETENTION_MS)}
    sources = [
        NewTopic(
            str(spec.topic),
            spec.partitions,
            copies,
            topic_configs={"retention.ms": str(spec.retention_ms)} | dated | in_sync,
        )
        for spec in TOPICS
    ]
    return sources + [
        NewTopic(changelog_of(group, table), partitions_of(source), copies, topic_configs=configs | in_sync)
        for table, source in tables.items()
    ]


def refuse_unfit(wanted: Any, described: Sequence[Mapping[str, Any]]) -> None:
    """Compare a topic's partitions, as its brokers describe them, with what is wanted.

    Raises:
        TopicUnfit: More or fewer partitions or fewer copies; records would be lost or misplaced.
    """
    name, there, needed = wanted.name, len(described), wanted.num_partitions
    if there < needed:
        fix = f"stop every worker, then: kafka-topics.sh --alter --topic {name} --partitions {needed}"
        raise TopicUnfit(f"topic {name} has {there} partitions and needs {needed}; {fix}")
    if there > needed:
        fix = "partitions cannot be taken away: delete the topic once nothing in it is needed"
        raise TopicUnfit(f"topic {name} has {there} partitions and needs {needed}; {fix}")
    copies = min(len(partition["replicas"]) for partition in described)
    if copies < wanted.replication_factor:
        fix = "add replicas with kafka-reassign-partitions.sh, or set SERVICE_KAFKA_REPLICATION_FACTOR lower"
        raise TopicUnfit(f"topic {name} is kept {copies} times, not {wanted.replication_factor}; {fix}")


async def _create(admin: Any, access: LogAccess, missing: Sequence[Any]) -> None:
    response = await admin.create_topics(missing)
    made = [topic for topic, code, *_ in response.topic_errors if code == 0]
    if made:
        log.info("topics.created", topics=made)
    for topic, code, *_ in response.topic_errors:
        if code == 0:
            continue
        if code == InvalidReplicationFactorError.errno:
            alive = len((await admin.describe_cluster())["brokers"])
            raise BrokersMissing(f"copies wanted: {access.replication_factor}, brokers alive: {alive}")
        if code != TopicAlreadyExistsError.errno:  # another process was quicker
            raise StoreUnavailable(f"topic {topic} cannot be created: {for_code(code).__name__}")


async def _described(admin: Any) -> dict[str, list[Mapping[str, Any]]]:
    """Return the partitions of every topic that has all its partitions described."""
    topics = await admin.describe_topics()  # of all: asking for one by name may create it
    return {topic["topic"]: topic["partitions"] for topic in topics if not topic["error_code"]}


async def _until_visible(admin: Any, names: Sequence[str]) -> dict[str, list[Mapping[str, Any]]]:
    async with asyncio.timeout(VISIBLE_S):
        while True:
            found = await _described(admin)
            if found.keys() >= set(names):
                return found
            await asyncio.sleep(_LOOK_AGAIN_S)


@asynccontextmanager
async def open_admin(access: LogAccess) -> AsyncIterator[Any]:
    """Open a client that describes and creates; an aiokafka admin client.

    Raises:
        StoreUnavailable: No broker answers, now or while the context lasts.
    """
    admin = AIOKafkaAdminClient(**access.client(), request_timeout_ms=REQUEST_TIMEOUT_MS)
    try:
        async with started(admin):
            yield admin
    except (TimeoutError, KafkaError, OSError) as error:
        raise StoreUnavailable(f"no broker answers: {type(error).__name__}") from error
