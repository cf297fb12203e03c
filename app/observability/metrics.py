"""Metrics: one registry of named metrics."""

from dataclasses import dataclass
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram


@dataclass(frozen=True, slots=True)
class Metrics:
    """What the front counts; labels are closed sets, never a tenant or a subject."""

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
