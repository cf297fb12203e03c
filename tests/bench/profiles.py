"""Where the time goes: sandbox verifications on Kafka and Cassandra against the embedded engines.

Run it with `python -m tests.bench.profiles`; it needs Java and Maven. Both profiles take turns on the same
cores in one run, under the same closed load. What is compared is the rate of finished verifications, as a
ratio, and the processor time each process took per verification. The engines run as the tests run them: small
heaps, one compiler tier, every answer on disk first; a production node is tuned otherwise.
"""

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from tests.bench.fleets import Fleet, embedded, on_engines, posting
from tests.bench.load import Measured, load

AT_ONCE = 64


@dataclass(frozen=True, slots=True)
class Turn:
    """One round of one profile."""

    profile: str
    measured: Measured
    cpu_s: Mapping[str, float]
    """Processor seconds of each process, the idle profile's under `idle`."""

    def cpu_ms(self, process: str) -> float:
        """Processor milliseconds of a process per verification."""
        return self.cpu_s.get(process, 0.0) / self.measured.requests * 1e3


def spent_s(pid: int) -> float:
    """Processor seconds a process and its children have taken."""
    find: Any = psutil.Process  # untyped
    parent = find(pid)
    family = (parent, *parent.children(recursive=True))
    return float(sum(sum(one.cpu_times()[:2]) for one in family))


def _own_s() -> float:
    took = os.times()
    return took.user + took.system


def processes_of(fleet: Fleet) -> dict[str, int]:
    """Every process of a profile by its role."""
    return {**fleet.ours, **fleet.engines}


async def take_turn(fleet: Fleet, idle: Sequence[Fleet], requests: int, run: str) -> Turn:
    """Load one profile while the others rest."""
    resting = [pid for other in idle for pid in processes_of(other).values()]

    def spent() -> dict[str, float]:
        own = {name: spent_s(pid) for name, pid in processes_of(fleet).items()}
        return {**own, "load": _own_s(), "idle": sum(map(spent_s, resting))}

    async with posting(fleet, run) as post:
        before = spent()
        measured = await load(post, requests, AT_ONCE)
        after = spent()
    assert set(measured.answers) == {201}, measured.answers
    return Turn(fleet.name, measured, {name: after[name] - before[name] for name in after})


async def compare(requests: int, rounds: int) -> list[Turn]:
    """Run both in turns, one round of each to warm up first; print every round."""
    turns = []
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True)))
        fleets = [
            await stack.enter_async_context(embedded(folder / "embedded")),
            await stack.enter_async_context(on_engines(folder / "engines")),
        ]
        for number in range(rounds + 1):
            for fleet in fleets:
                idle = [other for other in fleets if other is not fleet]
                turn = await take_turn(fleet, idle, requests, f"round-{number}")
                name = f"{'warm-up' if number == 0 else f'round {number}'} {fleet.name}"
                sys.stdout.write(turn.measured.line(name) + "\n")
                sys.stdout.flush()
                turns += [turn] if number else []
    return turns


def report(turns: Sequence[Turn]) -> None:
    """Print the ratio and the processor time per verification, medians over the rounds."""
    by_profile = {
        name: [t for t in turns if t.profile == name] for name in dict.fromkeys(t.profile for t in turns)
    }
    (first, base), (second, other) = by_profile.items()
    ratio = statistics.median(
        b.measured.per_second / a.measured.per_second for a, b in zip(base, other, strict=True)
    )
    for name, rounds in by_profile.items():
        took = {p: statistics.median(turn.cpu_ms(p) for turn in rounds) for p in rounds[0].cpu_s}
        whole = sum(took.values())
        sys.stdout.write(f"\n{name}: {whole:.2f} ms of processor time per verification\n")
        for process, milliseconds in sorted(took.items(), key=lambda item: -item[1]):
            sys.stdout.write(f"  {process:<10} {milliseconds:7.2f} ms  {milliseconds / whole:4.0%}\n")
    sys.stdout.write(f"\n{second} reaches {ratio:.0%} of the rate of {first}\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--requests", type=int, default=1_500, help="per round and profile")
    parser.add_argument("--rounds", type=int, default=3)
    chosen = parser.parse_args()
    report(asyncio.run(compare(chosen.requests, chosen.rounds)))
