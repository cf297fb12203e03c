"""How fast transactions and wallets are decided: `python -m tests.bench.transactions --help`.

Each row measures both of its sides in one run on the same cores. Rates are the highest at which the 99th
percentile of an open load stays under the limit; the processor milliseconds per payment beside them travel
between machines. The peer is ezrules with the same fifty rules and ten features, under its own load runner;
`--ezrules PYTHON` names an interpreter with `ezrules` and `httpx`, `--database` and `--redis` its servers,
for instance `postgresql+psycopg2://user:password@127.0.0.1:5432/bench`; that database is dropped.
"""

import argparse
import asyncio
import fcntl
import json
import os
import statistics
import sys
import tempfile
import time
import zlib
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any, Final

from app.adapters.files.data_dir import DATABASE_FILE
from tests.bench.ezrules_peer import EzRules, running_ezrules
from tests.bench.fifty_rules import THREE_KEYS, policy_text
from tests.bench.load import load
from tests.bench.paying import AT_ONCE, Paid, fastest, running_paid
from tests.bench.raw_client import RawClient
from tests.bench.staged_fleets import LAYOUTS, ONE
from tests.bench.stored_payments import lock_in_memory, store_payments
from tests.journeys.service import small_request

FEW: Final = 1_000
EZRULES_FIRST: Final = 10.0
OURS_FIRST: Final = 60.0
TENANT_FILE: Final = "bench-tenant"
"""In a data folder that is used again: whose transactions were stored."""
IDLE_S: Final = 5.0
SHARE: Final = 0.5
"""Of the closed rate, for the p99 beside many stored transactions."""


class Bench:
    """Measures row by row."""

    def __init__(self, options: argparse.Namespace, folder: Path) -> None:
        self._given, self._folder = options, folder

    async def rate(self) -> None:
        """Ours against ezrules, in turns; both run all the time."""
        given = self._given
        async with AsyncExitStack() as stack:
            paid = await self._knowing(given.known, stack)
            measured, _ = await paid.closed(given.requests)
            say(measured.line("payments at 32 under way"))
            if given.ezrules is None:
                own, p99 = await fastest(self._p99_of_own(paid), OURS_FIRST, given.limit_ms)
                say(f"payments: {own:.1f}/s at p99 {p99:.1f} ms")
                say("ezrules was not named: --ezrules PYTHON --database URL --redis URL")
                return
            log = self._folder / "ezrules.log"
            running = running_ezrules(given.ezrules, given.database, given.redis, log)
            peer = await stack.enter_async_context(running)
            if given.before:
                await paid.closed(given.before)
                await peer.load(EZRULES_FIRST, round(given.before / EZRULES_FIRST))
            await self._rounds(paid, peer)

    async def _rounds(self, paid: Paid, peer: EzRules) -> None:
        """Look for both rates round by round, each from where the round before it found them.

        ezrules becomes slower as its tables grow, so its best round counts.
        """
        own, theirs = [OURS_FIRST], [EZRULES_FIRST]
        cheaper = list[float]()
        for number in range(1, self._given.rounds + 1):
            own_ms = (await paid.closed(self._given.requests))[1]
            their_ms = await self._cpu_of(peer)
            rate, own_p99 = await fastest(self._p99_of_own(paid), own[-1] or OURS_FIRST, self._given.limit_ms)
            own.append(rate)
            say(f"round {number}: payments {rate:.1f}/s at p99 {own_p99:.1f} ms, {own_ms:.2f} ms of CPU each")
            rate, p99 = await fastest(self._p99_of(peer), theirs[-1] or EZRULES_FIRST, self._given.limit_ms)
            theirs.append(rate)
            say(
                f"round {number}: ezrules {rate:.1f}/s at p99 {p99:.1f} ms, {their_ms:.1f} ms of CPU each "
                "without PostgreSQL"
            )
            cheaper.append(their_ms / own_ms)
        if best := max(theirs[1:]):
            times = f"{median(own[1:]) / best:.1f} x the best rate of ezrules"
            say(f"row: {times}, {median(cheaper):.1f} x less CPU")
        else:
            say("row: ezrules stayed under the limit at no rate")

    async def _cpu_of(self, peer: EzRules) -> float:
        """Return its processor milliseconds for a request, without what its service takes anyway."""
        await peer.load(EZRULES_FIRST, 5)
        begun, idle = time.monotonic(), peer.spent_s()
        await asyncio.sleep(IDLE_S)
        idle_share = (peer.spent_s() - idle) / (time.monotonic() - begun)
        begun, before = time.monotonic(), peer.spent_s()
        found = await peer.load(EZRULES_FIRST, 10)
        spent_s = peer.spent_s() - before - idle_share * (time.monotonic() - begun)
        requests = int(found["ok"]) * 1.2  # those of its 2 s of warm-up beside 10
        return spent_s / max(requests, 1.0) * 1e3

    def _p99_of(self, peer: EzRules) -> Callable[[float], Awaitable[float]]:
        async def p99_ms(rate: float) -> float:
            found: dict[str, Any] = await peer.load(rate, self._given.seconds)
            return float("inf") if found["failed"] else float(found["latency_p99_ms"])

        return p99_ms

    def _p99_of_own(self, paid: Paid) -> Callable[[float], Awaitable[float]]:
        return lambda rate: paid.p99_ms(rate, float(self._given.seconds))

    async def keys(self) -> None:
        """Two non-subject keys against none, in turns."""
        rates: dict[str, list[float]] = {"none": [], "two": []}
        costs: dict[str, list[float]] = {"none": [], "two": []}
        async with running_paid(self._folder / "keys", self._given.layout) as paid:
            for _ in range(self._given.rounds):
                for name, text in (("none", policy_text()), ("two", policy_text(THREE_KEYS))):
                    await paid.publish(text)
                    await paid.closed(100)
                    measured, cost_ms = await paid.closed(self._given.requests)
                    rates[name].append(measured.per_second)
                    costs[name].append(cost_ms)
                    say(measured.line(f"{name} of the keys not the subject") + f", {cost_ms:.2f} ms of CPU")
        share, more = (median(side["two"]) / median(side["none"]) for side in (rates, costs))
        say(f"row: two non-subject keys reach {share:.2f} x the rate without, for {more:.2f} x the CPU")

    async def _knowing(self, payments: int, stack: AsyncExitStack) -> Paid:
        """Run a service that has stored so many payments; with none, each is its customer's first."""
        if not payments:
            return await stack.enter_async_context(running_paid(self._folder / "rate", self._given.layout))
        folder = await self._stored(payments)
        paid = await stack.enter_async_context(running_paid(folder, self._given.layout))
        await paid.pay_as((folder / TENANT_FILE).read_text(encoding="ascii"))
        return paid

    async def stored(self) -> None:
        """The 99th percentile beside many stored transactions against few, in turns."""
        many = self._given.stored
        async with AsyncExitStack() as stack:
            sides: dict[int, Paid] = {}
            for count in (FEW, many):
                folder = await self._stored(count)
                if self._given.cached:
                    await asyncio.to_thread(lock_in_memory, folder / DATABASE_FILE)
                paid = await stack.enter_async_context(running_paid(folder, self._given.layout))
                await paid.pay_as((folder / TENANT_FILE).read_text(encoding="ascii"))
                sides[count] = paid
            await asyncio.to_thread(wait_for, self._given.alone)
            measured, _ = await sides[FEW].closed(self._given.requests)
            rate = SHARE * measured.per_second
            ratios = [await self._beside(sides, number, rate) for number in range(1, self._given.rounds + 1)]
        slower, dearer = (median([ratio[side] for ratio in ratios]) for side in (0, 1))
        say(f"row: p99 beside {many:,} is {slower:.2f} x that beside {FEW:,}, CPU {dearer:.2f} x")

    async def _beside(self, sides: dict[int, Paid], number: int, rate: float) -> tuple[float, float]:
        """Measure both sides, in turns first; return how many times the p99 and the CPU of many are."""
        p99, costs = dict[int, float](), dict[int, float]()
        for count in sorted(sides, reverse=number % 2 == 0):
            p99[count] = await sides[count].p99_ms(rate, self._given.seconds)
            costs[count] = (await sides[count].closed(self._given.requests))[1]
        slower, dearer = (side[max(sides)] / side[min(sides)] for side in (p99, costs))
        shown = ", ".join(f"{p99[count]:.0f} ms beside {count:,}" for count in sorted(sides))
        say(f"round {number}: p99 at {rate:.0f}/s {shown}: {slower:.2f} x; CPU {dearer:.2f} x")
        return slower, dearer

    async def _stored(self, count: int) -> Path:
        """Return a data folder with so many transactions of a tenant; an earlier run may have stored them."""
        folder, begun = (self._given.reused or self._folder) / f"stored-{count}", time.monotonic()
        if not (folder / TENANT_FILE).exists():
            async with running_paid(folder, self._given.layout) as paid:
                tenant_id = paid.fleet.tenant_id
            await store_payments(folder, tenant_id, count)
            (folder / TENANT_FILE).write_text(tenant_id, encoding="ascii")
        say(f"{count:,} transactions stored in {time.monotonic() - begun:.0f} s")
        return folder

    async def wallets(self) -> None:
        """Wallet assessments against sandbox verifications, in turns."""
        requests = self._given.requests
        async with running_paid(self._folder / "wallets", self._given.layout) as paid:
            url, key = paid.fleet.url, paid.fleet.key
            sides = {
                "wallets": (RawClient(f"{url}/v1/wallet-assessments", key), wallet),
                "verifications": (RawClient(f"{url}/v1/verifications", key), verification),
            }
            rates: dict[str, list[float]] = {name: [] for name in sides}
            for turn in range(self._given.rounds + 1):
                for name, (client, body) in sides.items():
                    send = partial(post_one, client, partial(body, f"{name}-{turn}"))
                    measured = await load(send, requests, AT_ONCE)
                    say(measured.line(f"{name}, turn {turn}"))
                    if turn:
                        rates[name].append(measured.per_second)
        share = median(rates["wallets"]) / median(rates["verifications"])
        say(f"row: wallet assessments reach {share:.2f} x the rate of sandbox verifications")


def wait_for(locks: list[Path]) -> None:
    """Lock the files, in their order, until this process ends."""
    for path in locks:
        fcntl.flock(os.open(path, os.O_RDONLY | os.O_CREAT, 0o600), fcntl.LOCK_EX)
        say(f"locked {path.name}")


async def post_one(client: RawClient, body: Callable[[int], bytes], number: int) -> int:
    """Post the body of a number and return the status."""
    return await client.post(body(number))


def wallet(run: str, number: int) -> bytes:
    """Return the body of an assessment, of a wallet that is in no list."""
    return json.dumps({"address": f"0x{zlib.crc32(run.encode()):020x}{number:020x}"}).encode()


def verification(run: str, number: int) -> bytes:
    """Return the body of a sandbox verification."""
    return json.dumps(small_request(f"sim:approved@{run}-{number}")).encode()


def median(values: list[float]) -> float:
    """Return the median."""
    return statistics.median(values)


def say(line: str) -> None:
    """Print a line at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


ROWS: Final = ("rate", "keys", "stored", "wallets")


async def main(options: argparse.Namespace) -> None:
    """Measure the rows that were asked for."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        bench = Bench(options, Path(name))
        for row in options.rows.split(","):
            await getattr(bench, row)()


def read_options() -> argparse.Namespace:
    """Read the options of the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", default=",".join(ROWS), help="separated by commas")
    parser.add_argument("--layout", default=ONE, choices=list(LAYOUTS))
    parser.add_argument("--requests", type=int, default=1_000, help="of each closed load")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=15, help="of each open load")
    parser.add_argument("--limit-ms", type=float, default=100.0, help="the 99th percentile's")
    parser.add_argument("--stored", type=int, default=100_000, help="1000000 is the full size")
    said = "payments stored before `rate`; 0: nearly each is its customer's first"
    parser.add_argument("--known", type=int, default=100_000, help=said)
    said = "payments each side decides before it is measured; 0: ezrules begins with empty tables"
    parser.add_argument("--before", type=int, default=4_000, help=said)
    said = "the folder of the data folders with stored payments, used again by the next run"
    parser.add_argument("--reused", type=Path, help=said)
    said = "keep the stored files in memory, where the system drops them at once"
    parser.add_argument("--cached", action="store_true", help=said)
    said = "files locked before `stored` measures, for others to wait by"
    parser.add_argument("--alone", type=Path, nargs="*", default=[], help=said)
    parser.add_argument("--ezrules", type=Path, help="an interpreter with ezrules and httpx")
    parser.add_argument("--database", default="", help="PostgreSQL for ezrules, as SQLAlchemy writes it")
    parser.add_argument("--redis", default="redis://127.0.0.1:6379", help="Redis for ezrules")
    return parser.parse_args()


if __name__ == "__main__":
    asyncio.run(main(read_options()))
