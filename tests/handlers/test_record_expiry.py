"""Acts, tokens, sessions and what they leave behind end by age in every store, whatever ends the sweep."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from app.adapters.security.at_rest import seal_stores
from schemas.audit import AuditAction, AuditFilter
from schemas.enums import EvidenceKind
from schemas.ids import PLATFORM, EvidenceId, SessionId, TenantId, TransactionId, derive_id
from schemas.people import TokenPurpose
from schemas.problems import NotFound, Refused, StoreUnavailable, Unauthenticated
from schemas.sessions import StartSession
from schemas.transaction_decisions import HoldWatch
from streams.audit.commit import act
from streams.audit.rows import write_row
from streams.ports.records import BY_AGE, Change, Record, RecordKind
from streams.ports.stores import Stores
from streams.retention.expiry import RecordExpiry
from streams.retention.rules import SYSTEM
from streams.reviewers.tokens import issue_token, read_token
from streams.runtime.record_removal import RemovalPace
from streams.sessions.removal import SessionRemoval
from streams.tenants.handler import TENANTS_INDEX
from streams.verification.known_images import PictureHolder
from streams.verification.records import picture_id, seen_index
from streams.verification.removal import PictureRemoval
from tests.builders import ACME, GLOBEX, NOW, SUBJECT, build_evidence_draft, build_tenant
from tests.contracts.adapters import ROOT_KEY, Opened
from tests.handlers import people_stage
from tests.handlers.session_stage import SESSION, SessionStage
from tests.handlers.test_webhook_removal import Cut

DAY = timedelta(days=1)
SLOT, WATCH = RecordKind.SESSION_SLOT, RecordKind.SESSION_WATCH
NEXT_MONTH = (NOW.replace(day=1) + 32 * DAY).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
OTHER = SessionId(derive_id("vs", "acme", "other"))


@pytest.fixture
async def stores(opened: Opened) -> Stores:
    """The stores of every adapter in turn, with two tenants."""
    for tenant_id in (ACME, GLOBEX):
        body = build_tenant(tenant_id=tenant_id).to_bytes()
        record = Record(PLATFORM, RecordKind.TENANT, tenant_id, body, NOW, indexes=(TENANTS_INDEX,))
        await opened.stores.journal.commit(Change(PLATFORM, (record,)))
    return opened.stores


@pytest.fixture
async def stage(stores: Stores) -> SessionStage:
    """ACME with an open capture session."""
    made = SessionStage()
    made.stores = stores
    await made.publish()
    await made.give(await made.opening())
    return made


async def sweep(stores: Stores, after: timedelta, pace: RemovalPace | None = None) -> int:
    """Sweep everything so long after now, as a process that just started."""
    now, pace = NOW + after, pace or RemovalPace()
    records = await RecordExpiry(stores, lambda: now, pace).sweep()
    return records + await SessionRemoval(stores, lambda: now, pace).sweep()


async def is_there(stores: Stores, tenant_id: TenantId, kind: RecordKind, record_id: str) -> bool:
    """Tell whether a record is stored."""
    try:
        await stores.records.get(tenant_id, kind, record_id)
    except NotFound:
        return False
    return True


def act_of(tenant_id: TenantId, name: str) -> Change:
    """An act of the system."""
    row_id = derive_id("aud", tenant_id, name)
    return act(tenant_id, write_row(row_id, AuditAction.EVIDENCE_VIEWED, SYSTEM, "x", NOW, detail="Viewed."))


async def test_an_act_ends_after_31_days_and_its_audit_row_stays(stores: Stores) -> None:
    changes = [act_of(tenant_id, "first") for tenant_id in (ACME, GLOBEX, PLATFORM)]
    for change in changes:
        await stores.journal.commit(change)

    early, late = await sweep(stores, 30.9 * DAY), await sweep(stores, 31.1 * DAY)

    assert (early, late, await sweep(stores, 31.1 * DAY)) == (0, 3, 0)
    for change in changes:
        assert not await is_there(stores, change.tenant_id, RecordKind.ACT, change.records[0].id)
        rows = await stores.audit_log.page(change.tenant_id, AuditFilter(), limit=10)
        assert [row.event_id for row in rows] == [change.audit[0].event_id]


async def test_a_reviewer_session_ends_a_day_after_it_expired(stores: Stores) -> None:
    async with people_stage.staged(stores) as stage:
        await stage.add()
        caller = (await stage.sign_in()).cookie
        await stage.recognise(caller)
        lifetime = stage.people.session_lifetime

        early, late = await sweep(stores, lifetime + 0.9 * DAY), await sweep(stores, lifetime + 1.1 * DAY)

        assert (early, late, await sweep(stores, lifetime + 1.1 * DAY)) == (0, 1, 0)
        with pytest.raises(Unauthenticated):
            await stage.recognise(caller)
        stage.wait(days=20)
        assert (await stage.enter()).tenant_id == ACME


async def test_a_one_time_token_ends_a_day_after_it_expired(stores: Stores) -> None:
    async with people_stage.staged(stores) as stage:
        member = await stage.add(password=None)
        issued = issue_token(stage.people, member, TokenPurpose.INVITATION)
        await stage.people.commit(Change(PLATFORM, (issued.record,)))

        early, late = await sweep(stores, 7.9 * DAY), await sweep(stores, 8.1 * DAY)

        assert (early, late) == (0, 1)
        with pytest.raises(Refused):
            await read_token(stage.people, issued.text)


async def test_what_a_capture_session_leaves_ends_and_the_session_stays(stage: SessionStage) -> None:
    await stage.give(stage.cancel())
    slot = (await slots(stage))[0]

    early = await sweep(stage.stores, 30.9 * DAY)
    watch = await sweep(stage.stores, 31.1 * DAY)
    waiting = await sweep(stage.stores, NEXT_MONTH - NOW + 30.9 * DAY)
    taken_away = await sweep(stage.stores, NEXT_MONTH - NOW + 31.1 * DAY)

    assert (early, watch, waiting, taken_away) == (0, 1, 0, 1)
    assert not await is_there(stage.stores, PLATFORM, WATCH, SESSION)
    assert not await is_there(stage.stores, ACME, SLOT, slot.id)
    assert (await stage.session()).session.session_id == SESSION
    assert (await stage.give(await stage.opening(OTHER))).created


async def slots(stage: SessionStage) -> list[Record]:
    """ACME's slots that were taken this month."""
    index = ("opened", f"{NOW:%Y-%m}")
    return list(await stage.stores.records.page(ACME, SLOT, index, limit=10))


async def test_a_session_without_an_outcome_keeps_its_watch_and_its_slot(stage: SessionStage) -> None:
    accepted = StartSession(**stage.common(), accepted=True, notice_version="1")
    await stage.give(accepted)
    await stage.capture(EvidenceKind.IMAGE)
    await stage.capture(EvidenceKind.SELFIE)
    await stage.give(await stage.submission())

    assert await sweep(stage.stores, NEXT_MONTH - NOW + 32 * DAY) == 0
    assert len(await slots(stage)) == 1
    assert await is_there(stage.stores, PLATFORM, WATCH, SESSION)


async def test_a_slot_that_is_taken_again_is_listed_where_it_was_taken_last(stage: SessionStage) -> None:
    await stage.give(stage.cancel())
    stage.now = NEXT_MONTH + DAY
    assert (await stage.give(await stage.opening(OTHER))).created
    assert await slots(stage) == []

    await sweep(stage.stores, NEXT_MONTH - NOW + 31.5 * DAY)
    page = await stage.stores.records.page(ACME, SLOT, ("opened", f"{NEXT_MONTH:%Y-%m}"), limit=10)

    assert len(page) == 1


async def test_a_picture_ends_with_its_evidence_after_its_month(stores: Stores) -> None:
    sealed = seal_stores(stores, ROOT_KEY.derive)
    stored, gone = build_evidence_draft(b"stored"), EvidenceId(derive_id("evd", "gone"))
    await stores.evidence.put([stored])
    for digest, evidence_id in (("a" * 64, stored.row.evidence_id), ("b" * 64, gone)):
        body = PictureHolder(subject_id=SUBJECT, evidence_id=evidence_id).to_bytes()
        place, name = (seen_index(NOW),), picture_id(livemode=True, digest=digest)
        await sealed.journal.commit(
            Change(ACME, (Record(ACME, RecordKind.PICTURE, name, body, NOW, indexes=place),))
        )

    end = NEXT_MONTH + 91 * DAY
    removed = [await PictureRemoval(sealed, lambda at=at: at).sweep() for at in (end - DAY, end + DAY)]  # type: ignore[misc]

    assert removed == [0, 1]
    assert await is_there(sealed, ACME, RecordKind.PICTURE, picture_id(livemode=True, digest="a" * 64))
    assert not await is_there(sealed, ACME, RecordKind.PICTURE, picture_id(livemode=True, digest="b" * 64))


async def test_a_watch_of_a_hold_ends_31_days_after_the_hold_and_a_use_of_a_contact_after_91(
    stores: Stores,
) -> None:
    watch = HoldWatch(
        tenant_id=ACME, transaction_id=TransactionId(derive_id("txn", "held")), subject_key="key",
        livemode=True, due=NOW + 3 * DAY,
    )  # fmt: skip
    left = (
        Record(PLATFORM, RecordKind.HOLD_WATCH, "held", watch.to_bytes(), NOW, indexes=(BY_AGE,)),
        Record(ACME, RecordKind.CONTACT_USE, "use", b"somebody", NOW, indexes=(BY_AGE,)),
    )
    await stores.journal.commit(Change(ACME, left))

    removed = [await sweep(stores, days * DAY) for days in (33.9, 34.1, 90.9, 91.1)]

    assert removed == [0, 1, 0, 1]


async def test_a_sweep_is_bounded_and_the_next_continues(stores: Stores) -> None:
    for number in range(7):
        await stores.journal.commit(act_of(ACME, str(number)))
    pace = RemovalPace(page=2, most=3)

    assert [await sweep(stores, 32 * DAY, pace) for _ in range(4)] == [3, 3, 1, 0]


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
async def test_a_sweep_that_was_cut_short_anywhere_is_finished_by_the_next(
    stage: SessionStage, *, after: bool
) -> None:
    later = NEXT_MONTH - NOW + 32 * DAY
    await stage.give(stage.cancel())
    left = [(PLATFORM, WATCH, SESSION), (ACME, SLOT, (await slots(stage))[0].id)]
    stores, nth, whole = stage.stores, 0, False
    while not whole:
        nth += 1
        change = act_of(ACME, str(nth))
        await stores.journal.commit(change)
        calls: list[str] = []
        ports: dict[str, Any] = {
            name: Cut(getattr(stores, name), calls, nth, after=after) for name in ("records", "removal")
        }
        try:
            await sweep(replace(stores, **ports), later)
        except StoreUnavailable:
            await sweep(stores, later)
        else:
            whole = True
        for one in (*left, (ACME, RecordKind.ACT, change.records[0].id)):
            assert not await is_there(stores, *one)

    assert nth >= 10
