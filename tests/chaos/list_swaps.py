"""Swap a tenant's lists under a load of screenings: an answer is of one state, never CLEAR without a list.

`python -m tests.chaos.list_swaps --swaps 100` replaces two lists again and again at a front, first the one
and then the other, and now and then takes one away, while names are screened over both of them by a worker in
another process. `--engines` does it on a Kafka and a Cassandra.
"""

import argparse
import asyncio
import itertools
import json
import random
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from tests.chaos.fleet import UNHURRIED, Embedded, Profile, running_fleet
from tests.chaos.load import open_client
from tests.chaos.payments import LISTED, NOBODY, Payments

LISTS: Final = ("first", "second")
"""In the order in which they are replaced."""

SCREENERS: Final = 6
MISSING_EVERY: Final = 10
"""Swaps between two in which a list is away."""


@dataclass(slots=True)
class Swaps:
    """The lists of a tenant, and what was answered while they changed."""

    asked: Payments
    numbers: dict[str, dict[str, int]] = field(default_factory=lambda: {name: {} for name in LISTS})
    """The swap that made each version of a list."""
    answers: list[Mapping[str, Any]] = field(default_factory=list)
    over: bool = False
    _keys: Iterator[int] = field(default_factory=itertools.count)

    async def run(self, swaps: int) -> None:
        """Swap under load."""
        await self._replace(0)
        async with asyncio.TaskGroup() as group:
            for _ in range(SCREENERS):
                group.create_task(self._screen())
            for number in range(1, swaps + 1):
                await self._replace(number)
            self.over = True

    async def _replace(self, number: int) -> None:
        for name in LISTS:
            if number and number % MISSING_EVERY == 0:
                await self.asked.until_answered("DELETE", f"/v1/lists/{name}")
                await self._until_answered_once()
            entry = {"entity_id": str(number), "kind": "PERSON", "names": [LISTED]}
            shown = await self.asked.until_answered(
                "PUT",
                f"/v1/lists/{name}?kind=NAMES&check=SANCTIONS",
                data=json.dumps(entry).encode(),
                headers={"Content-Type": "application/x-ndjson", "Idempotency-Key": f"{name}-{number}"},
            )
            self.numbers[name][shown["version"]] = number
            if number:
                await self._until_answered_once()

    async def _until_answered_once(self) -> None:
        """Wait until a screening that began now was answered, and one more."""
        wanted = len(self.answers) + SCREENERS + 1
        while len(self.answers) < wanted:  # noqa: ASYNC110 - the screeners answer
            await asyncio.sleep(0.01)

    async def _screen(self) -> None:
        while not self.over:
            body = {
                "queries": [{"kind": "PERSON", "name": name} for name in (LISTED, NOBODY)],
                "lists": LISTS,
            }
            headers = {"Idempotency-Key": f"screening-{next(self._keys)}"}
            self.answers.append(
                await self.asked.until_answered("POST", "/v1/name-screenings", json=body, headers=headers)
            )

    def wrong(self) -> Iterator[str]:
        """Yield the answers that are not of one state of the lists, or CLEAR without one of them."""
        for answer in self.answers:
            listed, nobody = answer["results"]
            versions = {name: self.numbers[name][one] for name, one in answer["list_versions"].items()}
            found = {match["list"]: int(match["entity_id"]) for match in listed["matches"]}
            whole = set(versions) == set(LISTS)
            first, second = (versions.get(name, 0) for name in LISTS)
            if found != versions or listed["result"] == "CLEAR" or (nobody["result"] == "CLEAR") != whole:
                yield f"{versions}, found {found}: {listed['result']}, {nobody['result']}"
            elif whole and first - second not in {0, 1}:
                yield f"of two states: {versions}"

    @property
    def seen(self) -> Counter[str]:
        """How often nobody was found to be what, and how many versions were met."""
        found = Counter(answer["results"][1]["result"] for answer in self.answers)
        return found + Counter(versions=len({str(answer["list_versions"]) for answer in self.answers}))


async def swap_under_load(data_dir: Path, profile: Profile, swaps: int) -> tuple[Counter[str], list[str]]:
    """Return what was answered, and what of it was wrong."""
    async with running_fleet(data_dir, profile, **UNHURRIED) as fleet, open_client() as client:
        front, _ = await fleet.front(), await fleet.worker()
        run = Swaps(Payments(client, front.url, fleet.live_key, random.Random(1)))
        await run.run(swaps)
        return run.seen, list(run.wrong())


async def main(swaps: int, *, engines: bool) -> int:
    """Swap so often; 1 when an answer was wrong."""
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(ignore_cleanup_errors=True)))
        profile: Profile = Embedded(folder / "data")
        if engines:
            from tests.chaos.engines_profile import Engines  # noqa: PLC0415 - needs Java
            from tests.engines.cassandra_server import CassandraServer  # noqa: PLC0415

            cassandra = await stack.enter_async_context(CassandraServer(folder / "cassandra"))
            profile = Engines(folder / "data", cassandra)
        seen, wrong = await swap_under_load(folder / "data", profile, swaps)
    sys.stdout.write(f"swaps={swaps} of {len(LISTS)} lists, nobody={dict(seen)} wrong={len(wrong)}\n")
    sys.stdout.writelines(f"{one}\n" for one in wrong[:20])
    return 1 if wrong else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--swaps", type=int, default=100)
    parser.add_argument("--engines", action="store_true", help="on Kafka and Cassandra; needs Java")
    given = parser.parse_args()
    sys.exit(asyncio.run(main(given.swaps, engines=given.engines)))
