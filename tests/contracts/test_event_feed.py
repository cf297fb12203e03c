"""What every feed of events promises (G56, G92): an order to go on in, in which nothing is passed by."""

import asyncio
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import count

import pytest

from schemas.events import DecisionEvent
from schemas.ids import EventId, TenantId, derive_id
from schemas.problems import NotFound
from streams.ports.events import FedEvent
from streams.ports.records import Change
from streams.ports.stores import Stores
from tests.builders import ACME, GLOBEX, build_decision_event, build_record

PATIENCE_S = 60.0
"""An event may take a moment to become visible; nothing rests on how long."""

NONSENSE = ["x", "-1.1", "1", "1.1.1", "1.ü", "evt_1", "9" * 30 + ".1", "1.\n", " 1.1"]


def event(name: str, **changes: object) -> DecisionEvent:
    """An event of ACME's."""
    return build_decision_event(id=EventId(derive_id("evt", name)), **changes)


async def commit(stores: Stores, *events: DecisionEvent) -> None:
    """Commit events, each with a record of its own, one after another."""
    for one in events:
        record = build_record(id=f"ver_{one.id}", tenant_id=one.tenant_id)
        await stores.journal.commit(Change(one.tenant_id, (record,), events=(one,)))


async def page(
    stores: Stores, after: str = "", limit: int = 500, until: datetime | None = None, **whose: object
) -> Sequence[FedEvent]:
    """Read ACME's live events, or others'."""
    tenant_id, livemode = TenantId(str(whose.get("tenant_id", ACME))), bool(whose.get("livemode", True))
    return await stores.feed.page(tenant_id, livemode=livemode, after=after, limit=limit, until=until)


async def visible(stores: Stores, events: Iterable[DecisionEvent], **whose: object) -> Sequence[FedEvent]:
    """Read the feed as soon as these events are in it."""
    awaited = {one.id for one in events}
    async with asyncio.timeout(PATIENCE_S):
        while True:
            found = await page(stores, "", 500, None, **whose)
            if awaited <= {fed.event.id for fed in found}:
                return found
            await asyncio.sleep(0.02)


async def later() -> datetime:
    """Return a moment after everything before it, and before everything after it."""
    await asyncio.sleep(0.005)  # nothing but the clock is waited for
    moment = datetime.now(UTC)
    await asyncio.sleep(0.005)
    return moment


async def test_events_come_as_they_were_published(stores: Stores) -> None:
    events = [event("first"), event("second", sequence=2)]
    await commit(stores, *events)

    assert [fed.event for fed in await visible(stores, events)] == events


async def test_events_come_in_the_order_of_their_commits(stores: Stores) -> None:
    events = [event(str(n), sequence=n) for n in range(12)]
    await commit(stores, *events)

    found = await visible(stores, events)

    assert [fed.event.sequence for fed in found] == list(range(12))


async def test_events_of_one_commit_keep_their_order(stores: Stores) -> None:
    events = tuple(event(str(n), sequence=n) for n in range(60))
    await stores.journal.commit(Change(ACME, (build_record(),), events=events))

    assert [fed.event for fed in await visible(stores, events)] == list(events)


@pytest.mark.parametrize("limit", [1, 2, 5, 7])
async def test_pages_join_without_a_gap_or_a_repeat(stores: Stores, limit: int) -> None:
    events = [event(str(n)) for n in range(7)]
    await commit(stores, *events)
    await visible(stores, events)

    met: list[EventId] = []
    place = ""
    while rows := await page(stores, place, limit):
        assert len(rows) <= limit
        met += [fed.event.id for fed in rows]
        place = rows[-1].place

    assert met == [one.id for one in events]


async def test_no_rows_are_asked_for_and_none_given(stores: Stores) -> None:
    events = [event("first")]
    await commit(stores, *events)
    await visible(stores, events)

    assert await page(stores, limit=0) == []


async def test_an_event_committed_again_keeps_its_first_body(stores: Stores) -> None:
    await commit(stores, event("first"))
    again = Change(ACME, (build_record(id="ver_other"),), events=(event("first", sequence=9),))
    await stores.journal.commit(again)

    found = await visible(stores, [event("first")])

    assert {fed.event.sequence for fed in found} == {1}


async def test_a_published_event_stays_in_the_feed(stores: Stores) -> None:
    events = [event("first")]
    await commit(stores, *events)
    await stores.journal.mark_emitted([events[0].id])

    assert [fed.event for fed in await visible(stores, events)] == events


async def test_tenants_and_modes_are_kept_apart(stores: Stores) -> None:
    mine, test = event("mine"), event("test", livemode=False)
    other = event("other", tenant_id=GLOBEX)
    await commit(stores, mine, test, other)

    found = {
        "live": await visible(stores, [mine]),
        "test": await visible(stores, [test], livemode=False),
        "globex": await visible(stores, [other], tenant_id=GLOBEX),
        "nothing": await page(stores, tenant_id=GLOBEX, livemode=False),
    }

    met = {name: [fed.event for fed in rows] for name, rows in found.items()}
    assert met == {"live": [mine], "test": [test], "globex": [other], "nothing": []}


@pytest.mark.parametrize("place", NONSENSE)
async def test_what_is_no_place_is_refused(stores: Stores, place: str) -> None:
    with pytest.raises(ValueError, match="place"):
        await page(stores, place)


async def test_one_goes_on_behind_an_event(stores: Stores) -> None:
    events = [event(str(n)) for n in range(4)]
    await commit(stores, *events)
    await visible(stores, events)

    place = await stores.feed.place_of(ACME, events[1].id)

    assert [fed.event for fed in await page(stores, place)] == events[2:]


async def test_the_place_of_an_event_is_the_one_it_is_met_at(stores: Stores) -> None:
    events = [event("first")]
    await commit(stores, *events)
    (fed,) = await visible(stores, events)

    assert await stores.feed.place_of(ACME, events[0].id) == fed.place


@pytest.mark.parametrize("name", ["unknown", "other", "test"])
async def test_an_event_that_is_not_there_has_no_place(stores: Stores, name: str) -> None:
    await commit(stores, event("other", tenant_id=GLOBEX), event("test", livemode=False))

    with pytest.raises(NotFound):
        await stores.feed.place_of(ACME, event(name).id, livemode=True)


async def test_an_event_has_its_place_in_its_own_mode_or_in_whichever(stores: Stores) -> None:
    test = event("test", livemode=False)
    await commit(stores, test)

    places = {await stores.feed.place_of(ACME, test.id, livemode=mode) for mode in (None, False)}

    assert len(places) == 1


async def test_what_became_visible_later_is_left_out(stores: Stores) -> None:
    await commit(stores, event("early"))
    await visible(stores, [event("early")])
    moment = await later()
    await commit(stores, event("late"))
    await visible(stores, [event("early"), event("late")])

    found = await page(stores, until=moment)

    assert [fed.event for fed in found] == [event("early")]


async def test_a_place_of_a_moment_has_everything_later_behind_it(stores: Stores) -> None:
    await commit(stores, event("early"))
    await visible(stores, [event("early")])
    moment = await later()
    await commit(stores, event("late"))
    await visible(stores, [event("late")])

    place = await stores.feed.place_at(ACME, livemode=True, moment=moment)

    assert [fed.event for fed in await page(stores, place)] == [event("late")]


@pytest.mark.parametrize("ago", [timedelta(days=30), timedelta(days=30_000)])
async def test_a_moment_long_ago_has_everything_behind_it(stores: Stores, ago: timedelta) -> None:
    await commit(stores, event("first"))

    place = await stores.feed.place_at(ACME, livemode=True, moment=datetime.now(UTC) - ago)

    assert [fed.event for fed in await visible(stores, [event("first")])] == [event("first")]
    assert [fed.event for fed in await page(stores, place)] == [event("first")]


@pytest.mark.parametrize("limit", [1, 3, 100])
async def test_a_reader_beside_many_writers_misses_nothing(stores: Stores, limit: int) -> None:
    events = [event(str(n), livemode=bool(n % 2)) for n in range(60)]
    writers = asyncio.gather(*(write(stores, events[n::6]) for n in range(6)))

    met: list[FedEvent] = []
    expected = {one.id for one in events if one.livemode}
    async with asyncio.timeout(PATIENCE_S):
        for _ in count():
            rows = await page(stores, met[-1].place if met else "", limit)
            met += rows
            if writers.done() and expected <= {fed.event.id for fed in met}:
                break
            await asyncio.sleep(0 if rows else 0.01)
    await writers

    assert {fed.event.id for fed in met} == expected


async def write(stores: Stores, events: Sequence[DecisionEvent]) -> None:
    """Commit events and mark them as published, as who announces them does."""
    for one in events:
        await commit(stores, one)
        await stores.journal.mark_emitted([one.id])
