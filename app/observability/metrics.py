"""Prometheus metrics of the front and of the process: event loop delay, tasks, memory, agents."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final, Protocol

from prometheus_client import (
    CollectorRegistry,
    Counter,
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


@dataclass(frozen=True, slots=True)
class Metrics:
    """Metrics of the front; labels are closed sets, never a tenant or a subject."""

    requests: Counter
    """Answers, by method, route template and status."""
    request_seconds: Histogram
    """Time from the request line to the answer, by route template."""
    in_flight: Gauge
    """Requests that wait for their answer now."""
    problems: Counter
    """Problem answers, by code."""
    malformed: Counter
    """Connections that did not speak HTTP well enough to be answered by a route."""
    rate_limited: Counter
    """Requests over a limit, by the limit's name."""
    decided: Counter
    """Verifications answered, by status and whether it was a replay."""
    denials_lost: Counter
    """Refused acts that the audit log never got, because the store was away."""
    refused_connections: Counter
    """Connections over the cap."""
    dropped_connections: Counter
    """Connections ended to make room, or because their answers stayed unread."""


_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


def build_metrics(registry: CollectorRegistry) -> Metrics:
    """Define the front's metrics in a registry; once per registry."""

    def counter(name: str, said: str, *labels: str) -> Counter:
        return Counter(f"veristream_{name}", said, labels, registry=registry)

    def seconds(name: str, said: str, *labels: str) -> Histogram:
        return Histogram(f"veristream_{name}_seconds", said, labels, registry=registry, buckets=_SECONDS)

    return Metrics(
        requests=counter("http_requests", "Answers sent.", "method", "route", "status"),
        request_seconds=seconds("http_request", "Time to answer.", "route"),
        in_flight=Gauge("veristream_http_in_flight", "Requests under way.", registry=registry),
        problems=counter("http_problems", "Problem answers.", "code"),
        malformed=counter("http_malformed", "Malformed requests."),
        rate_limited=counter("http_rate_limited", "Requests over a limit.", "limit"),
        decided=counter("verifications_answered", "Verifications answered.", "status", "replayed"),
        denials_lost=counter("audit_denials_lost", "Refused acts never audited."),
        refused_connections=counter("http_refused_connections", "Connections over the cap."),
        dropped_connections=counter("http_dropped_connections", "Connections ended by the front."),
    )


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
