"""Flush appended records: at an interval, or before they are acknowledged."""

import asyncio
import os
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import structlog
from kio.schema.errors import ErrorCode

from app.broker.errors import Refused
from app.broker.log import Mark, PartitionLog
from app.broker.segments import Segment
from app.broker.settings import Fsync
from streams.runtime.background import BackgroundTask

log = structlog.get_logger()


class Wakeups:
    """Collects wake-ups while requests are handled, to be run after their answers are on the way.

    Running them at once would hold up the answer that caused them; leaving them to the event loop would cost
    another turn of it per message. Code that appends to a log runs `drain` when done.
    """

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: dict[Callable[[], None], None] = {}

    def add(self, look: Callable[[], None]) -> None:
        """Schedule a call of `look` by the next `drain`."""
        self._waiting[look] = None

    def drain(self) -> None:
        """Call everything added so far."""
        while self._waiting:
            waiting, self._waiting = self._waiting, {}
            for look in waiting:
                look()


class Flusher:
    """Syncs written logs on its own thread, one round at a time, so that many writers share an fsync."""

    def __init__(self, mode: Fsync, interval_s: float, wakeups: Wakeups) -> None:
        self._wakeups = wakeups
        self._always = mode is Fsync.ALWAYS
        self._interval_s = interval_s
        self._thread = ThreadPoolExecutor(1, "broker-flush")
        self._dirty: set[PartitionLog] = set()
        self._waiting: list[tuple[PartitionLog, asyncio.Future[None]]] = []
        self._written = asyncio.Event()
        self._task = BackgroundTask(self._run, "broker-flusher", needed=True)

    def start(self) -> None:
        """Begin to sync in the running loop."""
        self._task.start()

    async def aclose(self) -> None:
        """Sync what is left and stop."""
        await self._task.stop()
        if self._dirty:
            await self._round()
        self._thread.shutdown()

    def written(self, partition: PartitionLog) -> asyncio.Future[None] | None:
        """Record an append; return the future to wait for before acknowledging it, None for none.

        The future raises `Refused` when the fsync failed: the records were taken back.
        """
        self._dirty.add(partition)
        self._written.set()
        if not self._always:
            partition.reveal_all()
            return None
        durable: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((partition, durable))
        return durable

    def mark(self, partition: PartitionLog) -> None:
        """Sync this log soon; a segment was closed without a new record."""
        self._dirty.add(partition)
        self._written.set()

    def forget(self, partition: PartitionLog) -> None:
        """Sync this log no more; it was deleted."""
        self._dirty.discard(partition)

    async def _run(self) -> None:
        if self._dirty:  # left by a run that broke off
            self._written.set()
        while True:
            await self._written.wait()
            if not self._always:
                await asyncio.sleep(self._interval_s)
            self._written.clear()
            await self._round()

    async def _round(self) -> None:
        loop = asyncio.get_running_loop()
        rounds = [(partition, partition.marks()) for partition in self._dirty if not partition.closed]
        waiting, self._waiting = self._waiting, []
        self._dirty.clear()
        jobs = [_job(partition, marks) for partition, marks in rounds]
        syncing = loop.run_in_executor(self._thread, _sync, jobs)
        await asyncio.wait({syncing})  # the thread goes on if this is cancelled
        failed = {partition: OSError("the sync broke off") for partition, _ in rounds}
        sealed: list[tuple[Segment, bytes]] = []
        try:
            for (partition, marks), error in zip(rounds, syncing.result(), strict=True):
                if error is not None:
                    failed[partition] = error
                    continue
                if not partition.closed:
                    partition.reveal(marks)
                    sealed.extend(partition.synced(marks))
                del failed[partition]
        finally:  # whatever broke, no writer may wait for ever
            self._settle_all(waiting, failed)
        if sealed:
            await loop.run_in_executor(self._thread, _seal, sealed)

    def _settle_all(
        self,
        waiting: list[tuple[PartitionLog, asyncio.Future[None]]],
        failed: Mapping[PartitionLog, OSError],
    ) -> None:
        """Acknowledge what was synced, and refuse what was not."""
        for partition, durable in waiting:
            _settle(durable, None if partition.closed else failed.get(partition))
        for partition, error in failed.items():
            if not partition.closed:
                self._failed(partition, error)
        self._wakeups.drain()

    def _failed(self, partition: PartitionLog, error: OSError) -> None:
        log.error("broker.flush_failed", directory=str(partition.directory), error=str(error))
        if self._always:
            partition.take_back()
            late = [durable for waiter, durable in self._waiting if waiter is partition]
            self._waiting = [pair for pair in self._waiting if pair[0] is not partition]
            for durable in late:
                _settle(durable, error)
        else:
            self._dirty.add(partition)
            self._written.set()


def _settle(durable: asyncio.Future[None], error: OSError | None) -> None:
    if durable.done():
        return
    if error is None:
        durable.set_result(None)
    else:
        durable.set_exception(Refused(ErrorCode.kafka_storage_error, f"the log cannot be synced: {error}"))


@dataclass(slots=True)
class _Job:
    """The files of one log to sync, under duplicated descriptors."""

    descriptors: list[int] = field(default_factory=list)
    error: OSError | None = None


def _job(partition: PartitionLog, marks: list[Mark]) -> _Job:
    """Duplicate the descriptors, and the directory's when a segment was created."""
    job = _Job()
    try:
        job.descriptors.extend(mark.segment.duplicate_fd() for mark in marks)
        if len(marks) > 1:
            flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
            job.descriptors.append(os.open(partition.directory, flags))
    except OSError as error:
        job.error = error
    return job


def _sync(jobs: list[_Job]) -> list[OSError | None]:
    for job in jobs:
        for fd in job.descriptors:
            try:
                os.fsync(fd)
            except OSError as error:
                job.error = error
            finally:
                os.close(fd)
    return [job.error for job in jobs]


def _seal(sealed: list[tuple[Segment, bytes]]) -> None:
    for segment, remembered in sealed:
        try:
            segment.seal(remembered)
        except OSError as error:
            log.warning("broker.sidecar_write_failed", segment=str(segment.path), error=str(error))
