"""What a second worker gives for full verifications: `python -m tests.bench.second_worker`.

The models take nearly all of the time of a full verification. Front and broker run beside one worker with one
vision child, and beside two workers with one each, in turns on the same cores. So do the bare engines, in one
child and in two: no service gains more from a second worker than they gain from a second child.
"""

import argparse
import asyncio
import statistics
import sys
import tempfile
from contextlib import AsyncExitStack
from pathlib import Path

from app.demo.specimens import to_jpeg
from app.vision.engines import EngineChoice, open_engines
from tests.bench.raw_client import RawClient
from tests.bench.staged_fleets import SPLIT, TWO_WORKERS, StagedFleet, running_fleet
from tests.bench.verifications import Post, bare, documents, served
from tests.journeys.service import encoded, hopper

AT_ONCE = 32
"""Under way at one time: so many that nearly always both workers have some, whichever partitions the keys
fall on. Only while all are under way is counted: at the end one worker has more left than the other."""

SETTINGS = {"SERVICE_VISION_WORKERS": "1", "SERVICE_ANSWER_TIMEOUT_S": "300"}
"""One vision child for each worker; and no request is given up however slow the machine is."""


def posting(fleet: StagedFleet) -> Post:
    """Return what posts a verification to a fleet."""
    return RawClient(f"{fleet.url}/v1/verifications", fleet.key).post


async def compare(count: int, rounds: int) -> None:
    """Run all four in turns, and print every round and the median ratios."""
    person = hopper()
    selfie, pages = to_jpeg(person.selfie), documents(person, count)
    ratios, bounds = [], []
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True)))
        children = [
            await stack.enter_async_context(open_engines(EngineChoice(workers=workers, waiting=64)))
            for workers in (1, 2)
        ]
        fleets = [
            await stack.enter_async_context(running_fleet(folder / layout, layout, SETTINGS))
            for layout in (SPLIT, TWO_WORKERS)
        ]
        posts = [posting(fleet) for fleet in fleets]
        for post in posts:
            await served(post, pages[:8], encoded(selfie), AT_ONCE)
        for number in range(1, rounds + 1):
            alone = [await bare(engines, pages[: count // 2], selfie) for engines in children]
            whole = [await served(post, pages, encoded(selfie), AT_ONCE) for post in posts]
            bounds.append(alone[1].steady_per_second / alone[0].steady_per_second)
            ratios.append(whole[1].steady_per_second / whole[0].steady_per_second)
            names = ("one vision child", "two vision children", "one worker", "two workers")
            for name, measured in zip(names, (*alone, *whole), strict=True):
                sys.stdout.write(measured.steady_line(f"round {number} {name}") + "\n")
            sys.stdout.flush()
    gained, bound = statistics.median(ratios), statistics.median(bounds)
    sys.stdout.write(f"two workers answer {gained:.2f} x as many as one; ")
    sys.stdout.write(f"two children of the bare engines {bound:.2f} x as many as one\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=96, help="verifications per round")
    parser.add_argument("--rounds", type=int, default=3)
    chosen = parser.parse_args()
    asyncio.run(compare(chosen.count, chosen.rounds))
