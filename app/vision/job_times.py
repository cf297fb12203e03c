"""Counts how long the jobs of vision children take, by job, for a histogram of the process's metrics."""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import Final

from streams.runtime.supervisor import HistogramFigure

BUCKETS_S: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Upper ends: decoding takes some milliseconds, reading a page up to its limit of processor seconds, and on a
crowded machine several times that."""


class JobTimes:
    """How often each job took how long, of all pools that were given it."""

    def __init__(self) -> None:
        self._counts: dict[str, list[int]] = {}
        self._sums: dict[str, float] = {}

    def observe(self, job: str, seconds: float) -> None:
        """Count one job that ended, well or not."""
        counts = self._counts.setdefault(job, [0] * (len(BUCKETS_S) + 1))
        counts[bisect_left(BUCKETS_S, seconds)] += 1
        self._sums[job] = self._sums.get(job, 0.0) + seconds

    def read(self) -> Mapping[str, tuple[Sequence[int], float]]:
        """Return by job how many lie in each bucket, the last one without an end, and the sum of seconds."""
        return {job: (tuple(counts), self._sums[job]) for job, counts in self._counts.items()}

    @property
    def figure(self) -> HistogramFigure:
        """What it tells."""
        return HistogramFigure(
            "veristream_vision_job_seconds",
            "Time a job of the models took in its child, without waiting for one.",
            "kind",
            BUCKETS_S,
            self.read,
        )
