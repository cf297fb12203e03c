"""Writes to the log and waits until the broker has it; the one producer of a process."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Self

from aiokafka import AIOKafkaProducer  # type: ignore[import-untyped]  # ships no types
from aiokafka.errors import KafkaError, MessageSizeTooLargeError  # type: ignore[import-untyped]  # ships no types

from schemas.problems import StoreUnavailable, VeristreamError
from schemas.topics import TOPICS
from streams.runtime.access import LogAccess

MAX_RECORD_BYTES: Final = 1_000_000
"""Largest record written, keys and headers included; brokers take 1 MiB unless told otherwise."""

REQUEST_TIMEOUT_MS: Final = 10_000
"""How long a write is tried again before it counts as failed."""


class RecordTooLarge(VeristreamError):
    """The log takes no record of this size, now or later."""


class NeverSent(StoreUnavailable):
    """Nothing was written, and nothing of it can still come to be."""


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A record to be written; without a partition the key decides."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...] = ()
    partition: int | None = None


class LogWriter:
    """Writes records with `acks=all`, in order per partition; an async context, shared by whoever writes.

    Not idempotent in Kafka's sense: a batch given up in a long outage leaves a hole in the sequence that
    aiokafka's producer never recovers from. Repeats are harmless here: commands are keyed by the id of
    what they change, events carry ids, unknown answers are ignored.
    """

    def __init__(self, access: LogAccess) -> None:
        self._access = access
        self._producer: Any = None
        self._suspect = False
        self._opening = asyncio.Lock()
        self._closing: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        """Connect and learn where the topics are, so that the first write does not pay for it.

        Raises:
            StoreUnavailable: No broker answers.
        """
        self._producer = await self._open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Write what is still buffered and close."""
        await self._producer.stop()
        await asyncio.gather(*self._closing)

    async def _open(self) -> Any:
        producer = AIOKafkaProducer(
            **self._access.client(),
            acks="all",
            linger_ms=0,
            max_request_size=MAX_RECORD_BYTES,
            request_timeout_ms=REQUEST_TIMEOUT_MS,
        )
        try:
            await producer.start()
            await asyncio.gather(*(producer.partitions_for(spec.topic) for spec in TOPICS))
        except (KafkaError, OSError) as error:
            await producer.stop()
            raise NeverSent("no broker answers") from error
        return producer

    async def _renew(self) -> None:
        """Replace a producer that failed: one whose sender died would fail for ever."""
        async with self._opening:
            if self._suspect:
                former, self._producer = self._producer, await self._open()
                self._suspect = False
                closing = asyncio.create_task(former.stop())
                self._closing.add(closing)
                closing.add_done_callback(self._closing.discard)

    async def write(self, *records: Outgoing) -> None:
        """Write the records in order; when it returns the broker has them all.

        Raises:
            NeverSent: No broker could be reached; certainly none of them is in the log.
            StoreUnavailable: The broker did not take them all; some may be in the log.
            RecordTooLarge: One of them is larger than the log takes.
        """
        if self._suspect:
            await self._renew()
        try:
            sent = [await self._send(record) for record in records]
            await asyncio.gather(*sent)
        except MessageSizeTooLargeError as error:
            raise RecordTooLarge(records[0].topic) from error
        except (KafkaError, OSError) as error:
            self._suspect = True
            raise StoreUnavailable(f"the log did not take the record: {type(error).__name__}") from error

    async def _send(self, record: Outgoing) -> asyncio.Future[Any]:
        delivery: asyncio.Future[Any] = await self._producer.send(
            record.topic,
            value=record.value,
            key=record.key,
            partition=record.partition,
            headers=list(record.headers),
        )
        return delivery


def headers_of(pairs: Sequence[tuple[str, bytes | None]] | None) -> dict[str, bytes]:
    """Return a record's headers by name, the last of a repeated name; one without a value is empty."""
    return {name: value or b"" for name, value in pairs or ()}
