"""Who tampers with the audit log's rows, links or head is found out, whatever they lie in."""

from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from app.adapters.cassandra.connection import Address
from schemas.ids import AuditEventId, derive_id
from streams.audit.handler import verify_chain
from streams.audit.rules import ChainFault
from streams.ports.errors import Damaged
from streams.ports.stores import Stores
from tests.builders import ACME, GLOBEX
from tests.contracts.adapters import SqliteBreaker, open_sqlite
from tests.contracts.cassandra_adapter import open_cassandra, session_of
from tests.handlers.intruders import CassandraIntruder, Intruder, SqliteIntruder
from tests.handlers.test_audit_chain import numbered, seal, verify, write


@dataclass(frozen=True)
class Crime:
    """A chain of six sealed rows, and somebody who tampers with it."""

    stores: Stores
    by: Intruder

    async def found_with(
        self, expected: Mapping[int, Collection[str]]
    ) -> tuple[ChainFault | None, int | None, AuditEventId | None]:
        """What the walk says when hashes are known by their positions."""
        report = await verify_chain(self.stores.audit_log, ACME, expected)
        return report.fault, report.position, report.event_id

    async def found(self) -> tuple[ChainFault | None, int | None, AuditEventId | None]:
        """What the walk says."""
        report = await verify(self.stores)
        return report.fault, report.position, report.event_id


@asynccontextmanager
async def in_sqlite(folder: Path) -> AsyncIterator[Crime]:
    """A log in SQLite."""
    async with open_sqlite(folder) as opened:
        yield Crime(opened.stores, SqliteIntruder(SqliteBreaker(folder)))


@asynccontextmanager
async def in_cassandra(address: Address, folder: Path) -> AsyncIterator[Crime]:
    """A log in Cassandra."""
    async with open_cassandra(address, folder) as opened:
        yield Crime(opened.stores, CassandraIntruder(session_of(address)))


@pytest.fixture(params=["sqlite", pytest.param("cassandra", marks=pytest.mark.engines)])
def scene(request: pytest.FixtureRequest, tmp_path: Path) -> AbstractAsyncContextManager[Crime]:
    """A log in one store after the other, about to be opened."""
    if request.param == "cassandra":
        return in_cassandra(request.getfixturevalue("contracts_keyspace"), tmp_path)
    return in_sqlite(tmp_path)


@pytest.fixture
async def crime(scene: AbstractAsyncContextManager[Crime]) -> AsyncIterator[Crime]:
    """Rows 1 to 6, sealed at places 1 to 6."""
    async with scene as opened:
        await write(opened.stores, *range(1, 7))
        await seal(opened.stores)
        yield opened


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("event_id", derive_id("aud", "forged")),
        ("action", "case.opened"),
        ("actor_type", "SYSTEM"),
        ("actor_id", None),
        ("subject_id", "somebody-else"),
        ("correlation_id", "req-2"),
        ("decision_id", None),
        ("context", '{"context":{}}'),
        ("detail", "Nothing happened."),
        ("created_at", 1_700_000_000_000),
        ("livemode", False),
    ],
)
@pytest.mark.parametrize("place", [1, 3, 6])
async def test_an_edited_column_is_found(crime: Crime, place: int, column: str, value: object) -> None:
    await crime.by.edit_row(place, column, value)

    event_id = AuditEventId(str(value)) if column == "event_id" else numbered(place).event_id
    assert await crime.found() == (ChainFault.EDITED, place, event_id)


@pytest.mark.parametrize(
    ("column", "value"),
    [("action", "made.up"), ("actor_type", "NOBODY"), ("context", "no json"), ("context", "[]")],
)
async def test_a_row_that_is_no_row_any_more_is_found(crime: Crime, column: str, value: object) -> None:
    await crime.by.edit_row(3, column, value)

    assert await crime.found() == (ChainFault.REMOVED, 3, None)


@pytest.mark.parametrize(
    ("column", "value"), [("prev_hash", "0" * 64), ("hash", "f" * 64), ("prev_hash", "")]
)
@pytest.mark.parametrize("place", [2, 6])
async def test_an_edited_link_is_found(crime: Crime, place: int, column: str, value: object) -> None:
    await crime.by.edit_link(place, column, value)

    assert await crime.found() == (ChainFault.EDITED, place, numbered(place).event_id)


async def test_a_link_that_was_moved_away_is_found_missing(crime: Crime) -> None:
    await crime.by.move_link(3, 77)

    assert (await crime.found())[:2] == (ChainFault.REMOVED, 3)


@pytest.mark.parametrize("place", [1, 3, 6])
async def test_a_removed_row_is_found(crime: Crime, place: int) -> None:
    await crime.by.remove_row(place)

    assert await crime.found() == (ChainFault.REMOVED, place, None)


@pytest.mark.parametrize("place", [1, 3, 6])
async def test_a_row_removed_with_its_link_is_found(crime: Crime, place: int) -> None:
    await crime.by.remove_row(place)
    await crime.by.remove_link(place)

    assert await crime.found() == (ChainFault.REMOVED, place, None)


async def cut(crime: Crime, length: int) -> None:
    """Take away everything behind the first rows."""
    for place in range(length + 1, 7):
        await crime.by.remove_row(place)
        await crime.by.remove_link(place)


@pytest.mark.parametrize("length", [0, 4])
async def test_a_chain_cut_short_is_found(crime: Crime, length: int) -> None:
    await cut(crime, length)

    assert await crime.found() == (ChainFault.REMOVED, length + 1, None)


async def test_a_chain_cut_short_with_a_forged_head_is_found(crime: Crime) -> None:
    await cut(crime, 4)
    prev_hash, own = (await crime.by.links())[4]
    await crime.by.set_head(position=4, prev_hash=prev_hash, hash=own)

    assert await crime.found() == (ChainFault.HEAD, None, None)


async def test_a_row_removed_while_the_rest_moved_up_is_found(crime: Crime) -> None:
    await crime.by.remove_row(3)
    await crime.by.remove_link(3)
    for place in (4, 5, 6):
        await crime.by.move_link(place, place - 1)

    assert await crime.found() == (ChainFault.REORDERED, 3, numbered(4).event_id)


async def test_two_swapped_rows_are_found(crime: Crime) -> None:
    await crime.by.swap_rows(2, 5)

    assert await crime.found() == (ChainFault.REORDERED, 2, numbered(5).event_id)


async def test_two_rows_swapped_with_their_links_are_found(crime: Crime) -> None:
    for old, new in ((2, -1), (5, 2), (-1, 5)):
        await crime.by.move_link(old, new)

    assert await crime.found() == (ChainFault.REORDERED, 2, numbered(5).event_id)


async def test_a_forged_row_in_the_middle_is_found(crime: Crime) -> None:
    await crime.by.forge_row("aud_forged")
    for place in (6, 5, 4):
        await crime.by.move_link(place, place + 1)
    await crime.by.forge_link(4, "aud_forged", (await crime.by.links())[3][1], "ab" * 32)

    assert await crime.found() == (ChainFault.FOREIGN, 4, "aud_forged")


async def test_a_forged_row_at_the_end_is_found(crime: Crime) -> None:
    await crime.by.forge_row("aud_forged")
    await crime.by.forge_link(7, "aud_forged", (await crime.by.links())[6][1], "ab" * 32)

    assert await crime.found() == (ChainFault.FOREIGN, 7, "aud_forged")


async def test_a_forged_row_outside_the_chain_is_found(crime: Crime) -> None:
    await crime.by.forge_row("aud_forged")

    assert await crime.found() == (ChainFault.FOREIGN, None, "aud_forged")


async def test_a_row_of_another_tenants_chain_is_found(crime: Crime) -> None:
    await write(crime.stores, 50, tenant_id=GLOBEX)
    await seal(crime.stores, GLOBEX)

    await crime.by.move_link(1, 7, tenant_id=GLOBEX)

    assert await crime.found() == (ChainFault.FOREIGN, 7, numbered(50).event_id)


@pytest.mark.parametrize(
    ("column", "value"),
    [("position", 5), ("position", 7), ("prev_hash", "0" * 64), ("hash", "0" * 64), ("seal", "0" * 64)],
)
async def test_an_edited_head_is_found(crime: Crime, column: str, value: object) -> None:
    await crime.by.set_head(**{column: value})

    assert await crime.found() == (ChainFault.HEAD, None, None)


async def test_a_head_far_beyond_the_chain_is_found(crime: Crime) -> None:
    await crime.by.set_head(position=2**60)

    assert await crime.found() == (ChainFault.HEAD, None, None)


async def test_a_removed_head_is_found(crime: Crime) -> None:
    await crime.by.remove_head()

    assert await crime.found() == (ChainFault.HEAD, None, None)


async def test_an_older_head_set_back_is_found(crime: Crime) -> None:
    before = await crime.by.head()
    await write(crime.stores, 7)
    await seal(crime.stores)

    await crime.by.set_head(**before)

    assert await crime.found() == (ChainFault.HEAD, None, None)


async def cut_unnoticed(crime: Crime) -> str:
    """Seal a seventh row, then take it away and put the older head back; return the hash it had."""
    before = await crime.by.head()
    await write(crime.stores, 7)
    await seal(crime.stores)
    _, own = (await crime.by.links())[7]
    await crime.by.remove_row(7)
    await crime.by.remove_link(7)
    await crime.by.set_head(**before)
    return own


async def test_s57_a_tail_cut_with_an_older_head_is_found_by_a_hash_known_elsewhere(crime: Crime) -> None:
    own = await cut_unnoticed(crime)

    assert await crime.found() == (None, None, None)  # from within nobody can tell
    assert await crime.found_with({7: {own}}) == (ChainFault.CUT, 7, None)


async def test_s57_rows_sealed_in_the_place_of_a_cut_tail_are_found(crime: Crime) -> None:
    links = await crime.by.links()
    own = await cut_unnoticed(crime)
    await write(crime.stores, 8, 9)
    await seal(crime.stores)

    assert await crime.found_with({4: {links[4][1]}, 7: {own}}) == (ChainFault.REPLACED, 5, None)


async def test_s57_a_whole_chain_taken_away_is_found_by_a_hash_known_elsewhere(crime: Crime) -> None:
    _, own = (await crime.by.links())[6]
    await cut(crime, 0)
    await crime.by.remove_head()

    assert await crime.found_with({6: {own}}) == (ChainFault.CUT, 1, None)


async def test_s57_a_chain_with_every_known_hash_holds(crime: Crime) -> None:
    known = {place: {own} for place, (_, own) in (await crime.by.links()).items()}

    assert await crime.found_with(known) == (None, None, None)


async def test_the_whole_chain_taken_away_is_found(crime: Crime) -> None:
    for place in range(1, 7):
        await crime.by.remove_link(place)
    await crime.by.remove_head()

    assert await crime.found() == (ChainFault.FOREIGN, None, numbered(1).event_id)


async def test_nothing_more_is_sealed_onto_a_forged_head(crime: Crime) -> None:
    await crime.by.set_head(hash="0" * 64)
    await write(crime.stores, 7)

    with pytest.raises(Damaged):
        await seal(crime.stores)


async def test_nothing_more_is_sealed_onto_a_chain_without_its_head(crime: Crime) -> None:
    await crime.by.remove_head()
    await write(crime.stores, 7)

    with pytest.raises(Damaged):
        await seal(crime.stores)


only_cassandra = pytest.mark.parametrize(
    "scene", [pytest.param("cassandra", marks=pytest.mark.engines)], indirect=True
)


@pytest.fixture
def intruder(crime: Crime) -> CassandraIntruder:
    """The intruder of Cassandra."""
    assert isinstance(crime.by, CassandraIntruder)
    return crime.by


@only_cassandra
async def test_a_forged_row_that_claims_a_place_in_the_chain_is_found(
    crime: Crime, intruder: CassandraIntruder
) -> None:
    await intruder.forge_row("aud_forged", position=3)

    assert await crime.found() == (ChainFault.FOREIGN, None, "aud_forged")


@only_cassandra
@pytest.mark.parametrize("outbox", ["", "[]", "no json", "[[6]]", '[[6,"aud_x",1,true,"",""]]'])
async def test_links_slipped_into_the_head_are_found(crime: Crime, outbox: str) -> None:
    await crime.by.set_head(outbox=outbox)

    assert await crime.found() == (ChainFault.HEAD, None, None)


@only_cassandra
async def test_a_row_that_was_made_to_forget_its_place_is_found(crime: Crime) -> None:
    await crime.by.edit_row(3, "position", None)

    assert await crime.found() == (ChainFault.FOREIGN, None, numbered(3).event_id)
