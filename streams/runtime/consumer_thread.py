"""Faust's thread that talks to the broker: fetches that return in time, and are taken by one task."""

import asyncio
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from contextlib import suppress
from typing import Any, Final, Protocol, cast

import structlog
from faust.transport.consumer import ensure_TPset
from faust.transport.drivers import aiokafka as driver
from faust.types import TP
from mode.threads import ServiceThread, WorkerThread
from typing_extensions import override

from streams.runtime.fetch_sessions import FetchSessions
from streams.runtime.fetch_waits import FETCH_WAIT_MS, FetchWaits

log = structlog.get_logger(__name__)

END_S: Final = 2.0
"""How long the loop of a worker waits, blocked, for the thread of a stopped consumer."""


class Parent(Protocol):
    """The consumer a thread belongs to, as the thread needs it."""

    @property
    def patient_wait_ms(self) -> int:
        """How long the broker may hold a fetch that leaves no partition out."""
        ...

    def is_steady(self) -> bool:
        """Return whether records flow, without rebalance and recovery."""
        ...

    def is_left_alone(self, tp: TP) -> bool:
        """Return whether no records of the partition are taken now."""
        ...

    def note_records(self) -> None:
        """Wake the drain because records wait to be taken."""
        ...

    def last_taken(self) -> int:
        """Return how many records were taken last."""
        ...


class _DaemonThread(WorkerThread):
    """A thread that does not keep the process alive: one that does not end is left behind."""

    def __init__(self, service: ServiceThread, **kwargs: Any) -> None:
        super().__init__(service, **kwargs)
        self.daemon = True

    @override
    def stop(self) -> None:
        """Wait for the end of the thread, which has left its group; mode waits without a limit.

        A task of aiokafka that keeps a cancellation to itself would stop the loop that asks for ever.
        """
        if not self.is_stopped.wait(END_S):
            left = asyncio.all_tasks(self.service.thread_loop)
            names = sorted(getattr(task.get_coro(), "__qualname__", "") for task in left)
            log.warning("consumer.thread_abandoned", after_s=END_S, tasks=names)


class PatchedThread(driver.AIOKafkaConsumerThread):
    """The thread that talks to the broker, asking for fetches that return in time."""

    Worker: type[WorkerThread] = _DaemonThread

    _assigned: tuple[AbstractSet[Any], set[TP]] = (frozenset(), set())
    """The partitions that aiokafka has, and the same as Faust's."""

    @override
    def assignment(self) -> set[TP]:
        """Return the assigned partitions, not to be changed: converted once, for every look asks for them."""
        assigned: AbstractSet[Any] = self._ensure_consumer().assignment()
        if assigned is not self._assigned[0]:
            self._assigned = (assigned, ensure_TPset(assigned))
        return self._assigned[1]

    @override
    def _create_worker_consumer(self, transport: driver.Transport) -> Any:
        consumer = super()._create_worker_consumer(transport)
        consumer._fetch_max_wait_ms = FETCH_WAIT_MS  # noqa: SLF001  # no setting leads there
        return consumer

    @override
    async def on_start(self) -> None:
        await super().on_start()
        parent, fetcher = cast("Parent", self.consumer), self._ensure_consumer()._fetcher  # noqa: SLF001
        FetchSessions(fetcher)
        FetchWaits(
            fetcher,
            parent.is_steady,
            parent.is_left_alone,
            parent.patient_wait_ms,
            on_records=parent.note_records,
            last_taken=parent.last_taken,
        )

    @override
    async def getmany(self, active_partitions: set[TP] | None, timeout: float) -> Mapping[TP, list[Any]]:
        """Return the records fetched, by one task of the thread.

        Faust's own way passes through a queue, whose reader makes three tasks for each call.
        """
        promise: asyncio.Future[Mapping[TP, list[Any]]] = self.parent_loop.create_future()
        consumer: Any = self._ensure_consumer()

        def begin() -> None:
            most = consumer._max_poll_records  # noqa: SLF001  # as Faust has it
            fetching = self._fetch_records(consumer, cast("Any", active_partitions), timeout, most)
            self._fetching = self.thread_loop.create_task(fetching)
            self._fetching.add_done_callback(settle)

        def settle(task: asyncio.Task[Any]) -> None:
            self.parent_loop.call_soon_threadsafe(_settle, promise, task)

        self.thread_loop.call_soon_threadsafe(begin)
        return await promise

    @override
    async def on_thread_stop(self) -> None:
        """Close the consumer, also while a fetch that failed waits to be repeated.

        The fetcher of aiokafka 0.14 cancels that pause and lets the cancellation through, past the closing
        of the connections; Faust's thread would end with it, without a log line.
        """
        try:
            await super().on_thread_stop()
        except asyncio.CancelledError:
            consumer = cast("Any", self._consumer)
            await consumer._client.close()  # noqa: SLF001  # all that is left of its `stop`

    @override
    async def _keepalive2(self) -> None:
        """Watch for nothing: stock Faust only logs that the thread is late; the supervisor acts on it."""

    def begin_stop(self) -> None:
        """Let the thread leave the group and end, without waiting for it."""
        with suppress(RuntimeError):  # its loop is closed: it has ended
            self._stopped_set()


def _settle(promise: asyncio.Future[Any], task: asyncio.Task[Any]) -> None:
    """Give the promise what came of the task of another thread."""
    if promise.done():
        return
    if task.cancelled():
        promise.cancel()
    elif (error := task.exception()) is not None:
        promise.set_exception(error)
    else:
        promise.set_result(task.result())
