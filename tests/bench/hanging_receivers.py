"""A good receiver alone, and beside five that hang: `python -m tests.bench.hanging_receivers`.

Two tenants decide at the same rate all the time; the second has five endpoints whose receivers never answer,
in force in every second turn, so that whatever else the machine does falls on both. What counts is the ratio
of the 95th percentiles of the delay from an event's moment to its arrival at the first tenant's receiver.
"""

import argparse
import asyncio
import sys
import tempfile
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from aiohttp import ClientSession, web

from schemas.events import DecisionEvent
from tests.journeys.service import Service, make_tenant, running_service, small_request
from tests.webhook_receiver import Hit, Receiver, hanging, open_receiver

HANGING: Final = 5
ASKED: Final = 1.5
"""What the delay beside hanging receivers may be at most, as a multiple of the one without."""

INSECURE: Final = {"SERVICE_WEBHOOKS_ALLOW_INSECURE": "true"}
LAST_S: Final = 5.0
"""How long after a turn its last events may take; what comes later is missed, and said."""

QUIET_S: Final = 20.0
"""How long it takes until nothing is left of receivers that hung: 15 s of an attempt, and a sweep."""


@dataclass(slots=True)
class Phase:
    """What arrived while something was so."""

    name: str
    decided: int = 0
    delays_s: list[float] = field(default_factory=list)

    def quantile_ms(self, share: float) -> float:
        """A quantile of the delays."""
        return sorted(self.delays_s)[int(len(self.delays_s) * share)] * 1_000

    def line(self) -> str:
        """One line of the report."""
        p50, p95, p99 = (self.quantile_ms(share) for share in (0.5, 0.95, 0.99))
        arrived = f"{len(self.delays_s)} events of {self.decided} decisions"
        return f"{self.name:10} p50 {p50:7.1f} ms  p95 {p95:7.1f} ms  p99 {p99:7.1f} ms  {arrived}\n"


@dataclass(slots=True)
class Good:
    """A receiver that takes everything at once."""

    phase: Phase

    async def answer(self, _: web.Request, hit: Hit) -> web.Response:
        """Note how late it is."""
        delay = datetime.now(UTC) - DecisionEvent.from_bytes(hit.body).timestamp
        self.phase.delays_s.append(delay.total_seconds())
        return web.Response(status=204)


async def register(client: ClientSession, service: Service, key: str, url: str) -> str:
    """Register an endpoint for everything; return its path."""
    body = {"url": url, "event_types": ["*"], "secret": "a secret of a bench's receiver"}
    headers = {"Authorization": f"Bearer {key}"}
    target = f"{service.url}/v1/webhooks/endpoints"
    async with client.post(target, json=body, headers=headers) as answer:
        assert answer.ok, await answer.text()
        return f"{target}/{(await answer.json())['endpoint_id']}"


async def turn(client: ClientSession, key: str, paths: list[str], *, active: bool) -> None:
    """Put endpoints in force, or out of it."""
    headers = {"Authorization": f"Bearer {key}"}
    for path in paths:
        async with client.patch(path, json={"active": active}, headers=headers) as answer:
            assert answer.ok, await answer.text()


async def decide(client: ClientSession, service: Service, key: str, subject: str) -> bool:
    """Let one sandbox verification be decided."""
    headers = {"Authorization": f"Bearer {key}"}
    body: Any = small_request(f"sim:approved@{subject}")
    async with client.post(f"{service.url}/v1/verifications", json=body, headers=headers) as answer:
        await answer.read()
        return answer.ok


async def load(service: Service, keys: list[str], phase: Phase, rate: float, seconds: float) -> None:
    """Decide for every tenant at the rate, however long each takes; then let the last events arrive."""
    loop = asyncio.get_running_loop()
    began, asked = loop.time(), []
    for number in range(int(rate * seconds)):
        await asyncio.sleep(max(0.0, began + number / rate - loop.time()))
        asked += [
            asyncio.create_task(decide(service.client, service, key, f"{phase.name}-{began}-{number}"))
            for key in keys
        ]
    phase.decided += sum(await asyncio.gather(*asked)) // len(keys)
    await asyncio.sleep(LAST_S)


async def main(rate: float, seconds: float, turns: int) -> float:
    """Measure both in turns; print and return the ratio."""
    with tempfile.TemporaryDirectory() as folder:
        data_dir = Path(folder)
        async with running_service(data_dir, INSECURE) as service, open_receiver() as receiver:
            _, _, other = await make_tenant(data_dir, "Other")
            return await measure(service, receiver, other, rate, seconds, turns)


async def measure(
    service: Service, receiver: Receiver, other: str, rate: float, seconds: float, turns: int
) -> float:
    """Measure against a running service; `other` is the second tenant's key."""
    client, keys = service.client, [service.test_key, other]
    alone, beside, good = Phase("alone"), Phase("beside"), Good(Phase("warming"))
    receiver.answers["/good"] = good.answer
    await register(client, service, service.test_key, receiver.url("/good"))
    paths = []
    for number in range(HANGING):
        receiver.answers[f"/hanging/{number}"] = hanging
        paths.append(await register(client, service, other, receiver.url(f"/hanging/{number}")))
    await turn(client, other, paths, active=False)
    await load(service, keys, good.phase, rate, seconds)
    for _ in range(turns):
        good.phase = alone
        await load(service, keys, alone, rate, seconds)
        await turn(client, other, paths, active=True)
        good.phase = beside
        await load(service, keys, beside, rate, seconds)
        await turn(client, other, paths, active=False)
        await asyncio.sleep(QUIET_S)
    ratio = beside.quantile_ms(0.95) / alone.quantile_ms(0.95)
    sys.stdout.write(alone.line() + beside.line())
    hung = sum(hit.path.startswith("/hanging") for hit in receiver.hits)
    sys.stdout.write(f"ratio of p95 {ratio:.2f} (asked: at most {ASKED}); requests that hung: {hung}\n")
    return ratio


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rate", type=float, default=5.0, help="decisions a second of each tenant")
    parser.add_argument("--seconds", type=float, default=20.0, help="of each turn")
    parser.add_argument("--turns", type=int, default=4)
    chosen = parser.parse_args()
    sys.exit(asyncio.run(main(chosen.rate, chosen.seconds, chosen.turns)) > ASKED)
