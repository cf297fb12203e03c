"""Removal in Cassandra leaves few tombstones where neighbours go, and takes no place of what stays."""

import re
from collections.abc import AsyncIterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Final

import pytest

from app.adapters.cassandra.connection import Address
from app.adapters.cassandra.session import Session
from streams.ports.records import BY_AGE, Change, Record, RecordKind
from streams.ports.stores import Stores
from tests.builders import ACME, NOW
from tests.contracts.cassandra_adapter import open_cassandra, session_of

pytestmark = pytest.mark.engines

COUNT: Final = 90
"""Some batches of removals."""


@pytest.fixture
async def stores(contracts_keyspace: Address, tmp_path: Path) -> AsyncIterator[Stores]:
    """Stores with nothing in them but acts, one a second."""
    async with open_cassandra(contracts_keyspace, tmp_path) as opened:
        for number in range(COUNT):
            await opened.stores.journal.commit(Change(ACME, (act(number),)))
        yield opened.stores


@pytest.fixture
async def session(contracts_keyspace: Address) -> Session:
    """A session of our own."""
    return session_of(contracts_keyspace)


def act(number: int) -> Record:
    """An act, each a second older than the one before."""
    at = NOW.replace(day=20) - timedelta(seconds=number)
    return Record(ACME, RecordKind.ACT, f"aud_{number:026}", b"{}", at, indexes=(BY_AGE,))


async def listed(stores: Stores) -> list[Record]:
    """Every act that is listed by age."""
    return list(await stores.records.page(ACME, RecordKind.ACT, BY_AGE, limit=COUNT + 1))


def tombstones_passed(session: Session) -> int:
    """How many tombstones a reader of the index passes, as Cassandra itself counts them."""
    month = int(f"{NOW:%Y%m}")
    name, value = BY_AGE
    index = "tenant = %s AND kind = %s AND name = %s AND value = %s AND month = %s"
    read = f"SELECT id FROM record_places WHERE {index}"  # noqa: S608 - constants only
    answer = session.driver.execute(read, (ACME, RecordKind.ACT.value, name, value, month), trace=True)
    said = " ".join(event.description for event in answer.get_query_trace().events)
    found = re.search(r"live rows and (\d+) tombstone", said)
    assert found, said
    return int(found[1])


@pytest.mark.parametrize("removal", ["remove", "remove_unchanged"])
async def test_records_that_lie_side_by_side_leave_a_few_tombstones(
    stores: Stores, session: Session, removal: str
) -> None:
    rows = await listed(stores)
    stays, goes = rows[:5], rows[5:]

    await getattr(stores.removal, removal)(goes)

    assert await listed(stores) == stays
    assert tombstones_passed(session) <= COUNT // 5


@pytest.mark.parametrize("every", [2, 7], ids=str)
async def test_what_lies_between_records_that_are_removed_stays_listed(stores: Stores, every: int) -> None:
    rows = await listed(stores)
    stays: Sequence[Record] = [one for number, one in enumerate(rows) if number % every == 0]

    await stores.removal.remove([one for one in rows if one not in stays])

    assert await listed(stores) == stays


async def test_what_is_written_after_a_removal_is_listed(stores: Stores) -> None:
    await stores.removal.remove(await listed(stores))
    newer = act(-1)

    await stores.journal.commit(Change(ACME, (newer,)))

    assert [one.id for one in await listed(stores)] == [newer.id]
