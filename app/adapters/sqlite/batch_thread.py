"""A thread that runs queued jobs in batches, so that concurrent callers share one change of threads."""

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future as ThreadFuture
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from schemas.problems import StoreUnavailable

Work = TypeVar("Work")

BATCH: Final = 128
"""Jobs in a batch at most, so that the first of them does not wait long."""

ALONG_EVERY: Final = 8
"""How many jobs of others come between two that go along with them."""


@dataclass(frozen=True, slots=True)
class PendingJob(Generic[Work]):
    """A job and the future of its caller."""

    job: Work
    future: asyncio.Future[Any]


@dataclass(frozen=True, slots=True)
class JobResult:
    """The result of a job."""

    future: asyncio.Future[Any]
    answer: Any = None
    error: BaseException | None = None


RunBatch = Callable[[Sequence[PendingJob[Work]]], list[JobResult]]
"""Run a batch on the thread; an exception is a defect and fails the batch."""


class BatchThread(Generic[Work]):
    """A queue with its thread; used from one event loop, which is woken once per batch."""

    def __init__(self, name: str, loop: asyncio.AbstractEventLoop, run: RunBatch[Work]) -> None:
        self._loop = loop
        self._run = run
        self._lock = threading.Lock()
        self._arriving: list[PendingJob[Work]] = []
        self._along: list[PendingJob[Work]] = []
        self._alone: asyncio.TimerHandle | None = None
        self._submitted_at = float("-inf")
        self._submitted = 0
        self._queue: deque[PendingJob[Work]] = deque()
        self._draining = False
        self.thread = ThreadPoolExecutor(1, name)
        """For what must run on the thread and belongs to no batch."""

    def submit(self, job: Work) -> asyncio.Future[Any]:
        """Queue a job for the next batch, and return the future of its result."""
        future: asyncio.Future[Any] = self._loop.create_future()
        if not self._arriving:
            self._loop.call_soon(self.dispatch)
        self._arriving.append(PendingJob(job, future))
        self._submitted_at = self._loop.time()
        self._submitted += 1
        return future

    def submit_along(self, job: Work, quiet_s: float) -> asyncio.Future[Any]:
        """Queue a job that joins every `ALONG_EVERY`th job of others, or runs once none came for so long."""
        future: asyncio.Future[Any] = self._loop.create_future()
        self._along.append(PendingJob(job, future))
        if self._alone is None:
            self._wait_alone(quiet_s)
        return future

    def _wait_alone(self, quiet_s: float) -> None:
        """Look when nobody else can have submitted for so long, again as long as somebody did."""
        if self.is_quiet(quiet_s):
            self.dispatch_along()
        else:
            at = self._submitted_at + quiet_s
            self._alone = self._loop.call_at(at, self._wait_alone, quiet_s)

    def is_quiet(self, quiet_s: float) -> bool:
        """Tell whether nothing was submitted for so long; jobs that go along do not count."""
        return self._loop.time() >= self._submitted_at + quiet_s

    def dispatch(self) -> None:
        """Send off what was submitted; happens by itself once the loop has let everybody ask."""
        arriving, self._arriving = self._arriving, []
        if self._submitted >= ALONG_EVERY:
            arriving += self._take_along()
        self.enqueue(*arriving)

    def dispatch_along(self) -> None:
        """Send off the jobs that would join others."""
        self.enqueue(*self._take_along())

    def _take_along(self) -> list[PendingJob[Work]]:
        if self._alone is not None:
            self._alone.cancel()
        along, self._along, self._alone, self._submitted = self._along, [], None, 0
        return along

    def enqueue(self, *waiting: PendingJob[Work]) -> None:
        """Queue jobs whose callers already wait; from any thread."""
        with self._lock:
            self._queue.extend(waiting)
            if self._draining or not waiting:
                return
            self._draining = True
        try:
            self.thread.submit(self._drain).add_done_callback(self._report_defect)
        except RuntimeError:
            self._abandon("the store is closed")

    def settle(self, outcomes: Sequence[JobResult]) -> None:
        """Resolve the futures of the callers; from any thread."""
        self._loop.call_soon_threadsafe(_resolve, outcomes)

    def report_defect(self, future: asyncio.Future[Any], done: ThreadFuture[None]) -> None:
        """Answer a caller whose job raised an unexpected error on another thread, and log the error."""
        if done.exception() is not None:
            self.settle([JobResult(future, error=StoreUnavailable("the job is defective"))])
            self._report_defect(done)

    def close(self) -> None:
        """Finish what was asked. Blocking."""
        self.thread.shutdown()

    def _take(self) -> list[PendingJob[Work]]:
        with self._lock:
            batch = [self._queue.popleft() for _ in range(min(len(self._queue), BATCH))]
            self._draining = bool(batch)
            return batch

    def _drain(self) -> None:
        batch = self._take()
        try:
            while batch:
                self.settle(self._run(batch))
                batch = self._take()
        finally:
            if batch:
                self._abandon("a job of this batch is defective", batch)

    def _abandon(self, why: str, batch: Sequence[PendingJob[Work]] = ()) -> None:
        """Fail the waiting jobs and release the queue, so that no caller waits for ever."""
        with self._lock:
            batch = [*batch, *self._queue]
            self._queue.clear()
            self._draining = False
        error = StoreUnavailable(why)
        self.settle([JobResult(waiting.future, error=error) for waiting in batch])

    def _report_defect(self, drained: ThreadFuture[None]) -> None:
        error = drained.exception()
        if error is not None:
            context = {"message": "a batch thread of the store failed", "exception": error}
            self._loop.call_soon_threadsafe(self._loop.call_exception_handler, context)


def _resolve(outcomes: Sequence[JobResult]) -> None:
    for outcome in outcomes:
        if outcome.future.done():
            continue  # the caller was cancelled
        if outcome.error is None:
            outcome.future.set_result(outcome.answer)
        else:
            outcome.future.set_exception(outcome.error)
