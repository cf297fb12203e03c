"""Metrics of a process: event loop delay, number of tasks, and how far its agents are behind."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Final, Protocol

from prometheus_client import (
    CollectorRegistry,
    Gauge,
    GCCollector,
    Histogram,
    PlatformCollector,
    ProcessCollector,
)
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from typing_extensions import override

from streams.runtime.supervisor import Figure, MetricCollector

BEAT_S: Final = 0.5
"""Between two looks at the loop."""

_LATE: Final = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)


class Lagging(Protocol):
    """Measurements of the agents."""

    @property
    def lag(self) -> Mapping[str, int]:
        """Records per topic that are in the log and not yet committed."""
        ...


class AgentLag(Collector):
    """Collector of what the agents measured last."""

    def __init__(self, agents: Lagging) -> None:
        self._agents = agents

    @override
    def collect(self) -> Iterable[Metric]:
        family = GaugeMetricFamily(
            "veristream_agent_lag", "Records of a topic that no agent has settled yet.", labels=["topic"]
        )
        for topic, records in self._agents.lag.items():
            family.add_metric([topic], records)
        yield family


class Figures(Collector):
    """Collector of values that parts of the process compute at each scrape."""

    def __init__(self, figures: Sequence[Figure | MetricCollector]) -> None:
        self._figures = figures

    @override
    def collect(self) -> Iterable[Metric]:
        for one in self._figures:
            if isinstance(one, Figure):
                yield _amounts(one)
            else:
                yield from one.collect()


def _amounts(figure: Figure) -> Metric:
    rising = figure.name.endswith("_total")
    family = (CounterMetricFamily if rising else GaugeMetricFamily)(
        figure.name, figure.said, labels=[figure.label]
    )
    for label, amount in figure.read().items():
        family.add_metric([label], amount)
    return family


def process_registry(
    agents: Lagging | None = None, figures: Sequence[Figure | MetricCollector] = ()
) -> CollectorRegistry:
    """Return a registry of this process: memory, files, interpreter, collector, agents if any."""
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    GCCollector(registry=registry)
    if agents is not None:
        registry.register(AgentLag(agents))
    registry.register(Figures(figures))
    return registry


@asynccontextmanager
async def watching_loop(registry: CollectorRegistry, beat_s: float = BEAT_S) -> AsyncIterator[None]:
    """Measure the running loop for the length of the context; once per registry.

    `veristream_loop_tasks` is read at the moment it is asked for, from within the loop;
    `veristream_loop_late_seconds` is by how much each beat came later than asked.
    """
    loop = asyncio.get_running_loop()
    tasks = Gauge("veristream_loop_tasks", "Tasks of the event loop.", registry=registry)
    tasks.set_function(lambda: len(asyncio.all_tasks(loop)))
    late = Histogram(
        "veristream_loop_late_seconds",
        "How late the event loop ran.",
        registry=registry,
        buckets=_LATE,
    )

    async def beat() -> None:
        while True:
            due = loop.time() + beat_s
            await asyncio.sleep(beat_s)
            late.observe(max(0.0, loop.time() - due))

    beating = asyncio.create_task(beat(), name="process metrics")
    try:
        yield
    finally:
        beating.cancel()
