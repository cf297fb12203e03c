"""Removal of a million old rows beside commits: `python -m tests.bench.removal`.

Half of the rows are records with what lists them, half are events; all of them are past their date and lie
in SQLite among as many that are not. They are removed as a service does it: at first beside commits of
decisions, in turns of a few seconds with commits alone, so that whatever else the machine does falls on both;
the others while nobody commits. The report has the rows a second, the longest time that the statements of one
removal took of the writer, what memory it took, and the commits' 99th percentile with and without it.
`removal_beside_decisions` measures what the callers of a service notice.
"""

import argparse
import asyncio
import sqlite3
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import count
from pathlib import Path
from statistics import quantiles
from typing import Any, Final

import psutil

from app.adapters.shared.columns import to_micros, to_millis
from app.adapters.sqlite.record_removal import SqliteRecordRemoval
from app.adapters.sqlite.stores import open_sqlite_stores
from schemas.ids import PLATFORM, VerificationId, derive_id
from streams.ports.records import BY_AGE, Change, Record, RecordKind
from streams.ports.stores import Stores
from streams.retention.expiry import RecordExpiry
from streams.runtime.record_removal import RemovalPace
from streams.tenants.handler import TENANTS_INDEX
from tests.builders import ACME, NOW, build_audit_event, build_decision_event, build_record, build_tenant
from tests.contracts.adapters import ROOT_KEY

LONGEST_MS: Final = 50.0
MOST_MB: Final = 120.0
AT_ONCE: Final = 10_000
COMMITS_PER_S: Final = 50.0
TURN_ROWS: Final = 1_000
"""Rows of a turn beside commits, so that a turn takes seconds."""
TURNS: Final = 12
"""Turns beside commits; the other rows are removed while nobody commits."""
TURN_S: Final = 6.0
OLD: Final = NOW - timedelta(days=40)
_MB: Final = 1_000_000

_RECORD: Final = """
INSERT INTO records (tenant, kind, id, version, created_at, fingerprint, indexes, body)
VALUES (?, 'act', ?, 1, ?, '', ?, ?)"""
_PLACE: Final = "INSERT INTO record_places VALUES (?, 'all', 'age', 'act', ?, ?)"
_EVENT: Final = "INSERT INTO events (id, tenant, livemode, seen_at, body) VALUES (?, ?, 1, ?, ?)"


@dataclass(slots=True)
class Timed:
    """Notes what each transaction of the removal takes of the writer's thread."""

    engine: Any
    writer_ms: list[float] = field(default_factory=list)
    """Of processor time, which does not depend on what else the machine does."""
    clock_ms: list[float] = field(default_factory=list)
    """By the clock, waits for a processor and for the interpreter lock included."""

    def write_along(self, job: Any, quiet_s: float) -> Any:
        """Run the job, timed."""
        return self.engine.write_along(lambda writer: self._run(job, writer), quiet_s)

    def is_quiet(self, quiet_s: float) -> bool:
        """Tell whether nobody wrote for so long."""
        quiet: bool = self.engine.is_quiet(quiet_s)
        return quiet

    def _run(self, job: Callable[[sqlite3.Connection], Any], writer: sqlite3.Connection) -> Any:
        begun, busy = time.monotonic(), time.thread_time()
        try:
            return job(writer)
        finally:
            self.writer_ms.append((time.thread_time() - busy) * 1_000)
            self.clock_ms.append((time.monotonic() - begun) * 1_000)


@dataclass(slots=True)
class Result:
    """What was measured."""

    rows_beside: int = 0
    rows_alone: int = 0
    beside_s: float = 0.0
    alone_s: float = 0.0
    writer_ms: Sequence[float] = ()
    clock_ms: Sequence[float] = ()
    grown_mb: float = 0.0
    beside: list[float] = field(default_factory=list)
    """Milliseconds of commits beside the removal."""
    alone: list[float] = field(default_factory=list)

    def faults(self) -> list[str]:
        """Name what is beyond its bound; times beside other work of the machine are reported only."""
        longest = max(self.writer_ms)
        found = [f"a transaction took {longest:.1f} ms of the writer"] if longest > LONGEST_MS else []
        return [*found, *([f"{self.grown_mb:.0f} MB of memory"] if self.grown_mb > MOST_MB else [])]


async def measure(folder: Path, rows: int, turns: int = TURNS) -> Result:
    """Fill a store, and remove what is old, for so many turns beside commits."""
    async with open_sqlite_stores(folder, ROOT_KEY) as stores:
        await furnish(stores)
        engine = stores.journal._engine  # type: ignore[attr-defined]
        for table in (fill_records, fill_events):
            for start in range(0, rows, AT_ONCE):
                await engine.write(lambda writer, table=table, start=start: table(writer, ACME, start, rows))
        timed = Timed(engine)
        removal: Any = SqliteRecordRemoval(timed)  # type: ignore[arg-type]
        result = await _remove(replace(stores, removal=removal), turns)
        result.writer_ms, result.clock_ms = timed.writer_ms, timed.clock_ms
        return result


async def furnish(stores: Stores) -> None:
    """Make the tenant."""
    tenant = Record(
        PLATFORM, RecordKind.TENANT, ACME, build_tenant().to_bytes(), NOW, indexes=(TENANTS_INDEX,)
    )
    await stores.journal.commit(Change(PLATFORM, (tenant,)))


def _moments(start: int, rows: int) -> Iterator[tuple[int, datetime]]:
    """Half of all rows are past their date."""
    for number in range(start, min(start + AT_ONCE, rows)):
        yield number, OLD if number < rows // 2 else NOW


def fill_records(writer: sqlite3.Connection, tenant: str, start: int, rows: int) -> None:
    """Write the records from a number on, at most `AT_ONCE`."""
    moments = [(f"aud_{n:026}", to_micros(at) + n) for n, at in _moments(start, rows)]
    pairs = f'[["{BY_AGE[0]}", "{BY_AGE[1]}"]]'
    writer.executemany(_RECORD, [(tenant, name, at, pairs, b"about") for name, at in moments])
    writer.executemany(_PLACE, [(tenant, at, name) for name, at in moments])


def fill_events(writer: sqlite3.Connection, tenant: str, start: int, rows: int) -> None:
    """Write the events from a number on, at most `AT_ONCE`."""
    body = build_decision_event().to_bytes()
    found = [(derive_id("evt", str(n)), tenant, to_millis(at), body) for n, at in _moments(start, rows)]
    writer.executemany(_EVENT, found)
    writer.execute("DELETE FROM events_waiting")


async def _remove(stores: Stores, turns: int) -> Result:
    """Sweep in turns with seconds of commits alone, then while nobody commits until nothing is left."""
    result, process = Result(), psutil.Process()  # type: ignore[no-untyped-call]
    commits, before = count(), process.memory_info().rss
    async with committing(stores, commits, []):  # what was filled is folded into the file meanwhile
        await asyncio.sleep(TURN_S)
    for _ in range(turns):
        begun = time.monotonic()
        async with committing(stores, commits, result.beside):
            removed = await RecordExpiry(stores, lambda: NOW, RemovalPace(most=TURN_ROWS)).sweep()
        result.beside_s += time.monotonic() - begun
        result.rows_beside += removed
        async with committing(stores, commits, result.alone):
            await asyncio.sleep(min(TURN_S, time.monotonic() - begun))
    expiry, begun, removed = RecordExpiry(stores, lambda: NOW), time.monotonic(), 1
    while removed:
        removed = await expiry.sweep()
        result.rows_alone += removed
        result.grown_mb = max(result.grown_mb, (process.memory_info().rss - before) / _MB)
    result.alone_s = time.monotonic() - begun
    return result


@asynccontextmanager
async def committing(stores: Stores, numbers: Iterator[int], noted: list[float]) -> AsyncIterator[None]:
    """Commit at a steady rate for the length of the context."""
    over = asyncio.Event()
    committing = asyncio.create_task(_commit(stores, numbers, over, noted))
    try:
        yield
    finally:
        over.set()
        await committing


async def _commit(stores: Stores, numbers: Iterator[int], over: asyncio.Event, noted: list[float]) -> None:
    """Commit a decision's record, row and event at each tick, and note how long each took."""
    tasks: list[asyncio.Task[None]] = []
    while not over.is_set():
        tasks.append(asyncio.create_task(_commit_one(stores, next(numbers), noted)))
        await asyncio.sleep(1 / COMMITS_PER_S)
    await asyncio.gather(*tasks)


async def _commit_one(stores: Stores, number: int, noted: list[float]) -> None:
    name = VerificationId(derive_id("ver", "bench", str(number)))
    record = build_record(id=name)
    row = build_audit_event(event_id=derive_id("aud", name))
    event = build_decision_event(id=derive_id("evt", name))
    begun = time.monotonic()
    await stores.journal.commit(Change(ACME, (record,), (row,), (event,)))
    noted.append((time.monotonic() - begun) * 1_000)


def report(result: Result, say: Callable[[str], object]) -> None:
    """Print what was measured."""
    with_it, without = (quantiles(times, n=100) for times in (result.beside, result.alone))
    for name, rows, took_s in (
        ("beside commits", result.rows_beside, result.beside_s),
        ("while nobody commits", result.rows_alone, result.alone_s),
    ):
        say(f"{rows} rows removed {name} in {took_s:.0f} s, {rows / max(took_s, 0.001):.0f} a second")
    for name, times in (("processor time", result.writer_ms), ("time", result.clock_ms)):
        parts = quantiles(times, n=100)
        say(f"{len(times)} times statements took of the writer's {name}: median {parts[49]:.1f} ms,")
        say(f"  99 % below {parts[98]:.1f} ms, longest {max(times):.1f} ms (at most {LONGEST_MS:.0f})")
    say(f"memory grown by {result.grown_mb:.0f} MB (at most {MOST_MB:.0f})")
    for name, times in (("beside removal", with_it), ("alone", without)):
        say(f"commits {name:15} median {times[49]:.1f} ms, 95 % {times[94]:.1f} ms, 99 % {times[98]:.1f} ms")
    say(f"the 99th percentile of a commit beside a removal is {with_it[98] / without[98]:.2f} times as long")
    for fault in result.faults():
        say(f"FAULT {fault}")


async def main(rows: int, turns: int) -> int:
    """Run it; 1 when a bound is exceeded."""
    with tempfile.TemporaryDirectory() as folder:
        result = await measure(Path(folder), rows, turns)
    report(result, lambda text: sys.stdout.write(text + "\n"))
    return 1 if result.faults() else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows of each of the two tables")
    parser.add_argument("--turns", type=int, default=TURNS, help="beside commits")
    chosen = parser.parse_args()
    sys.exit(asyncio.run(main(chosen.rows, chosen.turns)))
