"""Checkpoints of the audit log in their topic: one partition, one record for each checkpoint."""

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from aiokafka import AIOKafkaConsumer, TopicPartition  # type: ignore[import-untyped]  # ships no types
from aiokafka.errors import KafkaError  # type: ignore[import-untyped]  # ships no types
from typing_extensions import override

from schemas.checkpoints import Checkpoint
from schemas.problems import StoreUnavailable
from schemas.topics import Topic
from streams.audit.checkpointing import CheckpointCopy
from streams.runtime.kafka_client_config import LogAccess
from streams.runtime.kafka_clients import started
from streams.runtime.producer import LogWriter, Outgoing

READ_WITHIN_S: Final = 30.0
"""How long the whole topic may take: some 60 MB at most."""

_WAIT_MS: Final = 500
_PARTITION: Final = TopicPartition(Topic.AUDIT_CHECKPOINTS, 0)


class CheckpointTopic(CheckpointCopy):
    """Read the whole topic without a group, and append to it if there is a writer."""

    def __init__(self, access: LogAccess, writer: LogWriter | None = None) -> None:
        self._access = access
        self._writer = writer

    @override
    async def read(self, *, everything: bool = False) -> Sequence[bytes]:
        del everything
        reader = AIOKafkaConsumer(
            **self._access.client(), enable_auto_commit=False, auto_offset_reset="earliest", group_id=None
        )
        try:
            async with asyncio.timeout(READ_WITHIN_S), started(reader):
                return await _read(reader)
        except (KafkaError, OSError, TimeoutError) as error:
            raise StoreUnavailable(f"the topic of checkpoints: {type(error).__name__}") from error

    @override
    async def append(self, checkpoints: Sequence[Checkpoint]) -> None:
        if self._writer is None:
            raise StoreUnavailable("the topic of checkpoints is only read here")
        await self._writer.write(
            *(Outgoing(Topic.AUDIT_CHECKPOINTS, b"checkpoint", one.line, partition=0) for one in checkpoints)
        )


async def _read(reader: Any) -> list[bytes]:
    reader.assign([_PARTITION])
    end = (await reader.end_offsets([_PARTITION]))[_PARTITION]
    start = (await reader.beginning_offsets([_PARTITION]))[_PARTITION]
    reader.seek(_PARTITION, start)
    lines: list[bytes] = []
    while start < end and await reader.position(_PARTITION) < end:
        batches = await reader.getmany(_PARTITION, timeout_ms=_WAIT_MS)
        lines += [record.value or b"" for record in batches.get(_PARTITION, ()) if record.offset < end]
    return lines
