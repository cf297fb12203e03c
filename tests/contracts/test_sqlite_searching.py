"""A search in SQLite answers alike wherever a record stands: in the index, beyond it, or just on its way."""

import random
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from itertools import product
from pathlib import Path

import pytest

from app.adapters.files.data_dir import DATABASE_FILE
from app.adapters.sqlite import search as sqlite_search
from app.adapters.sqlite import search_index
from app.adapters.sqlite.search import Search
from app.adapters.sqlite.stores import open_sqlite_stores
from app.http.filters import Page
from app.http.listing import page_of, place_of
from streams.ports.records import Change, Position, Record, RecordKind
from streams.ports.stores import Stores
from tests.builders import ACME, NOW
from tests.contracts.adapters import ROOT_KEY
from tests.contracts.test_records import keep
from tests.contracts.test_records_search import APPROVED, LIVE, PENDING, search, sought


@pytest.fixture
async def stores(tmp_path: Path) -> AsyncIterator[Stores]:
    """The stores of one node."""
    async with open_sqlite_stores(tmp_path, ROOT_KEY, durable=False) as opened:
        yield opened


@pytest.fixture(params=[(1, 0), (2, 1), (5, 2), (10**6, 10**6)])
def gathered(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Gather at once, soon, or never."""
    waiting, stored = request.param
    monkeypatch.setattr(search_index, "WAITING", waiting)
    monkeypatch.setattr(search_index, "KEPT_WAITING", stored)
    monkeypatch.setattr(search_index, "COUNTED_EVERY", 1)


@pytest.fixture(params=[(1, 0.0), (3, 0.0), (1, 60.0), (4, 60.0)])
def stopping(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stop after the first part, or go on to the end in shorter or longer ones."""
    at_first, enough_s = request.param
    monkeypatch.setattr(sqlite_search, "AT_FIRST", at_first)
    monkeypatch.setattr(sqlite_search, "ENOUGH_S", enough_s)
    monkeypatch.setattr(sqlite_search, "FILLING_S", enough_s)


def by_mode(livemode: bool) -> tuple[str, str]:  # noqa: FBT001 - as the lists name their indexes
    """Under which index the sessions of a mode are."""
    return "mode", "live" if livemode else "test"


def ask(folder: Path, statement: str) -> list[tuple[int, ...]]:
    """Look into the file."""
    with closing(sqlite3.connect(folder / DATABASE_FILE)) as connection:
        return connection.execute(statement).fetchall()


@pytest.mark.usefixtures("gathered", "stopping")
async def test_a_search_answers_as_looking_at_every_text_would(stores: Stores) -> None:
    """Texts over three letters, made in no order of time, moved between places all the while."""
    drawn = random.Random(5)
    standing: dict[int, Record] = {}
    for n in range(90):
        if n % 3 == 2:
            one = standing[drawn.choice([*standing])]
            indexes = (LIVE, drawn.choice((PENDING, APPROVED)))
            now = replace(one, version=one.version + 1, body=b"%d" % n, indexes=indexes)
            number = int(one.id[3:])
        else:
            text = "".join(drawn.choices("abc", k=drawn.randint(1, 9)))
            moment = NOW + timedelta(milliseconds=drawn.randint(0, 40))
            now, number = sought(n, text, drawn.choice((PENDING, APPROVED)), created_at=moment), n
        standing[number] = now
        await keep(stores, now)
        fragment = "".join(drawn.choices("abc", k=drawn.randint(1, 5)))
        place, limit = drawn.choice((LIVE, PENDING, APPROVED)), drawn.choice((1, 3, 50))
        having = [one for one in standing.values() if place in one.indexes and fragment in one.searched]
        having.sort(key=lambda one: (one.created_at, one.id), reverse=True)

        assert await search(stores, fragment, place, limit) == [one.id for one in having[:limit]]


@pytest.mark.usefixtures("gathered", "stopping")
@pytest.mark.parametrize("fragment", ["a", "ab", "abc", "bca", "abcab"])
async def test_pages_of_both_modes_are_one_list_wherever_a_search_stops(
    stores: Stores, fragment: str
) -> None:
    drawn = random.Random(3)
    records = [
        sought(
            n,
            "".join(drawn.choices("abc", k=8)),
            indexes=(("mode", drawn.choice(("live", "test"))),),
            created_at=NOW + timedelta(milliseconds=drawn.randint(0, 60)),
        )
        for n in range(120)
    ]
    await keep(stores, *records)
    expected = sorted((one for one in records if fragment in one.searched), key=place_of, reverse=True)

    listed: list[str] = []
    page: Page | None = Page(3, None)
    while page is not None:
        found = await page_of(
            stores.records, ACME, RecordKind.SESSION, (True, False), by_mode, page, fragment
        )
        listed += [one.id for one in found.records]
        page = None if found.following is None else Page(3, found.following)

    assert listed == [one.id for one in expected]


async def test_only_the_newest_wait_for_the_index(stores: Stores, tmp_path: Path) -> None:
    records = [sought(n, f"customer-{n}") for n in range(900)]
    for start in range(0, 900, 100):
        await stores.journal.commit(Change(ACME, tuple(records[start : start + 100])))

    ((waiting,),) = ask(
        tmp_path, "SELECT count(*) FROM records WHERE sought_at > (SELECT max(sought_at) FROM gathered)"
    )
    assert search_index.KEPT_WAITING <= waiting < search_index.WAITING
    assert await search(stores, "customer-7", limit=2) == ["vs_0799", "vs_0798"]
    assert await search(stores, "er-899") == ["vs_0899"]
    assert await search(stores, "er-8", limit=1) == ["vs_0899"]


STEPS_MOST = 25_000
"""Steps of SQLite's machine: some forty for a record that waits for the index; a scan takes ten times it."""

MIDDLE = Position(NOW + timedelta(seconds=2_000), "vs_")
FRAGMENTS = ("c", "us", "customer", "er-17", "customer-1234", "zz", "zzz", "omercus")


async def test_a_search_does_not_look_at_every_record(stores: Stores, tmp_path: Path) -> None:
    records = [sought(n, f"customer-{n}", APPROVED if n % 1_000 else PENDING) for n in range(6_000)]
    await stores.journal.commit(Change(ACME, tuple(records)))
    steps = 0

    def count() -> int:
        nonlocal steps
        steps += 10
        return 0

    with closing(sqlite3.connect(tmp_path / DATABASE_FILE, isolation_level=None)) as connection:
        connection.set_progress_handler(count, 10)
        for index, fragment, before in product((LIVE, PENDING, APPROVED), FRAGMENTS, (None, MIDDLE)):
            steps = 0
            Search(ACME, RecordKind.SESSION, index, fragment, 26, before).run(connection)
            assert 0 < steps < STEPS_MOST, (index, fragment, before)


async def test_a_search_for_what_all_texts_but_seem_to_contain_stops_and_goes_on(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every piece of the fragment is in every text, and the fragment in the oldest alone."""
    monkeypatch.setattr(sqlite_search, "ENOUGH_S", 0.0)
    records = [sought(n, f"alpha-bravo-a-beta-{n}" if n else "alpha-beta") for n in range(4_000)]
    for start in range(0, 4_000, 100):
        await stores.journal.commit(Change(ACME, tuple(records[start : start + 100])))

    pages, before = 1, None
    while True:
        found = await stores.records.search(
            ACME, RecordKind.SESSION, LIVE, "alpha-beta", limit=26, before=before
        )
        if found.further is None:
            break
        assert not found.records
        pages, before = pages + 1, found.further

    assert [one.id for one in found.records] == ["vs_0000"]
    assert pages > 2
