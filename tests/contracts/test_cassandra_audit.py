"""The audit log in Cassandra under what many processes do to it: deaths between writes, many at once."""

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, suppress
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from app.adapters.cassandra.audit_log import CassandraAuditLog
from app.adapters.cassandra.audit_queue import SETTLED_US, WaitingRows
from app.adapters.cassandra.audit_rows import SLOT_MS, audit_statements, shard_of
from app.adapters.cassandra.connection import Address, open_session
from app.adapters.cassandra.session import Session, Statement
from app.adapters.security.derived_keys import chain_keys_of
from app.adapters.security.key_versions import ChainKeyRing
from app.adapters.shared.columns import to_millis
from schemas.audit import AuditEvent, AuditFilter, ChainLink, SealAudit
from schemas.enums import ActorType
from schemas.ids import AuditEventId, derive_id
from schemas.problems import StoreUnavailable
from streams.audit.handler import ChainReport, SealChain, verify_chain
from streams.audit.rules import chain_key, is_chosen, link
from streams.ports.records import Change, Position
from tests.builders import ACME, NOW, build_audit_event
from tests.contracts.adapters import ROOT_KEY
from tests.contracts.cassandra_adapter import KEYSPACE, open_cassandra, session_of
from tests.contracts.cassandra_deaths import dying

pytestmark = pytest.mark.engines

KEY = chain_keys_of(ROOT_KEY).newest

SEALING_WRITES = 8
"""So many writes seal a few rows of two days: head, links, places (2), outbox, hints (2); then one more."""

DAYS = 5
THERE = 3_000

_SLOTS = Statement("SELECT slot FROM audit_slots WHERE shard = ? AND tenant = ?")


def numbered(n: int, **changes: object) -> AuditEvent:
    """A row of its own; every other one a day later."""
    created_at = NOW + timedelta(days=n % 2, seconds=n)
    return build_audit_event(
        **{"event_id": AuditEventId(derive_id("aud", str(n))), "created_at": created_at} | changes
    )


@pytest.fixture
async def session(contracts_keyspace: Address, tmp_path: Path) -> AsyncIterator[Session]:
    """A session to tables with nothing in them."""
    async with open_cassandra(contracts_keyspace, tmp_path):
        yield session_of(contracts_keyspace)


async def write(session: Session, *rows: AuditEvent) -> None:
    """Commit the rows in one change."""
    await session.batch(audit_statements(Change(ACME, (), rows)))


async def seal(session: Session) -> None:
    """Seal what waits, in a process of its own."""
    await SealChain(CassandraAuditLog(session, ChainKeyRing(ROOT_KEY)))(SealAudit(tenant_id=ACME))


async def verify(session: Session) -> ChainReport:
    """Walk the chain, in a process of its own; what its head is matters elsewhere."""
    report = await verify_chain(CassandraAuditLog(session, ChainKeyRing(ROOT_KEY)), ACME)
    return report.model_copy(update={"head": None})


def links_for(rows: Sequence[AuditEvent], head: ChainLink | None) -> list[tuple[AuditEventId, ChainLink]]:
    """Links that join the rows behind the head."""
    links = []
    for row in rows:
        head = link(head, row, chain_key(KEY, ACME))
        links.append((row.event_id, head))
    return links


async def seal_and_die(session: Session, lives: int, *, unanswered: bool) -> None:
    """Seal in a process that ends at a write; once it has nothing left to write it may live."""
    try:
        await seal(dying(session, lives, unanswered=unanswered))
    except StoreUnavailable:
        return


@pytest.mark.parametrize("unanswered", [False, True], ids=["unsent", "unanswered"])
@pytest.mark.parametrize("lives", range(SEALING_WRITES))
async def test_a_chain_whose_sealer_died_anywhere_holds_at_once(
    session: Session, lives: int, *, unanswered: bool
) -> None:
    await write(session, *map(numbered, range(6)))

    await seal_and_die(session, lives, unanswered=unanswered)

    report = await verify(session)
    assert (report.fault, report.rows + report.waiting) == (None, 6)


@pytest.mark.parametrize("lives", range(SEALING_WRITES))
async def test_what_a_sealer_left_when_it_died_the_next_one_finishes(session: Session, lives: int) -> None:
    await write(session, *map(numbered, range(6)))
    await seal_and_die(session, lives, unanswered=False)
    await write(session, numbered(6))

    await seal(session)

    log = CassandraAuditLog(session, ChainKeyRing(ROOT_KEY))
    assert await verify(session) == ChainReport(tenant_id=ACME, rows=7)
    assert await log.unsealed(ACME, 9) == []
    assert await log.unsealed_tenants() == []
    shown = await log.page(ACME, AuditFilter(), limit=9)
    assert {row.context["chain"]["position"] for row in shown} == set(range(1, 8))


async def test_sealing_again_after_every_lost_answer_seals_every_row_once(session: Session) -> None:
    await write(session, *map(numbered, range(6)))

    for lives in range(SEALING_WRITES):
        await seal_and_die(session, lives, unanswered=True)

    assert await verify(session) == ChainReport(tenant_id=ACME, rows=6)


async def test_of_two_processes_that_seal_the_same_rows_one_succeeds(
    session: Session, contracts_keyspace: Address
) -> None:
    async with AsyncExitStack() as stack:
        sessions = [await stack.enter_async_context(open_session(contracts_keyspace, KEYSPACE)) for _ in "ab"]
        logs = [CassandraAuditLog(one, ChainKeyRing(ROOT_KEY)) for one in sessions]
        for n in range(0, 20, 2):
            rows = [numbered(n), numbered(n + 1)]
            await write(session, *rows)
            links = links_for(rows, await logs[0].head(ACME))

            sealed = await asyncio.gather(*(log.seal(ACME, links) for log in logs))

            assert sorted(sealed) == [False, True]
    assert await verify(session) == ChainReport(tenant_id=ACME, rows=20)


async def test_rows_that_were_written_again_are_sealed_once(session: Session) -> None:
    rows = [numbered(n) for n in range(4)]
    await write(session, *rows)
    await write(session, *rows[:2])
    await seal(session)
    await write(session, *rows)

    await seal(session)

    assert await verify(session) == ChainReport(tenant_id=ACME, rows=4)
    assert await CassandraAuditLog(session, ChainKeyRing(ROOT_KEY)).unsealed_tenants() == []


async def test_a_tenant_that_was_quiet_for_long_is_found_again_when_it_writes(session: Session) -> None:
    await write(session, numbered(0))
    await seal(session)
    later = WaitingRows(session, lambda: time.time() + 2 * SETTLED_US / 1_000_000)
    assert await later.tenants() == []
    struck = await session.execute(_SLOTS, (shard_of(ACME), ACME))

    await write(session, numbered(2))

    assert await later.tenants() == [ACME]
    assert struck == []


def minute(n: int) -> AuditEvent:
    """A row of a slot of its own."""
    return numbered(n, created_at=NOW + timedelta(milliseconds=n * SLOT_MS))


def slots_of(*rows: AuditEvent) -> list[tuple[int]]:
    """The slots in which the rows wait."""
    return [(to_millis(row.created_at) // SLOT_MS,) for row in rows]


async def test_slots_before_the_first_in_use_are_struck_off_and_nothing_else(session: Session) -> None:
    rows = [minute(n) for n in range(4)]
    await write(session, *rows)
    await seal(session)
    await write(session, numbered(7, created_at=rows[2].created_at))
    later = WaitingRows(session, lambda: time.time() + 2 * SETTLED_US / 1_000_000)
    soon = WaitingRows(session)

    assert await soon.tenants() == [ACME]
    before = await session.execute(_SLOTS, (shard_of(ACME), ACME))
    assert await later.tenants() == [ACME]
    after = await session.execute(_SLOTS, (shard_of(ACME), ACME))
    await write(session, minute(0))  # a commit that is replayed

    assert [tuple(row) for row in before] == slots_of(*rows)
    assert [tuple(row) for row in after] == slots_of(*rows[2:])
    listed = await session.execute(_SLOTS, (shard_of(ACME), ACME))
    assert [tuple(row) for row in listed] == slots_of(rows[0], *rows[2:])


async def test_rows_that_wait_in_the_longer_slots_of_before_are_sealed_first(session: Session) -> None:
    late, early = numbered(2), numbered(0)
    await write(session, late)
    slot = to_millis(early.created_at) // SLOT_MS
    writes = audit_statements(Change(ACME, (), (early,)))
    await session.batch([
        (statement, [slot // 10 if value == slot else value for value in values])
        for statement, values in writes
    ])  # fmt: skip

    await seal(session)

    log = CassandraAuditLog(session, ChainKeyRing(ROOT_KEY))
    assert [one.event for one in await log.walk(ACME, 0, 9)] == [early, late]
    assert await log.unsealed(ACME, 9) == []


def there() -> list[AuditEvent]:
    """Three thousand rows over five days, some of one moment, of both modes."""
    return [
        build_audit_event(
            event_id=AuditEventId(derive_id("aud", "there", str(n))),
            created_at=NOW + timedelta(days=n % DAYS, seconds=n // 2),
            livemode=n % 3 > 0,
            actor_type=(ActorType.API_KEY, ActorType.SYSTEM)[n % 7 == 0],
            subject_id=f"customer-{n % 2}",
        )
        for n in range(THERE)
    ]


async def write_many(session: Session, rows: Sequence[AuditEvent]) -> None:
    """Commit rows ten at a time, several commits at once."""
    turns = asyncio.Semaphore(8)

    async def commit(some: Sequence[AuditEvent]) -> None:
        async with turns:
            await write(session, *some)

    await asyncio.gather(*(commit(rows[start : start + 10]) for start in range(0, len(rows), 10)))


CHOSEN = [
    AuditFilter(),
    AuditFilter(livemode=True),
    AuditFilter(actor_type=ActorType.SYSTEM, action="verification."),
    AuditFilter(subject_id="customer-1", since=NOW + timedelta(days=1), until=NOW + timedelta(days=3)),
]


async def walk(session: Session, chosen: AuditFilter) -> list[AuditEvent]:
    """The rows of every page in turn."""
    log = CassandraAuditLog(session, ChainKeyRing(ROOT_KEY))
    met: list[AuditEvent] = []
    before: Position | None = None
    while rows := await log.page(ACME, chosen, limit=200, before=before):
        met += rows
        before = Position(rows[-1].created_at, rows[-1].event_id)
    return met


async def append(session: Session) -> None:
    """Commit rows among, before and after those that are there, and seal some, for as long as it may."""
    for n in itertools.count(10_000, 10):
        await write(session, *(numbered(m, subject_id="customer-1") for m in range(n, n + 10)))
        await seal(session)


async def test_thousands_of_rows_over_days_are_met_once_in_order_while_writers_append(
    session: Session,
) -> None:
    rows = there()
    await write_many(session, rows)

    appending = asyncio.create_task(append(session))
    walked = await asyncio.gather(*(walk(session, chosen) for chosen in CHOSEN))
    appending.cancel()
    with suppress(asyncio.CancelledError):
        await appending

    known = {row.event_id for row in rows}
    for chosen, met in zip(CHOSEN, walked, strict=True):
        order = [_place(row) for row in met]
        assert order == sorted(set(order), reverse=True)
        expected = sorted((row for row in rows if is_chosen(row, chosen)), key=_place, reverse=True)
        assert [row.event_id for row in met if row.event_id in known] == [row.event_id for row in expected]


def _place(row: AuditEvent) -> tuple[datetime, str]:
    return row.created_at, row.event_id
