"""Backtests beside live decisions of the same policy: `python -m tests.bench.backtests --help`.

In one run on the same cores: payments are decided until so many are stored, the published policy is tried on
all of them, here and on a restored backup as on another machine, and payments at a fixed rate are timed with
a backtest beside them and without, in turns. What a backtest does on one core is what its process decides in
a second of processor time, and so for a worker.
"""

import argparse
import asyncio
import statistics
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import psutil

from schemas.base import rfc3339
from tests.bench.own_past import OTHER_MACHINE, digest_of, replayed, restored, say
from tests.bench.paying import POLICIES, Paid, running_paid
from tests.bench.staged_fleets import SPLIT
from tests.chaos.transaction_kills import BACKTEST_MODULE

BACKTESTS: Final = f"{POLICIES}/backtests"
REVISION: Final = 2
"""Of the policy of the bench; 1 is every tenant's first."""

SHARE: Final = 0.4
"""Of the closed rate, for the payments beside a backtest."""

OVER: Final = frozenset({"DONE", "FAILED", "CANCELLED"})


async def run(transactions: int, rounds: int, seconds: float) -> int:
    """Measure; 1 when a decision of the past is changed, or another one elsewhere."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        async with running_paid(Path(name, "here"), SPLIT) as paid:
            before = paid.fleet.spent_s()
            measured, _ = await paid.closed(transactions)
            spent = paid.fleet.spent_s()
            worker = next(name for name in spent if name.startswith("worker"))
            live = transactions / (spent[worker] - before[worker])
            say(measured.line("payments") + f", {live:.0f} in a second of the worker's CPU")
            backtest_id, result, core = await _alone(paid)
            say(f"row: a backtest decides {core:.0f} in a second of CPU, {core / live:.2f} x a worker")
            say(f"row: {result['changed']} of {result['evaluated']:,} changed, {result['unknown']} unknown")
            digests = digest_of(result), digest_of(await _elsewhere(paid, Path(name), backtest_id))
            say(f"row: results by sha256: {digests[0]} here, {digests[1]} elsewhere")
            if rounds:
                await _beside(paid, SHARE * measured.per_second, rounds, seconds)
    return 1 if result["changed"] or len(set(digests)) > 1 else 0


async def _elsewhere(paid: Paid, folder: Path, backtest_id: str) -> dict[str, Any]:
    """Return the result of the same backtest on a restored backup, in a process of another environment."""
    elsewhere = folder / "elsewhere"
    await restored(paid.folder, elsewhere, folder / "backup")
    return await replayed(elsewhere, paid.fleet.tenant_id, backtest_id, OTHER_MACHINE)


async def _alone(paid: Paid) -> tuple[str, dict[str, Any], float]:
    """Return a backtest of everything, its result, and what it decided in a second of CPU."""
    backtest_id, child, spent_s, begun_s = await _ask(paid), None, 0.0, 0.0
    while (shown := await _read(paid, backtest_id))["status"] not in OVER:
        child = child or _child(paid)
        if child is not None:
            spent_s = _cpu_s(child) or spent_s
            begun_s = begun_s if shown["progress"]["done"] else spent_s  # it imports and counts before
        await asyncio.sleep(0.1)
    if shown["status"] != "DONE":
        raise RuntimeError(shown["failure"])
    return backtest_id, shown["result"], shown["result"]["evaluated"] / max(spent_s - begun_s, 0.01)


async def _beside(paid: Paid, rate: float, rounds: int, seconds: float) -> None:
    """Time payments with and without a backtest beside them, in turns."""
    without, beside = list[float](), list[float]()
    for _ in range(rounds):
        without.append(await paid.p99_ms(rate, seconds))
        async with _backtesting(paid):
            beside.append(await paid.p99_ms(rate, seconds))
    say(f"p99 in ms at {rate:.0f}/s: without {without}, beside a backtest {beside}")
    slower = statistics.median(beside) / statistics.median(without)
    say(f"row: p99 of payments beside a backtest is {slower:.2f} x that without")


@asynccontextmanager
async def _backtesting(paid: Paid) -> AsyncIterator[None]:
    """Let a backtest run for the length of the context: another as soon as one ends."""

    async def keep() -> None:
        while True:
            backtest_id = await _ask(paid)
            while (await _read(paid, backtest_id))["status"] not in OVER:  # noqa: ASYNC110 - of a worker
                await asyncio.sleep(0.5)

    task = asyncio.create_task(keep())
    try:
        while _child(paid) is None:  # noqa: ASYNC110 - another process starts it
            await asyncio.sleep(0.2)
        yield
    finally:
        task.cancel()
        await asyncio.wait({task})


async def _ask(paid: Paid) -> str:
    now = datetime.now(UTC)
    body = {"revision": REVISION, "from": rfc3339(now - timedelta(days=1)), "to": rfc3339(now)}
    return str((await paid.ask("POST", BACKTESTS, body))["backtest_id"])


async def _read(paid: Paid, backtest_id: str) -> Any:
    return await paid.ask("GET", f"{BACKTESTS}/{backtest_id}")


def _child(paid: Paid) -> Any:
    """Return the process of a backtest, None if none runs."""
    find: Any = psutil.Process  # untyped
    for member in paid.fleet.members:
        for child in find(member.process.pid).children():
            try:
                if BACKTEST_MODULE in child.cmdline():
                    return child
            except psutil.NoSuchProcess:
                pass
    return None


def _cpu_s(process: Any) -> float:
    try:
        return float(sum(process.cpu_times()[:2]))
    except psutil.NoSuchProcess:
        return 0.0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--transactions", type=int, default=10_000, help="100000 is the full size")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=15.0, help="of each open load")
    given = parser.parse_args()
    sys.exit(asyncio.run(run(given.transactions, given.rounds, given.seconds)))
