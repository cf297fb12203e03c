"""What a request costs, stage by stage, beside a bare echo: `python -m tests.bench.pipeline`.

In one run, for each layout and kind of request: the echo of `tests.bench.echo` and the requests in turns, 64
under way, the same requests sampled for their stages, and an open load at 70 % of the rate reached. What
travels from one machine to another are the ratios to the echo; milliseconds do not. A machine that others use
too is slow at one moment and fast at the next, so of the turns' ratios the median counts. The stages are
shares of the processor time seen by a sampler inside the processes (`tests.bench.staged`), which is off while
the cost is measured. With --engines once more on Kafka and Cassandra, with their statements; it needs Java.
"""

import argparse
import asyncio
import json
import random
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import psutil
from typing_extensions import override

from tests.bench.fifty_rules import MOST_RULES, RULES, payment, policy_text
from tests.bench.load import Measured, OpenLoad, load
from tests.bench.paying import publish
from tests.bench.raw_client import RawClient
from tests.bench.sandbox import running_echo
from tests.bench.staged_fleets import ENGINES, LAYOUTS, Sampled, StagedFleet, running_fleet
from tests.journeys.service import small_request

AT_ONCE: Final = 64
TURNS: Final = 6
"""Of each kind of request, with the echo before and after each."""

SHARE: Final = 0.7
"""Of the rate reached at `AT_ONCE`, for the open load."""

STARTED_S: Final = 10.0
"""From the start of a fleet to where it is idle."""

IDLE_S: Final = 30.0
"""Twice what lies between two measurements of the lag."""

MARK: Final = "(number)"
FLOW: Final = "(flow)"


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of request."""

    name: str
    path: str
    template: bytes
    keyed: bool = False
    """Whether every request has an Idempotency-Key."""

    def body(self, run: str, number: int) -> bytes:
        """Return the body of one request, different from every other."""
        return self.template.replace(MARK.encode(), f"{run}-{number}".encode())

    def on(self, fleet: StagedFleet) -> "Kind":
        """Return the kind with the fleet's own flow in it."""
        return replace(self, template=self.template.replace(FLOW.encode(), fleet.flow_id.encode()))


@dataclass(frozen=True, slots=True)
class Payment(Kind):
    """A payment of one of many customers, by as many rules as are said: what costs the worker most."""

    rules: int = RULES

    @override
    def body(self, run: str, number: int) -> bytes:
        return payment(random.Random(f"{run}-{number}"))


VERIFICATION: Final = Kind(
    "sim: verification", "/v1/verifications", json.dumps(small_request(f"sim:approved@{MARK}")).encode()
)
COMMAND: Final = Kind(
    "minimal command",
    "/v1/verification-sessions",
    json.dumps({"flow_id": FLOW, "subject_id": f"bench-{MARK}"}).encode(),
)
"""Opens a session: no images, one record, one audit row."""

ECHO: Final = Kind("echo", "/echo", json.dumps({"subject": MARK, "text": "x" * 360}).encode())
"""About as many bytes as the command of a verification."""

PAYMENT: Final = Payment("payment by 50 rules", "/v1/transactions", b"", keyed=True)
LONGEST_POLICY: Final = Payment("payment by 300 rules", "/v1/transactions", b"", keyed=True, rules=MOST_RULES)
KINDS: Final = {
    "verification": VERIFICATION, "command": COMMAND, "payment": PAYMENT, "long-policy": LONGEST_POLICY,
}  # fmt: skip
USUAL: Final = ("verification", "command")


@dataclass(frozen=True, slots=True)
class Cost:
    """One load and what it cost."""

    measured: Measured
    cpu_ms: dict[str, float]
    """Processor milliseconds per request by process."""

    @property
    def ms(self) -> float:
        """Processor milliseconds per request, engines not counted."""
        return sum(ms for name, ms in self.cpu_ms.items() if name not in {"kafka", "cassandra"})

    @staticmethod
    def of_all(turns: Sequence["Cost"]) -> "Cost":
        """Return what loads of the same size cost."""
        cpu_ms = {name: statistics.fmean(turn.cpu_ms[name] for turn in turns) for name in turns[0].cpu_ms}
        return Cost(Measured.of_all([turn.measured for turn in turns]), cpu_ms)


@dataclass(slots=True)
class Target:
    """Something that answers a kind of request."""

    kind: Kind
    client: RawClient
    spent_s: Callable[[], dict[str, float]]
    runs: int = 0

    def _send(self) -> Callable[[int], Any]:
        self.runs += 1
        run = f"{time.monotonic_ns()}-{self.runs}"
        kind = self.kind
        return lambda number: self.client.post(
            kind.body(run, number), f"{run}-{number}" if kind.keyed else None
        )

    async def cost(self, requests: int) -> Cost:
        """Send so many, `AT_ONCE` under way, and return what they cost."""
        before = self.spent_s()
        measured = await load(self._send(), requests, AT_ONCE)
        after = self.spent_s()
        if set(measured.answers) != {201}:
            raise RuntimeError(f"{self.kind.name}: {dict(measured.answers)}")
        return Cost(measured, {name: (after[name] - before[name]) / requests * 1e3 for name in after})

    async def open_load(self, per_second: float, seconds: float) -> OpenLoad:
        """Send at a rate for so long."""
        opened = OpenLoad(self._send(), per_second, random.Random(1))
        await opened.run(seconds)
        return opened


@dataclass(slots=True)
class Bench:
    """Measures and tells."""

    echo: Target
    requests: int
    open_s: float
    places: int
    ratios: list[tuple[str, str, float]] = field(default_factory=list)

    async def measure(self, fleet: StagedFleet, kind: Kind) -> None:
        """Measure one kind of request on one fleet."""
        target = Target(kind.on(fleet), RawClient(f"{fleet.url}{kind.path}", fleet.key), fleet.spent_s)
        await target.cost(max(200, self.requests // 4))
        cost, ratios = await self._take_turns(target)
        ratio = statistics.median(ratios)
        say(f"\n{fleet.layout}, {kind.name}: {cost.ms:.2f} ms a request, {ratio:.2f} x echo")
        say("  turn by turn: " + ", ".join(f"{one:.2f}" for one in ratios))
        say("  by process: " + ", ".join(f"{name} {ms:.2f}" for name, ms in cost.cpu_ms.items()))
        say(cost.measured.line(f"  at {AT_ONCE} under way"))
        self.ratios.append((fleet.layout, kind.name, ratio))
        await self._sample(fleet, target, cost)
        rate = SHARE * cost.measured.per_second
        opened = await target.open_load(rate, self.open_s)
        p50, p99 = (_quantile(opened.latencies_s, share) for share in (0.5, 0.99))
        say(f"  at {rate:.0f}/s ({SHARE:.0%}): p50 {p50:.1f} ms, p99 {p99:.1f} ms, {dict(opened.answers)}")

    async def _take_turns(self, target: Target) -> tuple[Cost, list[float]]:
        """Return what the requests cost, and of each turn the ratio to the echoes around it."""
        each = -(-self.requests // TURNS)
        costs, ratios, before = [], [], await self.echo.cost(each)
        for _ in range(TURNS):
            costs.append(await target.cost(each))
            after = await self.echo.cost(each)
            ratios.append(2 * costs[-1].ms / (before.ms + after.ms))
            before = after
        return Cost.of_all(costs), ratios

    async def _sample(self, fleet: StagedFleet, target: Target, cost: Cost) -> None:
        for member in fleet.members:
            member.begin()
        await target.cost(self.requests)
        sampled = [await member.end() for member in fleet.members]
        for member, one in zip(fleet.members, sampled, strict=True):
            say(f"  {member.name}: " + _stages(one, cost.cpu_ms[member.name]))
            for place, seconds in one.places_s.most_common(self.places):
                say(f"      {seconds / one.process_s:5.1%}  {place}")
        say("  " + _counts(sampled, self.requests))


def _stages(one: Sampled, cpu_ms: float) -> str:
    """Return the milliseconds of each stage; what no Python thread spent is `native`."""
    stages = one.stages_s + Counter({"native": max(0.0, one.process_s - one.stages_s.total())})
    results = [f"{stage} {seconds / one.process_s * cpu_ms:.2f}" for stage, seconds in stages.most_common()]
    return ", ".join(results)


def _counts(sampled: Sequence[Sampled], requests: int) -> str:
    """Return statements, records and batches per request."""
    counts: Counter[str] = Counter()
    for one in sampled:
        counts.update(one.counts)
    whole: Counter[str] = Counter()
    for name, many in counts.items():
        whole[name.partition(" ")[0]] += many if "statements of" not in name else 0
    summed = ", ".join(f"{name} {many / requests:.2f}" for name, many in whole.most_common())
    text = ", ".join(f"{name} {many / requests:.2f}" for name, many in sorted(counts.items()))
    return f"per request: {summed}\n    {text}"


def _quantile(seconds: Sequence[float], share: float) -> float:
    ordered = sorted(seconds) or [float("nan")]
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)] * 1e3


async def idle(fleet: StagedFleet) -> None:
    """Tell what the fleet takes while nobody asks anything."""
    await asyncio.sleep(STARTED_S)
    before, began = fleet.spent_s(), time.monotonic()
    await asyncio.sleep(IDLE_S)
    after, took_s = fleet.spent_s(), time.monotonic() - began
    each = {name: (after[name] - before[name]) / took_s * 1e3 for name in after}
    text = ", ".join(f"{name} {ms:.1f}" for name, ms in each.items())
    say(f"\n{fleet.layout}, idle: {sum(each.values()):.1f} ms of processor time a second ({text})")


def say(line: str) -> None:
    """Print a line at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


async def run(
    layouts: Sequence[str], kinds: Sequence[Kind], requests: int, open_s: float, places: int
) -> None:
    """Measure every kind on every layout, one layout after the other."""
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True)))
        url = await stack.enter_async_context(running_echo(folder / "echo"))
        echo = Target(ECHO, RawClient(url + ECHO.path, "none"), _spent_by_echo)
        bench = Bench(echo, requests, open_s, places)
        await bench.echo.cost(requests)
        for number, layout in enumerate(layouts):
            async with running_fleet(folder / str(number), layout) as fleet:
                await idle(fleet)
                for kind in kinds:
                    if isinstance(kind, Payment):
                        await publish(fleet.url, fleet.key, policy_text(rules=kind.rules))
                    await bench.measure(fleet, kind)
        say("\nratios to the echo:")
        for layout, name, ratio in bench.ratios:
            say(f"  {layout:<20} {name:<20} {ratio:6.2f}")


def _spent_by_echo() -> dict[str, float]:
    find: Any = psutil.Process  # untyped
    echoes = [one for one in find().children() if "tests.bench.echo" in one.cmdline()]
    return {"echo": float(sum(sum(one.cpu_times()[:2]) for one in echoes))}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    embedded = [name for name in LAYOUTS if name != ENGINES]
    parser.add_argument("--layouts", default=",".join(embedded), help="separated by commas")
    parser.add_argument("--engines", action="store_true", help="Kafka and Cassandra as well")
    parser.add_argument("--kinds", default=",".join(USUAL), help=f"of {', '.join(KINDS)}")
    parser.add_argument("--requests", type=int, default=2_000, help="per measurement")
    parser.add_argument("--open-s", type=float, default=10.0, help="seconds of open load")
    parser.add_argument("--places", type=int, default=0, help="functions told per process")
    chosen = parser.parse_args()
    wanted = [name.strip() for name in chosen.layouts.split(",") if name.strip()]
    asyncio.run(
        run(
            [*wanted, *([ENGINES] if chosen.engines else [])],
            [KINDS[name] for name in chosen.kinds.split(",")],
            chosen.requests,
            chosen.open_s,
            chosen.places,
        )
    )
