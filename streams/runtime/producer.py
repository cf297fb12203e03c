"""Write to Kafka and wait for the acknowledgement; the one producer of a process."""

import asyncio
import functools
import time
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Self

from aiokafka import AIOKafkaProducer, TopicPartition  # type: ignore[import-untyped]  # ships no types
from aiokafka.errors import KafkaError, MessageSizeTooLargeError  # type: ignore[import-untyped]  # ships no types
from aiokafka.partitioner import murmur2  # type: ignore[import-untyped]  # ships no types
from aiokafka.record.default_records import (  # type: ignore[import-untyped]  # ships no types
    DefaultRecordBatchBuilder,
)

from schemas.problems import StoreUnavailable, VeristreamError
from schemas.topics import TOPICS, Topic
from streams.runtime.authentication import AUTHENTICATION, HEADER_BYTES, RecordKeys, is_fresh
from streams.runtime.kafka_client_config import LogAccess
from streams.runtime.kafka_clients import stop_client
from streams.runtime.record_batches import MAX_BATCH_BYTES, append

MAX_RECORD_BYTES: Final = 1_000_000
"""Largest record written, keys and headers included; brokers accept 1 MiB by default."""

REQUEST_TIMEOUT_MS: Final = 10_000
"""How long a write is tried again before it counts as failed."""

LEADER_ELECTION_S: Final = 60.0
"""How long a start waits for partitions without a leader; a busy Kafka was seen to need over ten seconds to
give leaders to topics just created."""

CLOCK_KNOWN_FOR_S: Final = 600.0
"""After so long without a record the time is asked for anew: two clocks drift apart by some 0.1 s a day."""

CLOCK_JUMP_S: Final = 1.0
"""By so much the wall clock and the steady one may differ since; more, and this machine slept or was set."""

CLOCK_KEY: Final = b"clock"
"""Key of a record without a value that a writer puts among the answers to learn the broker's time."""

_PARTITIONS: Final = {str(spec.topic): spec.partitions for spec in TOPICS}
_LOG_APPEND_TIME: Final = 1


class RecordTooLarge(VeristreamError):
    """The log takes no record of this size, now or later."""


class NeverSent(StoreUnavailable):
    """Nothing was written, and nothing of it will be."""


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A record to be written; without a partition the key decides."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...] = ()
    partition: int | None = None


class BrokerClock:
    """Extrapolate the broker's time from the last accepted record, by this machine's monotonic clock.

    This machine's own date does not matter: fronts and workers whose clocks differ by hours agree.
    """

    def __init__(
        self, steady: Callable[[], float] = time.monotonic, wall: Callable[[], float] = time.time
    ) -> None:
        self._steady = steady
        self._wall = wall
        self._set: tuple[int, float, float] | None = None

    def set(self, appended_ms: int) -> None:
        """Note that the broker took a record just now, at this time by its clock."""
        self._set = appended_ms, self._steady(), self._wall()

    def now_ms(self) -> int | None:
        """Return the time in milliseconds since 1970; None when it has to be asked for."""
        if self._set is None:
            return None
        appended_ms, steady, wall = self._set
        passed_s = self._steady() - steady
        if passed_s > CLOCK_KNOWN_FOR_S or abs(self._wall() - wall - passed_s) > CLOCK_JUMP_S:
            return None
        return appended_ms + int(passed_s * 1000)


class LogWriter:
    """Write records with `acks=all`, in order per partition; an async context manager, shared by all writers.

    Each record is signed for its place: the partition is chosen here, as Kafka's own clients choose it.

    Not idempotent in Kafka's sense: a batch given up in a long outage leaves a hole in the sequence that
    aiokafka's producer never recovers from. Repeats are harmless here: commands are keyed by the id of
    what they change, events carry ids, unknown answers are ignored.
    """

    def __init__(self, access: LogAccess, keys: RecordKeys) -> None:
        self._access = access
        self._keys = keys
        self._clock = BrokerClock()
        self._producer: Any = None
        self._suspect = False
        self._opening = asyncio.Lock()
        self._closing: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        """Connect and learn where the topics are, so that the first write does not pay for it.

        Raises:
            StoreUnavailable: No broker answers, or none leads the partition of the first record.
        """
        async with AsyncExitStack() as failed:
            self._producer = await self._open()
            failed.push_async_callback(stop_client, self._producer)
            await self._write_first_record()
            failed.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Write what is still buffered and close."""
        await stop_client(self._producer)
        await asyncio.gather(*self._closing)

    async def _write_first_record(self) -> None:
        """Write a record of no meaning, and so learn the broker's time and that partitions have leaders.

        Raises:
            NeverSent: The log does not take it, and waiting did not help or would not.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + LEADER_ELECTION_S
        while True:
            try:
                await self._now_ms()
            except (KafkaError, OSError) as error:
                if loop.time() > deadline or not getattr(error, "retriable", False):
                    raise NeverSent(f"the log takes no record: {type(error).__name__}") from error
            else:
                return

    async def _open(self) -> Any:
        producer = AIOKafkaProducer(
            **self._access.client(),
            acks="all",
            linger_ms=0,
            max_batch_size=MAX_BATCH_BYTES,
            max_request_size=MAX_RECORD_BYTES,
            request_timeout_ms=REQUEST_TIMEOUT_MS,
        )
        async with AsyncExitStack() as failed:
            failed.push_async_callback(stop_client, producer)
            try:
                await producer.start()
                await asyncio.gather(*(producer.partitions_for(spec.topic) for spec in TOPICS))
            except (KafkaError, OSError) as error:
                raise NeverSent("no broker answers") from error
            failed.pop_all()
        return producer

    async def _renew(self) -> None:
        """Replace a producer that failed: one whose sender died would fail for ever."""
        async with self._opening:
            if self._suspect:
                former, self._producer = self._producer, await self._open()
                self._suspect = False
                closing = asyncio.create_task(stop_client(former))
                self._closing.add(closing)
                closing.add_done_callback(self._closing.discard)

    @property
    def failing(self) -> bool:
        """Whether the last write failed."""
        return self._suspect

    async def prove(self) -> None:
        """Write a record of no meaning, to learn whether the log takes any.

        Raises:
            StoreUnavailable: It does not.
        """
        try:
            if self._suspect:
                await self._renew()
            await (await self._producer.send(Topic.REPLIES, key=CLOCK_KEY, partition=0))
        except (KafkaError, OSError) as error:
            self._suspect = True
            raise StoreUnavailable(f"the log takes no record: {type(error).__name__}") from error

    async def write(self, *records: Outgoing) -> None:
        """Write the records in order; when it returns the broker has them all.

        Records that are written at the same time, by whomever, share one batch for each partition.

        Raises:
            NeverSent: No broker could be reached; certainly none of them is in the log.
            StoreUnavailable: The broker did not take them all; some may be in the log.
            RecordTooLarge: One of them is larger than the log takes.
        """
        for record in records:
            require_size(record)
        if self._suspect:
            await self._renew()
        try:
            now_ms = await self._now_ms()
            batches = dict.fromkeys([self._append(record, now_ms) for record in records])
            taken = [await asyncio.shield(batch) for batch in batches]
        except MessageSizeTooLargeError as error:
            raise RecordTooLarge(records[0].topic) from error
        except (KafkaError, OSError) as error:
            self._suspect = True
            raise StoreUnavailable(f"the log did not take the record: {type(error).__name__}") from error
        for metadata in taken:
            self._note_time(metadata, now_ms)

    def _append(self, record: Outgoing, now_ms: int) -> asyncio.Future[Any]:
        partition = record.partition if record.partition is not None else partition_of(record)
        topic, key, value, headers = str(record.topic), record.key, record.value, record.headers
        signed = self._keys.sign(topic, partition, key, value, headers, now_ms)
        return append(self._producer, TopicPartition(topic, partition), key, value, [*headers, signed])

    async def _now_ms(self) -> int:
        """Return the time by the broker's clock, asked for by a record of no meaning when it is not known."""
        known = self._clock.now_ms()
        if known is not None:
            return known
        sent = await self._producer.send(Topic.REPLIES, key=CLOCK_KEY, partition=0)
        appended_ms = int((await sent).timestamp)
        self._clock.set(appended_ms)
        return appended_ms

    def _note_time(self, metadata: Any, signed_ms: int) -> None:
        """Set the clock by a record the broker took.

        Raises:
            StoreUnavailable: It was signed too long before or after, because a clock jumped or this process
                was suspended: nobody acts on it. The clock is right now, so writing it again helps.
        """
        if metadata.timestamp_type != _LOG_APPEND_TIME:
            return
        self._clock.set(metadata.timestamp)
        if not is_fresh(signed_ms, metadata.timestamp):
            raise StoreUnavailable("a record was appended too long after, or before, it was signed")


def require_size(record: Outgoing) -> None:
    """Refuse a record that could never be written.

    Raises:
        RecordTooLarge: It is larger than `MAX_RECORD_BYTES`.
    """
    headers = [*record.headers, (AUTHENTICATION, bytes(HEADER_BYTES))]
    size = DefaultRecordBatchBuilder.estimate_size_in_bytes(record.key, record.value, headers)
    if size > MAX_RECORD_BYTES:
        raise RecordTooLarge(record.topic)


def partition_of(record: Outgoing) -> int:
    """Return where Kafka's clients put a record of its key."""
    if record.key is None:
        raise ValueError(f"a record of {record.topic} needs a key or a partition")
    return _hash(record.key) % _PARTITIONS[str(record.topic)]


@functools.lru_cache(maxsize=4_096)
def _hash(key: bytes) -> int:
    """Return a key's hash, computed once for the records of a command, which have few keys."""
    hashed: int = murmur2(key) & 0x7FFFFFFF
    return hashed


def headers_of(pairs: Sequence[tuple[str, bytes | None]] | None) -> dict[str, bytes]:
    """Return a record's headers by name, the last of a repeated name; one without a value is empty."""
    return {name: value or b"" for name, value in pairs or ()}
