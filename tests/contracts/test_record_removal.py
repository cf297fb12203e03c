"""What every store promises about the removal of records and events whose period is over."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from schemas.audit import AuditFilter
from schemas.ids import PLATFORM, TenantId
from schemas.problems import NotFound
from streams.ports.records import Change, Record, RecordKind
from streams.ports.stores import Stores
from tests.builders import ACME, GLOBEX, NOW, build_audit_event, build_decision_event
from tests.contracts.test_event_feed import commit, event, page, visible

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


async def test_a_record_that_was_changed_is_not_removed_and_stays_listed(stores: Stores) -> None:
    for one in (record("old"), record("changed")):
        await stores.journal.commit(Change(ACME, (one,)))
    found = await stores.records.page(ACME, KIND, BOTH[0], limit=10)
    await stores.journal.commit(Change(ACME, (replace(record("changed", version=2), body=b'{"a":1}'),)))

    await stores.removal.remove_unchanged([*found, record("unknown")])

    assert await listed(stores) == [["changed"], ["changed"]]
    assert (await stores.records.get(ACME, KIND, "changed")).body == b'{"a":1}'
    with pytest.raises(NotFound):
        await stores.records.get(ACME, KIND, "old")


async def test_a_removed_id_can_be_taken_again_at_once(stores: Stores) -> None:
    for version in (1, 2, 3):
        await stores.journal.commit(Change(ACME, (record("slot", days=40, version=version),)))
    await stores.removal.remove_unchanged(await stores.records.page(ACME, KIND, BOTH[0], limit=10))

    taken = await stores.journal.commit(Change(ACME, (record("slot"),), (build_audit_event(),)))
    changed = replace(record("slot", version=2), body=b'{"a":1}', indexes=(BOTH[1],))
    await stores.journal.commit(Change(ACME, (changed,)))

    assert (taken.won, taken.record.version, taken.record.created_at) == (True, 1, NOW)
    assert await listed(stores) == [[], ["slot"]]
    assert (await stores.records.get(ACME, KIND, "slot")).body == b'{"a":1}'
    assert len(await stores.audit_log.page(ACME, AuditFilter(), limit=10)) == 1


async def test_published_events_are_removed_up_to_a_moment_and_others_stay(stores: Stores) -> None:
    first, second, waiting = event("first"), event("second"), event("waiting")
    sandbox, theirs = event("sandbox", livemode=False), event("theirs", tenant_id=GLOBEX)
    everything = [first, second, waiting, sandbox, theirs]
    await commit(stores, *everything)
    await stores.journal.mark_emitted([one.id for one in everything if one is not waiting])
    place = (await visible(stores, [first, second, waiting]))[0].place
    days = timedelta(days=2)

    early = await remove_events(stores, datetime.now(UTC) - days)
    late = await remove_events(stores, datetime.now(UTC) + days)

    assert (early, late, await remove_events(stores, datetime.now(UTC) + days)) == (0, 2, 0)
    assert [fed.event for fed in await page(stores)] == [waiting]
    assert [fed.event for fed in await page(stores, place)] == [waiting]
    assert [fed.event for fed in await visible(stores, [sandbox], livemode=False)] == [sandbox]
    assert [fed.event for fed in await visible(stores, [theirs], tenant_id=GLOBEX)] == [theirs]
    assert await stores.journal.pending_events(10) == [waiting]
    with pytest.raises(NotFound):
        await stores.feed.place_of(ACME, first.id)


async def test_events_go_on_behind_the_places_of_those_that_were_removed(stores: Stores) -> None:
    old = [event(str(number)) for number in range(3)]
    await commit(stores, *old)
    places = [fed.place for fed in await visible(stores, old)]
    await stores.journal.mark_emitted([one.id for one in old[:2]])
    await remove_events(stores, datetime.now(UTC) + timedelta(days=2))

    new = event("new")
    await commit(stores, new)
    await visible(stores, [new])

    behind = [[fed.event.id for fed in await page(stores, place)][-1:] for place in places]
    assert behind == [[new.id]] * len(places)
    assert [fed.event.id for fed in await page(stores, places[0])] == [old[2].id, new.id]


async def remove_events(stores: Stores, until: datetime) -> int:
    """Remove ACME's live events."""
    return await stores.removal.remove_events(ACME, livemode=True, until=until, limit=100)


async def test_a_record_that_fragments_find_is_not_removed(stores: Stores) -> None:
    sought = replace(record("old"), searched="text", indexes=(("mode", "live"),))
    await stores.journal.commit(Change(ACME, (sought,)))

    with pytest.raises(ValueError, match="fragments"):
        await stores.removal.remove([sought])

    assert (await stores.records.get(ACME, KIND, "old")).searched == "text"
