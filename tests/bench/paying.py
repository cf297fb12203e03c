"""A service that decides payments by the fifty rules of the bench, and what a load of them costs."""

import json
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from aiohttp import ClientSession

from tests.bench.fifty_rules import payment, policy_text
from tests.bench.load import Measured, OpenLoad, load
from tests.bench.raw_client import RawClient
from tests.bench.staged_fleets import StagedFleet, running_fleet
from tests.journeys.service import veristream_json

POLICIES: Final = "/v1/policies/transactions"
AT_ONCE: Final = 32
STEP: Final = 1.3
FINE_STEP: Final = 1.07
"""From one rate to the next, at first and once a rate was too fast."""


@dataclass(slots=True)
class Paid:
    """A service with the policy of the bench."""

    fleet: StagedFleet
    folder: Path
    client: RawClient
    chance: random.Random = field(default_factory=lambda: random.Random(1))
    runs: int = 0

    def sender(self) -> Callable[[int], Awaitable[int]]:
        """Return what sends the payment of a number, each under a key of its own."""
        self.runs += 1
        run = f"{time.monotonic_ns()}-{self.runs}"
        return lambda number: self.client.post(payment(self.chance), f"{run}-{number}")

    async def closed(self, requests: int) -> tuple[Measured, float]:
        """Send so many, `AT_ONCE` under way; return the load, and processor milliseconds per payment."""
        before = sum(self.fleet.spent_s().values())
        measured = await load(self.sender(), requests, AT_ONCE)
        spent_s = sum(self.fleet.spent_s().values()) - before
        if not set(measured.answers) <= {201, 503}:  # 503: not decided in 2 s, which the line shows
            raise RuntimeError(f"payments were answered {dict(measured.answers)}")
        return measured, spent_s / requests * 1e3

    async def p99_ms(self, rate: float, seconds: float) -> float:
        """Send at a rate for so long and return the 99th percentile; infinite if one was not decided."""
        opened = OpenLoad(self.sender(), rate, self.chance)
        await opened.run(seconds)
        return quantile_ms(opened.latencies_s, 0.99) if set(opened.answers) == {201} else float("inf")

    async def ask(self, method: str, path: str, body: Any = None) -> Any:
        """Ask the service as its tenant."""
        return await ask(self.fleet.url, self.fleet.key, method, path, body)

    async def pay_as(self, tenant_id: str) -> None:
        """Pay as another tenant of the folder from now on."""
        made = await veristream_json(self.folder, "key", "create", "--tenant", tenant_id, "--test")
        self.fleet.key = made["api_key"]
        self.client = RawClient(f"{self.fleet.url}/v1/transactions", self.fleet.key)

    async def publish(self, text: bytes) -> None:
        """Publish a policy."""
        await publish(self.fleet.url, self.fleet.key, text)


async def ask(url: str, key: str, method: str, path: str, body: Any = None) -> Any:
    """Ask a service as the tenant of a key."""
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    async with (
        ClientSession() as client,
        client.request(method, url + path, data=data, headers=headers) as answer,
    ):
        if answer.status >= 300:
            raise RuntimeError((await answer.text())[:2_000])
        return await answer.json(content_type=None)


async def publish(url: str, key: str, text: bytes) -> None:
    """Publish a policy for transactions."""
    await ask(url, key, "PUT", f"{POLICIES}/draft", text)
    await ask(url, key, "POST", f"{POLICIES}/publish", {})


@asynccontextmanager
async def running_paid(folder: Path, layout: str) -> AsyncIterator[Paid]:
    """Run the roles of a layout with the policy of the bench, warmed."""
    async with running_fleet(folder, layout) as fleet:
        paid = Paid(fleet, folder, RawClient(f"{fleet.url}/v1/transactions", fleet.key))
        await paid.publish(policy_text())
        await paid.closed(200)
        yield paid


async def fastest(
    p99_ms: Callable[[float], Awaitable[float]], first: float, limit_ms: float
) -> tuple[float, float]:
    """Raise the rate until the 99th percentile passes the limit twice at one; return the best and its p99.

    A first rate that is too fast already is lowered instead; 0 when none is slow enough.
    """
    best, failed, rate, step = (0.0, float("inf")), 0, first, STEP
    while failed < 2:
        found = await p99_ms(rate)
        if found < limit_ms:
            best, failed, rate = (rate, found), 0, rate * step
        elif best[0] == 0.0:
            rate /= STEP**2
            if rate < 0.5:
                return best
        elif step == STEP:
            step, rate = FINE_STEP, best[0] * FINE_STEP
        else:
            failed += 1
    return best


def quantile_ms(seconds: Sequence[float], share: float) -> float:
    """Return the quantile in milliseconds."""
    ordered = sorted(seconds) or [float("nan")]
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)] * 1e3
