"""Run a Faust app in the caller's event loop: start, watch, rebuild after a crash or stall, stop."""

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, cast

import faust
import structlog
from aiokafka.errors import KafkaError  # type: ignore[import-untyped]  # ships no types
from faust.types import TP

from streams.runtime.agents import end_handlers
from streams.runtime.background import sleep_aligned
from streams.runtime.consumer import patched

log = structlog.get_logger(__name__)

STOP_S: Final = 8.0
"""How long a stop may take; what is in work then is delivered again."""

REBUILD_S: Final = 1.0
"""Between a crash and the next start."""

WATCH_S: Final = 1.0
"""Between two measurements while records come or are settled."""

IDLE_LOOKS: Final = 12
"""Measurements in the time after which a partition counts as stuck, while no record waits and none comes:
each wakes the consumer's thread and the broker."""

STALL_S: Final = 60.0
"""A partition with records and no commit for this long is stuck, or its store is away; so is a rebalance
that takes this long."""


MOST_STALLS: Final = 10
"""Times `STALL_S` after which a partition is stuck although engines finish jobs: those are of others then.
One record has less than a hundred jobs, none of which may take longer than some seconds."""


class Stuck(Exception):
    """The app makes no progress although store and Kafka are available; it must be rebuilt."""


@dataclass(slots=True)
class Progress:
    """Detect partitions without progress, and rebalances that do not end.

    A record may need the engines for long; while they finish jobs, a partition without commits counts as
    moving, up to `MOST_STALLS` times as long.
    """

    stall_after_s: float
    _seen: dict[TP, tuple[int, float]] = field(default_factory=dict)
    _finished: int = 0
    """Jobs of the engines that had ended when last noted."""
    _engines_moved_at: float = -math.inf
    _changing_since: float | None = None
    """When the rebalance or recovery that is under way was first seen; None outside of one."""

    def stalled(
        self, ends: Mapping[TP, int], committed: Mapping[TP, int], now: float, finished: int = 0
    ) -> list[TP]:
        """Note the progress of each partition at `now`; return those without progress for too long.

        `finished` counts the jobs of the engines that ended so far.
        """
        if finished != self._finished:
            self._finished, self._engines_moved_at = finished, now
        self._seen = {
            tp: self._seen[tp]
            if tp in self._seen and self._seen[tp][0] == committed[tp]
            else (committed[tp], now)
            for tp, end in ends.items()
            if end > committed[tp]
        }
        return [tp for tp, (_, since) in self._seen.items() if self._is_stalled(now, since)]

    def _is_stalled(self, now: float, since: float) -> bool:
        still_s = now - max(since, self._engines_moved_at)
        return still_s >= self.stall_after_s or now - since >= MOST_STALLS * self.stall_after_s

    def unended(self, *, changing: bool, now: float) -> bool:
        """Note whether a rebalance is under way at `now`; return whether it has lasted for too long."""
        if not changing or self._changing_since is None:
            self._changing_since = now if changing else None
        return self._changing_since is not None and now - self._changing_since >= self.stall_after_s


@dataclass(frozen=True, slots=True)
class Figure:
    """A metric of a part of this process; a name that ends in `_total` is a counter."""

    name: str
    said: str
    label: str
    read: Callable[[], Mapping[str, float]]
    """By the label's values, a closed set."""


class MetricCollector(Protocol):
    """Metrics that a part counts itself, such as a histogram of prometheus_client."""

    def collect(self) -> Iterable[Any]:
        """Return the families of metrics with their samples."""
        ...


class Worker:
    """Supervise one app. Everything runs in the caller's event loop; signals and logging stay the caller's.

    `build` is called for every life of the app: an app that stopped or crashed cannot start again, and one
    without progress is given up. `waited_at` returns when a handler last waited for the store or Kafka, by
    the loop's clock: while they wait, no progress is expected, and a new app would make none either.
    `finished` counts the jobs of the engines that ended: while it grows, records that take long are no
    reason to give an app up, for a new one would begin with the same records.
    """

    def __init__(
        self,
        build: Callable[[], faust.App],
        *,
        stall_after_s: float = STALL_S,
        waited_at: Callable[[], float] = lambda: -math.inf,
        finished: Callable[[], int] = lambda: 0,
    ) -> None:
        self._build = build
        self._finished = finished
        self._waited_at = waited_at
        self._progress = Progress(stall_after_s)
        self._app: faust.App | None = None
        self._started = False
        self._stalled: list[TP] = []
        self._lag: dict[str, int] = {}
        self._offsets: Mapping[TP, int | None] = {}
        """How far the consumer had read when the lag was measured."""
        self.figures: list[Figure | MetricCollector] = []
        """Metrics of the parts beside the agents."""
        self.probes: dict[str, Callable[[], Awaitable[str | None]]] = {}
        """What the parts beside the agents answer when asked whether they can work: why not, or None."""
        self._stopping = asyncio.Event()
        self._changed = asyncio.Condition()
        self._supervisor: asyncio.Task[None] | None = None

    @property
    def ready(self) -> bool:
        """Whether partitions are assigned, tables recovered, and no rebalance is under way."""
        app = self._app
        if app is None or not self._started or app.should_stop:
            return False
        return bool(app.consumer.assignment()) and not (app.rebalancing or app.in_recovery)

    def is_assigned(self, topic: str, partition: int) -> bool:
        """Return whether this process has the partition now, and no rebalance is under way."""
        return (
            self.ready and self._app is not None and TP(topic, partition) in self._app.consumer.assignment()
        )

    @property
    def healthy(self) -> bool:
        """False while a partition has records and has made no progress for too long."""
        return not self._stalled

    @property
    def lag(self) -> Mapping[str, int]:
        """Records per topic that are in the log and not yet committed, as last measured."""
        return dict(self._lag)

    def start(self) -> None:
        """Start the worker; `wait_ready` waits until it is ready."""
        self._supervisor = asyncio.create_task(self._supervise(), name="worker")
        self._supervisor.add_done_callback(lambda _: asyncio.ensure_future(self._notify_changed()))

    async def wait_ready(self) -> None:
        """Return once the worker is ready; raise what prevented the app from being built."""
        async with self._changed:
            await self._changed.wait_for(lambda: self.ready or self._given_up)
        if self._supervisor is not None and self._supervisor.done():
            self._supervisor.result()

    @property
    def _given_up(self) -> bool:
        return self._supervisor is not None and self._supervisor.done()

    async def stop(self) -> None:
        """Finish records in progress, commit and leave the group within `STOP_S`; no record is lost."""
        self._stopping.set()
        if self._supervisor is not None:
            await self._supervisor

    async def _supervise(self) -> None:
        stopping = asyncio.create_task(self._stopping.wait())
        app: faust.App | None = self._build()
        while app is not None:
            self._app = app
            self._progress, self._stalled = Progress(self._progress.stall_after_s), []
            life = asyncio.create_task(self._live(app), name="worker-life")
            await asyncio.wait({life, stopping}, return_when=asyncio.FIRST_COMPLETED)
            self._started = False
            await self._end(app, life)
            if not self._stopping.is_set():
                log.error("worker.crashed", error=repr(_reason(app, life)))
            app = await self._rebuild()
        self._app = None

    async def _rebuild(self) -> faust.App | None:
        """Return the next app once one can be built, or None when the worker stops."""
        while not self._stopping.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), REBUILD_S)
                return None
            building = asyncio.create_task(self._built(), name="worker-build")
            await asyncio.wait({building})
            error = building.exception()
            if error is None:
                return building.result()
            log.error("worker.build_failed", error=repr(error))
        return None

    async def _built(self) -> faust.App:
        return self._build()

    async def _live(self, app: faust.App) -> None:
        app.finalize()
        await app.start()
        self._started = True
        watch = asyncio.create_task(self._watch(app), name="worker-watch")
        ended = asyncio.create_task(cast("Any", app.wait()), name="worker-end")
        try:
            done, _ = await asyncio.wait({watch, ended}, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            watch.cancel()
            ended.cancel()

    async def _end(self, app: faust.App, life: asyncio.Task[None]) -> None:
        stop = asyncio.create_task(app.stop())
        await asyncio.wait({stop}, timeout=STOP_S)
        if not stop.done():
            log.error("worker.stop_timed_out", after_s=STOP_S)
            stop.cancel()
            patched(app.consumer).begin_stop()
        life.cancel()
        await asyncio.wait({life}, timeout=1.0)
        left = await end_handlers(app, STOP_S)
        if left:
            log.error("worker.handlers_abandoned", records=left)

    async def _watch(self, app: faust.App) -> None:
        """Measure every second, less often while nothing happens.

        Raises:
            Stuck: Records wait or a rebalance lasts, for too long and for no reason.
        """
        loop, measured_at = asyncio.get_running_loop(), -math.inf
        idle_s = self._progress.stall_after_s / IDLE_LOOKS
        while True:
            if self.ready and not (self._is_quiet(app) and loop.time() - measured_at < idle_s):
                with suppress(KafkaError, TimeoutError):
                    await self._measure(app)
                measured_at = loop.time()
            await self._notify_changed()
            now = loop.time()
            unended = self._progress.unended(changing=app.rebalancing or app.in_recovery, now=now)
            if (unended or self._stalled) and now - self._waited_at() >= self._progress.stall_after_s:
                raise Stuck("a rebalance does not end" if unended else f"{self._stalled} make no progress")
            await sleep_aligned(WATCH_S)

    def _is_quiet(self, app: faust.App) -> bool:
        """Tell whether no record waited at the last measurement, and none was read since."""
        return not any(self._lag.values()) and patched(app.consumer).offsets() == self._offsets

    async def _notify_changed(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    async def _measure(self, app: faust.App) -> None:
        consumer = patched(app.consumer)
        tps = [tp for tp in consumer.assignment() if app.topics.acks_enabled_for(tp.topic)]
        async with asyncio.timeout(STOP_S):
            ends = await consumer.highwaters(*tps)
        committed = {tp: consumer.committed(tp) for tp in tps}
        self._offsets = consumer.offsets()
        self._lag = {}
        for tp in tps:
            self._lag[tp.topic] = self._lag.get(tp.topic, 0) + max(0, ends[tp] - committed[tp])
        now = asyncio.get_running_loop().time()
        stalled = self._progress.stalled(ends, committed, now, self._finished())
        if stalled and stalled != self._stalled:
            log.error("worker.stalled", partitions=[f"{tp.topic}/{tp.partition}" for tp in stalled])
        self._stalled = stalled


def _reason(app: faust.App, life: asyncio.Task[None]) -> BaseException | Any:
    if life.done() and not life.cancelled() and life.exception() is not None:
        return life.exception()
    return app.crash_reason


@asynccontextmanager
async def running_worker(
    build: Callable[[], faust.App],
    *,
    stall_after_s: float = STALL_S,
    waited_at: Callable[[], float] = lambda: -math.inf,
    finished: Callable[[], int] = lambda: 0,
) -> AsyncIterator[Worker]:
    """Run a worker for the length of the context; it may not be ready yet when the context is entered."""
    worker = Worker(build, stall_after_s=stall_after_s, waited_at=waited_at, finished=finished)
    worker.start()
    try:
        yield worker
    finally:
        await worker.stop()
