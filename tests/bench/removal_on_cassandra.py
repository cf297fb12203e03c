"""Removal of old records on Cassandra: `python -m tests.bench.removal_on_cassandra`.

At first commits of decisions arrive at a steady rate, in turns of a few seconds with a removal and without
one. Then what is left is removed while nobody commits and without the rests that a removal takes, so that a
million rows take minutes. The report has the rows a second, the commits' percentiles with and without it,
and for each tenth of the rows how long its statements took, the memory of this process, and how many
tombstones a reader of the index by age passes: Cassandra refuses to read over more than 100,000.
"""

import argparse
import asyncio
import re
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import count
from pathlib import Path
from statistics import quantiles
from typing import Any, Final, cast

import psutil

from app.adapters.cassandra import removal_steps
from app.adapters.cassandra.connection import Address, open_session
from app.adapters.cassandra.keyspace import migrate
from app.adapters.cassandra.record_removal import CassandraRecordRemoval
from app.adapters.cassandra.records import month_of, month_write, place_writes
from app.adapters.cassandra.session import Session, Statement, Write
from app.adapters.cassandra.stores import build_stores
from app.adapters.shared.columns import to_micros, to_pairs_text
from streams.ports.records import BY_AGE, Record, RecordKind
from streams.ports.stores import Stores
from streams.retention.expiry import REMOVED_AFTER, RecordExpiry
from streams.runtime.record_removal import RemovalPace
from tests.bench.removal import OLD, TURN_S, committing, furnish
from tests.builders import ACME, NOW
from tests.contracts.adapters import ROOT_KEY
from tests.contracts.cassandra_adapter import DATACENTER
from tests.engines.cassandra_server import CassandraServer

AT_ONCE: Final = 40
"""Records of one batch of the filling."""

BATCHES: Final = 8
"""Batches of the filling that are under way at the same time."""

TENTHS: Final = 10
_MB: Final = 1_000_000

_RECORD: Final = Statement(
    "INSERT INTO records (tenant, kind, id, part, version, created_at, fingerprint, indexes, body) "
    "VALUES (?, ?, ?, 0, 1, ?, '', ?, ?)"
)
_READ: Final = (
    "SELECT created_at, id FROM removal.record_places WHERE tenant = %s AND kind = %s AND name = %s "
    "AND value = %s AND month = %s AND (created_at, id) < (%s, %s) LIMIT 256"
)


def _moment(number: int) -> datetime:
    return OLD - timedelta(seconds=number)


async def fill(session: Session, rows: int) -> None:
    """Write so many old acts, a second apart, with what lists them, as the journal leaves them."""
    turns = asyncio.Semaphore(BATCHES)

    async def write(start: int) -> None:
        async with turns:
            writes = [w for n in range(start, min(start + AT_ONCE, rows)) for w in _writes(n)]
            months = {month_of(_moment(n)) for n in (start, start + AT_ONCE)}
            listed = [month_write((ACME, RecordKind.ACT.value, *BY_AGE, month)) for month in months]
            await session.batch([*listed, *writes])

    await asyncio.gather(*(write(start) for start in range(0, rows, AT_ONCE)))


def _writes(number: int) -> Sequence[Write]:
    moment = _moment(number)
    act = Record(ACME, RecordKind.ACT, f"aud_{number:026}", b"{}", moment, indexes=(BY_AGE,))
    stored = (ACME, act.kind.value, act.id, to_micros(moment), to_pairs_text(act.indexes), act.body)
    return (_RECORD, stored), *place_writes(act, act.indexes, ())


@dataclass(slots=True)
class Timed:
    """Notes how long each request of the removal took."""

    session: Session
    took_ms: list[float] = field(default_factory=list)

    def __getattr__(self, name: str) -> Any:
        """Hand on what is not timed."""
        return getattr(self.session, name)

    async def execute(self, statement: Statement, parameters: Sequence[object] = ()) -> Any:
        """Ask, timed."""
        begun = time.monotonic()
        answer = await self.session.execute(statement, parameters)
        self.took_ms.append((time.monotonic() - begun) * 1_000)
        return answer

    async def batch(self, writes: Sequence[Write]) -> None:
        """Write, timed."""
        begun = time.monotonic()
        await self.session.batch(writes)
        self.took_ms.append((time.monotonic() - begun) * 1_000)


def tombstones(driver: Any) -> int:
    """Return how many tombstones the first page of a sweep passes."""
    newest = (to_micros(NOW - REMOVED_AFTER), "")
    asked = (ACME, RecordKind.ACT.value, *BY_AGE, month_of(OLD), *newest)
    trace = driver.execute(_READ, asked, trace=True).get_query_trace(max_wait_sec=60.0)
    said = " ".join(event.description for event in trace.events)
    found = re.search(r"live rows and (\d+) tombstone", said)
    return int(found[1]) if found else -1


async def beside_commits(stores: Stores, turns: int) -> float:
    """Run the turns and print what the commits took; returns the seconds beside a removal."""
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
    for name, times in (("beside removal", beside), ("alone", alone)):
        sys.stdout.write(f"{len(times)} commits {name}: {percentiles(times)}\n")
    sys.stdout.flush()
    return busy_s


async def alone(stores: Stores, session: Session, rows: int) -> int:
    """Remove what is left and print a line for each tenth of it; returns how many rows it was."""
    timed, process = Timed(session), psutil.Process()  # type: ignore[no-untyped-call]
    stores = replace(stores, removal=CassandraRecordRemoval(cast("Session", timed)))
    pace = RemovalPace(most=max(rows // TENTHS, 1))
    sys.stdout.write(f"memory before {process.memory_info().rss / _MB:.0f} MB\n")
    begun, removed, total = time.monotonic(), 1, 0
    while removed:
        timed.took_ms.clear()
        removed = await RecordExpiry(stores, lambda: NOW, pace).sweep()
        passed = await asyncio.to_thread(tombstones, session.driver)
        if removed:
            sys.stdout.write(
                f"{removed} rows removed, {removed / (time.monotonic() - begun):.0f} a second; "
                f"{len(timed.took_ms)} statements: {percentiles(timed.took_ms)}, "
                f"longest {max(timed.took_ms):.1f} ms; memory {process.memory_info().rss / _MB:.0f} MB; "
                f"{passed} tombstones\n"
            )
            sys.stdout.flush()
        begun, total = time.monotonic(), total + removed
    return total


def percentiles(times: Sequence[float]) -> str:
    """Write the median and the higher percentiles."""
    parts = quantiles(times, n=100)
    return f"median {parts[49]:.1f} ms, 95 % {parts[94]:.1f} ms, 99 % {parts[98]:.1f} ms"


async def measure(address: Address, folder: Path, rows: int, turns: int) -> None:
    """Fill the store, then remove all of it."""
    async with open_session(address, "removal") as session:
        stores = build_stores(session, folder, ROOT_KEY, durable=False)
        await furnish(stores)
        begun = time.monotonic()
        await fill(session, rows)
        sys.stdout.write(f"{rows} rows written in {time.monotonic() - begun:.0f} s\n")
        sys.stdout.flush()
        busy_s = await beside_commits(stores, turns) if turns else 0.0
        removal_steps.REST = 0  # type: ignore[misc]  # in this process alone
        beside = rows - await alone(stores, session, rows)
    if turns:
        sys.stdout.write(f"{beside} rows removed, {beside / busy_s:.0f} a second beside commits\n")


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
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--turns", type=int, default=8)
    chosen = parser.parse_args()
    asyncio.run(main(chosen.rows, chosen.turns))
