"""Measures how many records wait for the agents, from outside of them."""

from collections import Counter
from typing import Any, Final

from aiokafka import AIOKafkaConsumer, TopicPartition  # type: ignore[import-untyped]  # ships no types
from aiokafka.errors import KafkaError  # type: ignore[import-untyped]  # ships no types

from schemas.problems import StoreUnavailable
from schemas.topics import Topic
from streams.runtime.app import GROUP
from streams.runtime.kafka_client_config import LogAccess
from streams.runtime.topics import open_admin

CONSUMED: Final = (
    Topic.VERIFICATION_COMMANDS,
    Topic.FLOW_COMMANDS,
    Topic.SESSION_COMMANDS,
    Topic.REVIEW_COMMANDS,
    Topic.DECISIONS,
    Topic.WEBHOOK_DELIVERIES,
    Topic.AUDIT,
)
"""What agents take records from."""


async def measure_lag(access: LogAccess) -> dict[str, int]:
    """Return, by topic, how many records are in the log that no agent has settled.

    Raises:
        StoreUnavailable: No broker answers.
    """
    async with open_admin(access) as admin:
        partitions = [
            TopicPartition(topic["topic"], one["partition"])
            for topic in await admin.describe_topics()
            if topic["topic"] in CONSUMED
            for one in topic["partitions"]
        ]
        committed = await admin.list_consumer_group_offsets(GROUP, partitions=partitions)
    begins, ends = await _bounds(access, partitions)
    waiting = Counter[str]()
    for place in partitions:
        settled = max(committed[place].offset if place in committed else 0, begins[place])
        waiting[place.topic] += max(0, ends[place] - settled)
    return dict(waiting)


async def _bounds(access: LogAccess, partitions: list[Any]) -> tuple[dict[Any, int], dict[Any, int]]:
    """Return the first offset of every partition and the one its next record gets."""
    reader = AIOKafkaConsumer(**access.client(), enable_auto_commit=False)
    try:
        await reader.start()
        return await reader.beginning_offsets(partitions), await reader.end_offsets(partitions)
    except (KafkaError, OSError) as error:
        raise StoreUnavailable("no broker answers") from error
    finally:
        await reader.stop()
