"""The order of a feed is the order of commits, whatever the clocks of those who commit say (F18)."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest

from app.adapters.files.data_dir import DATABASE_FILE
from app.adapters.memory.stores import Shelves, open_memory_stores
from app.adapters.sqlite.engine import Engine, prepare
from app.adapters.sqlite.feed import SqliteEventFeed
from app.adapters.sqlite.journal import SqliteJournal
from schemas.events import DecisionEvent
from streams.ports.events import EventFeed
from streams.ports.records import Change, Journal
from tests.builders import ACME, NOW, build_record
from tests.contracts.adapters import ROOT_KEY
from tests.contracts.test_event_feed import event

Adapter = Callable[[Path, Callable[[], int]], AbstractAsyncContextManager[tuple[Journal, EventFeed]]]

HOUR_MS = 3_600_000
NOON_MS = int(NOW.timestamp() * 1_000)

CLOCKS = [
    pytest.param([0, 0, 0, 0], id="stands still"),
    pytest.param([0, -HOUR_MS, 1, -1], id="is set back"),
    pytest.param([0, HOUR_MS, 1, 2], id="was ahead"),
    pytest.param([3, 2, 1, 0], id="runs backwards"),
]


@asynccontextmanager
async def in_memory(folder: Path, millis: Callable[[], int]) -> AsyncIterator[tuple[Journal, EventFeed]]:
    """A journal in memory with a clock, and its feed."""
    del folder
    shelves = Shelves()
    shelves.feed.millis = millis
    stores = open_memory_stores(ROOT_KEY, shelves)
    yield stores.journal, stores.feed


@asynccontextmanager
async def in_sqlite(folder: Path, millis: Callable[[], int]) -> AsyncIterator[tuple[Journal, EventFeed]]:
    """A journal in SQLite with a clock, and its feed."""
    path = folder / DATABASE_FILE
    prepare(path)
    engine = Engine(path, asyncio.get_running_loop())
    try:
        yield SqliteJournal(engine, millis), SqliteEventFeed(engine)
    finally:
        await engine.aclose()


@pytest.mark.parametrize("adapter", [in_memory, in_sqlite])
@pytest.mark.parametrize("clock", CLOCKS)
async def test_a_reader_at_the_end_meets_what_comes_by_any_clock(
    adapter: Adapter, clock: list[int], tmp_path: Path
) -> None:
    moments = iter([NOON_MS + one for one in clock])
    events = [event(str(n)) for n in range(len(clock))]
    async with adapter(tmp_path, lambda: next(moments)) as (journal, feed):
        place, met = "", list[DecisionEvent]()
        for one in events:
            await journal.commit(Change(ACME, (build_record(id=f"ver_{one.id}"),), events=(one,)))
            (fed,) = await feed.page(ACME, livemode=True, after=place, limit=9)
            place = fed.place
            met.append(fed.event)

    assert met == events


async def test_two_processes_with_clocks_an_hour_apart_have_one_order(tmp_path: Path) -> None:
    events = [event(str(n)) for n in range(6)]
    async with (
        in_sqlite(tmp_path, lambda: NOON_MS + HOUR_MS) as (ahead, feed),
        in_sqlite(tmp_path, lambda: NOON_MS) as (behind, _),
    ):
        for n, one in enumerate(events):
            journal = (ahead, behind)[n % 2]
            await journal.commit(Change(ACME, (build_record(id=f"ver_{one.id}"),), events=(one,)))
        rows = await feed.page(ACME, livemode=True, after="", limit=9)
        after_third = await feed.page(ACME, livemode=True, after=rows[2].place, limit=9)

    assert [fed.event for fed in rows] == events
    assert [fed.event for fed in after_third] == events[3:]
