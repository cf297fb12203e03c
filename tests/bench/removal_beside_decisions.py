"""What the removal of a million old rows costs decisions: `python -m tests.bench.removal_beside_decisions`.

A service whose store holds the rows is started anew in each round and loaded with sandbox verifications at
70 % of what it takes: while its first sweep removes, and once that sweep is over. The p99 of the answers is
compared, as the ratio of the two spells of a round. The rows are removed as in any deployment, so in some
twenty thousand a sweep.
"""

import argparse
import asyncio
import sqlite3
import statistics
import sys
import tempfile
from collections.abc import Sequence
from contextlib import AsyncExitStack, closing
from pathlib import Path
from typing import Final

from aiohttp import ClientSession, TCPConnector

from app.adapters.files.data_dir import DATABASE_FILE
from tests.bench.backup import SHARE, Spells
from tests.bench.removal import AT_ONCE, fill_events, fill_records
from tests.bench.sandbox import bodies, post_all
from tests.journeys.service import Role, Service, running_service

MOST: Final = 1.2
"""How many times the p99 may be while old rows are removed."""

REST_S: Final = 3.0
"""A sweep that removed nothing for so long is over."""


def fill(folder: Path, tenant: str, rows: int) -> None:
    """Put the old rows into the store of a service that is stopped."""
    with closing(sqlite3.connect(folder / DATABASE_FILE)) as connection:
        for table in (fill_records, fill_events):
            for start in range(0, rows, AT_ONCE):
                with connection:
                    table(connection, tenant, start, 2 * rows)  # which says that all are past their date


def count(folder: Path) -> int:
    """Count the old rows."""
    with closing(sqlite3.connect(f"file:{folder / DATABASE_FILE}?mode=ro", uri=True)) as connection:
        statement = "SELECT (SELECT count(*) FROM record_places WHERE name = 'age') + count(*) FROM events"
        found: int = connection.execute(statement).fetchone()[0]
        return found


async def swept(folder: Path) -> None:
    """Wait until nothing is removed any more."""
    before, now = -1, await asyncio.to_thread(count, folder)
    while before != now:
        await asyncio.sleep(REST_S)
        before, now = now, await asyncio.to_thread(count, folder)


async def measure(rows: int, rounds: int, seconds: float, warm_up: int) -> Sequence[float]:
    """Run the rounds and print each; returns the ratios."""
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "service"
        service = await stack.enter_async_context(running_service(folder))
        client = await stack.enter_async_context(ClientSession(connector=TCPConnector(limit=0)))
        full = await post_all(client, f"{service.url}/v1/verifications", service.test_key, bodies(warm_up))
        sys.stdout.write(f"{full.line('as fast as it goes')}\n")
        spells = Spells(service, client, full.per_second * SHARE)
        await service.role.stop()
        await asyncio.to_thread(fill, folder, service.tenant_id, rows // 2)
        return [await _round(number, service, spells, seconds) for number in range(1, rounds + 1)]


async def _round(number: int, service: Service, spells: Spells, seconds: float) -> float:
    """Start the service anew, and load it while it sweeps and afterwards; it is stopped at the end."""
    service.role = await Role.start(service.data_dir, "up", "--port", "0")
    service.url = service.role.url
    try:
        before = await asyncio.to_thread(count, service.data_dir)
        beside = await spells.p99(seconds)
        removed = before - await asyncio.to_thread(count, service.data_dir)
        await swept(service.data_dir)
        alone = await spells.p99(seconds)
    finally:
        await service.role.stop()
    ratio = beside / alone
    sys.stdout.write(
        f"round {number}: p99 {alone * 1e3:.1f} ms alone, {beside * 1e3:.1f} ms while {removed} of {before} "
        f"rows were removed: {ratio:.2f} times\n"
    )
    return ratio


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=20.0, help="of each spell")
    parser.add_argument("--warm-up", type=int, default=1500, help="verifications that find the full rate")
    chosen = parser.parse_args()
    found = asyncio.run(measure(chosen.rows, chosen.rounds, chosen.seconds, chosen.warm_up))
    middle = statistics.median(found)
    sys.stdout.write(f"median {middle:.2f} times, {MOST} allowed\n")
    sys.exit(0 if middle <= MOST else 1)
