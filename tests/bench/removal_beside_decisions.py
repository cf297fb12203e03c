"""What the removal of a million old rows costs decisions: `python -m tests.bench.removal_beside_decisions`.

Two services have as many rows in their stores; those of one are past their date, those of the other are not.
In each round one after the other is started and loaded with sandbox verifications at 70 % of what it takes,
beside its first sweep. The p99 of the answers is compared, as the ratio of the two spells of a round. The
rows are removed as in any deployment, until the service is stopped.
"""

import argparse
import asyncio
import sqlite3
import statistics
import sys
import tempfile
from collections.abc import Sequence
from contextlib import AsyncExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from aiohttp import ClientSession, TCPConnector

from app.adapters.files.data_dir import DATABASE_FILE
from tests.bench.backup import CONNECTIONS, SHARE, Spells
from tests.bench.removal import AT_ONCE, fill_events, fill_records
from tests.bench.sandbox import bodies, post_all
from tests.journeys.service import Role, Service, running_service

MOST: Final = 1.2
"""How many times the p99 may be while old rows are removed."""

SETTLED_S: Final = 15.0
"""After a start; the sweep has begun by then."""


def fill(folder: Path, tenant: str, rows: int, *, old: bool) -> None:
    """Put the rows into the store of a service that is stopped."""
    first = 0 if old else rows  # of twice as many, half are past their date
    with closing(sqlite3.connect(folder / DATABASE_FILE)) as connection:
        for table in (fill_records, fill_events):
            for start in range(first, first + rows, AT_ONCE):
                with connection:
                    table(connection, tenant, start, 2 * rows)


def count(folder: Path) -> int:
    """Count the rows that end by age."""
    with closing(sqlite3.connect(f"file:{folder / DATABASE_FILE}?mode=ro", uri=True)) as connection:
        statement = "SELECT count(*) + (SELECT count(*) FROM record_places WHERE name = 'age') FROM events"
        found: int = connection.execute(statement).fetchone()[0]
        return found


@dataclass(frozen=True, slots=True)
class Spell:
    """What was measured of one service in one round."""

    p99_s: float
    removed: int


async def spell(service: Service, spells: Spells, seconds: float) -> Spell:
    """Start a service anew and load it; it is stopped at the end."""
    service.role = await Role.start(service.data_dir, "up", "--port", "0")
    service.url = service.role.url
    before = await asyncio.to_thread(count, service.data_dir)
    try:
        await asyncio.sleep(SETTLED_S)
        p99_s = await spells.p99(seconds)
    finally:
        await service.role.stop()
    return Spell(p99_s, before - await asyncio.to_thread(count, service.data_dir))


async def measure(rows: int, rounds: int, seconds: float, warm_up: int) -> Sequence[float]:
    """Run the rounds and print each; returns the ratios."""
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        client = await stack.enter_async_context(ClientSession(connector=TCPConnector(limit=CONNECTIONS)))
        pair: list[tuple[Service, Spells]] = []
        for old in (False, True):
            service = await stack.enter_async_context(running_service(folder / str(old)))
            url = f"{service.url}/v1/verifications"
            full = await post_all(client, url, service.test_key, bodies(warm_up))
            sys.stdout.write(f"{full.line('as fast as it goes')}\n")
            await service.role.stop()
            await asyncio.to_thread(fill, service.data_dir, service.tenant_id, rows // 2, old=old)
            per_second = full.per_second * SHARE if not pair else pair[0][1].per_second
            pair.append((service, Spells(service, client, per_second)))
        return [await _round(number, pair, seconds) for number in range(1, rounds + 1)]


async def _round(number: int, pair: Sequence[tuple[Service, Spells]], seconds: float) -> float:
    """Measure both, in turns first."""
    order = pair if number % 2 else pair[::-1]
    found = {service.tenant_id: await spell(service, spells, seconds) for service, spells in order}
    alone, beside = (found[service.tenant_id] for service, _ in pair)
    ratio = beside.p99_s / alone.p99_s
    sys.stdout.write(
        f"round {number}: p99 {alone.p99_s * 1e3:.1f} ms, {beside.p99_s * 1e3:.1f} ms while {beside.removed} "
        f"rows were removed: {ratio:.2f} times\n"
    )
    sys.stdout.flush()
    return ratio


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=1_000_000, help="a multiple of 20,000")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=20.0, help="of each spell")
    parser.add_argument("--warm-up", type=int, default=1500, help="verifications that find the full rate")
    chosen = parser.parse_args()
    found = asyncio.run(measure(chosen.rows, chosen.rounds, chosen.seconds, chosen.warm_up))
    middle = statistics.median(found)
    sys.stdout.write(f"median {middle:.2f} times, {MOST} allowed\n")
    sys.exit(0 if middle <= MOST else 1)
