"""How every fault test ends: the deployment keeps its invariants, asked of the running service."""

import asyncio
import json
from typing import Final

from tests.chaos.fleet import Fleet
from tests.journeys.service import veristream, veristream_json

BOUND_S: Final = 60.0
"""I1: an accepted command has its decision this long after the quiet period starts."""


ASKED: Final = ("doctor", "--invariants", "--due-after", "0", "--json")


async def check(fleet: Fleet, *canaries: str, dead_letters: int = 0, within_s: float = BOUND_S) -> None:
    """Let the checker look until it finds nothing, at most for the bound; then fail with what it found."""
    assert await settled(fleet, canaries, within_s) == []
    letters = await veristream_json(fleet.data_dir, "dlq", "list", given=fleet.given())
    assert sum(not letter["redriven"] for letter in letters) == dead_letters, letters


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
    status, out, err = await veristream(
        fleet.data_dir,
        "doctor",
        "--invariants",
        "--due-after",
        "0",
        "--json",
        *arguments,
        given=fleet.given(),
    )
    assert status in {0, 1}, err
    report = json.loads(out)
    found: list[object] = report["violations"]
    assert (status == 0) == (not found)
    return found
