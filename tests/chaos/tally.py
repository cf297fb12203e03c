"""What the fault runs of a test run came to, added up by profile for the end of it."""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final


@dataclass(frozen=True, slots=True)
class Run:
    """One fault run, as the checker of the invariants saw its end."""

    profile: str
    commands: int
    """Different commands in the log."""
    decisions: int
    """Decisions in the store, each held against its audit rows."""
    violations: tuple[str, ...]
    """The invariants that were violated, once for each time."""
    took_s: float


RUNS: Final[list[Run]] = []
"""The runs of this process."""

LOST: Final = ("I1", "I7")
TWICE: Final = ("I2", "I4", "I5")
MISAUDITED: Final = ("I3", "I10")
"""A command that is lost; decided or published twice; audited twice or not at all."""


def answer_of(looks: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Return how much was looked at, by invariant."""
    return {look["invariant"]: look["looked_at"] for look in looks}


def add(profile: object, started: float, looks: Mapping[str, int], violations: Sequence[Any]) -> None:
    """Remember a run that came to its end."""
    violated = tuple(str(one["invariant"]) for one in violations)
    took_s = time.monotonic() - started
    name = type(profile).__name__.lower()
    RUNS.append(Run(name, looks.get("I1", 0), looks.get("I3", 0), violated, took_s))


def lines() -> Iterator[str]:
    """Yield a line for each profile."""
    for profile in sorted({run.profile for run in RUNS}):
        runs = [run for run in RUNS if run.profile == profile]
        commands, took_s = sum(run.commands for run in runs), sum(run.took_s for run in runs)
        found = [name for run in runs for name in run.violations]
        counts = [sum(found.count(name) for name in kind) for kind in (LOST, TWICE, MISAUDITED)]
        yield (
            f"{profile}: {len(runs)} runs, {commands} commands, "
            f"{sum(run.decisions for run in runs)} decisions; lost {counts[0]}, decided twice {counts[1]}, "
            f"audited twice or never {counts[2]}, other violations {len(found) - sum(counts)}; "
            f"{took_s:.0f} s, {commands / max(took_s, 1.0):.1f} commands/s with starts and ends"
        )
