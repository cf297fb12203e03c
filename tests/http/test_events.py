"""A receiver catches up by the feed: its own tenant's and mode's events, oldest first, none passed by."""

from collections.abc import Sequence
from datetime import timedelta

import pytest

from app.http.cursors import Cursors
from app.http.routes.events import LOOKED_THROUGH, MOST_LOOKED_THROUGH, Wanted
from schemas.events import DecisionEvent, EventType
from schemas.ids import EventId, TenantId, derive_id
from streams.ports.records import Change, Position
from tests.builders import ACME, GLOBEX, NOW, build_decision_event, build_record
from tests.http.support import BARE, FOREIGN, LIVE, TEST, Front, Json, build_body, now

PATH = "/v1/events"
NOBODYS = derive_id("evt", "nobody")


def event(number: int, **changes: object) -> DecisionEvent:
    """A test event of ACME's."""
    values: dict[str, object] = {"id": derive_id("evt", str(number)), "sequence": number, "livemode": False}
    return build_decision_event(**values | changes)


async def commit_events(front: Front, events: Sequence[DecisionEvent], tenant: TenantId = ACME) -> list[str]:
    """Commit events in one change; their ids."""
    record = build_record(id=f"ver_{events[0].id}", tenant_id=tenant)
    await front.stores.journal.commit(Change(tenant, (record,), events=tuple(events)))
    return [one.id for one in events]


async def read(front: Front, query: str = "", key: str = TEST) -> tuple[list[str], str | None]:
    """A page: its ids and its cursor."""
    response = await front.ask("GET", f"{PATH}?{query}", key)
    assert response.status == 200, response.body
    page: Json = response.json
    return [one["id"] for one in page["events"]], page["next_cursor"]


async def walk(front: Front, query: str = "", key: str = TEST) -> list[list[str]]:
    """Every page up to the end."""
    pages, cursor = [], ""
    while True:
        ids, next_cursor = await read(front, f"{query}{cursor}", key)
        pages.append(ids)
        if next_cursor is None:
            return pages
        cursor = f"&cursor={next_cursor}"


async def test_what_happened_is_in_the_feed_as_it_was_published(front: Front) -> None:
    await front.submit(build_body("sim:reject:DOCUMENT_EXPIRED"))

    page = (await front.ask("GET", PATH)).json

    published = [one.to_bytes() for one in front.shelves.events.values()]
    assert [DecisionEvent.model_validate(one).to_bytes() for one in page["events"]] == published
    assert {one["type"] for one in page["events"]} == {"verification.completed", "verification.rejected"}


async def test_a_body_is_the_topics_byte_for_byte(front: Front) -> None:
    (one,) = [event(1)]
    await commit_events(front, [one])

    response = await front.ask("GET", PATH)

    assert response.body == b'{"events":[' + one.to_bytes() + b'],"next_cursor":null}'


@pytest.mark.parametrize("limit", [1, 2, 3, 7])
async def test_every_event_is_met_once_oldest_first(front: Front, limit: int) -> None:
    ids = await commit_events(front, [event(n) for n in range(7)])

    assert [one for page in await walk(front, f"limit={limit}") for one in page] == ids


async def test_a_receiver_goes_on_after_the_last_event_it_has(front: Front) -> None:
    ids = await commit_events(front, [event(n) for n in range(3)])
    first = await read(front, f"after={ids[0]}")
    at_the_end = await read(front, f"after={ids[2]}")
    more = await commit_events(front, [event(n) for n in range(3, 5)])

    assert (first, at_the_end) == ((ids[1:], None), ([], None))
    assert await read(front, f"after={ids[2]}") == (more, None)


async def test_pages_after_an_event_join_too(front: Front) -> None:
    ids = await commit_events(front, [event(n) for n in range(6)])

    assert [one for page in await walk(front, f"after={ids[1]}&limit=2") for one in page] == ids[2:]


async def test_a_cursor_needs_no_event_beside_it(front: Front) -> None:
    ids = await commit_events(front, [event(n) for n in range(6)])
    _, cursor = await read(front, f"after={ids[1]}&limit=2")

    assert await read(front, f"cursor={cursor}") == (ids[4:], None)


async def test_a_cursor_goes_on_with_what_came_since(front: Front) -> None:
    await commit_events(front, [event(n) for n in range(3)])
    _, cursor = await read(front, "limit=2")
    more = await commit_events(front, [event(3)])

    assert (await read(front, f"cursor={cursor}&limit=2"))[0] == [event(2).id, *more]


@pytest.mark.parametrize(("query", "count"), [("", 100), ("limit=500", 500), ("limit=9999", 500)])
async def test_a_page_has_a_hundred_events_and_five_hundred_at_most(
    front: Front, query: str, count: int
) -> None:
    await commit_events(front, [event(n) for n in range(501)])

    ids, cursor = await read(front, query)

    assert (len(ids), cursor is None) == (count, False)


async def test_no_events_are_asked_for_and_none_given(front: Front) -> None:
    await commit_events(front, [event(1)])

    assert await read(front, "limit=0") == ([], None)


async def test_types_are_chosen(front: Front) -> None:
    types = [EventType.CASE_OPENED, EventType.VERIFICATION_COMPLETED, EventType.CASE_CONCLUDED] * 2
    ids = await commit_events(front, [event(n, type=type_) for n, type_ in enumerate(types)])

    chosen = [
        one for page in await walk(front, "types=review_case.concluded,review_case.opened") for one in page
    ]

    assert chosen == [ids[0], ids[2], ids[3], ids[5]]


@pytest.mark.parametrize("limit", [1, 2, 100])
async def test_pages_of_chosen_types_miss_none(front: Front, limit: int) -> None:
    types = {n: EventType.CASE_OPENED if n % 5 else EventType.PING for n in range(60)}
    ids = await commit_events(front, [event(n, type=type_) for n, type_ in types.items()])

    pages = await walk(front, f"types=ping&limit={limit}")

    assert [one for page in pages for one in page] == ids[::5]


async def test_a_page_of_other_types_makes_progress(front: Front) -> None:
    await commit_events(front, [event(n) for n in range(30)])
    empty, cursor = await read(front, "types=ping")
    (ping,) = await commit_events(front, [event(99, type=EventType.PING)])

    assert (empty, cursor is None) == ([], False)
    assert await read(front, f"types=ping&cursor={cursor}") == ([ping], None)


async def test_what_was_looked_through_is_not_looked_through_again(front: Front) -> None:
    await commit_events(front, [event(n) for n in range(30)])
    _, cursor = await read(front, "types=ping")

    assert await read(front, f"types=ping&cursor={cursor}") == ([], None)


async def test_a_page_looks_through_no_more_than_its_share(front: Front) -> None:
    await commit_events(front, [event(n) for n in range(MOST_LOOKED_THROUGH + LOOKED_THROUGH)])
    (ping,) = await commit_events(front, [event(-1, type=EventType.PING)])

    assert await walk(front, "types=ping") == [[], [ping]]


async def test_an_event_of_thirty_days_ago_is_there_and_an_older_one_is_not(front: Front) -> None:
    days = {31: event(31), 29: event(29), 0: event(0)}
    for ago, one in days.items():
        moment = now() - timedelta(days=ago)
        front.shelves.feed.millis = lambda at=moment: int(at.timestamp() * 1_000)  # type: ignore[misc]
        await commit_events(front, [one])

    assert await read(front) == ([days[29].id, days[0].id], None)


async def test_who_was_away_for_longer_passes_nothing_by(front: Front) -> None:
    """What is still there is given; the feed has no gap nobody is notified of."""
    front.shelves.feed.millis = lambda: int((now() - timedelta(days=40)).timestamp() * 1_000)
    ids = await commit_events(front, [event(n) for n in range(3)])

    assert await read(front, f"after={ids[0]}") == (ids[1:], None)


async def test_an_event_that_was_removed_is_refused_with_its_reason(front: Front) -> None:
    removed, *_ = await commit_events(front, [event(1), event(2)])
    await front.stores.journal.mark_emitted([EventId(removed)])
    await remove_all(front)

    response = await front.ask("GET", f"{PATH}?after={removed}")

    assert (response.status, response.code) == (422, "FILTER_INVALID")
    (error,) = response.json["errors"]
    assert error["parameter"] == "after"
    assert "older than 30 days" in error["message"]


@pytest.mark.parametrize(("days", "status"), [(30.9, 200), (31.1, 400)])
async def test_a_cursor_behind_which_events_were_removed_is_refused(
    front: Front, days: float, status: int
) -> None:
    moment = now() - timedelta(days=days)
    front.shelves.feed.millis = lambda: int(moment.timestamp() * 1_000)
    ids = await commit_events(front, [event(n, timestamp=moment) for n in range(3)])
    _, cursor = await read(front, f"after={ids[0]}&limit=1")

    response = await front.ask("GET", f"{PATH}?cursor={cursor}")

    assert response.status == status
    assert status == 200 or (response.code, b"30 days" in response.body) == ("CURSOR_INVALID", True)


async def remove_all(front: Front) -> None:
    """Remove every published event of ACME's test mode."""
    until = now() + timedelta(days=2)
    await front.stores.removal.remove_events(ACME, livemode=False, until=until, limit=100)


@pytest.mark.parametrize(("key", "tenant", "livemode"), [(LIVE, ACME, True), (FOREIGN, GLOBEX, False)])
async def test_another_tenant_or_mode_reads_another_feed(
    front: Front,
    key: str,
    tenant: TenantId,
    livemode: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    await commit_events(front, [event(1)])
    ids = await commit_events(front, [event(2, tenant_id=tenant, livemode=livemode)], tenant)

    assert await read(front, key=key) == (ids, None)


@pytest.mark.parametrize("after", [NOBODYS, event(2).id, event(3).id, "evt_1", "", "ver_" + "0" * 26])
async def test_an_event_that_the_key_does_not_see_is_no_place(front: Front, after: str) -> None:
    await commit_events(front, [event(2, tenant_id=GLOBEX)], GLOBEX)
    await commit_events(front, [event(3, livemode=True)])

    response = await front.ask("GET", f"{PATH}?after={after}")

    assert (response.status, response.code) == (422, "FILTER_INVALID")
    assert [error["parameter"] for error in response.json["errors"]] == ["after"]


@pytest.mark.parametrize("types", ["verification.approved,verification.", "*", "", ",", "ping,", "PING"])
async def test_a_type_that_is_none_is_refused(front: Front, types: str) -> None:
    response = await front.ask("GET", f"{PATH}?types={types}")

    assert (response.status, response.code) == (422, "FILTER_INVALID")
    assert [error["parameter"] for error in response.json["errors"]] == ["types"]


@pytest.mark.parametrize("query", ["types=ping", "types=ping,review_case.opened"])
async def test_a_cursor_is_bound_to_its_types(front: Front, query: str) -> None:
    await commit_events(front, [event(n) for n in range(3)])
    _, cursor = await read(front, "limit=1")

    response = await front.ask("GET", f"{PATH}?{query}&cursor={cursor}")

    assert (response.status, response.code) == (400, "CURSOR_INVALID")


@pytest.mark.parametrize("key", [LIVE, FOREIGN])
async def test_a_cursor_is_bound_to_its_tenant_and_mode(front: Front, key: str) -> None:
    await commit_events(front, [event(n) for n in range(3)])
    _, cursor = await read(front, "limit=1")

    response = await front.ask("GET", f"{PATH}?cursor={cursor}", key)

    assert (response.status, response.code) == (400, "CURSOR_INVALID")


async def test_types_are_the_same_in_whatever_order(front: Front) -> None:
    await commit_events(front, [event(n, type=EventType.PING) for n in range(3)])
    _, cursor = await read(front, "types=ping,review_case.opened&limit=1")

    ids, _ = await read(front, f"types=review_case.opened,ping,ping&limit=1&cursor={cursor}")

    assert ids == [event(1).id]


async def test_a_key_without_the_scope_and_a_reviewer_are_refused(front: Front) -> None:
    person = await front.sign_in()

    responses = [await front.ask("GET", PATH, BARE), await person.ask("GET", PATH)]

    assert [(one.status, one.code) for one in responses] == [
        (403, "PERMISSION_DENIED"),
        (401, "UNAUTHENTICATED"),
    ]


async def test_a_cursor_of_a_former_store_is_refused(front: Front) -> None:
    """Places are the store's own; a deployment that moved to another starts over."""
    scope = Wanted(ACME, livemode=False, types=frozenset(), limit=1, after=None).scope
    cursor = Cursors(front.settings.cursor_keys).write(Position(NOW, "1.evt_of_another_store"), scope)

    response = await front.ask("GET", f"{PATH}?cursor={cursor}")

    assert (response.status, response.code) == (400, "CURSOR_INVALID")
