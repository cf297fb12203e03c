"""What a backup costs the service it is taken of: `python -m tests.bench.backup`.

The service is loaded with sandbox verifications at 70 % of what it was just measured to take, in spells of
equal length: alone, and with one backup after the other. What is compared is the p99 of the answers, as the
ratio of neighbouring spells; the size and time of the backups are printed beside it. Requests share as many
connections as a front takes of one address; one that waits for a connection waits from the moment it was due.
"""

import argparse
import asyncio
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from aiohttp import ClientSession, TCPConnector

from tests.bench.load import OpenLoad
from tests.bench.sandbox import bodies, post_all
from tests.journeys.service import Service, running_service, veristream_json

SHARE: Final = 0.7
"""Of the rate that the service reaches with as many callers at once as it likes."""

MOST: Final = 1.5
"""How many times the p99 may be with a backup."""

CONNECTIONS: Final = 100
"""At once; a front takes 128 of one address."""


@dataclass(frozen=True, slots=True)
class Taken:
    """One backup."""

    seconds: float
    size: int


class Spells:
    """Spells of load on one service."""

    def __init__(self, service: Service, client: ClientSession, per_second: float) -> None:
        self._service = service
        self._client = client
        self.per_second = per_second
        self._spell = 0

    async def p99(self, seconds: float) -> float:
        """Load the service for so long; returns the p99 in seconds."""
        self._spell += 1
        headers = {"Authorization": f"Bearer {self._service.test_key}", "Content-Type": "application/json"}
        prepared = bodies(int(self.per_second * seconds * 1.5) + 10)

        async def send(number: int) -> int:
            url = f"{self._service.url}/v1/verifications"
            body = prepared[number % len(prepared)]
            async with self._client.post(url, data=body, headers=headers) as answer:
                await answer.read()
                return answer.status

        load = OpenLoad(send, self.per_second, random.Random(self._spell))
        await load.run(seconds)
        assert set(load.answers) == {201}, load.answers
        return sorted(load.latencies_s)[int(len(load.latencies_s) * 0.99)]

    async def with_backups(self, seconds: float, folder: Path) -> tuple[float, list[Taken]]:
        """The same while backups are taken one after the other; returns the p99 and the backups."""
        load = asyncio.create_task(self.p99(seconds))
        taken: list[Taken] = []
        while not load.done():
            place = folder / f"backup-{self._spell}-{len(taken)}"
            began = time.perf_counter()
            made = await veristream_json(self._service.data_dir, "backup", str(place))
            taken.append(Taken(time.perf_counter() - began, made["bytes"]))
        return await load, taken


async def measure(rounds: int, seconds: float, warm_up: int) -> Sequence[float]:
    """Run the spells in turns and print every round; returns the ratios."""
    ratios = []
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        service = await stack.enter_async_context(running_service(folder / "service"))
        client = await stack.enter_async_context(ClientSession(connector=TCPConnector(limit=CONNECTIONS)))
        url = f"{service.url}/v1/verifications"
        full = await post_all(client, url, service.test_key, bodies(warm_up))
        assert set(full.answers) == {201}, full.answers
        sys.stdout.write(f"{full.line('as fast as it goes')}\n")
        spells = Spells(service, client, full.per_second * SHARE)
        for number in range(1, rounds + 1):
            alone = await spells.p99(seconds)
            beside, taken = await spells.with_backups(seconds, folder)
            ratios.append(beside / alone)
            size, took = taken[-1].size / 2**20, statistics.median(one.seconds for one in taken)
            sys.stdout.write(
                f"round {number}: p99 {alone * 1e3:.1f} ms alone, {beside * 1e3:.1f} ms with {len(taken)} "
                f"backups of {size:.1f} MiB in {took:.1f} s each: {ratios[-1]:.2f} times\n"
            )
    return ratios


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=15.0, help="of each spell")
    parser.add_argument("--warm-up", type=int, default=1500, help="verifications that find the full rate")
    chosen = parser.parse_args()
    found = asyncio.run(measure(chosen.rounds, chosen.seconds, chosen.warm_up))
    middle = statistics.median(found)
    sys.stdout.write(f"median {middle:.2f} times, {MOST} allowed\n")
    sys.exit(0 if middle <= MOST else 1)
