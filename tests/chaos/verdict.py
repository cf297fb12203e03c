"""How every fault test ends: the deployment keeps its invariants, asked of the running service."""

import asyncio
import json
from typing import Final

from streams.runtime.authentication import LATE
from tests.chaos.fleet import Fleet
from tests.chaos.sizes import patience
from tests.chaos.tally import add, answer_of
from tests.journeys.service import run_preloaded

BOUND_S: Final = 180.0
"""I1: an accepted command has its decision this long after the load ends, on a busy machine as well."""


LOOKED_AT: Final = frozenset({"I1", "I3", "I4", "I5", "I6", "I7", "I8", "I10"})
"""Where a fault test without anything to look at has tested nothing."""

LOOK_S: Final = 900.0
"""How long one look may take; it opens every piece of evidence of a run of thousands of commands."""

ASKED: Final = ("doctor", "--invariants", "--due-after", "0", "--json")


async def check(
    fleet: Fleet,
    *canaries: str,
    dead_letters: int = 0,
    suspended: bool = False,
    within_s: float | None = None,
) -> None:
    """Let the checker look until it finds nothing, at most for the bound; then fail with what it found.

    A process that was suspended for longer than signatures last may leave dead letters of what it had signed.
    """
    found = await settled(fleet, canaries, within_s or patience(BOUND_S))
    add(fleet.profile, fleet.started, fleet.looks, found)
    assert not found, found
    letters = [letter for letter in await fleet.command("dlq", "list") if not letter["redriven"]]
    if suspended:
        letters = [letter for letter in letters if not letter["reason"].endswith(LATE)]
    assert len(letters) == dead_letters, letters


async def settled(fleet: Fleet, canaries: tuple[str, ...] = (), within_s: float = BOUND_S) -> list[object]:
    """Return the violations that are still there when the bound has passed."""
    deadline = asyncio.get_running_loop().time() + within_s
    while True:
        found = await violations(fleet, *canaries)
        if not found or asyncio.get_running_loop().time() > deadline:
            return found
        await asyncio.sleep(1.0)


async def violations(fleet: Fleet, *canaries: str) -> list[object]:
    """Ask `veristream doctor --invariants` once."""
    arguments = [part for canary in canaries for part in ("--canary", canary)]
    arguments += [part for log in fleet.logs for part in ("--log", str(log))]
    status, out, err = await run_preloaded(
        fleet.data_dir, *ASKED, *arguments, given=fleet.given(), within_s=LOOK_S
    )
    assert status in {0, 1}, err
    report = json.loads(out)
    unseen = [
        look["invariant"]
        for look in report["looks"]
        if look["invariant"] in LOOKED_AT and not look["looked_at"]
    ]
    assert not unseen, f"nothing was looked at: {unseen}"
    fleet.looks = answer_of(report["looks"])
    found: list[object] = report["violations"]
    assert (status == 0) == (not found)
    return found
