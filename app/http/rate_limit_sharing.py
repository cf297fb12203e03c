"""Share between the fronts of one deployment, over the log, how many requests each admitted (S61).

What is promised of a limit of q requests in a window, with n fronts:

- One front admits q in a window, exactly.
- A caller whose requests are spread over n fronts is admitted q, and beyond it only what the others admitted
  in the last `INTERVAL_S` and the time a record takes: at a rate of r a second that is r x `INTERVAL_S`, and
  for r = q/window at most q x (1 + n x `INTERVAL_S` / window). A caller who sends everything to all of them
  at once is admitted n x q at most.
- Whatever was admitted over q is taken off the windows that follow, so that over many of them nobody is
  admitted more than q for each.
- While the log is away each front counts by itself, as if it were alone; nothing waits for the log.
"""

import asyncio
import itertools
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, Final, Self

import structlog
from aiokafka import AIOKafkaConsumer, TopicPartition  # type: ignore[import-untyped]  # ships no types
from aiokafka.errors import KafkaError  # type: ignore[import-untyped]  # ships no types
from pydantic import Field, NonNegativeInt, ValidationError

from app.http.rate_limits import Counted, RateLimiter
from schemas.base import Frozen
from schemas.problems import VeristreamError
from schemas.topics import Topic
from streams.runtime.authentication import RecordKeys, Unauthentic
from streams.runtime.background import BackgroundTask
from streams.runtime.fetch_waits import ONE_PARTITION_WAIT_MS, FetchWaits
from streams.runtime.kafka_client_config import LogAccess
from streams.runtime.kafka_clients import started
from streams.runtime.producer import LogWriter, Outgoing
from streams.runtime.replays import delivery_of

log = structlog.get_logger(__name__)

INTERVAL_S: Final = 1.0
"""Between two records of a front that admitted something; a sixtieth of the window."""

REOPEN_S: Final = 1.0
"""Between two attempts to read what the others admitted."""

LONGEST_PAUSE_S: Final = 30.0
"""Pauses double up to it while the log refuses us: every failed write renews the front's one producer."""

MOST_IN_A_RECORD: Final = 4_000
"""Counts in one record: at 100 bytes each it stays under half of what the log takes."""

MOST_FRONTS: Final = 64
"""Fronts whose last number is remembered: four times as many as can run, for those that were restarted."""


class Admitted(Frozen):
    """The requests one front admitted since its last record."""

    number: NonNegativeInt
    """Of the front's records; one that is not greater than the last was sent again, and counts nothing."""
    counts: tuple[tuple[str, str, NonNegativeInt], ...] = Field(max_length=MOST_IN_A_RECORD)
    """The limit, whom it counts, and how many."""


class LimitSharing:
    """Publishes what a limiter admitted and adds what others did, in the background; an async context.

    `name` must differ for every process that ever shared. `keys` check the records, so that nobody who
    reaches the log but lacks the root key can use up another's limit.
    """

    def __init__(
        self,
        access: LogAccess,
        writer: LogWriter,
        limiter: RateLimiter,
        keys: RecordKeys,
        name: str,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._access = access
        self._writer = writer
        self._limiter = limiter
        self._keys = keys
        self._name = name.encode()
        self._now = now
        self._numbers = itertools.count()
        self._last: OrderedDict[bytes, int] = OrderedDict()
        self._tasks = (
            BackgroundTask(self._publish, "rate-limits-publish"),
            BackgroundTask(self._listen, "rate-limits-listen"),
        )
        self.listening = asyncio.Event()
        """Set while the records of the others are read."""
        self.refused = 0
        """Records that were forged, repeated or unreadable."""

    async def __aenter__(self) -> Self:
        """Start sharing; does not wait for the log."""
        for task in self._tasks:
            task.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop; counts that were not sent yet are dropped."""
        for task in self._tasks:
            await task.stop()

    async def _publish(self) -> None:
        failures = 0
        while True:
            await asyncio.sleep(_pause_s(INTERVAL_S, failures))
            admitted = self._limiter.take_unshared()
            if not admitted:
                continue
            try:
                await self._writer.write(*self._records(admitted))
                failures = 0
            except VeristreamError:  # sent later it would count against another window
                failures += 1
                log.warning("rate_limits.share_failed", failures=failures)

    def _records(self, admitted: dict[Counted, int]) -> Iterator[Outgoing]:
        counts = [(limit, whose, many) for (limit, whose), many in admitted.items()]
        for start in range(0, len(counts), MOST_IN_A_RECORD):
            part = tuple(counts[start : start + MOST_IN_A_RECORD])
            value = Admitted(number=next(self._numbers), counts=part).to_bytes()
            yield Outgoing(Topic.RATE_LIMITS, self._name, value, partition=0)

    async def _listen(self) -> None:
        failures = 0
        while True:
            try:
                await self._read()
            except (KafkaError, OSError) as error:
                failures = 1 if self.listening.is_set() else failures + 1
                log.warning("rate_limits.reader_disconnected", error=type(error).__name__, failures=failures)
            finally:
                self.listening.clear()
            await asyncio.sleep(_pause_s(REOPEN_S, failures - 1))

    async def _read(self) -> None:
        """Read from the end on; older counts belong to windows that are over."""
        consumer = AIOKafkaConsumer(
            **self._access.client(),
            auto_offset_reset="latest",
            enable_auto_commit=False,
        )
        async with started(consumer):
            FetchWaits(consumer._fetcher, patient_wait_ms=ONE_PARTITION_WAIT_MS)  # noqa: SLF001  # not offered
            place = TopicPartition(Topic.RATE_LIMITS, 0)
            consumer.assign([place])
            await consumer.seek_to_end(place)
            await consumer.position(place)
            self.listening.set()
            async for record in consumer:
                self._hear(record)

    def _hear(self, record: Any) -> None:
        name = record.key or b""
        if name == self._name:
            return
        try:
            self._keys.check(delivery_of(record))
            admitted = Admitted.from_bytes(record.value or b"")
        except (Unauthentic, ValidationError):
            self.refused += 1
            return
        if admitted.number <= self._last.get(name, -1):
            self.refused += 1
            return
        self._last[name] = admitted.number
        self._last.move_to_end(name)
        if len(self._last) > MOST_FRONTS:
            self._last.popitem(last=False)
        counts = {(limit, whose): many for limit, whose, many in admitted.counts}
        self._limiter.hear(counts, self._now())


def _pause_s(first_s: float, failures: int) -> float:
    return min(LONGEST_PAUSE_S, first_s * float(1 << min(max(0, failures), 10)))
