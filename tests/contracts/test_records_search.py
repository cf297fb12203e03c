"""What every store promises of records found by a fragment of their text."""

import random
from dataclasses import replace
from datetime import timedelta

import pytest

from streams.ports.records import Change, Position, Record, RecordKind
from streams.ports.stores import Stores
from tests.builders import ACME, GLOBEX, NOW, build_record
from tests.contracts.test_records import ids, keep

LIVE = ("mode", "live")
FUTURE = Position(NOW + timedelta(days=1), "")
PENDING, APPROVED = ("status", "HELD"), ("status", "APPROVED")


def sought(n: int, text: str, *places: tuple[str, str], **changes: object) -> Record:
    """A record with a text, created `n` seconds after the first."""
    values = {"id": f"vs_{n:04}", "created_at": NOW + timedelta(seconds=n), "kind": RecordKind.SESSION}
    return build_record(**values | {"searched": text, "indexes": (LIVE, *places)} | changes)


async def search(
    stores: Stores,
    fragment: str,
    index: tuple[str, str] = LIVE,
    limit: int = 50,
    before: Position | None = None,
) -> list[str]:
    """The ids of a page of ACME's sessions, gone on with as often as a search stopped on its way."""
    listed: list[Record] = []
    while True:
        found = await stores.records.search(
            ACME, RecordKind.SESSION, index, fragment, limit=limit - len(listed), before=before
        )
        listed += found.records
        assert found.further is None or found.further < (before or FUTURE)
        if found.further is None or len(listed) >= limit:
            assert len(listed) <= max(limit, 0)
            return ids(listed)
        before = found.further


async def walk(stores: Stores, fragment: str, limit: int) -> list[str]:
    """The ids of every page in turn."""
    listed: list[str] = []
    before: Position | None = None
    while True:
        found = await stores.records.search(
            ACME, RecordKind.SESSION, LIVE, fragment, limit=limit, before=before
        )
        listed += ids(found.records)
        if found.further is not None:
            before = found.further
        elif len(found.records) < limit:
            return listed
        else:
            before = _place(found.records[-1])


@pytest.mark.parametrize(
    "fragment", ["c", "cu", "cus", "customer-17", "-", "-1", "17", "r-17", "tom", "stomer-"]
)
async def test_any_fragment_of_the_text_finds_it(stores: Stores, fragment: str) -> None:
    await keep(stores, sought(1, "customer-17"), sought(2, "nobody"))

    assert await search(stores, fragment) == ["vs_0001"]


@pytest.mark.parametrize(
    "fragment",
    ["x", "zz", "zzz", "71", "customer-171", "acustomer", "cus17", "17customer", "Customer", "%", "*"],
)
async def test_what_is_no_fragment_of_the_text_finds_nothing(stores: Stores, fragment: str) -> None:
    await keep(stores, sought(1, "customer-17"))

    assert await search(stores, fragment) == []


async def test_pieces_in_another_order_are_not_the_fragment(stores: Stores) -> None:
    await keep(stores, sought(1, "abcd-bcde"), sought(2, "abcde"))

    assert await search(stores, "abcde") == ["vs_0002"]


@pytest.mark.parametrize("fragment", ["ß", "é", "日本", "本", "né-日", "😀"])
async def test_letters_of_every_script_are_found(stores: Stores, fragment: str) -> None:
    await keep(stores, sought(1, "straße rené-日本😀"), sought(2, "strasse rene"))

    assert await search(stores, fragment) == ["vs_0001"]


async def test_a_long_fragment_finds_its_text_alone(stores: Stores) -> None:
    text = "".join(random.Random(7).choices("abcdef0123456789", k=128))
    await keep(stores, sought(1, text), sought(2, text[:100] + text[101:]))

    assert await search(stores, text) == ["vs_0001"]


async def test_the_newest_come_first(stores: Stores) -> None:
    await keep(stores, sought(1, "abc"), sought(3, "abcd"), sought(2, "xabc"))

    assert await search(stores, "abc") == ["vs_0003", "vs_0002", "vs_0001"]


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 30])
@pytest.mark.parametrize("fragment", ["b", "ab", "abc"])
async def test_walking_the_pages_meets_every_record_once_in_order(
    stores: Stores, fragment: str, limit: int
) -> None:
    moments = [NOW + timedelta(milliseconds=n // 4, microseconds=n % 2) for n in range(19)]
    records = [sought(n, "abc" if n % 5 else "xyz", created_at=moment) for n, moment in enumerate(moments)]
    await keep(stores, *records)
    expected = sorted((record for record in records if "abc" in record.searched), key=_place, reverse=True)

    assert await walk(stores, fragment, limit) == [record.id for record in expected]


def _place(record: Record) -> Position:
    return Position(record.created_at, record.id)


async def test_a_search_without_a_limit_left_is_empty(stores: Stores) -> None:
    await keep(stores, sought(1, "abc"))

    assert await search(stores, "abc", limit=0) == []


async def test_nothing_of_another_tenant_or_kind_is_found(stores: Stores) -> None:
    await keep(stores, sought(1, "abc", tenant_id=GLOBEX), sought(2, "abc", kind=RecordKind.VERIFICATION))

    assert await search(stores, "abc") == []


async def test_records_of_other_places_are_not_found(stores: Stores) -> None:
    await keep(stores, sought(1, "abc", PENDING), sought(2, "abc", APPROVED), sought(3, "xyz", PENDING))

    assert [await search(stores, "abc", place) for place in (LIVE, PENDING, APPROVED)] == [
        ["vs_0002", "vs_0001"],
        ["vs_0001"],
        ["vs_0002"],
    ]


async def test_a_record_without_a_text_is_not_found(stores: Stores) -> None:
    await keep(stores, sought(1, ""))

    assert await search(stores, "v") == []


async def test_a_changed_record_is_found_only_where_it_belongs_now(stores: Stores) -> None:
    first = sought(1, "abc", PENDING)
    await keep(stores, first, replace(first, version=2, body=b"2", indexes=(LIVE, APPROVED)))

    found = await stores.records.search(ACME, RecordKind.SESSION, APPROVED, "abc", limit=9)
    assert [(record.version, record.body) for record in found.records] == [(2, b"2")]
    assert [await search(stores, "abc", place) for place in (LIVE, PENDING)] == [["vs_0001"], []]


async def test_a_record_that_comes_back_to_a_place_is_found_there_again(stores: Stores) -> None:
    first = sought(1, "abc", PENDING)
    moved = replace(first, version=2, body=b"2", indexes=(LIVE, APPROVED))
    await keep(stores, first, moved, replace(first, version=3, body=b"3"))

    assert [await search(stores, "b", place) for place in (LIVE, PENDING, APPROVED)] == [
        ["vs_0001"],
        ["vs_0001"],
        [],
    ]


async def test_the_text_stays_what_it_was_created_with(stores: Stores) -> None:
    first = sought(1, "abc")
    await keep(stores, first, replace(first, version=2, body=b"2", searched="xyz"))

    stored = await stores.records.get(ACME, RecordKind.SESSION, "vs_0001")
    assert (stored.searched, await search(stores, "abc"), await search(stores, "xyz")) == (
        "abc",
        ["vs_0001"],
        [],
    )


async def test_a_loser_leaves_no_trace(stores: Stores) -> None:
    await keep(stores, sought(1, "abc"), sought(1, "xyz"))

    assert (await search(stores, "abc"), await search(stores, "xyz")) == (["vs_0001"], [])


async def test_a_companion_is_found_too(stores: Stores) -> None:
    case = sought(2, "abc", id="vs_other")
    await stores.journal.commit(Change(ACME, (build_record(), case)))

    assert await search(stores, "abc") == ["vs_other"]


async def test_a_search_answers_as_looking_at_every_text_would(stores: Stores) -> None:
    """Texts over three letters, many moves between two places, every fragment of up to four letters."""
    drawn = random.Random(11)
    standing: list[Record] = []
    for n in range(40):
        text = "".join(drawn.choices("abc", k=drawn.randint(1, 9)))
        moment = NOW + timedelta(milliseconds=drawn.randint(0, 15))
        standing.append(sought(n, text, drawn.choice((PENDING, APPROVED)), created_at=moment))
    await keep(stores, *standing)
    for n in drawn.choices(range(40), k=40):
        one = standing[n]
        standing[n] = replace(
            one,
            version=one.version + 1,
            body=str(one.version).encode(),
            indexes=(LIVE, drawn.choice((PENDING, APPROVED))),
        )
        await keep(stores, standing[n])

    for _ in range(60):
        fragment = "".join(drawn.choices("abc", k=drawn.randint(1, 4)))
        place, limit = drawn.choice((LIVE, PENDING, APPROVED)), drawn.choice((1, 3, 50))
        having = [one for one in standing if place in one.indexes and fragment in one.searched]
        having.sort(key=_place, reverse=True)
        assert await search(stores, fragment, place, limit) == [one.id for one in having[:limit]]
