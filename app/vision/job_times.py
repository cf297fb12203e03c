"""The histogram of how long the jobs of vision children take, for the metrics of the process."""

from typing import Final

from prometheus_client import Histogram

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
