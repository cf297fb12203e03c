"""Sealing joins every row to its chain, and whoever tampers with the log is found out."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest

from app.adapters.crypto import Purpose
from app.adapters.layout import DATABASE_FILE
from schemas.audit import AuditEvent, AuditFilter, SealAudit
from schemas.ids import AuditEventId, TenantId, derive_id
from streams.audit.handler import ChainReport, SealChain, verify_chain
from streams.audit.rules import ChainFault
from streams.ports import Change, Damaged, Stores
from tests.builders import ACME, GLOBEX, NOW, build_audit_event, build_record
from tests.contracts.adapters import ROOT_KEY, Opened, SqliteBreaker, open_sqlite

KEY = ROOT_KEY.derive(Purpose.AUDIT_CHAIN)


def numbered(n: int) -> AuditEvent:
    """A row of its own."""
    return build_audit_event(
        event_id=AuditEventId(derive_id("aud", str(n))),
        created_at=NOW + timedelta(seconds=n),
        decision_id=f"dec_{n}",
        detail=f"Row {n}.",
    )


async def write(stores: Stores, *numbers: int, tenant_id: TenantId = ACME) -> None:
    """Commit numbered rows."""
    for n in numbers:
        record = build_record(tenant_id=tenant_id, id=f"ver_{n}")
        await stores.journal.commit(Change(tenant_id, (record,), (numbered(n),)))


async def seal(stores: Stores, tenant_id: TenantId = ACME) -> None:
    """Seal what waits."""
    await SealChain(stores.audit_log, KEY)(SealAudit(tenant_id=tenant_id))


async def verify(stores: Stores, tenant_id: TenantId = ACME) -> ChainReport:
    """Walk the chain."""
    return await verify_chain(stores.audit_log, tenant_id, KEY)


@pytest.fixture
def stores(opened: Opened) -> Stores:
    """The stores of every adapter in turn."""
    return opened.stores


async def test_sealing_leaves_no_row_waiting(stores: Stores) -> None:
    await write(stores, *range(5))

    await seal(stores)

    assert await stores.audit_log.unsealed(ACME, 9) == []


async def test_rows_are_sealed_in_the_order_of_their_commits(stores: Stores) -> None:
    await write(stores, 3, 1, 2)

    await seal(stores)

    walked = await stores.audit_log.walk(ACME, 0, 9)
    assert [(row.link.position, row.event) for row in walked] == [
        (1, numbered(3)),
        (2, numbered(1)),
        (3, numbered(2)),
    ]


async def test_more_rows_than_a_batch_are_all_sealed(stores: Stores) -> None:
    await asyncio.gather(*(write(stores, n) for n in range(450)))

    await seal(stores)

    assert await verify(stores) == ChainReport(tenant_id=ACME, rows=450)


async def test_sealing_again_changes_nothing(stores: Stores) -> None:
    await write(stores, 1, 2)
    await seal(stores)
    head = await stores.audit_log.head(ACME)

    await seal(stores)

    assert await stores.audit_log.head(ACME) == head


async def test_many_who_seal_at_once_make_one_chain(stores: Stores) -> None:
    await write(stores, *range(30))

    await asyncio.gather(*(seal(stores) for _ in range(5)), write(stores, *range(100, 130)))
    await seal(stores)

    assert await verify(stores) == ChainReport(tenant_id=ACME, rows=60)


async def test_each_tenant_has_its_own_chain(stores: Stores) -> None:
    await write(stores, 1, 2)
    await write(stores, 3, tenant_id=GLOBEX)

    await seal(stores)
    await seal(stores, GLOBEX)

    assert [(await verify(stores, tenant)).rows for tenant in (ACME, GLOBEX)] == [2, 1]


async def test_a_log_without_rows_holds(stores: Stores) -> None:
    assert (await verify(stores)).ok


async def test_rows_that_still_wait_are_counted_and_nothing_bad(stores: Stores) -> None:
    await write(stores, 1)
    await seal(stores)
    await write(stores, 2, 3)

    assert await verify(stores) == ChainReport(tenant_id=ACME, rows=1, waiting=2)


async def test_a_chain_holds_while_it_is_written_and_sealed(stores: Stores) -> None:
    async def grow() -> None:
        for n in range(0, 60, 3):
            await write(stores, n, n + 1, n + 2)
            await seal(stores)

    growing = asyncio.create_task(grow())
    reports = [await verify(stores)]
    while not growing.done():
        reports.append(await verify(stores))
        await asyncio.sleep(0)
    await growing

    assert [report for report in reports if not report.ok] == []


@dataclass(frozen=True)
class Crime:
    """A chain of six sealed rows in SQLite, and a way to tamper with it."""

    stores: Stores
    run: SqliteBreaker

    def on(self, statement: str, *parameters: object) -> None:
        """Run a statement as an intruder with the file would."""
        self.run.run(statement, *parameters)

    async def found(self) -> tuple[ChainFault | None, int | None, AuditEventId | None]:
        """What the walk says."""
        report = await verify(self.stores)
        return report.fault, report.position, report.event_id


@pytest.fixture
async def crime(tmp_path: Path) -> AsyncIterator[Crime]:
    """Rows 1 to 6, sealed at places 1 to 6."""
    async with open_sqlite(tmp_path) as opened:
        await write(opened.stores, *range(1, 7))
        await seal(opened.stores)
        yield Crime(opened.stores, SqliteBreaker(tmp_path))


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
        ("livemode", 0),
    ],
)
@pytest.mark.parametrize("place", [1, 3, 6])
async def test_an_edited_column_is_found(crime: Crime, place: int, column: str, value: object) -> None:
    crime.on(f"UPDATE audit SET {column} = ? WHERE seq = ?", value, place)  # noqa: S608 - names of the test

    event_id = AuditEventId(str(value)) if column == "event_id" else numbered(place).event_id
    assert await crime.found() == (ChainFault.EDITED, place, event_id)


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("created_at", "yesterday"),
        ("livemode", 2),
        ("action", "made.up"),
        ("context", "no json"),
        ("context", "[]"),
        ("detail", b"Row 3."),
        ("subject_id", b"customer-17"),
        ("created_at", 2**62),
        ("tenant", GLOBEX),
        ("seq", 99),
    ],
)
async def test_a_row_that_is_no_row_any_more_is_found(crime: Crime, column: str, value: object) -> None:
    crime.on(f"UPDATE audit SET {column} = ? WHERE seq = 3", value)  # noqa: S608 - names of the test

    assert await crime.found() == (ChainFault.REMOVED, 3, None)


@pytest.mark.parametrize(
    ("column", "value"), [("prev_hash", "0" * 64), ("hash", "f" * 64), ("hash", b"f" * 64), ("prev_hash", "")]
)
@pytest.mark.parametrize("place", [2, 6])
async def test_an_edited_link_is_found(crime: Crime, place: int, column: str, value: object) -> None:
    crime.on(f"UPDATE audit_chain SET {column} = ? WHERE position = ?", value, place)  # noqa: S608 - names of the test

    assert await crime.found() == (ChainFault.EDITED, place, numbered(place).event_id)


@pytest.mark.parametrize("moved", [77, "elsewhere"])
async def test_a_link_that_was_moved_away_is_found_missing(crime: Crime, moved: object) -> None:
    crime.on("UPDATE audit_chain SET position = ? WHERE position = 3", moved)

    assert (await crime.found())[:2] == (ChainFault.REMOVED, 3)


@pytest.mark.parametrize("place", [1, 3, 6])
async def test_a_removed_row_is_found(crime: Crime, place: int) -> None:
    crime.on("DELETE FROM audit WHERE seq = ?", place)

    assert await crime.found() == (ChainFault.REMOVED, place, None)


@pytest.mark.parametrize("place", [1, 3, 6])
async def test_a_row_removed_with_its_link_is_found(crime: Crime, place: int) -> None:
    crime.on("DELETE FROM audit WHERE seq = ?", place)
    crime.on("DELETE FROM audit_chain WHERE position = ?", place)

    assert await crime.found() == (ChainFault.REMOVED, place, None)


@pytest.mark.parametrize("length", [0, 4])
async def test_a_chain_cut_short_is_found(crime: Crime, length: int) -> None:
    crime.on("DELETE FROM audit WHERE seq > ?", length)
    crime.on("DELETE FROM audit_chain WHERE position > ?", length)

    assert await crime.found() == (ChainFault.REMOVED, length + 1, None)


async def test_a_chain_cut_short_with_a_forged_head_is_found(crime: Crime) -> None:
    crime.on("DELETE FROM audit WHERE seq > 4")
    crime.on("DELETE FROM audit_chain WHERE position > 4")
    crime.on(
        "UPDATE audit_heads SET (position, prev_hash, hash) = "
        "(SELECT position, prev_hash, hash FROM audit_chain WHERE position = 4)"
    )

    assert await crime.found() == (ChainFault.HEAD, None, None)


async def test_a_row_removed_while_the_rest_moved_up_is_found(crime: Crime) -> None:
    crime.on("DELETE FROM audit WHERE seq = 3")
    crime.on("DELETE FROM audit_chain WHERE position = 3")
    for place in (4, 5, 6):
        crime.on("UPDATE audit_chain SET position = position - 1 WHERE position = ?", place)

    assert await crime.found() == (ChainFault.REORDERED, 3, numbered(4).event_id)


async def test_two_swapped_rows_are_found(crime: Crime) -> None:
    for old, new in ((2, -1), (5, 2), (-1, 5)):
        crime.on("UPDATE audit SET seq = ? WHERE seq = ?", new, old)

    assert await crime.found() == (ChainFault.REORDERED, 2, numbered(5).event_id)


async def test_two_rows_swapped_with_their_links_are_found(crime: Crime) -> None:
    for old, new in ((2, -1), (5, 2), (-1, 5)):
        crime.on("UPDATE audit_chain SET position = ? WHERE position = ?", new, old)

    assert await crime.found() == (ChainFault.REORDERED, 2, numbered(5).event_id)


FORGED = (
    "INSERT INTO audit (seq, tenant, event_id, action, actor_type, subject_id, context, detail, created_at, "
    "livemode) "
    "SELECT ?, tenant, 'aud_forged', action, actor_type, subject_id, context, detail, created_at, livemode "
    "FROM audit WHERE seq = 1"
)


async def test_a_forged_row_in_the_middle_is_found(crime: Crime) -> None:
    crime.on(FORGED, 99)
    for place in (6, 5, 4):
        crime.on("UPDATE audit_chain SET position = position + 1 WHERE position = ?", place)
    crime.on(
        "INSERT INTO audit_chain SELECT 99, tenant, 4, hash, ? FROM audit_chain WHERE position = 3", "ab" * 32
    )

    assert await crime.found() == (ChainFault.FOREIGN, 4, "aud_forged")


async def test_a_forged_row_at_the_end_is_found(crime: Crime) -> None:
    crime.on(FORGED, 99)
    crime.on(
        "INSERT INTO audit_chain SELECT 99, tenant, 7, hash, ? FROM audit_chain WHERE position = 6", "ab" * 32
    )

    assert await crime.found() == (ChainFault.FOREIGN, 7, "aud_forged")


async def test_a_forged_row_outside_the_chain_is_found(crime: Crime) -> None:
    crime.on(FORGED, 99)

    assert await crime.found() == (ChainFault.FOREIGN, None, "aud_forged")


async def test_a_row_of_another_tenants_chain_is_found(crime: Crime) -> None:
    await write(crime.stores, 50, tenant_id=GLOBEX)
    await seal(crime.stores, GLOBEX)
    crime.on("UPDATE audit SET tenant = ? WHERE tenant = ?", ACME, GLOBEX)
    crime.on("UPDATE audit_chain SET tenant = ?, position = 7 WHERE tenant = ?", ACME, GLOBEX)

    assert await crime.found() == (ChainFault.FOREIGN, 7, numbered(50).event_id)


@pytest.mark.parametrize(
    ("column", "value"),
    [("position", 5), ("position", 7), ("prev_hash", "0" * 64), ("hash", "0" * 64), ("seal", "0" * 64)],
)
async def test_an_edited_head_is_found(crime: Crime, column: str, value: object) -> None:
    crime.on(f"UPDATE audit_heads SET {column} = ?", value)  # noqa: S608 - names of the test

    assert await crime.found() == (ChainFault.HEAD, None, None)


async def test_a_removed_head_is_found(crime: Crime) -> None:
    crime.on("DELETE FROM audit_heads")

    assert await crime.found() == (ChainFault.HEAD, None, None)


async def test_an_older_head_set_back_is_found(crime: Crime) -> None:
    before = crime.run.run("SELECT position, prev_hash, hash, seal FROM audit_heads")[0]
    await write(crime.stores, 7)
    await seal(crime.stores)
    crime.on("UPDATE audit_heads SET position = ?, prev_hash = ?, hash = ?, seal = ?", *before)

    assert await crime.found() == (ChainFault.HEAD, None, None)


async def test_the_whole_chain_taken_away_is_found(crime: Crime) -> None:
    crime.on("DELETE FROM audit_chain")
    crime.on("DELETE FROM audit_heads")

    assert await crime.found() == (ChainFault.FOREIGN, None, numbered(1).event_id)


async def test_nothing_more_is_sealed_onto_a_forged_head(crime: Crime) -> None:
    crime.on("UPDATE audit_heads SET hash = ?", "0" * 64)
    await write(crime.stores, 7)

    with pytest.raises(Damaged):
        await seal(crime.stores)


async def test_the_log_itself_refuses_to_be_changed(tmp_path: Path) -> None:
    async with open_sqlite(tmp_path) as opened:
        await write(opened.stores, 1)
        await seal(opened.stores)
        rows = await opened.stores.audit_log.page(ACME, AuditFilter(), limit=9)

        for statement in ("UPDATE audit SET detail = ''", "DELETE FROM audit", "DELETE FROM audit_chain"):
            with (
                closing(sqlite3.connect(tmp_path / DATABASE_FILE)) as intruder,
                pytest.raises(sqlite3.IntegrityError, match="only added to"),
            ):
                intruder.execute(statement)

        assert await opened.stores.audit_log.page(ACME, AuditFilter(), limit=9) == rows
