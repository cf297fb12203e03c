"""What the search among approved faces costs: beside a bare matrix product, and over a store of one node.

    python -m tests.bench.duplicate_faces [--faces 100000] [--stored 3000]

Processor time is taken in pairs, one search and one bare product in turn, printed as medians and as their
ratio: on a busy machine the ratio holds. Memory is what the process grew by. It ends with 1 when a search
takes more than 20 ms or the faces more than 120 MB.
"""

import argparse
import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Final

import numpy as np
import psutil

from app.adapters.faces.search import InMemoryFaceSearch
from app.adapters.faces.vectors import FaceVectors
from app.adapters.sqlite.stores import open_sqlite_stores
from app.vision.faces.dlib_graphs import EMBEDDING_SIZE
from schemas.ids import SubjectId, derive_id
from streams.verification.face_search import FaceQuery
from streams.vision_ports import Embedding
from tests.builders import ACME, NOW
from tests.contracts.adapters import ROOT_KEY
from tests.contracts.test_face_search import ENGINE, decided

LONGEST_MS: Final = 20.0
MOST_MB: Final = 120.0
ROUNDS: Final = 100
BATCH_SIZE: Final = 50
"""Verifications committed at once."""

_MB: Final = 1_000_000


def say(text: str) -> None:
    """Print a line."""
    sys.stdout.write(text + "\n")


def draw(count: int) -> Embedding:
    """Vectors as long and as far apart as those of different people are: 0.84 at a median."""
    drawn = np.random.default_rng(7).normal(0, 0.84 / (2 * EMBEDDING_SIZE) ** 0.5, (count, EMBEDDING_SIZE))
    return drawn.astype(np.float32)


def cpu_ms(work: Callable[[], object]) -> float:
    """Return the processor time of all threads, milliseconds."""
    begun = time.process_time()
    work()
    return (time.process_time() - begun) * 1_000


def filled(count: int) -> FaceVectors:
    """Return a table of so many faces, each of another subject."""
    table = FaceVectors(EMBEDDING_SIZE, count)
    for start in range(0, count, 10_000):
        for number, face in enumerate(draw(min(10_000, count - start)), start):
            name = derive_id("ver", str(number))
            table.put(name, face, subject=number + 1, created_at=number)
    return table


def compare(count: int) -> bool:
    """Print what a search costs, and tell whether that is little enough."""
    process = psutil.Process()  # type: ignore[no-untyped-call]  # psutil ships no types for it
    draw(10_000)
    before = process.memory_info().rss
    table = filled(count)
    grown = (process.memory_info().rss - before) / _MB
    asked = draw(ROUNDS)
    table.nearest(asked[0], other_than=1)
    peak = (process.memory_info().rss - before) / _MB
    bare = draw(count)
    bare @ asked[0]
    walls, pairs = [], []
    for face in asked:
        begun = time.perf_counter()
        searched = cpu_ms(lambda face=face: table.nearest(face, other_than=1))  # type: ignore[misc]  # bound
        walls.append((time.perf_counter() - begun) * 1_000)
        pairs.append((searched, cpu_ms(lambda face=face: bare @ face)))  # type: ignore[misc]  # bound
    searches, products = (statistics.median(column) for column in zip(*pairs, strict=True))
    ratio = statistics.median(one / other for one, other in pairs if other)
    worst = statistics.quantiles(walls, n=100)[94]
    say(f"{count} faces of {EMBEDDING_SIZE} numbers: {grown:.0f} MB, {peak:.0f} MB while searching")
    say(f"a search: {searches:.1f} ms of processor, wall p50 {statistics.median(walls):.1f} p95 {worst:.1f}")
    say(f"a bare product of the same matrix and vector: {products:.1f} ms; ratio {ratio:.2f}")
    return bool(searches <= LONGEST_MS and peak <= MOST_MB)


async def follow(stored: int, folder: Path) -> None:
    """Print what reading the faces and following the store cost over SQLite."""
    faces = draw(stored)
    async with open_sqlite_stores(folder, ROOT_KEY) as stores:
        for start in range(0, stored, BATCH_SIZE):
            batch = range(start, min(start + BATCH_SIZE, stored))
            await asyncio.gather(
                *(
                    decided(
                        stores,
                        f"{n}",
                        SubjectId(f"customer-{n}"),
                        faces[n],
                        at=NOW - timedelta(seconds=20 * (stored - n)),
                    )
                    for n in batch
                )
            )
        search, since = InMemoryFaceSearch(stores), NOW - timedelta(days=1_825)
        query = FaceQuery(ACME, True, ENGINE, SubjectId("somebody"), faces[0], NOW, since)
        costs = []
        for _ in range(ROUNDS):
            begun = time.process_time()
            found = await search.nearest(query)
            costs.append((time.process_time() - begun) * 1_000)
            assert found.compared == stored
    say(f"reading {stored} stored faces at the first question: {costs[0] / stored:.2f} ms of processor each")
    say(f"a further question, with all that follows the store: {statistics.median(costs[1:]):.1f} ms")


def main() -> int:
    """Measure, print, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--faces", type=int, default=100_000)
    parser.add_argument("--stored", type=int, default=3_000)
    given = parser.parse_args()
    good = compare(given.faces)
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(follow(given.stored, Path(folder)))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
