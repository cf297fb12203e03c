"""What only the Cassandra adapter has: outboxes, unknown outcomes, keyspaces, folders, many processes."""

import asyncio
import gc
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Literal

import pytest
from cassandra.cluster import ResponseFuture
from cassandra.protocol import RESULT_KIND_ROWS
from typing_extensions import override

from app.adapters.cassandra import search_index
from app.adapters.cassandra.binding import KnownColumns
from app.adapters.cassandra.change_outbox import EVENTS
from app.adapters.cassandra.connection import Address, open_session
from app.adapters.cassandra.driver import PLAIN
from app.adapters.cassandra.journal import CassandraJournal
from app.adapters.cassandra.records import CassandraRecords
from app.adapters.cassandra.requests import _Asked
from app.adapters.cassandra.session import Session, Statement, parted
from app.adapters.cassandra.stores import build_stores
from app.adapters.cassandra.time_slot_queue import (
    CUT_AFTER_MICROS,
    Hint,
    cut_empty_slots,
    oldest,
    wait_writes,
)
from schemas.audit import AuditFilter, SealAudit
from schemas.ids import AuditEventId, EventId, derive_id
from schemas.problems import NotFound, StoreUnavailable
from streams.audit.handler import SealChain, verify_chain
from streams.ports.errors import Conflict
from streams.ports.records import Change, Record, RecordKind
from streams.ports.stores import Stores
from tests.agents.support import until
from tests.builders import ACME, NOW, VERIFICATION, build_audit_event, build_decision_event, build_record
from tests.chaos.proxy import Proxy, Way
from tests.contracts.adapters import ROOT_KEY
from tests.contracts.cassandra_adapter import DATACENTER, KEYSPACE, open_cassandra, session_of
from tests.contracts.cassandra_deaths import dying

pytestmark = pytest.mark.engines

CASE: Final = build_record(kind=RecordKind.REVIEW_CASE, id="case_1", indexes=(("status", "OPEN"),))
ROWS: Final = tuple(build_audit_event(event_id=AuditEventId(derive_id("aud", str(n)))) for n in range(2))
FIRST: Final = Change(
    ACME,
    (build_record(body=b'{"n":1}', indexes=(("status", "HELD"),)), CASE),
    ROWS,
    (build_decision_event(),),
)
SECOND: Final = Change(
    ACME,
    (
        build_record(body=b'{"n":2}', indexes=(("status", "OTHER"),)),
        replace(CASE, id="case_2", body=b'{"second":true}'),
    ),
    (build_audit_event(event_id=AuditEventId(derive_id("aud", "second"))),),
    (build_decision_event(id=EventId(derive_id("evt", "second"))),),
)
"""What a replay of the first would say if it were let; it never counts."""

DERIVED: Final = build_record(
    kind=RecordKind.SESSION, id="vs_1", indexes=(("mode", "live"),), searched="customer-17"
)
DERIVING: Final = replace(FIRST, records=(FIRST.records[0], DERIVED))
"""A change with a record that no other change can create."""


DEATHS: Final = [(0, True), (1, False), (1, True), (2, False), (2, True)]
"""A commit of `FIRST` writes three times: the record, its companion, the batch; after the first it stands."""


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


async def die(session: Session, change: Change, lives: int, *, unanswered: bool = False) -> None:
    """Commit in a process that dies on the way."""
    with pytest.raises(StoreUnavailable):
        await CassandraJournal(dying(session, lives, unanswered=unanswered)).commit(change)


async def ids_in(stores: Stores, status: str, kind: RecordKind = RecordKind.VERIFICATION) -> list[str]:
    """The ids listed under a status."""
    page = await stores.records.page(ACME, kind, ("status", status), limit=9)
    return [record.id for record in page]


@pytest.mark.parametrize(("lives", "unanswered"), DEATHS)
async def test_a_replay_writes_what_a_killed_process_left_unwritten(
    stores: Stores, session: Session, lives: int, *, unanswered: bool
) -> None:
    await die(session, FIRST, lives, unanswered=unanswered)

    again = await stores.journal.commit(SECOND)

    assert (again.won, again.record.body) == (False, b'{"n":1}')
    assert await stores.audit_log.page(ACME, AuditFilter(), limit=9) == sorted(
        ROWS, key=lambda row: row.event_id, reverse=True
    )
    assert await stores.journal.pending_events(9) == list(FIRST.events)
    assert await ids_in(stores, "HELD") == [VERIFICATION]
    assert await ids_in(stores, "OPEN", RecordKind.REVIEW_CASE) == ["case_1"]


@pytest.mark.parametrize(("lives", "unanswered"), DEATHS)
async def test_who_reads_a_record_finds_all_of_its_change_written(
    stores: Stores, session: Session, lives: int, *, unanswered: bool
) -> None:
    """A command delivered again is answered from the record and commits nothing."""
    await die(session, FIRST, lives, unanswered=unanswered)

    record = await stores.records.get(ACME, RecordKind.VERIFICATION, VERIFICATION)

    assert record.body == b'{"n":1}'
    assert (await stores.records.get(ACME, RecordKind.REVIEW_CASE, "case_1")).body == CASE.body
    assert len(await stores.audit_log.page(ACME, AuditFilter(), limit=9)) == len(ROWS)
    assert await stores.journal.pending_events(9) == list(FIRST.events)
    assert await ids_in(stores, "HELD") == [VERIFICATION]


@pytest.mark.parametrize(("lives", "unanswered"), DEATHS)
async def test_a_replay_of_other_content_leaves_nothing_of_its_own(
    stores: Stores, session: Session, lives: int, *, unanswered: bool
) -> None:
    await die(session, FIRST, lives, unanswered=unanswered)

    await stores.journal.commit(SECOND)

    assert await ids_in(stores, "OTHER") == []
    with pytest.raises(NotFound):
        await stores.records.get(ACME, RecordKind.REVIEW_CASE, "case_2")


@pytest.mark.parametrize("lives", [1, 2])
async def test_a_later_version_first_writes_what_the_one_before_it_left_unwritten(
    stores: Stores, session: Session, lives: int
) -> None:
    await die(session, FIRST, lives)
    later = replace(FIRST.records[0], version=2, body=b'{"n":3}', indexes=(("status", "APPROVED"),))

    await stores.journal.commit(Change(ACME, (later,)))

    assert len(await stores.audit_log.page(ACME, AuditFilter(), limit=9)) == len(ROWS)
    assert await stores.journal.pending_events(9) == list(FIRST.events)
    assert (await ids_in(stores, "HELD"), await ids_in(stores, "APPROVED")) == ([], [VERIFICATION])


@pytest.mark.parametrize(("lives", "unanswered"), [(0, True), (1, False), (1, True)])
async def test_a_derived_record_is_written_with_the_rest_of_the_change(
    stores: Stores, session: Session, lives: int, *, unanswered: bool
) -> None:
    """Such a commit writes twice: the record, and the batch."""
    await die(session, DERIVING, lives, unanswered=unanswered)

    assert (await stores.records.get(ACME, RecordKind.VERIFICATION, VERIFICATION)).body == b'{"n":1}'
    derived = await stores.records.get(ACME, RecordKind.SESSION, DERIVED.id)
    found = await stores.records.search(ACME, RecordKind.SESSION, ("mode", "live"), "tomer-1", limit=9)

    assert derived == replace(DERIVED, first_body=DERIVED.body)
    assert found.records == [derived]


async def test_a_change_written_again_does_not_bring_back_a_derived_record_that_was_changed(
    stores: Stores, session: Session
) -> None:
    await stores.journal.commit(DERIVING)
    later = replace(DERIVED, version=2, body=b'{"later":true}')
    await stores.journal.commit(Change(ACME, (later,)))
    forget = Statement("DELETE FROM records WHERE tenant = ? AND kind = ? AND id = ? AND part = 1")
    await session.execute(forget, (ACME, "verification", VERIFICATION))

    await stores.journal.commit(DERIVING)

    standing = await stores.records.get(ACME, RecordKind.SESSION, DERIVED.id)
    assert (standing.version, standing.body, standing.first_body) == (2, later.body, DERIVED.body)


async def test_a_change_published_late_does_not_bring_back_the_places_of_an_earlier_version(
    stores: Stores, session: Session
) -> None:
    late = CassandraJournal(dying(session, 2))
    with pytest.raises(StoreUnavailable):
        await late.commit(FIRST)
    changed = replace(CASE, version=2, indexes=(("status", "CLOSED"),))
    await stores.journal.commit(Change(ACME, (changed,)))

    await stores.journal.commit(FIRST)  # rolls the companion's first version forward

    assert await ids_in(stores, "OPEN", RecordKind.REVIEW_CASE) == []
    assert await ids_in(stores, "CLOSED", RecordKind.REVIEW_CASE) == ["case_1"]


async def test_what_was_done_long_ago_may_be_written_again(stores: Stores, session: Session) -> None:
    await stores.journal.commit(FIRST)
    await stores.journal.mark_emitted([event.id for event in FIRST.events])
    await SealChain(stores.audit_log)(SealAudit(tenant_id=ACME))
    forget = Statement("DELETE FROM records WHERE tenant = ? AND kind = ? AND id = ? AND part = 1")
    await session.execute(forget, (ACME, "verification", VERIFICATION))

    await stores.journal.commit(FIRST)
    await SealChain(stores.audit_log)(SealAudit(tenant_id=ACME))

    report = await verify_chain(stores.audit_log, ACME)
    assert (report.fault, report.rows, report.waiting) == (None, len(ROWS), 0)
    assert await stores.journal.pending_events(9) == []


async def test_a_store_that_went_away_is_met_again_without_a_new_session(
    stores: Stores, contracts_keyspace: Address
) -> None:
    host, port = contracts_keyspace.contact_points[0]
    await stores.journal.commit(FIRST)
    async with Proxy(host, port) as proxy:
        behind = Address([("127.0.0.1", proxy.port)], DATACENTER, port=proxy.port)
        async with open_session(behind, KEYSPACE) as session:
            records = CassandraRecords(session, CassandraJournal(session).finish)
            with proxy.refusing(), pytest.raises(StoreUnavailable):
                await records.get(ACME, RecordKind.VERIFICATION, VERIFICATION)

            assert (await once_back(records)).body == b'{"n":1}'


async def once_back(records: CassandraRecords) -> Record:
    """Return the verification as soon as the store answers again."""
    async with asyncio.timeout(60):
        while True:
            try:
                return await records.get(ACME, RecordKind.VERIFICATION, VERIFICATION)
            except StoreUnavailable:
                await asyncio.sleep(0.05)


async def test_an_answer_that_is_lost_is_found_out_and_not_guessed(
    stores: Stores, contracts_keyspace: Address
) -> None:
    host, port = contracts_keyspace.contact_points[0]
    async with Proxy(host, port) as proxy:
        behind = Address([("127.0.0.1", proxy.port)], DATACENTER, port=proxy.port)
        async with open_session(behind, KEYSPACE) as session:
            journal = CassandraJournal(session)
            await journal.commit(Change(ACME, (build_record(id="ver_before"),)))  # all is prepared
            with proxy.swallowing(Way.BACK):
                committing = asyncio.ensure_future(journal.commit(FIRST))
                await appears(stores)
            assert (await committing).won

    assert await stores.journal.pending_events(9) == list(FIRST.events)


async def appears(stores: Stores) -> Record:
    """Return the verification as soon as it is there."""
    while True:
        try:
            return await stores.records.get(ACME, RecordKind.VERIFICATION, VERIFICATION)
        except NotFound:
            continue


async def test_of_rivals_in_many_processes_one_wins_and_the_rest_answer_with_it(
    stores: Stores, contracts_keyspace: Address
) -> None:
    async with AsyncExitStack() as stack:
        sessions = [
            await stack.enter_async_context(open_session(contracts_keyspace, KEYSPACE)) for _ in range(4)
        ]
        changes = [
            replace(FIRST, records=(replace(FIRST.records[0], body=b"%d" % n), CASE)) for n in range(12)
        ]
        committed = await asyncio.gather(
            *(CassandraJournal(sessions[n % 4]).commit(change) for n, change in enumerate(changes))
        )

    assert [one.won for one in committed].count(True) == 1
    assert len({one.record for one in committed}) == 1
    assert len(await stores.audit_log.page(ACME, AuditFilter(), limit=9)) == len(ROWS)


async def test_of_changes_to_one_version_in_many_processes_one_wins(
    stores: Stores, contracts_keyspace: Address
) -> None:
    await stores.journal.commit(FIRST)
    async with AsyncExitStack() as stack:
        sessions = [
            await stack.enter_async_context(open_session(contracts_keyspace, KEYSPACE)) for _ in range(3)
        ]
        later = [replace(FIRST.records[0], version=2, body=b"%d" % n) for n in range(9)]
        answers = await asyncio.gather(
            *(
                CassandraJournal(sessions[n % 3]).commit(Change(ACME, (record,)))
                for n, record in enumerate(later)
            ),
            return_exceptions=True,
        )

    assert [isinstance(answer, Conflict) for answer in answers].count(True) == 8


class CountingTurns(asyncio.Semaphore):
    """Remembers how few turns were ever left."""

    fewest = 99

    @override
    async def acquire(self) -> Literal[True]:
        """Take a turn."""
        taken = await super().acquire()
        self.fewest = min(self.fewest, self._value)
        return taken


async def test_no_more_requests_are_under_way_than_allowed(session: Session) -> None:
    session.requests.turns = turns = CountingTurns(3)
    records = CassandraRecords(session, CassandraJournal(session).finish)

    asked = (records.page(ACME, RecordKind.VERIFICATION, ("all", ""), limit=9) for _ in range(60))
    await asyncio.gather(*asked)

    assert (turns.fewest, turns._value) == (0, 3)


async def no_request_is_left() -> bool:
    """Return whether there is no request in memory, not even as garbage."""
    return not any(isinstance(one, ResponseFuture | _Asked) for one in gc.get_objects())


async def test_a_request_that_was_answered_leaves_nothing_to_the_garbage_collector(session: Session) -> None:
    read, write = Statement("SELECT name FROM settings LIMIT 1"), ("leaves", b"nothing")
    insert = Statement("INSERT INTO settings (name, value) VALUES (?, ?)")
    await session.execute(read)
    await session.batch([(insert, write), (insert, write)])
    gc.collect()
    gc.disable()
    try:
        await session.execute(read)
        await session.batch([(insert, write), (insert, write)])
        await session.requests.ask(session._ready[read].bind(()), PLAIN, again=True)  # the driver's own way
        await until(no_request_is_left, within_s=20)  # the connection's thread may be about to leave it
    finally:
        gc.enable()


async def test_columns_are_described_when_a_statement_is_prepared_and_again_once_they_changed(
    contracts_keyspace: Address,
) -> None:
    described: list[bool] = []

    class Noting(KnownColumns):
        """Notes of every answer with rows whether their columns are described in it."""

        @classmethod
        @override
        def decode_message(cls, *arguments: Any) -> Any:
            message = super().decode_message(*arguments)
            if getattr(message, "kind", None) == RESULT_KIND_ROWS:
                described.append(message.column_metadata is not None)
            return message

    read = Statement("SELECT * FROM described WHERE id = ?")
    async with open_session(contracts_keyspace, KEYSPACE) as session:
        session.driver.client_protocol_handler = Noting
        await session.define("CREATE TABLE described (id int PRIMARY KEY, name text, marks set<text>)")
        try:
            await session.execute(Statement("INSERT INTO described (id, name) VALUES (?, ?)"), (7, "n"))
            before = [await session.execute(read, (7,)) for _ in range(3)]
            known = described.copy()
            await session.define("ALTER TABLE described ADD age int")
            after = [await session.execute(read, (7,)) for _ in range(2)]
            session._ready[read]._prepared.result_metadata_id = bytes(16)  # as of columns that were others
            after.append(await session.execute(read, (7,)))
        finally:
            await session.define("DROP TABLE described")

    assert (before, known) == ([[(7, None, "n")]] * 3, [False] * 3)
    assert (after, described[-1]) == ([[(7, None, None, "n")]] * 3, True)


async def test_who_is_cancelled_gives_its_turn_back_once_it_is_answered(session: Session) -> None:
    session.requests.turns = turns = asyncio.Semaphore(4)
    read = Statement("SELECT name FROM settings LIMIT 1")
    await session.execute(read)

    cancelled = [asyncio.ensure_future(session.execute(read)) for _ in range(8)]
    await asyncio.sleep(0)
    for one in cancelled:
        one.cancel()
    await asyncio.gather(*cancelled, return_exceptions=True)
    await asyncio.gather(*(session.execute(read) for _ in range(8)))

    assert turns._value == 4


async def test_an_empty_slot_is_cut_and_one_that_is_written_to_late_is_found_again(
    stores: Stores, session: Session
) -> None:
    del stores
    long_ago = Hint(1_000_000_000_000_000, "evt_late")
    now = long_ago.waits_at + 10 * CUT_AFTER_MICROS

    async def waiting() -> Sequence[Hint]:
        return [hint async for hints in oldest(session, EVENTS, 9) for hint in hints]

    await session.batch(list(wait_writes(EVENTS, [long_ago])))
    assert await waiting() == [long_ago]
    await session.execute(Statement("TRUNCATE waiting"))
    await cut_empty_slots(session, EVENTS, now)
    await session.batch(list(wait_writes(EVENTS, [long_ago])))

    assert await waiting() == [long_ago]


async def test_a_hint_without_its_event_is_passed_over(stores: Stores, session: Session) -> None:
    await session.batch(list(wait_writes(EVENTS, [Hint(1_000, "evt_nothing")])))
    await stores.journal.commit(FIRST)

    assert await stores.journal.pending_events(1) == list(FIRST.events)


def test_what_is_too_large_for_one_batch_is_parted_in_order() -> None:
    statement = Statement("INSERT")
    writes = [(statement, (b"x" * 16_000, n)) for n in range(5)]

    parts = parted(writes)

    assert [write for part in parts for write in part.writes] == writes
    assert [len(part.writes) for part in parts] == [2, 2, 1]


async def test_a_change_larger_than_a_batch_is_written_whole(stores: Stores) -> None:
    rows = tuple(
        build_audit_event(event_id=AuditEventId(derive_id("aud", str(n))), detail="d" * 900)
        for n in range(100)
    )

    await stores.journal.commit(replace(FIRST, audit=rows))

    assert len(await stores.audit_log.page(ACME, AuditFilter(), limit=200)) == len(rows)


async def test_two_journals_of_one_process_know_of_each_others_months(
    stores: Stores, session: Session, tmp_path: Path
) -> None:
    other = build_stores(session, tmp_path, ROOT_KEY)
    moments = [build_record().created_at.replace(year=year) for year in (2024, 2025, 2026)]
    for n, moment in enumerate(moments):
        record = build_record(id=f"ver_{n}", created_at=moment, indexes=(("all", ""),))
        await (stores, other)[n % 2].journal.commit(Change(ACME, (record,)))

    listed = await stores.records.page(ACME, RecordKind.VERIFICATION, ("all", ""), limit=2)

    assert [record.id for record in listed] == ["ver_2", "ver_1"]


async def test_a_search_for_a_short_fragment_ends_on_its_way_and_goes_on_from_there(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search_index, "LISTED_AT_MOST", 2)
    moments = [NOW.replace(month=1 + n // 2, day=1 + n) for n in range(8)]
    for n, moment in enumerate(moments):
        text = "xy" if n % 5 == 0 else "abc"
        record = build_record(id=f"ver_{n}", created_at=moment, indexes=(("mode", "live"),), searched=text)
        await stores.journal.commit(Change(ACME, (record,)))
    found: list[str] = []
    before, stops = None, 0
    while stops == 0 or before is not None:
        page = await stores.records.search(
            ACME, RecordKind.VERIFICATION, ("mode", "live"), "xy", limit=9, before=before
        )
        found += [record.id for record in page.records]
        before, stops = page.further, stops + 1

    assert (found, stops) == (["ver_5", "ver_0"], 5)
