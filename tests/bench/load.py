"""A bounded closed-loop load: so many requests, so many at once, and what came of them."""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Measured:
    """What one run of the load showed."""

    requests: int
    seconds: float
    latencies_s: tuple[float, ...]
    answers: Counter[int]

    @property
    def per_second(self) -> float:
        """Answered requests per second."""
        return self.requests / self.seconds

    def quantile(self, share: float) -> float:
        """The latency in seconds that this share of the requests stayed under."""
        ordered = sorted(self.latencies_s)
        return ordered[min(int(len(ordered) * share), len(ordered) - 1)]

    def line(self, name: str) -> str:
        """One line for a person."""
        p50, p99 = self.quantile(0.5) * 1e3, self.quantile(0.99) * 1e3
        rate = f"{self.per_second:8.1f}/s"
        return f"{name:<28}{rate}  p50 {p50:7.1f} ms  p99 {p99:7.1f} ms  {dict(self.answers)}"


async def load(send: Callable[[int], Awaitable[int]], requests: int, at_once: int) -> Measured:
    """Call `send` with 0..requests-1, never more than `at_once` under way; it answers a status."""
    numbers, latencies, answers = iter(range(requests)), [], Counter[int]()

    async def one_client() -> None:
        for number in numbers:
            began = time.perf_counter()
            status = await send(number)
            latencies.append(time.perf_counter() - began)
            answers[status] += 1

    began = time.perf_counter()
    await asyncio.gather(*(one_client() for _ in range(at_once)))
    return Measured(requests, time.perf_counter() - began, tuple(latencies), answers)
