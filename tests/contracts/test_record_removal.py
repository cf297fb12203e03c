"""What every store promises about the removal of records whose period is over."""

from dataclasses import replace
from datetime import timedelta

import pytest

from schemas.audit import AuditFilter
from schemas.ids import PLATFORM, TenantId
from schemas.problems import NotFound
from streams.ports.records import Change, Record, RecordKind
from streams.ports.stores import Stores
from tests.builders import ACME, GLOBEX, NOW, build_audit_event, build_decision_event

KIND = RecordKind.DELIVERY
BOTH = (("endpoint", "first"), ("endpoint_status", "first:FAILED"))


def record(name: str, tenant_id: TenantId = ACME, *, days: float = 0, version: int = 1) -> Record:
    """A delivery made so many days before now."""
    return Record(tenant_id, KIND, name, b"{}", NOW - timedelta(days=days), version=version, indexes=BOTH)


async def listed(stores: Stores, tenant_id: TenantId = ACME) -> list[list[str]]:
    """What each index lists."""
    pages = [await stores.records.page(tenant_id, KIND, index, limit=1_000) for index in BOTH]
    return [[found.id for found in page] for page in pages]


async def test_a_removed_record_is_neither_there_nor_listed(stores: Stores) -> None:
    for one in (record("old", days=40), record("new")):
        await stores.journal.commit(Change(ACME, (one,)))
    page = await stores.records.page(ACME, KIND, BOTH[0], limit=10)

    await stores.removal.remove([found for found in page if found.id == "old"])

    with pytest.raises(NotFound):
        await stores.records.get(ACME, KIND, "old")
    assert await listed(stores) == [["new"], ["new"]]
    assert (await stores.records.get(ACME, KIND, "new")).body == b"{}"


async def test_a_record_of_a_later_version_is_removed_from_where_it_is_listed_now(stores: Stores) -> None:
    await stores.journal.commit(Change(ACME, (record("old"),)))
    moved = replace(record("old", version=2), indexes=(BOTH[1],), body=b'{"a":1}')
    await stores.journal.commit(Change(ACME, (moved,)))

    await stores.removal.remove(await stores.records.page(ACME, KIND, BOTH[1], limit=10))

    assert await listed(stores) == [[], []]
    with pytest.raises(NotFound):
        await stores.records.get(ACME, KIND, "old")


async def test_removing_again_or_nothing_or_what_is_unknown_removes_nothing_more(stores: Stores) -> None:
    for one in (record("old"), record("other")):
        await stores.journal.commit(Change(ACME, (one,)))
    page = await stores.records.page(ACME, KIND, BOTH[0], limit=10)
    old = [found for found in page if found.id == "old"]

    await stores.removal.remove(old)
    await stores.removal.remove(old)
    await stores.removal.remove([])
    await stores.removal.remove([record("unknown")])

    assert await listed(stores) == [["other"], ["other"]]


async def test_removal_leaves_another_tenants_record_of_the_same_id(stores: Stores) -> None:
    for tenant_id in (ACME, GLOBEX, PLATFORM):
        await stores.journal.commit(Change(tenant_id, (record("same", tenant_id),)))

    await stores.removal.remove(await stores.records.page(ACME, KIND, BOTH[0], limit=10))

    assert await listed(stores, ACME) == [[], []]
    assert await listed(stores, GLOBEX) == await listed(stores, PLATFORM) == [["same"], ["same"]]


async def test_more_records_than_one_transaction_takes_are_removed(stores: Stores) -> None:
    count = 130
    for number in range(count):
        await stores.journal.commit(Change(ACME, (record(f"{number:03}"),)))
    page = await stores.records.page(ACME, KIND, BOTH[0], limit=count)

    await stores.removal.remove(page[1:])

    assert await listed(stores) == [[page[0].id], [page[0].id]]


async def test_the_audit_rows_and_events_of_a_removed_record_stay(stores: Stores) -> None:
    row, event = build_audit_event(), build_decision_event()
    await stores.journal.commit(Change(ACME, (record("old"),), (row,), (event,)))

    await stores.removal.remove(await stores.records.page(ACME, KIND, BOTH[0], limit=10))

    rows = await stores.audit_log.page(ACME, AuditFilter(), limit=10)
    assert [one.event_id for one in rows] == [row.event_id]
    assert await stores.journal.pending_events(10) == [event]


async def test_a_record_that_fragments_find_is_not_removed(stores: Stores) -> None:
    sought = replace(record("old"), searched="text", indexes=(("mode", "live"),))
    await stores.journal.commit(Change(ACME, (sought,)))

    with pytest.raises(ValueError, match="fragments"):
        await stores.removal.remove([sought])

    assert (await stores.records.get(ACME, KIND, "old")).searched == "text"
