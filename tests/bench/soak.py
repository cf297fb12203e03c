"""A long steady load, and what it does to the service: `python -m tests.bench.soak --minutes 30 --share 0.7`.

First the greatest rate of `sim:` verifications is measured with a closed load; then an open load comes at
a share of it, while memory, threads, file descriptors, tasks and lag are read. The exit status is 1 when
something grows that should not, something waits, an answer was no 201, an audit chain is broken or an
invariant does not hold. The load comes for `--settle` minutes before the minutes that are judged: what an
agent remembers of its last 16,000 verifications fills up, and a changelog is compacted for the first time,
which leaves the heap some 3 MiB larger for good. That comes when its segments of 16 MiB are full, after
about 73,000 verifications: 20 minutes of 60/s; settle for longer where the load is less.
What is bounded and still grows then is the index of the broker's open segments, some three bytes a
verification until they are full too: say so with `--explained-bytes 3`.
Everything runs on the same cores, the load included. On a virtual machine the host may take some of their
time away (`stolen`): what was measured as the greatest rate before is then no measure any more.
"""

import argparse
import asyncio
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

from tests.bench.fleets import Fleet, embedded, on_engines, posting
from tests.bench.load import OpenLoad, load
from tests.bench.readings import HOUR_S, MIB, Limits, Reader, Reading, Soaked, quantile, settled, tally

AT_ONCE = 64
DRAIN_S = 60.0
"""How long records may still wait after the load."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How a soak is run."""

    minutes: float
    """Of the load that is judged."""
    settle_minutes: float
    """Of the same load before."""
    share: float
    engines: bool
    every_s: float
    seek: int
    """Requests per round while the greatest rate is sought."""
    explained_bytes: float
    """Memory that each verification is meant to leave behind (bounded caches that are not full yet)."""
    limits: Limits


def say(line: str) -> None:
    """Print a line at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


async def greatest_rate(fleet: Fleet, requests: int) -> float:
    """Return the rate that the last two of three closed rounds both reach; the first warms up."""
    rates = []
    for number in range(3):
        async with posting(fleet, f"seek-{number}") as post:
            measured = await load(post, requests, AT_ONCE)
        say(measured.line(f"closed round {number + 1}"))
        rates.append(measured.per_second)
    return min(rates[1:])


async def watch(reader: Reader, every_s: float, load_under_way: OpenLoad, readings: list[Reading]) -> None:
    """Read until cancelled; say one line a minute."""
    said = 0.0
    while True:
        reading = await reader.read()
        readings.append(reading)
        if reading.at_s - said >= 60 or len(readings) == 1:
            said = reading.at_s
            say(
                f"{reading.at_s / 60:6.1f} min  rss {reading.rss_mib:7.1f} MiB  threads {reading.threads:4}"
                f"  fds {reading.fds:5}  tasks {reading.tasks:5}  lag {reading.lag:5}"
                f"  stolen {reading.stolen:4.0%}"
                f"  sent {load_under_way.sent:8}  answers {tally(load_under_way.answers)}"
            )
        await asyncio.sleep(every_s)


async def faults_of(fleet: Fleet) -> Sequence[str]:
    """Ask the service's own commands: every audit chain, once all rows are sealed; then the invariants."""
    deadline = time.monotonic() + DRAIN_S
    while True:
        status, found = await fleet.command("audit", "verify")
        reports = found["chains"] if found else ()
        waiting = sum(report["waiting"] for report in reports)
        if status or not waiting or time.monotonic() > deadline:
            break
    rows = sum(report["rows"] for report in reports)
    say(f"audit verify: exit status {status}, {rows} rows, {waiting} not sealed")
    faults = [f"audit verify found a broken chain (exit status {status})"] if status else []
    faults += [f"{waiting} audit rows were never sealed"] if waiting else []
    status, report = await fleet.command("doctor", "--invariants")
    say(f"doctor --invariants: exit status {status}")
    return faults + ([f"invariants do not hold: {str(report)[:500]}"] if status else [])


async def soak(plan: Plan) -> list[str]:
    """Run the plan and return all that is wrong."""
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True)))
        fleet = await stack.enter_async_context((on_engines if plan.engines else embedded)(folder))
        rate = await greatest_rate(fleet, plan.seek) * plan.share
        lasting = plan.settle_minutes + plan.minutes
        say(f"open load on {fleet.name}: {rate:.1f}/s for {lasting:g} min ({plan.share:.0%})")
        reader = Reader(list(fleet.ours.values()), fleet.metrics, fleet.access)
        await stack.enter_async_context(reader)
        post = await stack.enter_async_context(posting(fleet, "soak"))
        await load(post, AT_ONCE, AT_ONCE)  # opens every connection it will have
        steady = OpenLoad(post, rate, random.Random(1))
        readings: list[Reading] = []
        watching = asyncio.create_task(watch(reader, plan.every_s, steady, readings))
        await steady.run(lasting * 60)
        watching.cancel()
        with suppress(asyncio.CancelledError):
            await watching
        lag = await reader.until_no_lag(DRAIN_S)
        explained = plan.explained_bytes * rate * HOUR_S / MIB
        judged = settled(readings, plan.settle_minutes * 60)
        soaked = Soaked(judged, steady.answers, explained, lag, await faults_of(fleet))
    report(soaked, steady)
    return soaked.wrong(plan.limits)


def report(soaked: Soaked, steady: OpenLoad) -> None:
    """Say what was found."""
    p50, p99 = (quantile(steady.latencies_s, share) * 1e3 for share in (0.5, 0.99))
    say(
        f"answers {tally(steady.answers)};  p50 {p50:.1f} ms  p99 {p99:.1f} ms (from the moment each was due)"
    )
    say(f"slopes of the last {len(soaked.readings)} readings, ± two standard errors:")
    for name, unit in (("rss_mib", "MiB"), ("threads", ""), ("fds", ""), ("tasks", "")):
        say(f"  {name:<8} {soaked.slope(name)} {unit}/h")
    stolen = sum(reading.stolen for reading in soaked.readings) / max(len(soaked.readings), 1)
    say(f"  of the machine's time its host took {stolen:.1%}")
    say(f"  explained memory {soaked.explained_mib_per_hour:.1f} MiB/h;  lag at the end {soaked.lag_at_end}")


def read_plan() -> Plan:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--settle", type=float, default=25, help="minutes of the load before those")
    parser.add_argument("--share", type=float, default=0.7, help="of the greatest rate")
    parser.add_argument("--engines", action="store_true", help="on Kafka and Cassandra; needs Java and Maven")
    parser.add_argument("--every", type=float, default=10, help="seconds between two readings")
    parser.add_argument(
        "--seek", type=int, default=2_000, help="requests per round to find the greatest rate"
    )
    parser.add_argument("--rss-mib-per-hour", type=float, default=Limits().rss_mib_per_hour)
    parser.add_argument("--explained-bytes", type=float, default=0.0, help="of memory, per verification")
    given = parser.parse_args()
    limits = Limits(rss_mib_per_hour=given.rss_mib_per_hour)
    return Plan(
        given.minutes,
        given.settle,
        given.share,
        given.engines,
        given.every,
        given.seek,
        given.explained_bytes,
        limits,
    )


if __name__ == "__main__":
    wrong = asyncio.run(soak(read_plan()))
    say("\n".join(f"WRONG: {what}" for what in wrong) or "passed")
    sys.exit(1 if wrong else 0)
