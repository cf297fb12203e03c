"""What a soak reads off a running service, the slopes in it, and what is wrong with them."""

import asyncio
import math
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final, Self

import psutil
from aiohttp import ClientSession
from aiokafka import AIOKafkaConsumer, TopicPartition  # type: ignore[import-untyped]  # ships no types
from aiokafka.admin import AIOKafkaAdminClient  # type: ignore[import-untyped]  # ships no types
from typing_extensions import override

from schemas.topics import TOPICS, Topic
from streams.runtime.app import GROUP
from streams.runtime.kafka_client_config import LogAccess
from tests.journeys.service import SHOW_METRICS

MIB: Final = 1 << 20
HOUR_S: Final = 3_600.0
WORKED: Final = (Topic.VERIFICATION_COMMANDS, Topic.AUDIT)
"""Topics with an agent."""

DOUBT: Final = 2.0
"""Standard errors that a slope may owe to chance."""

ALIKE_MOST: Final = 0.95
"""More correlation than this cannot be distinguished from a slope."""


@dataclass(frozen=True, slots=True)
class Reading:
    """One look at all processes of the service as one."""

    at_s: float
    rss_mib: float
    threads: int
    fds: int
    tasks: int
    lag: int
    """Records in the log that no agent has committed."""
    stolen: float = 0.0
    """The share of the machine's time since the last reading that its host gave to others."""


@dataclass(frozen=True, slots=True)
class Slope:
    """How a number changes in an hour, by least squares."""

    per_hour: float
    error: float
    """Standard error of it."""

    @property
    def beyond_doubt(self) -> float:
        """The growth that chance does not explain; 0 when it may be none."""
        return max(0.0, self.per_hour - DOUBT * self.error)

    @override
    def __str__(self) -> str:
        """For a person."""
        return f"{self.per_hour:+.2f} ± {DOUBT * self.error:.2f}"


def slope_of(points: Sequence[tuple[float, float]]) -> Slope:
    """Fit a line to (seconds, number); of fewer than three points nothing is known.

    Readings that resemble their neighbours count for less: the standard error is widened by the correlation
    of each rest with the next.
    """
    count = len(points)
    if count < 3:
        return Slope(0.0, math.inf)
    mean_x, mean_y = (sum(p[axis] for p in points) / count for axis in (0, 1))
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    slope = sum((x - mean_x) * (y - mean_y) for x, y in points) / spread
    rests = [y - mean_y - slope * (x - mean_x) for x, y in points]
    squares = sum(rest**2 for rest in rests)
    alike = sum(a * b for a, b in pairwise(rests)) / squares if squares else 0.0
    wider = (1 + min(max(alike, 0.0), ALIKE_MOST)) / (1 - min(max(alike, 0.0), ALIKE_MOST))
    return Slope(slope * HOUR_S, math.sqrt(squares / (count - 2) / spread * wider) * HOUR_S)


def settled(readings: Sequence[Reading], seconds: float) -> Sequence[Reading]:
    """Leave out the beginning: caches fill, pools open, changelogs are compacted for the first time."""
    return [reading for reading in readings if reading.at_s - readings[0].at_s >= seconds]


@dataclass(frozen=True, slots=True)
class Limits:
    """What a soak bears."""

    rss_mib_per_hour: float = 1.0
    count_per_hour: float = 10.0
    """Growth of file descriptors and of tasks."""


@dataclass(frozen=True, slots=True)
class Soaked:
    """All that a soak found."""

    readings: Sequence[Reading]
    """Of the time that is judged."""
    answers: Mapping[int, int]
    """How often each status came; 0: no answer."""
    explained_mib_per_hour: float
    """Memory that is meant to grow with the work done."""
    lag_at_end: int
    faults: Sequence[str]
    """What the service's own examination of its record found."""

    def slope(self, name: str) -> Slope:
        """The slope of one number of the readings."""
        return slope_of([(reading.at_s, float(getattr(reading, name))) for reading in self.readings])

    def wrong(self, limits: Limits) -> list[str]:
        """Everything that must not be, in words; empty when the soak was passed."""
        found = list(self.faults)
        unexplained = self.slope("rss_mib").beyond_doubt - self.explained_mib_per_hour
        if unexplained > limits.rss_mib_per_hour:
            found.append(f"memory grows by {unexplained:.1f} MiB/h that nothing explains")
        for name in ("fds", "tasks"):
            growth = self.slope(name).beyond_doubt
            if growth > limits.count_per_hour:
                found.append(f"{name} grow by {growth:.1f} per hour")
        if self.lag_at_end:
            found.append(f"{self.lag_at_end} records still wait after the load")
        other = {status: count for status, count in self.answers.items() if status != 201}
        if other or not self.answers:
            found.append(f"answers other than 201: {other}")
        return found


class Reader:
    """Reads processes, their metrics and the log; an async context."""

    def __init__(self, pids: Sequence[int], metrics: Sequence[str], access: LogAccess) -> None:
        process: Any = psutil.Process  # untyped
        self._processes = [process(pid) for pid in pids]
        self._metrics = metrics
        self._admin = AIOKafkaAdminClient(**access.client())
        self._consumer = AIOKafkaConsumer(**access.client(), enable_auto_commit=False)
        self._client = ClientSession()
        self._began = time.monotonic()
        self._spent: tuple[float, float] = spent()

    async def __aenter__(self) -> Self:
        """Connect."""
        await self._admin.start()
        await self._consumer.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Disconnect."""
        await self._consumer.stop()
        await self._admin.close()
        await self._client.close()

    async def read(self) -> Reading:
        """Look once."""
        return Reading(
            at_s=time.monotonic() - self._began,
            rss_mib=sum(p.memory_info().rss for p in self._processes) / MIB,
            threads=sum(p.num_threads() for p in self._processes),
            fds=sum(p.num_fds() for p in self._processes),
            tasks=int(sum([await self._metric(url, "veristream_loop_tasks") for url in self._metrics])),
            lag=await self.lag(),
            stolen=self._stolen(),
        )

    def _stolen(self) -> float:
        (stolen, whole), self._spent = self._spent, spent()
        return (self._spent[0] - stolen) / max(self._spent[1] - whole, 1e-9)

    async def lag(self) -> int:
        """Ends of the log less what the group committed, over every partition with an agent."""
        wanted = [
            TopicPartition(s.topic, n) for s in TOPICS if s.topic in WORKED for n in range(s.partitions)
        ]
        committed = await self._admin.list_consumer_group_offsets(GROUP)
        ends = await self._consumer.end_offsets(wanted)
        begins = await self._consumer.beginning_offsets(wanted)
        at = {tp: max(begins[tp], committed[tp].offset if tp in committed else 0) for tp in wanted}
        return sum(max(0, ends[tp] - at[tp]) for tp in wanted)

    async def until_no_lag(self, patience_s: float) -> int:
        """Return 0 as soon as nothing waits any more, or what still waits when patience is over."""
        deadline = time.monotonic() + patience_s
        while (waiting := await self.lag()) and time.monotonic() < deadline:  # noqa: ASYNC110 - asked of a broker
            await asyncio.sleep(0.5)
        return waiting

    async def _metric(self, url: str, name: str) -> float:
        async with self._client.get(url, headers=SHOW_METRICS) as answer:
            lines = (await answer.text()).splitlines()
        return sum(float(line.split()[-1]) for line in lines if line.startswith(f"{name} "))


def spent() -> tuple[float, float]:
    """Return the seconds of all cores that a virtual machine's host took away, and all there were."""
    cpu_times: Any = psutil.cpu_times  # untyped
    times = cpu_times()
    return getattr(times, "steal", 0.0), sum(times[:8])  # a guest's time is counted with the user's


def quantile(latencies_s: Sequence[float], share: float) -> float:
    """The latency in seconds that this share of the requests stayed under."""
    ordered = sorted(latencies_s)
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)] if ordered else math.nan


def tally(answers: Counter[int]) -> str:
    """Answers for a person."""
    return ", ".join(f"{status or 'none'}: {count}" for status, count in sorted(answers.items())) or "none"
