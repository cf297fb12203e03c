"""Bounded pool of confined child processes in which all untrusted pixels are processed."""

import asyncio
import os
import time
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any, Final, TypeVar

import structlog
from prometheus_client import Histogram

from app.vision import jobs
from app.vision.exchange import ChildDied, Exchange, receive
from app.vision.forker import Child, Ended, Forker
from app.vision.jobs import Job
from schemas.problems import EngineFailed, Overloaded, VeristreamError
from streams.runtime.child_processes import cpu_s
from streams.runtime.fair_queue import TenantQueue
from streams.vision_ports import TENANT, Picture, not_counted

BUCKETS_S: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Upper ends: decoding takes some milliseconds, reading a page up to its limit of processor seconds, and on a
busy machine several times that."""


def job_times() -> Histogram:
    """Return a histogram by kind of job, in no registry yet; every pool given it observes its jobs."""
    return Histogram(
        "veristream_vision_job_seconds",
        "Time a job of the models took in its child, without waiting for one.",
        ["kind"],
        buckets=BUCKETS_S,
        registry=None,
    )


R = TypeVar("R")
T = TypeVar("T")

WAITING: Final = 16
"""Jobs of one tenant that may wait. One document is at most a handful of jobs of about 0.5 s."""
TRIES: Final = 2
"""A job whose child died for no reason of the job's own, such as lack of memory outside, is tried again."""
REPEATED_SHARE: Final = 0.25
"""A job that failed in an unknown way is tried again if it took up to this share of its processor time: what
a hostile image costs stays bounded."""
GRACE_S: Final = 0.2
"""A job nobody waits for any more may take so much longer before its child is killed for it."""
_LOOKS: Final = 4
"""Looks at a child's processor time within its job's limit."""
STUCK_S: Final = 60.0
"""When no job has ended or was seen to work for as long while some ran, the children are stuck."""
STILLBORN_MAX: Final = 3
"""Children in a row that could not be made or never answered: then it is not the images."""
QUIET_S: Final = 10.0
"""A pool that ended no job for as long is asked for one when its health is wanted."""

log = structlog.get_logger(__name__)


class VisionPool:
    """Runs jobs in as many children as there are cores; each tenant has a queue, least use first.

    A child that takes more processor time, memory or time than its job may is killed and replaced. Who
    stops waiting for a job frees its place at once.
    """

    def __init__(
        self,
        forker: Forker,
        workers: int | None = None,
        *,
        waiting: int = WAITING,
        times: Histogram | None = None,
    ) -> None:
        self.workers: Final = workers or os.cpu_count() or 1
        self.finished = 0
        """Jobs that ended in any way, ever; grows while there is progress."""
        self.running = 0
        """Jobs that have a child."""
        self.progress = 0
        """Grows while there is progress: when a job ends, and while one works that takes long."""
        self._forker = forker
        self._most_waiting = waiting
        self._times = times or job_times()
        self._queue = TenantQueue()
        self._idle: list[Child] = []
        self._abandoned: set[asyncio.Task[None]] = set()
        self._forking = ThreadPoolExecutor(1, thread_name_prefix="vision-forker")
        self._closed = False
        self._still = asyncio.Event()
        self._still.set()
        self._stillborn = 0
        self._ended_at = time.monotonic()

    @property
    def waiting(self) -> int:
        """Jobs that wait for a child."""
        return len(self._queue)

    async def start(self) -> None:
        """Make all children, so that the first jobs need not.

        Raises:
            EngineFailed: A child cannot be made.
        """
        while len(self._idle) < self.workers:
            self._idle.append(await self._fork())

    async def run(
        self,
        job: Job[R],
        *args: object,
        picture: Picture | None = None,
        second: Picture | None = None,
        file: bytes | None = None,
    ) -> R:
        """Return what the job gives; conditions of `schemas.problems` pass through.

        The time is none of the caller's deadline: it is bounded by the job's own processor time, so that a
        busy machine answers late.

        Raises:
            Overloaded: The tenant's queue is full, or the pool is closed.
            EngineFailed: The job broke or exceeded its limits, or its child died twice.
        """
        with not_counted():
            await self._take_place()
            began_at = time.monotonic()
            try:
                return await self._try(job, Exchange(job, args, picture, file, second))
            finally:
                took_s = time.monotonic() - began_at
                self._times.labels(job.name).observe(took_s)
                self._queue.charge(TENANT.get(), took_s)
                self._free_place()

    def trouble(self) -> str | None:
        """Return why no job can be expected to end well, or None."""
        if self._stillborn >= STILLBORN_MAX:
            return "vision children cannot be made, or end at once"
        if self.running and time.monotonic() - self._ended_at > STUCK_S:
            return f"no vision job has ended or worked for {STUCK_S:.0f} s"
        return None

    async def probe(self) -> str | None:
        """Return why no job can be expected to end well, or None; a quiet pool is tried out."""
        quiet = not self.running and time.monotonic() - self._ended_at > QUIET_S
        if quiet or self._stillborn:
            try:
                await self.run(jobs.PING)
            except VeristreamError as error:
                return self.trouble() or str(error)
        return self.trouble()

    async def aclose(self) -> None:
        """Refuse new work, drop queued jobs, and return when the running ones have ended."""
        self._closed = True
        self._queue.refuse(lambda: Overloaded("the vision pool is closed"))
        await self._still.wait()
        await asyncio.gather(*self._abandoned)
        for child in self._idle:
            await self._end(child)
        self._idle.clear()
        self._forking.shutdown()

    async def _try(self, job: Job[R], exchange: Exchange[R]) -> R:
        cause = ""
        for tried in range(1, TRIES + 1):
            child = self._idle.pop() if self._idle else await self._fork()
            before_s = cpu_s(child.pid)
            try:
                async with asyncio.timeout(job.wall_s) as limit:
                    with self._while_working(child, limit, job.wall_s):
                        answer = await exchange.ask(child)
            except asyncio.CancelledError:
                self._abandon(child)
                raise
            except (TimeoutError, ChildDied) as error:
                ended = await self._end(child)
                cause = "wall" if isinstance(error, TimeoutError) else ended.cause
                log.warning("vision.child_killed", job=job.name, cause=cause, tried=tried)
                if cause in ("cpu", "wall"):
                    break  # the same work would take as much again
            else:
                if isinstance(answer.said, EngineFailed):
                    log.warning("vision.job_failed", job=job.name, cause=_named(answer.said), tried=tried)
                if answer.lives:
                    self._idle.append(child)
                    return answer.unwrap()
                spent_s = (await self._end(child)).cpu_s - before_s
                if tried < TRIES and spent_s < job.cpu_s * REPEATED_SHARE:
                    continue  # what earlier jobs left in the child, such as memory, may be at fault
                return answer.unwrap()
        raise EngineFailed(f"{job.name} ended its child: {cause}")

    @contextmanager
    def _while_working(self, child: Child, limit: asyncio.Timeout, wall_s: float) -> Iterator[None]:
        """Extend the deadline as long as the child uses processor time.

        Its processor time has a limit of its own, so that only a child that does nothing runs out of time.
        """
        loop, spent_s = asyncio.get_running_loop(), cpu_s(child.pid)
        looking: asyncio.TimerHandle

        def look() -> None:
            nonlocal looking, spent_s
            if (now_s := cpu_s(child.pid)) > spent_s:
                spent_s, self._ended_at = now_s, time.monotonic()
                self.progress += 1
                if not limit.expired():
                    limit.reschedule(loop.time() + wall_s)
            looking = loop.call_later(wall_s / _LOOKS, look)

        looking = loop.call_later(wall_s / _LOOKS, look)
        try:
            yield
        finally:
            looking.cancel()

    def _abandon(self, child: Child) -> None:
        """Take a child back when its job ends within the grace, else kill it."""

        async def wait() -> None:
            lives = False
            with suppress(TimeoutError, ChildDied):
                async with asyncio.timeout(GRACE_S):
                    await receive(child)
                    lives = True
            await self._take_back(child, lives and len(self._idle) + self.running < self.workers)

        self._keep(wait())

    def _keep(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work, name="vision-abandoned")
        self._abandoned.add(task)
        task.add_done_callback(self._abandoned.discard)

    async def _take_back(self, child: Child, lives: bool) -> None:  # noqa: FBT001 - an adjective
        """Keep a child for the next job, or end it."""
        if lives:
            self._idle.append(child)
        else:
            await self._end(child)

    async def _fork(self) -> Child:
        """Fork a child; one that nobody waits for any more stays for the next job."""
        forking = asyncio.ensure_future(self._in_thread(self._forker.fork))
        try:
            child = await asyncio.shield(forking)
        except asyncio.CancelledError:
            self._keep(self._adopt(forking))
            raise
        except EngineFailed:
            self._stillborn += 1
            raise
        self._stillborn = 0
        return child

    async def _adopt(self, forking: "asyncio.Future[Child]") -> None:
        with suppress(EngineFailed):
            await self._take_back(await forking, len(self._idle) + self.running < self.workers)

    async def _end(self, child: Child) -> Ended:
        return await asyncio.shield(self._in_thread(self._forker.end, child))

    def _in_thread(self, act: Callable[..., T], *args: object) -> "asyncio.Future[T]":
        return asyncio.get_running_loop().run_in_executor(self._forking, act, *args)

    async def _take_place(self) -> None:
        """Wait for a turn: in order within a tenant, and first the tenant with the least use."""
        if self._closed:
            raise Overloaded("the vision pool is closed")
        if self.running < self.workers and not self._queue:
            self._begin()
            return
        tenant = TENANT.get()
        if self._queue.waiting(tenant) >= self._most_waiting:
            raise Overloaded("the vision pool is full")
        await self._queue.wait(tenant, self._free_place)

    def _begin(self) -> None:
        if not self.running:
            self._ended_at = time.monotonic()
            self._still.clear()
        self.running += 1

    def _free_place(self) -> None:
        """Pass the place to the tenant whose turn it is."""
        self.running -= 1
        self.finished += 1
        self.progress += 1
        self._ended_at = time.monotonic()
        if self._queue.call_next():
            self.running += 1
        if not self.running:
            self._still.set()


def _named(failed: EngineFailed) -> str:
    """Return the kind of exception a child names; any other text of a child stays out of the log."""
    said = str(failed)
    return said if said.isidentifier() else "EngineFailed"
