"""The bounded pool of threads in which all pixel and model work runs, away from the event loop."""

import asyncio
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final, Generic, ParamSpec, TypeVar

from schemas.problems import EngineFailed, Overloaded, VeristreamError

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

WAITING: Final = 16
"""Jobs that may wait beside the running ones. One document is at most a handful of jobs of about 0.5 s."""

WARM_TIMEOUT_S: Final = 120.0
"""How long the workers wait for each other while warming; models load in a few seconds."""


class PerThread(Generic[T]):
    """One instance for each worker thread, built there on first use, for things that are not thread-safe."""

    def __init__(self, build: Callable[[], T]) -> None:
        self._build = build
        self._local = threading.local()

    def get(self) -> T:
        """Return this thread's instance; whatever building it raises is raised."""
        if not hasattr(self._local, "instance"):
            self._local.instance = self._build()
        instance: T = self._local.instance
        return instance


class VisionPool:
    """Runs blocking work on as many threads as there are cores.

    A job that runs cannot be stopped: its cost is bounded by the limits on pixels and text boxes, and
    whoever stops waiting for it leaves its place taken until it ends.
    """

    def __init__(self, workers: int | None = None, *, waiting: int = WAITING) -> None:
        self.workers: Final = workers or os.cpu_count() or 1
        self._places = threading.BoundedSemaphore(self.workers + waiting)
        self._threads = ThreadPoolExecutor(self.workers, thread_name_prefix="vision")

    async def run(self, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Return what the work returns; conditions of `schemas.problems` pass through.

        Raises:
            Overloaded: All threads are busy and the queue is full, or the pool is closed.
            EngineFailed: The work broke in a way nobody named; the cause is chained.
        """
        if not self._places.acquire(blocking=False):
            raise Overloaded("the vision pool is full")
        future = asyncio.wrap_future(self._submit(work, *args, **kwargs))
        try:
            await asyncio.wait({future})
        except asyncio.CancelledError:
            future.cancel()
            raise
        return _outcome(future)

    async def warm(self, *builds: Callable[[], object]) -> None:
        """Let every thread run every build once, such as making and trying its own model instance.

        Call it once, before the first job.

        Raises:
            EngineFailed: A build broke; the cause is chained.
            Overloaded: The pool is already busy.
        """
        together = threading.Barrier(self.workers)

        def warm_one() -> None:
            built = False
            try:
                for build in builds:
                    build()
                built = True
            finally:
                if not built:
                    together.abort()
            together.wait(WARM_TIMEOUT_S)

        outcomes = await asyncio.gather(
            *(self.run(warm_one) for _ in range(self.workers)), return_exceptions=True
        )
        failures = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
        failures.sort(key=lambda failure: isinstance(failure.__cause__, threading.BrokenBarrierError))
        if failures:
            raise failures[0]

    async def aclose(self) -> None:
        """Refuse new work, drop what waits, and return when the running jobs have ended."""
        await asyncio.to_thread(self._threads.shutdown, cancel_futures=True)

    def _submit(self, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> "Future[R]":
        try:
            future = self._threads.submit(work, *args, **kwargs)
        except RuntimeError as error:
            self._places.release()
            raise Overloaded("the vision pool is closed") from error
        future.add_done_callback(lambda _: self._places.release())
        return future


def _outcome(future: "asyncio.Future[R]") -> R:
    """Return the result of an ended job, or raise its condition, or `EngineFailed` for an unnamed one."""
    if future.cancelled():
        raise Overloaded("the vision pool is closed")
    error = future.exception()
    if error is None:
        return future.result()
    if isinstance(error, VeristreamError):
        raise error
    raise EngineFailed(f"vision work ended in {type(error).__name__}") from error
