"""A year of steady traffic by a moved clock: `python -m tests.bench.year [--cassandra]`.

Every day verifications with their pictures are decided, capture sessions are opened and cancelled, reviewers
sign in, evidence is viewed, webhooks are delivered, and payments leave what they leave; then everything that
sweeps sweeps once. The report has the size of each kind of record and table at the end of each month of 30
days. What ends must be as large after every later month as after the third, give or take 5 %, and nothing may
be there that was past its date at the sweep before.
"""

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

from typing_extensions import override

from app.adapters.cassandra.connection import Address, open_session
from app.adapters.cassandra.keyspace import migrate
from app.adapters.cassandra.server_clock import Reading, StoreClock
from app.adapters.cassandra.stores import build_stores
from app.adapters.shared.columns import to_micros, to_millis
from app.adapters.sqlite.journal import SqliteJournal
from app.adapters.sqlite.record_removal import SqliteRecordRemoval
from app.adapters.sqlite.stores import open_sqlite_stores
from streams.ports.stores import Stores
from tests.bench.amounts import Amount, Amounts, CassandraCounter, Counter, SqliteCounter
from tests.bench.year_traffic import YearTraffic
from tests.builders import NOW
from tests.contracts.adapters import ROOT_KEY
from tests.contracts.cassandra_adapter import DATACENTER
from tests.engines.cassandra_server import CassandraServer

MONTH_DAYS: Final = 30
SETTLED_MONTHS: Final = 3
FLAT: Final = 0.05

ENDING: Final = frozenset({
    "record.session_slot", "record.session_watch", "record.reviewer_session", "record.picture", "record.act",
    "record.delivery", "record.delivery_watch", "record.token", "record.hold_watch", "record.contact_use",
    "record.history_import", "record.backtest_watch",
    "events", "event_feed", "event_days", "blobs",
    "evidence", "evidence_ages", "evidence_days",
})  # fmt: skip
"""What a date ends within months; all else belongs to decisions and the audit log, or stays for a year."""

LONGEST_DAYS: Final = {
    "record.session_watch": 31, "record.reviewer_session": 2, "record.act": 31, "record.delivery": 31,
    "record.delivery_watch": 31, "record.token": 8, "events": 32,
    "record.hold_watch": 3 + 31, "record.contact_use": 91, "record.history_import": 31,
    "record.transfer": 366, "record.backtest": 400, "record.backtest_text": 400, "record.backtest_watch": 31,
    "record.session_slot": 31 + 31, "record.picture": 31 + 91,
}  # fmt: skip
"""How long each is stored, in days; a slot and a picture from the end of their month."""


@dataclass(slots=True)
class Clock:
    """The moved clock."""

    now: datetime = NOW

    def micros(self) -> int:
        """Return the time in microseconds."""
        return to_micros(self.now)

    def millis(self) -> int:
        """Return the time in milliseconds."""
        return to_millis(self.now)


class MovedStoreClock(StoreClock):
    """The clock of Cassandra, moved with the others."""

    moved: Clock

    @override
    async def read(self) -> Reading:
        """Return the time that was set."""
        return Reading(self.moved.micros(), 0.0)


@dataclass(slots=True)
class Year:
    """What was measured: the holdings at the end of each month, and what was there past its date."""

    months: list[Amounts] = field(default_factory=list)
    late: list[str] = field(default_factory=list)

    def sizes(self) -> list[int]:
        """Return the bytes of what ends, by month."""
        return [sum(amounts.size for name, amounts in one.items() if name in ENDING) for one in self.months]

    def faults(self) -> Sequence[str]:
        """Name what is not as it must be."""
        sizes = self.sizes()
        settled = sizes[min(SETTLED_MONTHS, len(sizes)) - 1]
        grown = [
            f"month {number}: {size} bytes of what ends, {settled} after month {SETTLED_MONTHS}"
            for number, size in enumerate(sizes[SETTLED_MONTHS:], SETTLED_MONTHS + 1)
            if abs(size - settled) > FLAT * settled
        ]
        return [*self.late, *grown]


async def run_year(
    stores: Stores, counter: Counter, clock: Clock, *, days: int, every: int, units: int, image: int
) -> Year:
    """Let so many days pass, with traffic and a sweep each `every` days."""
    traffic, year, began = YearTraffic(stores, image), Year(), time.monotonic()
    await traffic.furnish(NOW)
    for day in range(0, days, every):
        clock.now = NOW + timedelta(days=day)
        for unit in range(units):
            clock.now += timedelta(minutes=1)
            await traffic.play(clock.now, f"{day}-{unit}")
        clock.now = NOW + timedelta(days=day + every)
        await traffic.sweep(clock.now)
        if (day + every) % MONTH_DAYS == 0:
            amounts = await counter.count()
            year.months.append(amounts)
            year.late += _late(amounts, clock.now)
            passed = time.monotonic() - began
            sys.stderr.write(
                f"day {day + every}: {year.sizes()[-1]} bytes of what ends, after {passed:.0f} s\n"
            )
    return year


def _late(amounts: Amounts, now: datetime) -> list[str]:
    """Name what should have been gone after the sweep just made."""
    return [
        f"{now.date()}: {name} is {(to_micros(now) - amounts[name].oldest) / 86_400e6:.1f} days old"
        for name, days in LONGEST_DAYS.items()
        if name in amounts and to_micros(now) - amounts[name].oldest > (days + 0.01) * 86_400e6
    ]


@asynccontextmanager
async def sqlite_year(folder: Path, clock: Clock) -> AsyncIterator[tuple[Stores, Counter]]:
    """SQLite in a folder, with the clock."""
    async with open_sqlite_stores(folder, ROOT_KEY, durable=False) as stores:
        engine = stores.journal._engine  # type: ignore[attr-defined]
        removal = SqliteRecordRemoval(engine, quiet_s=0.0)
        moved = replace(stores, journal=SqliteJournal(engine, clock.millis), removal=removal)
        yield moved, SqliteCounter(engine, folder)


@asynccontextmanager
async def cassandra_year(
    address: Address, folder: Path, clock: Clock
) -> AsyncIterator[tuple[Stores, Counter]]:
    """Cassandra in a keyspace of its own, with the clock."""
    await migrate(address, "year", {DATACENTER: 1})
    async with open_session(address, "year") as session:
        stores: Any = build_stores(session, folder, ROOT_KEY, durable=False)
        moved = MovedStoreClock(session)
        moved.moved = clock
        stores.journal._positions._clock = stores.feed._clock = moved
        yield stores, CassandraCounter(session, folder)


def report(year: Year, say: Callable[[str], object]) -> None:
    """Print a line for each kind and table, and the verdict."""
    names = sorted({name for one in year.months for name in one})
    for name in names:
        rows = " ".join(f"{one.get(name, Amount()).rows:7}" for one in year.months)
        say(f"{'ends ' if name in ENDING else 'stays'} {name:24} rows {rows}")
    say("bytes of what ends, by month: " + " ".join(map(str, year.sizes())))
    say("bytes of all else, by month: " + " ".join(str(_others(one)) for one in year.months))
    for fault in year.faults():
        say(f"FAULT {fault}")


def _others(amounts: Amounts) -> int:
    return sum(one.size for name, one in amounts.items() if name not in ENDING | {"file"})


async def main(arguments: argparse.Namespace) -> int:
    """Run it; 1 when anything is not as it must be."""
    options = {
        "days": arguments.days,
        "every": arguments.every,
        "units": arguments.units,
        "image": arguments.image,
    }
    clock = Clock()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if arguments.cassandra:
            async with CassandraServer(folder / "cassandra", lasting=False) as server:
                address = Address([(server.host, server.port)], DATACENTER)
                async with cassandra_year(address, folder / "blobs", clock) as (stores, counter):
                    year = await run_year(stores, counter, clock, **options)
        else:
            async with sqlite_year(folder, clock) as (stores, counter):
                year = await run_year(stores, counter, clock, **options)
    report(year, lambda text: sys.stdout.write(text + "\n"))
    return 1 if year.faults() else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cassandra", action="store_true", help="over Cassandra instead of SQLite")
    parser.add_argument("--days", type=int, default=360, help="a multiple of 30")
    parser.add_argument("--every", type=int, default=1, help="days from one round of traffic to the next")
    parser.add_argument("--units", type=int, default=2, help="verifications and the rest, a day")
    parser.add_argument("--image", type=int, default=70_000, help="bytes of an image")
    sys.exit(asyncio.run(main(parser.parse_args())))
