"""The notices of changed lists: written by who changed one, read by every process from now on (G116).

A process that reads notices looks by itself only now and then; one that does not, every other second.
"""

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import Any, Final, Self

import structlog
from aiokafka import AIOKafkaConsumer, TopicPartition  # type: ignore[import-untyped]  # ships no types
from aiokafka.errors import KafkaError  # type: ignore[import-untyped]  # ships no types
from pydantic import ValidationError

from schemas.ids import PLATFORM, TenantId
from schemas.problems import VeristreamError
from schemas.tenant_lists import ListChanged
from schemas.topics import Topic
from streams.lists.handler import Announce
from streams.runtime.authentication import RecordKeys, Unauthentic
from streams.runtime.background import BackgroundTask
from streams.runtime.fetch_waits import ONE_PARTITION_WAIT_MS, FetchWaits
from streams.runtime.kafka_client_config import LogAccess
from streams.runtime.kafka_clients import started
from streams.runtime.producer import LogWriter, Outgoing
from streams.runtime.replays import delivery_of

log = structlog.get_logger(__name__)

REOPEN_S: Final = 1.0
LONGEST_PAUSE_S: Final = 30.0


def announcing(writer: LogWriter, forget: Callable[[TenantId], None]) -> Announce:
    """Return what tells this process at once, and the others by the log, that a list changed."""

    async def announce(changed: ListChanged) -> None:
        forget(changed.tenant_id)
        key = f"{changed.tenant_id}:{changed.list}".encode()
        try:
            await writer.write(Outgoing(Topic.LIST_CHANGES, key, changed.to_bytes(), partition=0))
        except VeristreamError:
            log.warning("lists.announce_failed", list=changed.list)

    return announce


class ListChanges:
    """Calls `forget` with the tenant of each notice; an async context, which does not wait for the log.

    Whenever it begins to read, `forget` is called with the platform, whose lists may have changed meanwhile.
    """

    def __init__(self, access: LogAccess, keys: RecordKeys, forget: Callable[[TenantId], None]) -> None:
        self._access = access
        self._keys = keys
        self._forget = forget
        self._task = BackgroundTask(self._listen, "list-changes")
        self.listening = asyncio.Event()
        """Set while notices are read."""
        self.refused = 0
        """Notices that were forged or unreadable."""

    async def __aenter__(self) -> Self:
        """Start to read."""
        self._task.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop reading."""
        await self._task.stop()

    async def _listen(self) -> None:
        failures = 0
        while True:
            try:
                await self._read()
            except (KafkaError, OSError) as error:
                failures = 1 if self.listening.is_set() else failures + 1
                log.warning("lists.reader_disconnected", error=type(error).__name__, failures=failures)
            finally:
                self.listening.clear()
            await asyncio.sleep(min(LONGEST_PAUSE_S, REOPEN_S * float(1 << min(max(0, failures - 1), 10))))

    async def _read(self) -> None:
        consumer = AIOKafkaConsumer(
            **self._access.client(), auto_offset_reset="latest", enable_auto_commit=False
        )
        async with started(consumer):
            FetchWaits(consumer._fetcher, patient_wait_ms=ONE_PARTITION_WAIT_MS)  # noqa: SLF001  # not offered
            place = TopicPartition(Topic.LIST_CHANGES, 0)
            consumer.assign([place])
            await consumer.seek_to_end(place)
            await consumer.position(place)
            self.listening.set()
            self._forget(PLATFORM)  # a notice may have been written while nobody read
            async for record in consumer:
                self._hear(record)

    def _hear(self, record: Any) -> None:
        try:
            self._keys.check(delivery_of(record))
            changed = ListChanged.from_bytes(record.value or b"")
        except (Unauthentic, ValidationError):
            self.refused += 1
            return
        self._forget(changed.tenant_id)
