"""Bounded loads: closed (so many requests at once) and open (requests come when they come)."""

import asyncio
import random
import time
from array import array
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from aiohttp import ClientError

MOST_WAITING = 5_000
"""Requests under way at once; one more is not sent and counts as unanswered."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What one run of the load showed."""

    requests: int
    seconds: float
    latencies_s: tuple[float, ...]
    answers: Counter[int]
    steady: tuple[int, float] = (0, 0.0)
    """Requests answered when the first client had none left to send, and the seconds a client spent on them:
    those under way then count for neither."""

    @property
    def per_second(self) -> float:
        """Answered requests per second."""
        return self.requests / self.seconds

    @property
    def steady_per_second(self) -> float:
        """Answered requests per second while all clients had one under way, without the end of the run.

        By Little's law: clients over the mean latency. Answers over time would miss what was done for the
        requests still under way, up to one for each client.
        """
        requests, seconds = self.steady
        return requests / seconds

    def quantile(self, share: float) -> float:
        """The latency in seconds that this share of the requests stayed under."""
        ordered = sorted(self.latencies_s)
        return ordered[min(int(len(ordered) * share), len(ordered) - 1)]

    def steady_line(self, name: str) -> str:
        """One line for a person, with the rate while all clients had a request under way."""
        return f"{self.line(name)}  steadily {self.steady_per_second:.2f}/s"

    @staticmethod
    def of_all(runs: "Sequence[Measured]") -> "Measured":
        """Return what several runs showed, one after the other."""
        return Measured(
            sum(run.requests for run in runs),
            sum(run.seconds for run in runs),
            tuple(latency for run in runs for latency in run.latencies_s),
            sum((run.answers for run in runs), Counter()),
        )

    def line(self, name: str) -> str:
        """One line for a person."""
        p50, p99 = self.quantile(0.5) * 1e3, self.quantile(0.99) * 1e3
        rate = f"{self.per_second:8.1f}/s"
        return f"{name:<28}{rate}  p50 {p50:7.1f} ms  p99 {p99:7.1f} ms  {dict(self.answers)}"


async def load(send: Callable[[int], Awaitable[int]], requests: int, at_once: int) -> Measured:
    """Call `send` with 0..requests-1, never more than `at_once` under way; it answers a status."""
    numbers, latencies, answers = iter(range(requests)), list[float](), Counter[int]()
    steady = list[tuple[int, float]]()
    clients = max(1, min(at_once, requests))

    async def one_client() -> None:
        for number in numbers:
            sent = time.perf_counter()
            status = await send(number)
            latencies.append(time.perf_counter() - sent)
            answers[status] += 1
        steady.append((len(latencies), sum(latencies) / clients))

    began = time.perf_counter()
    await asyncio.gather(*(one_client() for _ in range(clients)))
    return Measured(requests, time.perf_counter() - began, tuple(latencies), answers, steady[0])


@dataclass(slots=True)
class OpenLoad:
    """Sends at a rate with exponential gaps; a latency counts from the moment its request was due.

    A generator that waits for answers, or counts from the moment it got round to sending, does not see the
    queue that a slow service makes.
    """

    send: Callable[[int], Awaitable[int]]
    """Sends the request of a number and returns its status."""
    per_second: float
    chance: random.Random
    answers: Counter[int] = field(default_factory=Counter)
    latencies_s: "array[float]" = field(default_factory=lambda: array("d"))
    sent: int = 0
    _waiting: set[asyncio.Task[None]] = field(default_factory=set)

    async def run(self, seconds: float) -> None:
        """Send for so long, then wait for the last answers."""
        due = began = time.perf_counter()
        while (due := due + self.chance.expovariate(self.per_second)) < began + seconds:
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            self._send_one(due)
        await asyncio.gather(*self._waiting)

    def _send_one(self, due: float) -> None:
        number, self.sent = self.sent, self.sent + 1
        if len(self._waiting) >= MOST_WAITING:
            self.answers[0] += 1
            return
        task = asyncio.create_task(self._one(number, due))
        self._waiting.add(task)
        task.add_done_callback(self._waiting.discard)

    async def _one(self, number: int, due: float) -> None:
        try:
            status = await self.send(number)
        except (ClientError, TimeoutError, ConnectionError):
            status = 0
        self.answers[status] += 1
        self.latencies_s.append(time.perf_counter() - due)
