"""What page views take from the interface: `python -m tests.bench.page_traffic`.

Sandbox verifications run alone and beside first views of the capture page, in turns on one service. A first
view is the page and every file it loads, as a browser without a cache asks for them; there is one for as many
verifications as a second brings, over the people a second that the models can decide. What is compared is the
service's processor time a verification, as a ratio: on a busy machine it says more than a rate, and the time
of views alone says more still. The status is 1 when by that pages take more than 2 % of it.
"""

import argparse
import asyncio
import re
import statistics
import sys
import tempfile
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urljoin

from aiohttp import ClientSession, TCPConnector

from tests.bench.load import load
from tests.bench.profiles import spent_s
from tests.bench.sandbox import AT_ONCE, bodies
from tests.journeys.service import Service, running_service

CONNECTIONS: Final = 120
"""At once; a front closes those above 128 of one address."""

LEAST: Final = 0.98
VIEWS_A_SECOND: Final = 3.0
"""What the models decide on two cores; nobody is verified without a view, and few views end otherwise."""

VIEWS: Final = 100
"""Views alone after each pair."""

_ADDRESS: Final = re.compile(r'(?:href|src)="(/assets/[^"]+)"|data-texts="([^"]+)" selected')


@dataclass(frozen=True, slots=True)
class Turn:
    """One run of verifications, alone or beside views."""

    cpu_ms: float
    """The service's processor time a verification."""
    per_second: float
    views: int


async def first_view(service: Service) -> tuple[str, ...]:
    """Return what a browser without a cache asks for until the notice can be read."""
    async with service.client.get(f"{service.url}/verify") as answer:
        page = await answer.text()
    found = [one or other for one, other in _ADDRESS.findall(page)]
    return (f"{service.url}/verify", *(urljoin(service.url, path) for path in dict.fromkeys(found)))


async def look(client: ClientSession, view: tuple[str, ...]) -> None:
    """View the page once."""
    for url in view:
        async with client.get(url, headers={"Accept-Encoding": "gzip"}) as answer:
            await answer.read()
            assert answer.status == 200, url


async def take(
    client: ClientSession, service: Service, prepared: list[bytes], view: tuple[str, ...], every: int
) -> Turn:
    """Post every body once; after each `every` of them somebody views the page, 0: nobody."""
    headers = {"Authorization": f"Bearer {service.test_key}", "Content-Type": "application/json"}
    looking: list[asyncio.Task[None]] = []

    async def send(number: int) -> int:
        if every and number % every == 0:
            looking.append(asyncio.create_task(look(client, view)))
        async with client.post(
            f"{service.url}/v1/verifications", data=prepared[number], headers=headers
        ) as answer:
            await answer.read()
            return answer.status

    before = spent_s(service.role.process.pid)
    measured = await load(send, len(prepared), AT_ONCE)
    await asyncio.gather(*looking)
    spent = spent_s(service.role.process.pid) - before
    assert set(measured.answers) == {201}, measured.answers
    return Turn(spent / len(prepared) * 1e3, measured.per_second, len(looking))


async def view_ms(client: ClientSession, service: Service, view: tuple[str, ...]) -> float:
    """Return the service's processor time a view, of views alone."""
    before = spent_s(service.role.process.pid)
    for _ in range(VIEWS):
        await look(client, view)
    return (spent_s(service.role.process.pid) - before) / VIEWS * 1e3


async def compare(requests: int, rounds: int) -> float:
    """Run both in turns, the first as often alone as beside views; print every turn."""
    shares, costs = [], []
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        service: Service = await stack.enter_async_context(running_service(folder))
        client = await stack.enter_async_context(ClientSession(connector=TCPConnector(limit=CONNECTIONS)))
        view, prepared = await first_view(service), bodies(requests)
        sys.stdout.write(f"a first view asks for {len(view)} files\n")
        warm = await take(client, service, prepared, view, 1)
        quick = await take(client, service, prepared, view, 0)
        every = max(1, round(1e3 / quick.cpu_ms / VIEWS_A_SECOND))
        sys.stdout.write(f"one view for each {every} verifications; {warm.views} views to warm up\n")
        for number in range(rounds):
            order = (0, every) if number % 2 == 0 else (every, 0)
            turns = {gap: await take(client, service, prepared, view, gap) for gap in order}
            alone, beside = turns[0], turns[every]
            shares.append(alone.cpu_ms / beside.cpu_ms)
            costs.append(await view_ms(client, service, view) / every / alone.cpu_ms)
            sys.stdout.write(
                f"alone {alone.cpu_ms:.2f} ms and {alone.per_second:.0f}/s, beside {beside.views} views "
                f"{beside.cpu_ms:.2f} ms and {beside.per_second:.0f}/s: {shares[-1]:.3f}; "
                f"by a view's own time {1 / (1 + costs[-1]):.4f}\n"
            )
    sys.stdout.write(f"median of the pairs: {statistics.median(shares):.1%}\n")
    return 1 / (1 + statistics.median(costs))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--requests", type=int, default=1500, help="per turn")
    parser.add_argument("--rounds", type=int, default=6)
    chosen = parser.parse_args()
    share = asyncio.run(compare(chosen.requests, chosen.rounds))
    sys.stdout.write(f"beside page views verifications keep {share:.1%} of their rate (least {LEAST:.0%})\n")
    sys.exit(share < LEAST)
