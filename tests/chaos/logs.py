"""What lies in a fleet's log, read from outside, and ways to write into it what nobody should."""

import asyncio
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from aiokafka import AIOKafkaConsumer, TopicPartition  # type: ignore[import-untyped]  # ships no types

from app.doctor.invariants.topic_reader import read_topics
from schemas.events import DecisionEvent
from schemas.topics import TOPICS, Topic
from streams.runtime.app import GROUP
from streams.runtime.kafka_client_config import LogAccess
from streams.runtime.message import Delivery
from tests.chaos.sizes import patience

COMMANDS: Final = Topic.VERIFICATION_COMMANDS


@dataclass
class DecisionLog:
    """The decision topic."""

    sequences: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    """Of each verification, the sequence of its own events in the order they were first published."""
    repeats: int = 0

    def meet(self, delivery: Delivery, _: datetime) -> None:
        """Take one record in; those of a partition come in their order."""
        event = DecisionEvent.from_bytes(delivery.value or b"")
        if not event.type.startswith("verification."):
            return
        own = self.sequences[event.data.verification_id or ""]
        if event.sequence in own:
            self.repeats += 1
        else:
            own.append(event.sequence)


async def decision_log_of(access: LogAccess) -> DecisionLog:
    """Return what the decision topic tells."""
    published = DecisionLog()
    await read_topics(access, lambda name: name == Topic.DECISIONS, published.meet)
    return published


async def deliveries_in(access: LogAccess, topic: Topic = COMMANDS) -> list[Delivery]:
    """Return every record of a topic."""
    found: list[Delivery] = []
    await read_topics(access, lambda name: name == topic, lambda record, _: found.append(record))
    return found


async def forget_progress(access: LogAccess, topic: Topic = COMMANDS) -> None:
    """Let the agents begin the topic again from its oldest record; none of them may run."""
    consumer = AIOKafkaConsumer(**access.client(), group_id=GROUP, enable_auto_commit=False)
    await consumer.start()
    try:
        parts = [TopicPartition(topic, number) for number in range(_partitions(topic))]
        consumer.assign(parts)
        await consumer.commit(dict.fromkeys(parts, 0))
    finally:
        await consumer.stop()


async def lag_of(access: LogAccess, topic: Topic = COMMANDS) -> int:
    """Return how many records of the topic the agents have not committed."""
    consumer = AIOKafkaConsumer(**access.client(), group_id=GROUP, enable_auto_commit=False)
    await consumer.start()
    try:
        parts = [TopicPartition(topic, number) for number in range(_partitions(topic))]
        ends = await consumer.end_offsets(parts)
        return sum([ends[part] - (await consumer.committed(part) or 0) for part in parts])
    finally:
        await consumer.stop()


async def until_caught_up(access: LogAccess, topic: Topic = COMMANDS) -> None:
    """Return once the agents have committed every record of the topic."""
    async with asyncio.timeout(patience(180)):
        while await lag_of(access, topic):  # noqa: ASYNC110 - what is waited for is in another process
            await asyncio.sleep(0.2)


def _partitions(topic: Topic) -> int:
    return next(spec.partitions for spec in TOPICS if spec.topic is topic)
