"""The bounded pool of confined child processes in which all work on pixels of strangers runs."""

import asyncio
import os
import time
from collections import deque
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Final, TypeVar

import structlog

from app.vision import jobs
from app.vision.exchange import ChildDied, Exchange, receive
from app.vision.forker import Child, Ended, Forker
from app.vision.jobs import Job
from schemas.problems import EngineFailed, Overloaded, VeristreamError
from streams.sight import TENANT, Picture

R = TypeVar("R")
T = TypeVar("T")

WAITING: Final = 16
"""Jobs of one tenant that may wait. One document is at most a handful of jobs of about 0.5 s."""
TRIES: Final = 2
"""A job whose child died for no reason of the job's own, such as lack of memory outside, is tried again."""
GRACE_S: Final = 0.2
"""A job nobody waits for any more may take so much longer before its child is killed for it."""
STUCK_S: Final = 60.0
"""Longer than any job may take: when none has ended for as long while some ran, the children are stuck."""
STILLBORN_MAX: Final = 3
"""Children in a row that could not be made or never answered: then it is not the images."""
QUIET_S: Final = 10.0
"""A pool that ended no job for as long is asked for one when its health is wanted."""

log = structlog.get_logger(__name__)


class VisionPool:
    """Runs jobs in as many children as there are cores; tenants take turns, each with a queue of its own.

    A child that takes more processor time, memory or time than its job may is killed and replaced. Who
    stops waiting for a job frees its place at once.
    """

    def __init__(self, forker: Forker, workers: int | None = None, *, waiting: int = WAITING) -> None:
        self.workers: Final = workers or os.cpu_count() or 1
        self.finished = 0
        """Jobs that ended in any way, ever; grows while there is progress."""
        self.running = 0
        """Jobs that have a child."""
        self._forker = forker
        self._most_waiting = waiting
        self._queues: dict[str, deque[asyncio.Future[None]]] = {}
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
        return sum(map(len, self._queues.values()))

    async def start(self) -> None:
        """Make all children, so that the first jobs need not.

        Raises:
            EngineFailed: A child cannot be made.
        """
        while len(self._idle) < self.workers:
            self._idle.append(await self._fork())

    async def run(
        self, job: Job[R], *args: object, picture: Picture | None = None, file: bytes | None = None
    ) -> R:
        """Return what the job gives; conditions of `schemas.problems` pass through.

        Raises:
            Overloaded: The tenant's queue is full, or the pool is closed.
            EngineFailed: The job broke or exceeded its limits, or its child died twice.
        """
        await self._take_place()
        try:
            return await self._try(job, Exchange(job, args, picture, file))
        finally:
            self._free_place()

    def trouble(self) -> str | None:
        """Return why no job can be expected to end well, or None."""
        if self._stillborn >= STILLBORN_MAX:
            return "vision children cannot be made, or end at once"
        if self.running and time.monotonic() - self._ended_at > STUCK_S:
            return f"no vision job has ended for {STUCK_S:.0f} s"
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
        """Refuse new work, drop what waits, and return when the running jobs have ended."""
        self._closed = True
        for queue in self._queues.values():
            for turn in queue:
                if not turn.done():
                    turn.set_exception(Overloaded("the vision pool is closed"))
        self._queues.clear()
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
            try:
                async with asyncio.timeout(job.wall_s):
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
                await self._take_back(child, answer.lives)
                return answer.unwrap()
        raise EngineFailed(f"{job.name} ended its child: {cause}")

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
        """Make a child; one that comes when nobody waits for it any more is kept for the next job."""
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
        """Wait for a turn: in order within a tenant, and in turns between tenants."""
        if self._closed:
            raise Overloaded("the vision pool is closed")
        if self.running < self.workers and not self._queues:
            self._begin()
            return
        tenant = TENANT.get()
        queue = self._queues.get(tenant, ())
        if len(queue) >= self._most_waiting:
            raise Overloaded("the vision pool is full")
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queues.setdefault(tenant, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():
                self._free_place()  # the turn came in the moment the job was given up
            else:
                self._forget(tenant, turn)
            raise

    def _forget(self, tenant: str, turn: "asyncio.Future[None]") -> None:
        queue = self._queues.get(tenant)
        if queue is not None and turn in queue:
            queue.remove(turn)
            if not queue:
                del self._queues[tenant]

    def _begin(self) -> None:
        if not self.running:
            self._ended_at = time.monotonic()
            self._still.clear()
        self.running += 1

    def _free_place(self) -> None:
        """Give the place to the tenant whose turn it is; one that has more waits behind all others."""
        self.running -= 1
        self.finished += 1
        self._ended_at = time.monotonic()
        while self._queues:
            tenant = next(iter(self._queues))
            queue = self._queues.pop(tenant)
            turn = queue.popleft()
            if queue:
                self._queues[tenant] = queue
            if not turn.done():
                turn.set_result(None)
                self.running += 1
                return
        if not self.running:
            self._still.set()
