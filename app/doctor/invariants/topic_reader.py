"""Read whole topics, from the log start offset to the end offset at the beginning of the read."""

from collections.abc import Callable, Collection
from datetime import datetime
from typing import Any, Final

from aiokafka import AIOKafkaConsumer, TopicPartition  # type: ignore[import-untyped]  # ships no types
from aiokafka.errors import KafkaError  # type: ignore[import-untyped]  # ships no types

from app.doctor.invariants.log_state import moment
from schemas.problems import StoreUnavailable
from streams.runtime.kafka_client_config import LogAccess
from streams.runtime.kafka_clients import started
from streams.runtime.message import Delivery
from streams.runtime.replays import delivery_of
from streams.runtime.topics import open_admin

_WAIT_MS: Final = 500

Receive = Callable[[Delivery, datetime], None]
"""Takes a record and the time it was written."""


async def read_topics(access: LogAccess, chosen: Callable[[str], bool], receive: Receive) -> None:
    """Pass every record of the chosen topics to a function; uses no group and commits nothing.

    Raises:
        StoreUnavailable: No broker answers.
    """
    parts = await _partitions(access, chosen)
    reader = AIOKafkaConsumer(
        **access.client(), enable_auto_commit=False, auto_offset_reset="earliest", group_id=None
    )
    try:
        async with started(reader):
            reader.assign(parts)
            await _read(reader, parts, receive)
    except (KafkaError, OSError) as error:
        raise StoreUnavailable("no broker answers") from error


async def _partitions(access: LogAccess, chosen: Callable[[str], bool]) -> list[Any]:
    async with open_admin(access) as admin:
        names = sorted(name for name in await admin.list_topics() if chosen(name))
        described = await admin.describe_topics(names) if names else []
    return [
        TopicPartition(topic["topic"], part["partition"])
        for topic in described
        for part in topic["partitions"]
    ]


async def _read(reader: Any, parts: Collection[Any], receive: Receive) -> None:
    ends = await reader.end_offsets(parts)
    starts = await reader.beginning_offsets(parts)
    for part in parts:
        reader.seek(part, starts[part])
    unread = {part for part in parts if starts[part] < ends[part]}
    while unread:
        batches = await reader.getmany(*unread, timeout_ms=_WAIT_MS)
        for part, records in batches.items():
            for record in records:
                if record.offset < ends[part]:
                    receive(delivery_of(record), moment(record.timestamp))
        unread = {part for part in unread if await reader.position(part) < ends[part]}
