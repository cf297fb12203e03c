"""What only the feed in Cassandra has: places that come late, of writers that died, by clocks that differ."""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from typing_extensions import override

from app.adapters.cassandra.connection import Address
from app.adapters.cassandra.feed_positions import DAY_MICROS, FeedPositions, row_writes
from app.adapters.cassandra.journal import CassandraJournal
from app.adapters.cassandra.server_clock import ASKED_EVERY_S, StoreClock
from app.adapters.cassandra.session import Session, Statement, Write
from app.adapters.cassandra.stores import build_stores
from app.adapters.shared.columns import read_place, to_micros
from schemas.events import DecisionEvent
from schemas.problems import StoreUnavailable
from streams.ports.events import FedEvent
from streams.ports.records import Change, RecordKind
from streams.ports.stores import Stores
from tests.builders import ACME, build_record
from tests.contracts.adapters import ROOT_KEY
from tests.contracts.cassandra_adapter import SETTLE_S, open_cassandra, session_of
from tests.contracts.cassandra_deaths import dying
from tests.contracts.test_event_feed import commit, event, page, visible

pytestmark = pytest.mark.engines

EARLY, LATE = event("early"), event("late")

HOUR_MICROS = 3_600_000_000


def change(one: DecisionEvent) -> Change:
    """A change that tells an event."""
    return Change(ACME, (build_record(id=f"ver_{one.id}"),), events=(one,))


@pytest.fixture
async def stores(contracts_keyspace: Address, tmp_path: Path) -> AsyncIterator[Stores]:
    """The stores, with nothing in them."""
    async with open_cassandra(contracts_keyspace, tmp_path) as opened:
        yield opened.stores


@pytest.fixture
async def session(stores: Stores, contracts_keyspace: Address) -> Session:
    """Another process's session."""
    del stores  # first they are emptied
    return session_of(contracts_keyspace)


def ids(rows: Sequence[DecisionEvent]) -> list[str]:
    """The ids of events."""
    return [one.id for one in rows]


async def places(session: Session, one: DecisionEvent) -> list[int]:
    """Every place an event was given."""
    rows = Statement("SELECT at, id FROM event_feed WHERE tenant = ? AND livemode = ? AND day = ?")
    today = to_micros(datetime.now(UTC)) // DAY_MICROS
    found = [await session.execute(rows, (ACME, True, day)) for day in (today - 1, today)]
    return [at for day in found for at, event_id in day if event_id == one.id]


@dataclass(slots=True)
class DelayedSession(Session):
    """A session whose batches wait on their way."""

    reached: asyncio.Event = field(default_factory=asyncio.Event)
    go: asyncio.Event = field(default_factory=asyncio.Event)

    @override
    async def batch(self, writes: Sequence[Write]) -> None:
        self.reached.set()
        await self.go.wait()
        await Session.batch(self, writes)


def delayed_session(session: Session) -> DelayedSession:
    """Return a session over the same connections."""
    return DelayedSession(session.cluster, session.driver, session.requests)


@pytest.mark.parametrize(("lives", "unanswered"), [(0, True), (1, False), (1, True)])
async def test_what_is_healed_stands_behind_every_place_that_was_given(
    stores: Stores, session: Session, lives: int, *, unanswered: bool
) -> None:
    with pytest.raises(StoreUnavailable):
        await CassandraJournal(dying(session, lives, unanswered=unanswered)).commit(change(EARLY))
    await commit(stores, LATE)
    met = [*await visible(stores, [LATE])]

    await stores.records.get(ACME, RecordKind.VERIFICATION, f"ver_{EARLY.id}")
    met += await goes_on(stores, met[-1].place, [EARLY] if len(met) == 1 else [])

    assert {fed.event.id for fed in met} == {EARLY.id, LATE.id}


async def goes_on(stores: Stores, place: str, wanted: Sequence[DecisionEvent]) -> Sequence[FedEvent]:
    """Read behind a place until the wanted are there."""
    async with asyncio.timeout(60):
        while True:
            rows = await page(stores, place)
            if {one.id for one in wanted} <= {fed.event.id for fed in rows}:
                return rows
            await asyncio.sleep(0.02)


async def test_what_was_written_too_late_is_given_another_place_before_it_counts_as_published(
    stores: Stores, session: Session
) -> None:
    slow = delayed_session(session)
    journal = CassandraJournal(slow, settle_s=SETTLE_S)
    committing = asyncio.ensure_future(journal.commit(change(EARLY)))
    await slow.reached.wait()
    await commit(stores, LATE)
    (late,) = await visible(stores, [LATE])

    slow.go.set()
    await committing
    assert ids([fed.event for fed in await visible(stores, [EARLY])]) == [EARLY.id, LATE.id]
    assert await page(stores, late.place) == []  # a reader has passed it by
    await journal.mark_emitted([EARLY.id])

    assert ids([fed.event for fed in await goes_on(stores, late.place, [EARLY])]) == [EARLY.id]


class Troubles:
    """Sessions of processes that are slow or die, by a seed."""

    def __init__(self, session: Session, seed: int) -> None:
        self._session = session
        self._chance = random.Random(seed)

    def session(self) -> Session:
        """Return the next process's session."""
        trouble = self._chance.choice(["none", "none", "dies", "dies unanswered", "late"])
        if trouble == "none":
            return self._session
        if trouble == "late":
            slow = delayed_session(self._session)
            slow.requests.loop.call_later(self._chance.uniform(0.0, 2 * SETTLE_S), slow.go.set)
            return slow
        return dying(self._session, self._chance.randrange(3), unanswered=trouble == "dies unanswered")


@pytest.mark.parametrize("seed", range(3))
async def test_a_reader_misses_nothing_of_writers_that_are_slow_or_die(
    stores: Stores, session: Session, seed: int
) -> None:
    events = [event(f"{seed}-{n}") for n in range(40)]
    troubles = Troubles(session, seed)
    writing = asyncio.gather(*(write(stores, troubles, events[n::8]) for n in range(8)))
    met: set[str] = set()
    place = ""
    async with asyncio.timeout(60):
        while not (writing.done() and met == {one.id for one in events}):
            rows = await page(stores, place, limit=3)
            met |= {fed.event.id for fed in rows}
            place = rows[-1].place if rows else place
            if writing.done() and not rows:
                await reconcile(stores)
            await asyncio.sleep(0 if rows else 0.02)
    await writing


async def reconcile(stores: Stores) -> None:
    """Do once what the reconciler does again and again: what was placed too slowly gets another place."""
    await stores.journal.mark_emitted([pending.id for pending in await stores.journal.pending_events(99)])


async def write(stores: Stores, troubles: Troubles, events: Sequence[DecisionEvent]) -> None:
    """Commit events in processes of all kinds; where one dies, a redelivery and a reconciler end its work."""
    for one in events:
        journal = CassandraJournal(troubles.session(), settle_s=SETTLE_S)
        with suppress(StoreUnavailable):
            await journal.commit(change(one))
            await journal.mark_emitted([one.id])
            continue
        await stores.journal.commit(change(one))
        await reconcile(stores)


async def test_who_publishes_an_event_of_another_process_gives_it_a_place_of_its_own(
    stores: Stores, session: Session
) -> None:
    """It cannot know whether the first came in time."""
    await CassandraJournal(session).commit(change(EARLY))

    await stores.journal.mark_emitted([EARLY.id])

    assert len(await places(session, EARLY)) == 2
    assert ids([fed.event for fed in await visible(stores, [EARLY])]) == [EARLY.id]


async def test_an_event_that_was_published_keeps_its_places(stores: Stores, session: Session) -> None:
    await commit(stores, EARLY)
    await stores.journal.mark_emitted([EARLY.id])

    await CassandraJournal(session).mark_emitted([EARLY.id])

    assert len(await places(session, EARLY)) == 1


async def test_one_goes_on_behind_the_earliest_place_of_an_event(stores: Stores, session: Session) -> None:
    """Nobody knows at which it was met: none of the events between may be missed."""
    await CassandraJournal(session).commit(change(EARLY))
    await commit(stores, LATE)
    await stores.journal.mark_emitted([EARLY.id])
    await visible(stores, [EARLY, LATE])

    place = await stores.feed.place_of(ACME, EARLY.id)

    assert ids([fed.event for fed in await goes_on(stores, place, [EARLY, LATE])]) == [LATE.id, EARLY.id]


async def test_a_page_shows_an_event_once(stores: Stores, session: Session) -> None:
    await commit(stores, EARLY, LATE)
    _, late = await visible(stores, [EARLY, LATE])
    await FeedPositions(session, SETTLE_S).settle([EARLY])
    await goes_on(stores, late.place, [EARLY])

    assert ids([fed.event for fed in await page(stores)]) == [LATE.id, EARLY.id]


async def test_what_is_not_settled_is_not_shown_yet(stores: Stores, session: Session, tmp_path: Path) -> None:
    patient = build_stores(session, tmp_path, ROOT_KEY, settle_s=3_600)
    await commit(stores, EARLY)
    await visible(stores, [EARLY])

    place = await patient.feed.place_of(ACME, EARLY.id)

    assert await page(patient) == []
    assert read_place(place)[1] == EARLY.id


@pytest.mark.parametrize("ahead", [HOUR_MICROS, -HOUR_MICROS])
async def test_places_do_not_rest_on_the_clocks_of_processes(
    stores: Stores, session: Session, monkeypatch: pytest.MonkeyPatch, ahead: int
) -> None:
    await commit(stores, EARLY)
    (early,) = await visible(stores, [EARLY])
    right = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: right() + 1_000 * ahead)

    await CassandraJournal(session).commit(change(LATE))

    assert ids([fed.event for fed in await goes_on(stores, early.place, [LATE])]) == [LATE.id]


async def test_a_row_whose_event_is_not_there_yet_is_passed_over(stores: Stores, session: Session) -> None:
    taken = await FeedPositions(session, SETTLE_S).take([EARLY])
    await session.batch(taken.writes)
    await commit(stores, LATE)

    assert ids([fed.event for fed in await visible(stores, [LATE])]) == [LATE.id]


@pytest.mark.parametrize("limit", [1, 2, 9])
async def test_pages_go_on_from_day_to_day(stores: Stores, session: Session, limit: int) -> None:
    events = [event(str(n)) for n in range(5)]
    await commit(stores, *events)
    now = to_micros(datetime.now(UTC))
    for n, (days, one) in enumerate(zip((40, 9, 9, 3, 2), events, strict=True)):
        await place(session, one, now + n - days * DAY_MICROS)

    met: list[str] = []
    last, yesterday = "", datetime.now(UTC) - timedelta(days=1)
    while rows := await page(stores, last, limit, yesterday):
        met += ids([fed.event for fed in rows])
        last = rows[-1].place

    assert met == ids(events)


async def place(session: Session, one: DecisionEvent, at: int) -> None:
    """Write the place an event would have been given at another time."""
    day = Statement("INSERT INTO event_days (tenant, livemode, day) VALUES (?, ?, ?)")
    await session.execute(day, (one.tenant_id, one.livemode, at // DAY_MICROS))
    await session.batch(list(row_writes(one, at)))


async def test_a_store_that_answers_too_slowly_places_nothing(session: Session) -> None:
    positions = FeedPositions(session, settle_s=0.0)

    with pytest.raises(StoreUnavailable):
        await positions.settle([EARLY])


async def test_the_time_at_the_store_is_asked_for_now_and_then(session: Session) -> None:
    passed = 0.0
    clock = StoreClock(session, lambda: passed)
    first = (await clock.read()).micros
    passed += ASKED_EVERY_S
    counted = (await clock.read()).micros - first
    passed += 0.1

    asked = (await clock.read()).micros - first

    assert counted == ASKED_EVERY_S * 1_000_000
    assert asked < counted  # the store's clock did not wait for ours
