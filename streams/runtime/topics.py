"""Creates every topic before anybody uses it; nothing is left to a broker's defaults."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

import structlog
from aiokafka.admin import AIOKafkaAdminClient, NewTopic  # type: ignore[import-untyped]  # ships no types
from aiokafka.errors import (  # type: ignore[import-untyped]  # ships no types
    KafkaError,
    TopicAlreadyExistsError,
    for_code,
)

from schemas.problems import StoreUnavailable, VeristreamError
from schemas.topics import TOPICS, Topic
from streams.runtime.tables import partitions_of

log = structlog.get_logger(__name__)

CHANGELOG_RETENTION_MS: Final = 30 * 24 * 3_600_000
"""What a table forgets with its changelog is still in the store."""


class PartitionsDiffer(VeristreamError):
    """A topic exists with another number of partitions; keys would change their places."""


async def ensure_topics(
    bootstrap: str, group: str, tables: Mapping[str, Topic], replication_factor: int = 1
) -> None:
    """Create the topics of `schemas.topics` and the changelogs of the tables; existing ones stay.

    `tables` names each table and the topic whose partitions it shares; `group` is the agents' id, which
    Faust puts before the changelog's name. Safe to run from several processes at once.

    Raises:
        StoreUnavailable: No broker answers, or it refuses to create a topic.
        PartitionsDiffer: A topic exists with another number of partitions.
    """
    wanted = [*_source_topics(replication_factor), *_changelogs(group, tables, replication_factor)]
    async with _admin(bootstrap) as admin:
        _refuse_failures(await admin.create_topics(wanted))
        described = await admin.describe_topics([topic.name for topic in wanted])
    _refuse_differences(wanted, described)


def changelog_of(group: str, table: str) -> str:
    """Return the name Faust gives a table's changelog."""
    return f"{group}-{table}-changelog"


def _source_topics(replication_factor: int) -> list[Any]:
    return [
        NewTopic(
            spec.topic,
            spec.partitions,
            replication_factor,
            topic_configs={"cleanup.policy": "delete", "retention.ms": str(spec.retention_ms)},
        )
        for spec in TOPICS
    ]


def _changelogs(group: str, tables: Mapping[str, Topic], replication_factor: int) -> list[Any]:
    configs = {"cleanup.policy": "compact,delete", "retention.ms": str(CHANGELOG_RETENTION_MS)}
    return [
        NewTopic(changelog_of(group, table), partitions_of(source), replication_factor, topic_configs=configs)
        for table, source in tables.items()
    ]


def _refuse_failures(response: Any) -> None:
    for topic, code, *_ in response.topic_errors:
        if code == 0:
            log.info("topics.created", topic=topic)
        elif code != TopicAlreadyExistsError.errno:
            raise StoreUnavailable(f"topic {topic} cannot be created: {for_code(code).__name__}")


def _refuse_differences(wanted: Sequence[Any], described: Sequence[Any]) -> None:
    found = {topic["topic"]: len(topic["partitions"]) for topic in described}
    for topic in wanted:
        if found.get(topic.name, 0) != topic.num_partitions:
            raise PartitionsDiffer(f"{topic.name}: {found.get(topic.name, 0)}, not {topic.num_partitions}")


@asynccontextmanager
async def _admin(bootstrap: str) -> AsyncIterator[Any]:
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    try:
        await admin.start()
        yield admin
    except (TimeoutError, KafkaError, OSError) as error:
        raise StoreUnavailable("no broker answers") from error
    finally:
        await admin.close()
