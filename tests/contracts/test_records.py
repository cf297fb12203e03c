"""What every store of records promises."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from schemas.problems import NotFound
from streams.ports.records import Change, Position, Record, RecordKind
from streams.ports.stores import Stores
from tests.builders import ACME, GLOBEX, NOW, VERIFICATION, build_record

ALL = ("all", "verification")


def numbered(n: int, second: int | None = None, **changes: object) -> Record:
    """A record of its own, created `second` seconds after the first."""
    created_at = NOW + timedelta(seconds=n if second is None else second)
    return build_record(**{"id": f"ver_{n:04}", "created_at": created_at, "indexes": (ALL,)} | changes)


async def keep(stores: Stores, *records: Record) -> None:
    """Commit each record by itself."""
    for record in records:
        await stores.journal.commit(Change(record.tenant_id, (record,)))


async def page(
    stores: Stores, index: tuple[str, str] = ALL, limit: int = 50, before: Position | None = None
) -> Sequence[Record]:
    """A page of ACME's verifications."""
    return await stores.records.page(ACME, RecordKind.VERIFICATION, index, limit=limit, before=before)


def ids(records: Sequence[Record]) -> list[str]:
    """Their ids, in order."""
    return [record.id for record in records]


async def walk(stores: Stores, limit: int) -> list[str]:
    """The ids of every page in turn."""
    found: list[str] = []
    before: Position | None = None
    while records := await page(stores, limit=limit, before=before):
        found += ids(records)
        before = Position(records[-1].created_at, records[-1].id)
    return found


async def test_another_tenants_record_is_not_found(stores: Stores) -> None:
    await keep(stores, build_record())

    with pytest.raises(NotFound):
        await stores.records.get(GLOBEX, RecordKind.VERIFICATION, VERIFICATION)


async def test_several_records_are_found_at_once_in_the_order_asked(stores: Stores) -> None:
    """What is not there, or is another tenant's, is None in its place."""
    first, second = numbered(1), numbered(2)
    await keep(stores, first, second, numbered(3, tenant_id=GLOBEX))
    wanted = [(RecordKind.VERIFICATION, name) for name in ("ver_0002", "ver_0003", "ver_0001", "ver_0002")]

    found = await stores.records.find(ACME, *wanted, (RecordKind.SESSION, first.id))

    assert [record and record.id for record in found] == ["ver_0002", None, "ver_0001", "ver_0002", None]
    assert found[0] == await stores.records.get(ACME, *wanted[0])
    assert await stores.records.find(ACME) == []


async def test_a_record_of_another_kind_is_not_found(stores: Stores) -> None:
    await keep(stores, build_record())

    with pytest.raises(NotFound):
        await stores.records.get(ACME, RecordKind.SESSION, VERIFICATION)


async def test_a_page_lists_the_newest_first(stores: Stores) -> None:
    await keep(stores, numbered(1), numbered(3), numbered(2))

    assert ids(await page(stores)) == ["ver_0003", "ver_0002", "ver_0001"]


async def test_records_of_one_moment_are_listed_by_id(stores: Stores) -> None:
    await keep(stores, numbered(2, 0), numbered(1, 0), numbered(3, 0))

    assert ids(await page(stores)) == ["ver_0003", "ver_0002", "ver_0001"]


async def test_moments_are_distinguished_to_the_microsecond(stores: Stores) -> None:
    later = numbered(1, created_at=NOW + timedelta(microseconds=1))
    await keep(stores, later, numbered(2, created_at=NOW))

    assert ids(await page(stores)) == ["ver_0001", "ver_0002"]
    assert (await page(stores))[0].created_at == later.created_at


async def test_a_page_holds_at_most_its_limit(stores: Stores) -> None:
    await keep(stores, *map(numbered, range(5)))

    assert ids(await page(stores, limit=2)) == ["ver_0004", "ver_0003"]


async def test_a_page_holds_only_what_its_index_lists(stores: Stores) -> None:
    await keep(
        stores, numbered(1, indexes=(("status", "APPROVED"),)), numbered(2, indexes=(("status", "HELD"),))
    )

    assert ids(await page(stores, ("status", "APPROVED"))) == ["ver_0001"]


async def test_a_page_holds_nothing_of_another_tenant_or_kind(stores: Stores) -> None:
    await keep(stores, numbered(1, tenant_id=GLOBEX), numbered(2, kind=RecordKind.SESSION))

    assert await page(stores) == []


async def test_a_record_is_listed_under_each_of_its_pairs(stores: Stores) -> None:
    pairs = (ALL, ("status", "APPROVED"), ("subject", "customer-17"))
    await keep(stores, numbered(1, indexes=pairs))

    assert [ids(await page(stores, pair)) for pair in pairs] == [["ver_0001"]] * 3


async def test_a_changed_record_is_listed_only_where_it_belongs_now(stores: Stores) -> None:
    pending, approved = ("status", "HELD"), ("status", "APPROVED")
    await keep(stores, numbered(1, indexes=(ALL, pending)))

    await keep(stores, numbered(1, indexes=(ALL, approved), version=2, body=b"2"))

    assert [ids(await page(stores, pair)) for pair in (ALL, pending, approved)] == [
        ["ver_0001"],
        [],
        ["ver_0001"],
    ]


async def test_a_listed_record_is_the_one_that_stands_now(stores: Stores) -> None:
    await keep(stores, numbered(1), numbered(1, version=2, body=b"2"))

    assert [(record.version, record.body) for record in await page(stores)] == [(2, b"2")]


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 30])
async def test_walking_the_pages_meets_every_record_once_in_order(stores: Stores, limit: int) -> None:
    await keep(stores, *(numbered(n, second=n // 4) for n in range(23)))

    assert await walk(stores, limit) == [f"ver_{n:04}" for n in reversed(range(23))]


async def test_walking_while_writers_append_meets_what_was_there_once_in_order(stores: Stores) -> None:
    await keep(stores, *(numbered(n, second=n // 3) for n in range(30)))

    async def append(first: int) -> None:
        await keep(stores, *(numbered(n) for n in range(first, first + 20)))

    walked, *_ = await asyncio.gather(walk(stores, 4), append(100), append(200), append(300))

    assert walked == sorted(set(walked), reverse=True)
    assert [name for name in walked if name < "ver_0100"] == [f"ver_{n:04}" for n in reversed(range(30))]


def picture(digest: str, mode: str = "live", **changes: Any) -> Record:
    """For whom a picture was kept first."""
    values = {
        "kind": RecordKind.PICTURE,
        "id": f"{mode}|{digest}",
        "body": b'{"holder":"one"}',
        "indexes": (),
    }
    return build_record(**values | changes)


async def test_a_picture_is_claimed_once_and_the_second_hears_by_whom(stores: Stores) -> None:
    claims = [picture("ab" * 32, body=f'{{"holder":"{name}"}}'.encode()) for name in ("one", "two")]

    first, second = [await stores.journal.commit(Change(ACME, (claim,))) for claim in claims]

    assert (first.won, second.won) == (True, False)
    assert (second.record.body, second.record.id) == (claims[0].body, claims[0].id)
    assert (await stores.records.get(ACME, RecordKind.PICTURE, claims[0].id)).body == claims[0].body


async def test_of_two_claims_at_once_one_wins(stores: Stores) -> None:
    claims = [picture("cd" * 32, body=f'{{"holder":"{n}"}}'.encode()) for n in range(4)]

    done = await asyncio.gather(*(stores.journal.commit(Change(ACME, (claim,))) for claim in claims))

    assert sum(one.won for one in done) == 1
    assert len({one.record.body for one in done}) == 1


async def test_a_picture_is_known_in_its_mode_and_tenant_only(stores: Stores) -> None:
    await keep(stores, picture("ef" * 32))

    for tenant_id, mode in ((ACME, "test"), (GLOBEX, "live")):
        with pytest.raises(NotFound):
            await stores.records.get(tenant_id, RecordKind.PICTURE, f"{mode}|{'ef' * 32}")


async def test_a_claim_is_taken_over_by_one_alone(stores: Stores) -> None:
    first = (await stores.journal.commit(Change(ACME, (picture("01" * 32),)))).record
    heirs = [replace(first, version=2, body=f'{{"holder":"{n}"}}'.encode()) for n in range(3)]

    done = await asyncio.gather(
        *(stores.journal.commit(Change(ACME, (heir,))) for heir in heirs), return_exceptions=True
    )

    assert sorted(type(one).__name__ for one in done) == ["Committed", "Conflict", "Conflict"]
