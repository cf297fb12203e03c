"""Measure the process that holds the names: its start, its memory, what a question costs, and an index here.

Run with `python -m tests.bench.names_process --names 20000 250000`; the lists are those of
`tests.bench.names`. Processor time is what a busy machine leaves comparable: `here_ms` is this process's part
of a question, `cpu_ms` that of both. `--ready 5` starts `veristream up` so often with such a list and without
one, in turns, and prints what the list adds to the time until it is ready. `--peer PYTHON` names an
interpreter with nomenklatura in it: the memory of the process is compared with one that has made a comparison
of its logic-v2.
"""

import argparse
import asyncio
import json
import random
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Final

from app.names.messages import in_parts
from app.names.process import NamesProcess, open_names
from schemas.lists import EntityKind, NameEntry
from schemas.screenings import ScreeningTarget
from streams.lists.listed_names import ListedNames, index_locally
from streams.names.matching import Thresholds
from streams.runtime.child_processes import cpu_s
from tests.bench.names import ask_peer, make_entries, milliseconds, mutate, say
from tests.journeys.service import Role, begin_deployment, veristream_json

ASKED: Final = 500
AT_ONCE: Final = 16
MEGABYTE: Final = 2**20


class Bench:
    """A list of so many names, and whom to ask about."""

    def __init__(self, count: int) -> None:
        chance = random.Random(2)
        self.count = count
        entries = make_entries(count, random.Random(1))
        persons = [entry for entry in entries if entry.kind is EntityKind.PERSON]
        self.targets = [
            ScreeningTarget(kind=one.kind, name=mutate(one.names[0], chance))
            for one in chance.choices(persons, k=ASKED)
        ]
        self._lines = [NameEntry.to_bytes(entry) for entry in entries]

    async def parts(self) -> AsyncIterator[Sequence[bytes]]:
        """Yield the entries."""
        for part in in_parts(self._lines):
            yield part

    async def run(self, peer: Path | None) -> None:
        """Print what the list costs in a process of its own, and in this one."""
        async with open_names() as names:
            begun, here_s = time.perf_counter(), time.process_time()
            listed = await names(self.parts)
            wall_s, here_s = time.perf_counter() - begun, time.process_time() - here_s
            cpu = cpu_s(names.pid or 0)
            say("built", names=self.count, wall_s=wall_s, cpu_s=cpu, here_s=here_s, **memory_of(names))
            for _ in range(3):
                await self.print_questions(names, listed)
            if peer:
                print_beside_peer(names, peer)
            await self.print_beside_build(names, listed)
        here = await index_locally(self.parts)
        for _ in range(3):
            await self.print_questions(None, here)

    async def print_questions(self, names: NamesProcess | None, listed: ListedNames) -> None:
        """Print what a question costs, one after the other and several at once."""
        there_s, here_s = process_s(names), time.process_time()
        times = await ask_alone(listed, self.targets)
        per_s = await ask_at_once(listed, self.targets)
        here_ms = (time.process_time() - here_s) / (2 * ASKED) * 1000
        cpu_ms = here_ms + (process_s(names) - there_s) / (2 * ASKED) * 1000
        where = "asked here" if names is None else "asked there"
        say(where, here_ms=here_ms, cpu_ms=cpu_ms, at_once_per_s=per_s, **milliseconds(times))

    async def print_beside_build(self, names: NamesProcess, listed: ListedNames) -> None:
        """Print what a question takes while the next version is built, and the memory of both versions."""
        building, times = asyncio.ensure_future(names(self.parts)), list[float]()
        while not building.done():
            times += await ask_alone(listed, self.targets[:20])
        say("asked beside a build", questions=len(times), most_ms=max(times) * 1000, **milliseconds(times))
        say("two versions", **memory_of(names))


async def print_ready(count: int, rounds: int) -> None:
    """Print the seconds until `up` is ready with a list of so many names and without, and the difference."""
    with tempfile.TemporaryDirectory() as name:
        folders = {side: Path(name, side) for side in ("without", "with")}
        for folder in folders.values():
            begin_deployment(folder)
        listed = publish(Path(name, "names.json"), count)
        await veristream_json(folders["with"], "lists", "load", "us_ofac_sdn", str(listed))
        times: dict[str, list[float]] = {side: [] for side in folders}
        for turn in range(rounds + 1):
            for side, folder in folders.items():
                begun = time.perf_counter()
                role = await Role.start(folder, "up", "--port", "0")
                if turn:  # the first start of a folder makes its stores and topics
                    times[side].append(time.perf_counter() - begun)
                await role.stop()
    shown = {f"{side}_s": statistics.median(found) for side, found in times.items()}
    say("ready", names=count, rounds=rounds, added_s=shown["with_s"] - shown["without_s"], **shown)


def publish(path: Path, count: int) -> Path:
    """Write the entries as OpenSanctions publishes its lists, an entity a line."""
    schemas = {EntityKind.PERSON: "Person", EntityKind.ORGANISATION: "Organization"}
    with path.open("w", encoding="utf-8") as out:
        for entry in make_entries(count, random.Random(1)):
            properties = {"name": entry.names, "topics": ["sanction"]}
            entity = {"id": entry.entity_id, "schema": schemas[entry.kind], "properties": properties}
            out.write(json.dumps(entity) + "\n")
    return path


def main() -> None:
    """Measure each size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--names", type=int, nargs="+", default=[20_000], help="listed names")
    parser.add_argument("--peer", type=Path, help="an interpreter that has nomenklatura")
    parser.add_argument("--ready", type=int, metavar="ROUNDS", help="measure the time until `up` is ready")
    given = parser.parse_args()
    for count in given.names:
        asyncio.run(print_ready(count, given.ready) if given.ready else Bench(count).run(given.peer))


async def ask_alone(listed: ListedNames, targets: Sequence[ScreeningTarget]) -> list[float]:
    """Return the seconds of each question, one after the other."""
    times = []
    for target in targets:
        begun = time.perf_counter()
        await listed.search(target, "bench", Thresholds())
        times.append(time.perf_counter() - begun)
    return times


async def ask_at_once(listed: ListedNames, targets: Sequence[ScreeningTarget]) -> float:
    """Return the questions answered in a second, several at once."""
    pending = iter(targets)

    async def ask() -> None:
        for target in pending:
            await listed.search(target, "bench", Thresholds())

    begun = time.perf_counter()
    await asyncio.gather(*(ask() for _ in range(AT_ONCE)))
    return len(targets) / (time.perf_counter() - begun)


def process_s(names: NamesProcess | None) -> float:
    """Return the processor seconds of a names process, if there is one."""
    return 0.0 if names is None or names.pid is None else cpu_s(names.pid)


def memory_of(names: NamesProcess) -> dict[str, float]:
    """Return the resident memory of the process."""
    return {"resident_mb": names.memory_bytes / MEGABYTE}


def print_beside_peer(names: NamesProcess, peer: Path) -> None:
    """Print the memory of the process that was asked, and of one that has made one comparison of logic-v2."""
    theirs = ask_peer(peer, []).resident_bytes
    ratio = names.memory_bytes / theirs
    say("row: memory beside logic-v2's", ratio=ratio, peer_mb=theirs / MEGABYTE, **memory_of(names))


if __name__ == "__main__":
    main()
