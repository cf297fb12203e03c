"""What every journal promises."""

import asyncio
from dataclasses import replace

import pytest

from app.adapters.security.at_rest import HASHED_INDEXES, SealingJournal
from schemas.audit import AuditFilter
from schemas.ids import PLATFORM, AuditEventId, EventId, derive_id
from schemas.problems import NotFound
from streams.ports.errors import Conflict
from streams.ports.records import Change, Record, RecordKind
from streams.ports.stores import Stores
from tests.builders import (
    ACME,
    GLOBEX,
    SUBJECT,
    VERIFICATION,
    build_audit_event,
    build_decision_event,
    build_record,
)


def change(**changes: object) -> Change:
    """A verification with its audit row and its event; `changes` replace fields of the record."""
    return Change(ACME, (build_record(**changes),), (build_audit_event(),), (build_decision_event(),))


async def verification(stores: Stores) -> Record:
    """The verification as it stands."""
    return await stores.records.get(ACME, RecordKind.VERIFICATION, VERIFICATION)


def stored(stores: Stores, record: Record) -> Record:
    """A record as it can be compared: behind the layer that seals, indexes that name a person are hashed."""
    if not isinstance(stores.journal, SealingJournal):
        return record
    return replace(record, indexes=tuple(pair for pair in record.indexes if pair[0] not in HASHED_INDEXES))


async def test_a_committed_record_is_answered_as_it_was_written(stores: Stores) -> None:
    committed = await stores.journal.commit(change())

    assert committed.won
    assert committed.record == replace(build_record(), first_body=build_record().body)


async def test_a_committed_record_is_readable_at_once(stores: Stores) -> None:
    committed = await stores.journal.commit(change())

    assert stored(stores, await verification(stores)) == stored(stores, committed.record)


async def test_audit_rows_are_committed_with_their_record(stores: Stores) -> None:
    await stores.journal.commit(change())

    assert await stores.audit_log.page(ACME, AuditFilter(), limit=9) == [build_audit_event()]


async def test_events_are_committed_with_their_record(stores: Stores) -> None:
    await stores.journal.commit(change())

    assert await stores.journal.pending_events(9) == [build_decision_event()]


async def test_the_same_change_again_does_not_win(stores: Stores) -> None:
    first = await stores.journal.commit(change())

    again = await stores.journal.commit(change())

    assert (again.won, stored(stores, again.record)) == (False, stored(stores, first.record))


async def test_a_replay_is_answered_with_what_the_first_wrote(stores: Stores) -> None:
    await stores.journal.commit(change(body=b'{"first":1}'))

    again = await stores.journal.commit(change(body=b'{"second":2}', fingerprint="e" * 64))

    assert (again.record.body, again.record.fingerprint) == (b'{"first":1}', "f" * 64)


async def test_a_replay_writes_nothing_of_its_change(stores: Stores) -> None:
    await stores.journal.commit(Change(ACME, (build_record(),)))
    other = build_record(kind=RecordKind.SESSION, id="vs_other")

    await stores.journal.commit(replace(change(), records=(build_record(), other)))

    assert await stores.audit_log.page(ACME, AuditFilter(), limit=9) == []
    assert await stores.journal.pending_events(9) == []
    with pytest.raises(NotFound):
        await stores.records.get(ACME, RecordKind.SESSION, "vs_other")


async def test_fifty_identical_commits_at_once_write_one_record(stores: Stores) -> None:
    bodies = [b'{"n":%d}' % number for number in range(50)]

    committed = await asyncio.gather(*(stores.journal.commit(change(body=body)) for body in bodies))

    assert [c.won for c in committed].count(True) == 1
    assert len({stored(stores, c.record) for c in committed}) == 1
    assert len(await stores.audit_log.page(ACME, AuditFilter(), limit=9)) == 1


async def test_a_later_version_replaces_the_body(stores: Stores) -> None:
    await stores.journal.commit(change(body=b"1"))

    await stores.journal.commit(Change(ACME, (build_record(body=b"2", version=2),)))

    assert (await verification(stores)).body == b"2"


async def test_the_first_body_outlives_later_versions(stores: Stores) -> None:
    await stores.journal.commit(change(body=b"1"))
    await stores.journal.commit(Change(ACME, (build_record(body=b"2", version=2),)))
    await stores.journal.commit(Change(ACME, (build_record(body=b"3", version=3),)))

    assert (await verification(stores)).first_body == b"1"


async def test_a_replay_of_the_creation_after_a_change_finds_the_first_body(stores: Stores) -> None:
    await stores.journal.commit(change(body=b"1"))
    await stores.journal.commit(Change(ACME, (build_record(body=b"2", version=2),)))

    again = await stores.journal.commit(change(body=b"1"))

    assert (again.won, again.record.version, again.record.first_body) == (False, 2, b"1")


async def test_what_a_record_was_created_with_never_changes(stores: Stores) -> None:
    first = build_record(body=b"1")
    await stores.journal.commit(Change(ACME, (first,)))
    later = replace(first, body=b"2", version=2, fingerprint="0" * 64, created_at=first.created_at.max)
    later = replace(later, created_at=first.created_at.replace(year=2030))

    committed = await stores.journal.commit(Change(ACME, (later,)))

    assert (committed.record.created_at, committed.record.fingerprint) == (first.created_at, "f" * 64)


async def test_a_change_replayed_at_its_own_version_does_not_win(stores: Stores) -> None:
    await stores.journal.commit(change(body=b"1"))
    second = Change(ACME, (build_record(body=b"2", version=2),))
    await stores.journal.commit(second)

    again = await stores.journal.commit(second)

    assert (again.won, again.record.body) == (False, b"2")


@pytest.mark.parametrize("version", [2, 4])
async def test_a_version_that_does_not_follow_is_a_conflict(stores: Stores, version: int) -> None:
    await stores.journal.commit(change(body=b"1"))
    await stores.journal.commit(Change(ACME, (build_record(body=b"2", version=2),)))

    with pytest.raises(Conflict):
        await stores.journal.commit(Change(ACME, (build_record(body=b"other", version=version),)))


async def test_a_later_version_of_nothing_is_a_conflict(stores: Stores) -> None:
    with pytest.raises(Conflict):
        await stores.journal.commit(change(version=2))


async def test_of_fifty_changes_to_one_version_one_wins(stores: Stores) -> None:
    await stores.journal.commit(change(body=b"1"))
    rivals = [Change(ACME, (build_record(body=b"rival %d" % n, version=2),)) for n in range(50)]

    answers = await asyncio.gather(*map(stores.journal.commit, rivals), return_exceptions=True)

    assert [isinstance(answer, Conflict) for answer in answers].count(True) == 49


async def test_a_conflict_of_a_second_record_undoes_the_first(stores: Stores) -> None:
    missing = build_record(kind=RecordKind.SESSION, id="vs_missing", version=2)

    with pytest.raises(Conflict):
        await stores.journal.commit(replace(change(), records=(build_record(), missing)))

    with pytest.raises(NotFound):
        await verification(stores)
    assert await stores.journal.pending_events(9) == []


async def test_one_change_in_conflict_spares_those_committed_beside_it(stores: Stores) -> None:
    good = [Change(ACME, (build_record(id=f"ver_{n}"),)) for n in range(20)]
    bad = [Change(ACME, (build_record(id=f"ver_bad_{n}", version=2),)) for n in range(5)]

    answers = await asyncio.gather(*map(stores.journal.commit, [*good, *bad]), return_exceptions=True)

    assert [isinstance(answer, Conflict) for answer in answers] == [False] * 20 + [True] * 5
    for n in range(20):
        await stores.records.get(ACME, RecordKind.VERIFICATION, f"ver_{n}")


async def test_a_second_record_that_is_there_already_stays_as_it_is(stores: Stores) -> None:
    session = build_record(kind=RecordKind.SESSION, id="vs_1", body=b"kept")
    await stores.journal.commit(Change(ACME, (session,)))

    await stores.journal.commit(Change(ACME, (build_record(), replace(session, body=b"other"))))

    assert (await stores.records.get(ACME, RecordKind.SESSION, "vs_1")).body == b"kept"


async def test_rows_and_events_that_are_there_already_are_not_written_twice(stores: Stores) -> None:
    await stores.journal.commit(change())

    await stores.journal.commit(change(id="ver_another"))

    assert len(await stores.audit_log.page(ACME, AuditFilter(), limit=9)) == 1
    assert len(await stores.journal.pending_events(9)) == 1


async def test_a_record_may_be_the_platforms_while_its_rows_are_the_tenants(stores: Stores) -> None:
    await stores.journal.commit(change(tenant_id=PLATFORM))

    assert (await stores.records.get(PLATFORM, RecordKind.VERIFICATION, VERIFICATION)).tenant_id == PLATFORM
    assert len(await stores.audit_log.page(ACME, AuditFilter(), limit=9)) == 1


async def test_a_change_never_writes_another_tenants_record(stores: Stores) -> None:
    with pytest.raises(ValueError, match="tenant"):
        await stores.journal.commit(change(tenant_id=GLOBEX))


async def test_the_same_id_of_two_tenants_is_two_records(stores: Stores) -> None:
    await stores.journal.commit(change(body=b"acme"))

    other = Change(GLOBEX, (build_record(tenant_id=GLOBEX, body=b"globex"),), (build_audit_event(),))
    committed = await stores.journal.commit(other)

    assert committed.won
    assert (await verification(stores)).body == b"acme"
    assert len(await stores.audit_log.page(GLOBEX, AuditFilter(), limit=9)) == 1


async def test_an_emitted_event_is_pending_no_more(stores: Stores) -> None:
    await stores.journal.commit(change())

    await stores.journal.mark_emitted([build_decision_event().id, EventId(derive_id("evt", "unknown"))])

    assert await stores.journal.pending_events(9) == []


async def test_an_emitted_event_committed_again_stays_emitted(stores: Stores) -> None:
    await stores.journal.commit(change())
    await stores.journal.mark_emitted([build_decision_event().id])

    await stores.journal.commit(change(id="ver_another"))

    assert await stores.journal.pending_events(9) == []


async def test_pending_events_come_oldest_first_and_limited(stores: Stores) -> None:
    for n in range(5):
        event = build_decision_event(id=EventId(derive_id("evt", str(n))), sequence=n)
        await stores.journal.commit(Change(ACME, (build_record(id=f"ver_{n}"),), (), (event,)))

    assert [event.sequence for event in await stores.journal.pending_events(3)] == [0, 1, 2]


async def test_every_commit_of_many_at_once_keeps_its_own_rows(stores: Stores) -> None:
    changes = [
        Change(
            ACME,
            (build_record(id=f"ver_{n}"),),
            (
                build_audit_event(
                    event_id=AuditEventId(derive_id("aud", str(n))), subject_id=f"{SUBJECT}-{n}"
                ),
            ),
        )
        for n in range(100)
    ]

    await asyncio.gather(*map(stores.journal.commit, changes))

    subjects = {row.subject_id for row in await stores.audit_log.page(ACME, AuditFilter(), limit=200)}
    assert subjects == {f"{SUBJECT}-{n}" for n in range(100)}


async def test_changes_of_one_record_asked_for_at_once_count_in_their_order(stores: Stores) -> None:
    asked = [Change(ACME, (build_record(body=b"%d" % n, version=n),)) for n in range(1, 20)]

    committed = await asyncio.gather(*map(stores.journal.commit, asked))

    assert [(c.won, c.record.version, c.record.first_body) for c in committed] == [
        (True, n, b"1") for n in range(1, 20)
    ]
    assert stored(stores, await verification(stores)) == stored(stores, committed[-1].record)


async def test_a_change_of_very_many_records_is_committed_whole(stores: Stores) -> None:
    records = tuple(build_record(id=f"ver_{n}") for n in range(600))

    await stores.journal.commit(Change(ACME, records))

    index = records[0].indexes[0]
    assert len(await stores.records.page(ACME, RecordKind.VERIFICATION, index, limit=1000)) == 600


async def test_an_event_marked_right_after_its_commit_was_asked_for_is_pending_no_more(
    stores: Stores,
) -> None:
    await asyncio.gather(
        stores.journal.mark_emitted([EventId(derive_id("evt", "unknown"))]),
        stores.journal.commit(change()),
        stores.journal.mark_emitted([build_decision_event().id]),
    )

    assert await stores.journal.pending_events(9) == []


async def test_touching_says_nothing(stores: Stores) -> None:
    await stores.journal.touch()
    await stores.journal.touch()

    assert await stores.journal.pending_events(9) == []
    assert await stores.audit_log.unsealed_tenants() == []
