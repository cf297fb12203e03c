"""Removal of old records beside commits on Cassandra: `python -m tests.bench.removal_on_cassandra`.

Commits of decisions arrive at a steady rate, in turns of a few seconds with a removal and without one. The
report has the rows a second, the commits' percentiles with and without it, and how many tombstones a reader
of the index by age passes in the end: Cassandra refuses to read over more than 100,000.
"""

import argparse
import asyncio
import re
import sys
import tempfile
import time
from contextlib import suppress
from datetime import timedelta
from itertools import count
from pathlib import Path
from statistics import quantiles
from typing import Any, Final

from app.adapters.cassandra.connection import Address, open_session
from app.adapters.cassandra.keyspace import migrate
from app.adapters.cassandra.stores import build_stores
from streams.ports.records import BY_AGE, Change, Record, RecordKind
from streams.ports.stores import Stores
from streams.retention.expiry import RecordExpiry
from tests.bench.removal import OLD, TURN_S, committing, furnish
from tests.builders import ACME, NOW
from tests.contracts.adapters import ROOT_KEY
from tests.contracts.cassandra_adapter import DATACENTER
from tests.engines.cassandra_server import CassandraServer

AT_ONCE: Final = 50
_READ: Final = (
    "SELECT id FROM removal.record_places WHERE tenant = %s AND kind = %s AND name = %s AND value = %s "
    "AND month = %s"
)


async def fill(stores: Stores, rows: int) -> None:
    """Commit so many old acts, a second apart."""
    for start in range(0, rows, AT_ONCE):
        at = [
            (number, OLD - timedelta(seconds=number)) for number in range(start, min(start + AT_ONCE, rows))
        ]
        acts = [Record(ACME, RecordKind.ACT, f"aud_{n:026}", b"{}", old, indexes=(BY_AGE,)) for n, old in at]
        await asyncio.gather(*(stores.journal.commit(Change(ACME, (act,))) for act in acts))


def tombstones(driver: Any) -> int:
    """Return how many tombstones a reader of the month passes."""
    asked = (ACME, RecordKind.ACT.value, *BY_AGE, int(f"{OLD:%Y%m}"))
    trace = driver.execute(_READ, asked, trace=True).get_query_trace()
    said = " ".join(event.description for event in trace.events)
    found = re.search(r"live rows and (\d+) tombstone", said)
    return int(found[1]) if found else -1


async def measure(address: Address, folder: Path, rows: int, turns: int) -> None:
    """Run the turns and print what was measured."""
    async with open_session(address, "removal") as session:
        stores = build_stores(session, folder, ROOT_KEY, durable=False)
        await furnish(stores)
        await fill(stores, rows)
        beside: list[float] = []
        alone: list[float] = []
        commits, busy_s = count(), 0.0
        async with committing(stores, commits, []):
            await asyncio.sleep(TURN_S)
        for _ in range(turns):
            begun = time.monotonic()
            async with committing(stores, commits, beside):
                with suppress(TimeoutError):
                    async with asyncio.timeout(TURN_S):
                        await RecordExpiry(stores, lambda: NOW).sweep()
            busy_s += time.monotonic() - begun
            async with committing(stores, commits, alone):
                await asyncio.sleep(TURN_S)
        left = len(await stores.records.page(ACME, RecordKind.ACT, BY_AGE, limit=rows))
        passed = await asyncio.to_thread(tombstones, session.driver)
    for name, times in (("beside removal", beside), ("alone", alone)):
        parts = quantiles(times, n=100)
        sys.stdout.write(
            f"{len(times)} commits {name}: median {parts[49]:.1f} ms, 95 % {parts[94]:.1f} ms, "
            f"99 % {parts[98]:.1f} ms\n"
        )
    sys.stdout.write(f"{rows - left} rows removed, {(rows - left) / busy_s:.0f} a second beside commits\n")
    sys.stdout.write(f"a reader of the index passes {passed} tombstones\n")


async def main(rows: int, turns: int) -> None:
    """Run it on a Cassandra of its own."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        async with CassandraServer(folder / "cassandra", lasting=False) as server:
            address = Address([(server.host, server.port)], DATACENTER)
            await migrate(address, "removal", {DATACENTER: 1})
            await measure(address, folder / "blobs", rows, turns)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--turns", type=int, default=8)
    chosen = parser.parse_args()
    asyncio.run(main(chosen.rows, chosen.turns))
