"""SQLite links the audit rows of a commit to their chain in the transaction of the commit."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.adapters.files.data_dir import DATABASE_FILE
from app.adapters.security.at_rest import seal_stores
from app.adapters.security.crypto import RootKey
from app.adapters.security.derived_keys import id_of
from app.adapters.sqlite.audit_rows import to_columns, to_event
from app.adapters.sqlite.root_keys import SqliteRootKeys
from app.adapters.sqlite.stores import open_sqlite_stores
from app.root_keys.rotation import begin, read_root_keys
from schemas.audit import AuditEvent, SealAudit
from schemas.ids import AuditEventId, TenantId, derive_id
from streams.audit.handler import ChainReport, SealChain, verify_chain
from streams.audit.rules import ChainFault, canonical
from streams.ports.records import Change
from streams.ports.stores import Stores
from tests.builders import ACME, GLOBEX, NOW, build_audit_event, build_record
from tests.contracts.adapters import ROOT_KEY

NEXT_KEY: Final = RootKey(bytes(range(64, 96)))


@pytest.fixture
async def stores(tmp_path: Path) -> AsyncIterator[Stores]:
    """The stores of a node as a process that holds the root key opens them."""
    async with open_sqlite_stores(tmp_path, ROOT_KEY, durable=False) as opened:
        yield seal_stores(opened, ROOT_KEY.derive)


@pytest.fixture
async def sender(tmp_path: Path) -> AsyncIterator[Stores]:
    """The same folder as a process opens it that only sends webhooks."""
    async with open_sqlite_stores(tmp_path, ROOT_KEY.sender_key(), durable=False) as opened:
        yield opened


def numbered(n: int) -> AuditEvent:
    """A row of its own, from an address."""
    named = AuditEventId(derive_id("aud", str(n)))
    return build_audit_event(event_id=named, detail=f"Row {n}.", context={"request_id": f"req_{n}"})


async def write(stores: Stores, *numbers: int, tenant_id: TenantId = ACME) -> None:
    """Commit a change for each number, one after another."""
    for n in numbers:
        record = build_record(tenant_id=tenant_id, id=f"ver_{n}")
        await stores.journal.commit(Change(tenant_id, (record,), (numbered(n),)))


async def chain(stores: Stores, tenant_id: TenantId = ACME) -> list[str]:
    """The words of the rows in the chain, in its order."""
    walked = await stores.audit_log.walk(tenant_id, 0, 1_000)
    return ["gone" if one.event is None else one.event.detail for one in walked]


async def verify(stores: Stores, tenant_id: TenantId = ACME) -> ChainReport:
    """Verify the chain; what its head is stands aside."""
    report = await verify_chain(stores.audit_log, tenant_id)
    return report.model_copy(update={"head": None})


def run(folder: Path, *statements: str) -> None:
    """Do to the file what an intruder would."""
    with closing(sqlite3.connect(folder / DATABASE_FILE)) as connection, connection:
        for name in ("audit_is_not_deleted", "audit_chain_is_not_deleted"):
            connection.execute(f"DROP TRIGGER IF EXISTS {name}")
        for statement in statements:
            connection.execute(statement)


async def test_rows_are_in_their_chain_once_the_commit_returned(stores: Stores) -> None:
    await write(stores, 2, 1, 3)

    assert await stores.audit_log.unsealed_tenants() == []
    assert await chain(stores) == ["Row 2.", "Row 1.", "Row 3."]
    assert await verify(stores) == ChainReport(tenant_id=ACME, rows=3)


async def test_an_address_sealed_at_rest_is_part_of_its_link(stores: Stores) -> None:
    row = numbered(1).model_copy(update={"context": {"ip": "203.0.113.7"}})
    await stores.journal.commit(Change(ACME, (build_record(id="ver_1"),), (row,)))

    assert [one.event for one in await stores.audit_log.walk(ACME, 0, 9)] == [row]
    assert await verify(stores) == ChainReport(tenant_id=ACME, rows=1)


async def test_commits_of_two_tenants_at_once_make_two_chains(stores: Stores) -> None:
    at_once = [write(stores, n, tenant_id=tenant) for n in range(40) for tenant in (ACME, GLOBEX)]
    await asyncio.gather(*at_once)

    for tenant in (ACME, GLOBEX):
        assert await verify(stores, tenant) == ChainReport(tenant_id=tenant, rows=40)


async def test_two_processes_that_commit_at_once_make_one_chain(tmp_path: Path, stores: Stores) -> None:
    async with open_sqlite_stores(tmp_path, ROOT_KEY, durable=False) as opened:
        other = seal_stores(opened, ROOT_KEY.derive)
        await asyncio.gather(*(write((stores, other)[n % 2], n) for n in range(60)))

    assert await verify(stores) == ChainReport(tenant_id=ACME, rows=60)


async def test_a_row_that_was_written_before_is_linked_once(stores: Stores) -> None:
    for record_id in ("ver_1", "ver_2"):
        change = Change(ACME, (build_record(id=record_id),), (numbered(1), numbered(1)))
        await stores.journal.commit(change)
        await stores.journal.commit(change)

    assert await verify(stores) == ChainReport(tenant_id=ACME, rows=1)


async def test_a_change_that_loses_adds_nothing_to_the_chain(stores: Stores) -> None:
    await write(stores, 1)
    lost = await stores.journal.commit(Change(ACME, (build_record(id="ver_1", body=b"{}"),), (numbered(2),)))

    assert not lost.won
    assert await chain(stores) == ["Row 1."]


async def test_rows_behind_one_that_waits_wait_as_well_and_keep_their_order(
    stores: Stores, sender: Stores
) -> None:
    await write(stores, 1)
    await write(sender, 2)
    await write(stores, 3)
    assert await chain(stores) == ["Row 1."]

    await SealChain(stores.audit_log)(SealAudit(tenant_id=ACME))
    await write(stores, 4)

    assert await chain(stores) == ["Row 1.", "Row 2.", "Row 3.", "Row 4."]
    assert await verify(stores) == ChainReport(tenant_id=ACME, rows=4)


async def test_commits_are_linked_under_the_version_of_the_current_root_key(
    tmp_path: Path, stores: Stores
) -> None:
    """A process that was given the next root key goes over to it; of one that was not the rows wait."""
    both = replace(ROOT_KEY, others=(NEXT_KEY,))
    async with open_sqlite_stores(tmp_path, both, durable=False) as opened:
        ready = seal_stores(opened, ROOT_KEY.derive)
        await write(ready, 1)
        root_keys = SqliteRootKeys(tmp_path / DATABASE_FILE)
        await begin(root_keys, await read_root_keys(root_keys, both), NEXT_KEY, NOW)
        await write(ready, 2)
        await write(stores, 3)

        assert await chain(ready) == ["Row 1.", "Row 2."]
        assert [one.version for one in (await ready.audit_log.keys()).versions] == [
            id_of(key) for key in (ROOT_KEY, NEXT_KEY)
        ]
        await SealChain(ready.audit_log)(SealAudit(tenant_id=ACME))
        assert await verify(ready) == ChainReport(tenant_id=ACME, rows=3)
    with closing(sqlite3.connect(tmp_path / DATABASE_FILE)) as connection:
        (seal,) = connection.execute("SELECT seal FROM audit_heads").fetchone()
    assert seal.startswith(f"{id_of(NEXT_KEY)}:")


async def test_a_head_sealed_before_there_were_versions_takes_links(stores: Stores, tmp_path: Path) -> None:
    await write(stores, 1)
    run(tmp_path, "UPDATE audit_heads SET seal = substr(seal, instr(seal, ':') + 1)")
    await write(stores, 2)

    assert await chain(stores) == ["Row 1.", "Row 2."]
    assert await verify(stores) == ChainReport(tenant_id=ACME, rows=2)


async def test_a_process_without_the_key_of_the_chains_says_so(stores: Stores, sender: Stores) -> None:
    assert (stores.links_in_commit, sender.links_in_commit) == (True, False)


@pytest.mark.parametrize(
    "crime",
    [
        "UPDATE audit_heads SET hash = '00'",
        "UPDATE audit_heads SET position = 9",
        "DELETE FROM audit_heads",
        "DELETE FROM audit_chain WHERE position = 3",
        "DELETE FROM audit WHERE seq = 3",
    ],
)
async def test_an_altered_chain_stops_no_commit_and_is_not_continued(
    stores: Stores, tmp_path: Path, crime: str
) -> None:
    await write(stores, 1, 2, 3)
    run(tmp_path, crime)
    links = [one.link for one in await stores.audit_log.walk(ACME, 0, 9)]

    await write(stores, 4)

    assert [one.link for one in await stores.audit_log.walk(ACME, 0, 9)] == links
    assert (await verify(stores)).fault is not None


async def test_a_row_that_nobody_committed_is_not_linked(stores: Stores, tmp_path: Path) -> None:
    await write(stores, 1)
    run(
        tmp_path,
        "CREATE TEMP TABLE forged AS SELECT * FROM audit",
        "UPDATE forged SET seq = 99, event_id = 'aud_forged'",
        "INSERT INTO audit SELECT * FROM forged",
    )

    await write(stores, 2)

    assert await chain(stores) == ["Row 1.", "Row 2."]
    assert (await verify(stores)).fault is ChainFault.FOREIGN


JSON: Final = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(context=st.dictionaries(st.text(), JSON, max_size=4), beyond=st.integers(0, 999_999))
def test_a_row_has_one_canonical_form_before_and_after_it_was_stored(
    context: dict[str, Any], beyond: int
) -> None:
    moment = NOW.replace(microsecond=beyond)
    event = build_audit_event(context=context, created_at=moment, decision_id=None)

    assert canonical(to_event(to_columns(ACME, event)[1:])) == canonical(event)


async def test_rows_without_their_canonical_form_wait(stores: Stores) -> None:
    plain = replace(stores, journal=stores.journal.inner)  # type: ignore[attr-defined]

    await write(plain, 1)

    assert await stores.audit_log.unsealed(ACME, 9) == [numbered(1)]
