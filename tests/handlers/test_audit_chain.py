"""Sealing joins every row to its chain; what SQLite alone could be brought to hold is found out."""

import asyncio
import sqlite3
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest

from app.adapters.files.data_dir import DATABASE_FILE
from schemas.audit import AuditEvent, AuditFilter, SealAudit
from schemas.ids import AuditEventId, TenantId, derive_id
from streams.audit.handler import ChainReport, SealChain, verify_chain
from streams.audit.rules import ChainFault
from streams.ports.records import Change
from streams.ports.stores import Stores
from tests.builders import ACME, GLOBEX, NOW, build_audit_event, build_record
from tests.contracts.adapters import Opened, SqliteBreaker, open_sqlite


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
    await SealChain(stores.audit_log)(SealAudit(tenant_id=tenant_id))


async def verify(stores: Stores, tenant_id: TenantId = ACME) -> ChainReport:
    """Walk the chain; what its head is stands in a test of its own."""
    report = await verify_chain(stores.audit_log, tenant_id)
    return report.model_copy(update={"head": None})


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


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("created_at", "yesterday"),
        ("livemode", 2),
        ("detail", b"Row 3."),
        ("subject_id", b"customer-17"),
        ("created_at", 2**62),
        ("tenant", GLOBEX),
        ("seq", 99),
    ],
)
async def test_a_row_with_columns_sqlite_should_not_hold_is_found(
    tmp_path: Path, column: str, value: object
) -> None:
    async with open_sqlite(tmp_path) as opened:
        await write(opened.stores, *range(1, 7))
        await seal(opened.stores)
        SqliteBreaker(tmp_path).run(f"UPDATE audit SET {column} = ? WHERE seq = 3", value)  # noqa: S608 - names of the test

        report = await verify(opened.stores)

    assert (report.fault, report.position) == (ChainFault.REMOVED, 3)


@pytest.mark.parametrize(
    ("column", "value", "fault"),
    [("hash", b"f" * 64, ChainFault.EDITED), ("position", "elsewhere", ChainFault.REMOVED)],
)
async def test_a_link_with_columns_sqlite_should_not_hold_is_found(
    tmp_path: Path, column: str, value: object, fault: ChainFault
) -> None:
    async with open_sqlite(tmp_path) as opened:
        await write(opened.stores, *range(1, 7))
        await seal(opened.stores)
        SqliteBreaker(tmp_path).run(f"UPDATE audit_chain SET {column} = ? WHERE position = 3", value)  # noqa: S608 - names of the test

        report = await verify(opened.stores)

    assert (report.fault, report.position) == (fault, 3)


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
