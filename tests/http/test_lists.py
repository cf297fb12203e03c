"""Lists are paged newest first, and a cursor goes on only where it came from."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.http.cursors import Cursors
from app.http.listing import Paging
from schemas.problems import ProblemCode, Refused
from streams.ports.records import Position
from tests.http.support import FOREIGN, LIVE, PATH, Front, build_body

SCOPE = {"list": "x", "tenant": "t"}
VERSIONS = {"a" * 16: b"k" * 32}
POSITION = Position(datetime(2026, 11, 21, 10, 0, 0, 123_456, tzinfo=UTC), "ver_" + "0" * 26)


async def submitted(front: Front, *subjects: str) -> list[str]:
    """The ids of verifications submitted one after another, newest first."""
    return [(await front.submit(build_body(s))).json["verification_id"] for s in subjects][::-1]


async def walk(front: Front, query: str) -> list[str]:
    """Every id of a list, page after page."""
    found: list[str] = []
    cursor = ""
    while True:
        page = (await front.ask("GET", f"{PATH}?{query}{cursor}")).json
        found += [one["verification_id"] for one in page["verifications"]]
        if page["next_cursor"] is None:
            return found
        cursor = f"&cursor={page['next_cursor']}"


async def test_every_verification_is_met_once_newest_first(front: Front) -> None:
    made = await submitted(front, *["sim:approved"] * 5)

    assert await walk(front, "limit=2") == made


async def test_a_list_that_ends_with_its_page_has_no_next(front: Front) -> None:
    await submitted(front, *["sim:approved"] * 2)
    page = (await front.ask("GET", f"{PATH}?limit=2")).json

    assert (len(page["verifications"]), page["next_cursor"]) == (2, None)


@pytest.mark.parametrize(
    ("query", "chosen"),
    [
        ("subject_id=sim:warn", [1]),
        ("status=REVIEW_REQUIRED", [0]),
        ("status=APPROVED", [1, 2]),
        ("status=APPROVED&subject_id=sim:approved", [2]),
        ("status=FAILED", []),
        ("subject_id=nobody", []),
    ],
)
async def test_filters_choose(front: Front, query: str, chosen: list[int]) -> None:
    made = await submitted(front, "sim:approved", "sim:warn", "sim:review")

    assert await walk(front, f"limit=1&{query}") == [made[n] for n in chosen]


@pytest.mark.parametrize("key", [FOREIGN, LIVE])
async def test_another_tenant_or_mode_has_a_list_of_its_own(front: Front, key: str) -> None:
    await submitted(front, "sim:approved")

    assert (await front.ask("GET", PATH, key)).json == {"verifications": [], "next_cursor": None}


async def test_limit_nought_is_an_empty_page(front: Front) -> None:
    await submitted(front, "sim:approved")

    assert (await front.ask("GET", f"{PATH}?limit=0")).json == {"verifications": [], "next_cursor": None}


@pytest.mark.parametrize(("given", "expected"), [(None, 25), ("0", 0), ("7", 7), ("100", 100), ("9999", 100)])
def test_a_limit_is_cut_to_the_maximum(given: str | None, expected: int) -> None:
    query = {} if given is None else {"limit": given}

    assert Paging(usual=25, most=100).limit(query) == expected


@pytest.mark.parametrize(
    ("path", "parameter"),
    [
        (f"{PATH}?limit=-1", "limit"),
        (f"{PATH}?limit=x", "limit"),
        (f"{PATH}?limit=", "limit"),
        (f"{PATH}?limit=1.5", "limit"),
        (f"{PATH}?limit=%D9%A3", "limit"),
        (f"{PATH}?status=approved", "status"),
        (f"{PATH}?status=", "status"),
        (f"{PATH}?subject_id=a%20b", "subject_id"),
        (f"{PATH}?subject_id=", "subject_id"),
        (f"{PATH}?subject_id=ab%0A", "subject_id"),
        (f"{PATH}?tenant_id=ten_x", "tenant_id"),
        (f"{PATH}?limit=1&limit=2", "limit"),
        (f"{PATH}/ver_{'0' * 26}?expand=1", "expand"),
        ("/v1/audit?actor_type=NOBODY", "actor_type"),
        ("/v1/audit?action=verification", "action"),
        ("/v1/audit?action=DROP%20TABLE", "action"),
        ("/v1/audit?from=yesterday", "from"),
        ("/v1/audit?to=2026-11-21", "to"),
        ("/v1/audit?to=2026-11-21T10:00:00", "to"),
        ("/v1/audit?from=2026-13-01T00:00:00Z", "from"),
        ("/v1/audit?from=0001-01-01T00:00:00%2B14:00", "from"),
        ("/v1/audit?to=9999-12-31T23:59:59-14:00", "to"),
        ("/v1/audit?to=%FF", "to"),
        (f"{PATH}?%C3%BC=1", "ü"),
        ("/v1/audit?from=2026-11-22T00:00:00Z&to=2026-11-21T00:00:00Z", "to"),
        ("/v1/audit?correlation_id=a%20b", "correlation_id"),
        ("/v1/audit?subject=x", "subject"),
        ("/v1/reason-codes?limit=1", "limit"),
    ],
)
async def test_a_wrong_parameter_is_refused_by_name(front: Front, path: str, parameter: str) -> None:
    response = await front.ask("GET", path)

    assert (response.status, response.code) == (422, "FILTER_INVALID")
    assert [error["parameter"] for error in response.json["errors"]] == [parameter]


@pytest.mark.parametrize("given", ["x", "", "====", "ü", "A" * 500, "AAAA", "../.."])
async def test_s73_a_cursor_nobody_wrote_is_refused(front: Front, given: str) -> None:
    response = await front.ask("GET", PATH, params={"cursor": given})

    assert (response.status, response.code) == (400, "CURSOR_INVALID")


async def cursor_of(front: Front, query: str = "limit=1") -> str:
    """A good cursor of the list."""
    await submitted(front, "sim:approved", "sim:approved")
    return str((await front.ask("GET", f"{PATH}?{query}")).json["next_cursor"])


@pytest.mark.parametrize("key", [FOREIGN, LIVE])
async def test_s73_a_cursor_of_another_tenant_or_mode_is_refused(front: Front, key: str) -> None:
    cursor = await cursor_of(front)
    response = await front.ask("GET", f"{PATH}?cursor={cursor}", key)

    assert (response.status, response.code) == (400, "CURSOR_INVALID")


@pytest.mark.parametrize("path", [f"{PATH}?status=APPROVED", f"{PATH}?subject_id=sim:approved", "/v1/audit?"])
async def test_s73_a_cursor_of_another_list_or_filter_is_refused(front: Front, path: str) -> None:
    cursor = await cursor_of(front)
    response = await front.ask("GET", f"{path}&cursor={cursor}")

    assert (response.status, response.code) == (400, "CURSOR_INVALID")


async def test_a_cursor_may_go_on_with_another_limit(front: Front) -> None:
    cursor = await cursor_of(front)
    response = await front.ask("GET", f"{PATH}?limit=50&cursor={cursor}")

    assert (response.status, len(response.json["verifications"])) == (200, 1)


def test_a_cursor_leads_back_to_its_position() -> None:
    cursors = Cursors(lambda: VERSIONS)

    assert cursors.read(cursors.write(POSITION, SCOPE), SCOPE) == POSITION


@given(
    st.datetimes(datetime(1971, 1, 1), datetime(2200, 1, 1)),  # noqa: DTZ001 - hypothesis wants them naive
    st.text("abcdefghjkmnpqrstvwxyz0123456789_", min_size=1, max_size=40),
    st.dictionaries(st.text(max_size=8), st.text(max_size=8), max_size=4),
)
def test_any_position_comes_back(moment: datetime, name: str, scope: dict[str, str]) -> None:
    cursors, position = Cursors(lambda: VERSIONS), Position(moment.replace(tzinfo=UTC), name)

    assert cursors.read(cursors.write(position, scope), scope) == position


@pytest.mark.parametrize("place", range(0, 110, 7))
def test_s73_a_cursor_altered_anywhere_is_refused(place: int) -> None:
    cursors = Cursors(lambda: VERSIONS)
    cursor = cursors.write(POSITION, SCOPE)
    place %= len(cursor)
    altered = cursor[:place] + ("A" if cursor[place] != "A" else "B") + cursor[place + 1 :]

    with pytest.raises(Refused) as refused:
        cursors.read(altered, SCOPE)
    assert refused.value.refusal.code is ProblemCode.CURSOR_INVALID


@pytest.mark.parametrize("scope", [{}, {"list": "x"}, SCOPE | {"status": "y"}, {"list": "x", "tenant": "u"}])
def test_s73_a_cursor_is_bound_to_its_whole_scope(scope: Mapping[str, str]) -> None:
    cursors = Cursors(lambda: VERSIONS)

    with pytest.raises(Refused):
        cursors.read(cursors.write(POSITION, SCOPE), scope)


def test_s73_a_cursor_of_another_key_is_refused() -> None:
    with pytest.raises(Refused):
        Cursors(lambda: {"a" * 16: b"l" * 32}).read(Cursors(lambda: VERSIONS).write(POSITION, SCOPE), SCOPE)


def test_a_cursor_names_the_version_of_its_key_and_outlives_a_rotation() -> None:
    given = Cursors(lambda: VERSIONS).write(POSITION, SCOPE)
    rotated = Cursors(lambda: {"b" * 16: b"l" * 32, **VERSIONS})

    assert rotated.read(given, SCOPE) == POSITION
    assert rotated.write(POSITION, SCOPE).startswith(f"{'b' * 16}.")


def test_a_cursor_under_a_key_that_was_removed_is_refused_by_name() -> None:
    given = Cursors(lambda: VERSIONS).write(POSITION, SCOPE)

    with pytest.raises(Refused, match="made under a key that was removed") as refused:
        Cursors(lambda: {"b" * 16: b"l" * 32}).read(given, SCOPE)
    assert refused.value.refusal.code is ProblemCode.CURSOR_INVALID


def test_a_cursor_cannot_do_without_the_version_it_was_written_with() -> None:
    """Two spellings of one cursor are one too many."""
    cursors = Cursors(lambda: VERSIONS)

    with pytest.raises(Refused):
        cursors.read(cursors.write(POSITION, SCOPE).rpartition(".")[2], SCOPE)


async def test_records_of_one_millisecond_are_all_met(front: Front) -> None:
    made = await submitted(front, *["sim:approved"] * 4)
    moment = datetime(2026, 11, 21, tzinfo=UTC)
    for number, (place, record) in enumerate(list(front.shelves.records.items())):
        object.__setattr__(record, "created_at", moment + timedelta(microseconds=number))
        front.shelves.records[place] = record

    assert sorted(await walk(front, "limit=1")) == sorted(made)
