"""Evidence ends with its retention period: removed once, published once, whatever ends the process."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any, cast

import pytest

from schemas.audit import AuditAction, SealAudit
from schemas.enums import EvidenceKind, RetentionPolicy, VerificationStatus
from schemas.events import EventType
from schemas.ids import SubjectId, VerificationId, derive_id
from schemas.privacy import RedactVerification
from schemas.problems import NotFound, StoreUnavailable
from schemas.verifications import StoredVerification
from streams.audit.commit import CommitAndPublish
from streams.audit.handler import SealChain, verify_chain
from streams.ports.records import RecordKind
from streams.retention import rules
from streams.retention.handler import AT_ONCE, RedactEvidence
from streams.retention.scheduler import SweepPace, count_backlog
from streams.tenants.settings import read_settings
from tests.builders import ACME, GLOBEX, NOW, SUBJECT, VERIFICATION, build_command
from tests.handlers.retention_stage import DAY, RetentionStage
from tests.handlers.test_verification_privacy import SCENES
from tests.handlers.verification_stage import Breaking, Scene, other_evidence

REDACTED = RetentionPolicy.REDACTED
DOCUMENT, FACE = RetentionPolicy.DOCUMENT_P90D, RetentionPolicy.BIOMETRIC_P30D
DELETED, WHOLE = AuditAction.EVIDENCE_DELETED, AuditAction.VERIFICATION_REDACTED
FACES = {EvidenceKind.SELFIE, EvidenceKind.PORTRAIT}


@pytest.fixture
async def stage() -> RetentionStage:
    """A tenant with one decided verification."""
    made = RetentionStage()
    await made.furnish()
    await made.stage.submit()
    return made


async def test_nothing_ends_before_its_date(stage: RetentionStage) -> None:
    await stage.passes(days=29.99)

    assert await stage.round() == 0
    assert len(stage.stage.evidence_ids()) == 4


async def test_faces_end_after_30_days_and_documents_after_90(stage: RetentionStage) -> None:
    await stage.passes(days=30)
    await stage.round()
    after_30 = (await stage.policies(), stage.actions(), stage.published(), len(stage.stage.evidence_ids()))
    await stage.passes(days=90)
    await stage.round()

    assert after_30[0] == {
        EvidenceKind.IMAGE: DOCUMENT, EvidenceKind.EXTRACTION: DOCUMENT,
        EvidenceKind.SELFIE: REDACTED, EvidenceKind.PORTRAIT: REDACTED,
    }  # fmt: skip
    assert after_30[1:] == ([DELETED], [EventType.VERIFICATION_REDACTED], 2)
    assert set((await stage.policies()).values()) == {REDACTED}
    assert stage.actions() == [DELETED, DELETED, WHOLE]
    assert len(stage.published()) == 2
    assert stage.stage.evidence_ids() == set()


async def test_what_is_past_both_dates_is_published_once(stage: RetentionStage) -> None:
    await stage.passes(days=400)
    await stage.round()
    again = await stage.round()

    assert (stage.actions(), stage.published()) == ([DELETED, WHOLE], [EventType.VERIFICATION_REDACTED])
    assert (again, stage.stage.evidence_ids()) == (0, set())


async def test_the_decision_stays_and_everything_personal_goes(stage: RetentionStage) -> None:
    before = await stage.stage.stored()
    await stage.passes(days=90)
    await stage.round()
    after = await stage.stage.stored()
    record = await stage.stores.records.get(ACME, RecordKind.VERIFICATION, VERIFICATION)

    assert (before.sealed_fields, before.sealed_submission) != (None, None)
    first = StoredVerification.from_bytes(record.first_body)
    for stored in (after, first):
        assert (stored.sealed_fields, stored.sealed_submission, stored.sealed_face) == (None, None, None)
        assert {one.retention_policy for one in rules.evidence_of(stored)} == {REDACTED}
        assert stored.verification.decision_id == before.verification.decision_id
    assert after.checks == before.checks
    assert after.verification.status is before.verification.status


async def test_the_event_is_the_last_of_its_verification(stage: RetentionStage) -> None:
    await stage.passes(days=30)
    await stage.round()
    await stage.passes(days=90)
    await stage.round()

    events = [e for e in stage.stage.shelves.events.values() if e.data.verification_id == VERIFICATION]
    assert [event.sequence for event in events] == [1, 2, 3, 4]
    assert len({event.id for event in events}) == 4
    assert events[-1].data.subject_id == SUBJECT


async def test_a_shorter_period_holds_for_what_is_stored_already(stage: RetentionStage) -> None:
    await stage.passes(days=2)
    early = await stage.round()
    await stage.choose(biometric_days=1, document_days=2)
    await stage.round()

    assert early == 0
    assert stage.stage.evidence_ids() == set()
    assert stage.actions() == [DELETED, WHOLE]


async def test_a_longer_period_holds_as_well(stage: RetentionStage) -> None:
    await stage.choose(biometric_days=1825, document_days=1825)
    await stage.passes(days=1824)

    assert await stage.round() == 0
    await stage.passes(days=1825)
    await stage.round()
    assert stage.stage.evidence_ids() == set()


async def test_a_legal_hold_stops_the_clock_until_it_is_lifted(stage: RetentionStage) -> None:
    await stage.choose(legal_hold=[SUBJECT])
    await stage.passes(days=1000)
    on_hold = await stage.round()
    await stage.choose(legal_hold=[])
    await stage.round()

    assert on_hold == 0
    assert stage.stage.evidence_ids() == set()


async def test_a_hold_put_on_after_the_sweep_still_counts(stage: RetentionStage) -> None:
    await stage.passes(days=90)
    await stage.new_sweeper().sweep()
    await stage.choose(legal_hold=[SUBJECT])
    await stage.give(stage.written)

    assert len(stage.written) > 0
    assert len(stage.stage.evidence_ids()) == 4
    assert stage.actions() == []


async def test_another_tenants_and_another_subjects_evidence_stays(stage: RetentionStage) -> None:
    await stage.furnish(GLOBEX)
    await stage.choose(GLOBEX, biometric_days=1825, document_days=1825)
    theirs = await stage.put("theirs", tenant_id=GLOBEX)
    await stage.choose(legal_hold=["held"])
    other = await stage.put("held", subject_id=SubjectId("held"), verification_id=_run("held"))
    await stage.passes(days=90)
    await stage.round()

    assert stage.stage.evidence_ids() == {theirs, other}


def _run(name: str) -> VerificationId:
    return VerificationId(derive_id("ver", name))


async def test_evidence_that_led_to_no_decision_ends_with_a_row_and_no_event(stage: RetentionStage) -> None:
    await stage.choose(biometric_days=1825, document_days=1825)
    await stage.passes(days=10)
    await stage.choose(biometric_days=1825, document_days=5)
    await stage.put("later", NOW + 6 * DAY, verification_id=_run("left"))
    await stage.round()
    before = stage.actions()
    await stage.passes(days=11)
    await stage.round()
    await stage.give(stage.written)

    assert before == [DELETED]
    assert stage.actions() == [DELETED, DELETED]
    assert stage.published() == [EventType.VERIFICATION_REDACTED]


async def test_a_portrait_that_was_only_compared_with_is_left_to_its_own_verification(
    stage: RetentionStage,
) -> None:
    (portrait,) = [
        one.id for one in rules.evidence_of(await stage.stage.stored()) if one.kind is EvidenceKind.PORTRAIT
    ]
    await stage.stage.submit(
        verification_id=_run("biometric"), flow_type="BIOMETRIC",
        **(other_evidence("biometric") | {"document_evidence_id": portrait}),
    )  # fmt: skip
    await stage.passes(days=29)
    stage.written.clear()
    command = {"tenant_id": ACME, "verification_id": _run("biometric"), "requested_at": stage.now}
    await stage.choose(biometric_days=1)
    await stage.give([redact(evidence_ids=(portrait,), **command)])

    assert portrait in stage.stage.evidence_ids()


def redact(**fields: Any) -> RedactVerification:
    """A command as the sweeper writes it."""
    return RedactVerification(**fields)


async def test_a_round_takes_up_only_so_much_and_the_next_goes_on() -> None:
    stage = RetentionStage()
    await stage.furnish()
    for number in range(7):
        await stage.put(str(number), verification_id=_run(str(number)))
    await stage.passes(days=90)
    sweeper = stage.new_sweeper(SweepPace(page=2, most=4))

    rounds = [await sweeper.sweep(), await sweeper.sweep(), await sweeper.sweep()]
    asked = {command.verification_id for command in stage.written}
    stage.now += timedelta(minutes=16)
    again = await sweeper.sweep()

    assert rounds == [4, 3, 0]
    assert len(asked) == len(stage.written) - again == 7
    assert again == 4


async def test_what_is_past_its_date_is_counted_until_it_is_gone(stage: RetentionStage) -> None:
    await stage.passes(days=31)
    early = await count_backlog(stage.stores, lambda: stage.now)
    await stage.sweeper.sweep()
    asked = stage.sweeper.backlog
    await stage.give(stage.written)
    await stage.sweeper.sweep()

    assert (early.pieces, early.oldest_s) == (2, DAY.total_seconds())
    assert asked == early
    assert (stage.sweeper.backlog.pieces, stage.sweeper.backlog.oldest_s) == (0, 0.0)


async def test_a_few_verifications_are_redacted_at_once_each_with_a_rest_after_it(
    stage: RetentionStage,
) -> None:
    resting, most, rests = 0, 0, 0

    async def pause(_: float) -> None:
        nonlocal resting, most, rests
        resting, rests = resting + 1, rests + 1
        most = max(most, resting)
        await asyncio.sleep(0)
        resting -= 1

    stores = stage.stores
    redact_one = RedactEvidence(
        stores,
        lambda tenant_id: read_settings(stores.records, tenant_id),
        CommitAndPublish(stores.journal, stage.stage.announcer),
        lambda: stage.now,
        pause,
    )
    for number in range(20):
        await stage.put(str(number), verification_id=_run(str(number)))
    await stage.passes(days=90)
    await stage.sweeper.sweep()

    await asyncio.gather(*(redact_one(command) for command in stage.written))

    assert rests == len(stage.written) > 20
    assert most <= AT_ONCE
    assert stage.stage.evidence_ids() == set()


async def test_evidence_on_legal_hold_is_no_backlog(stage: RetentionStage) -> None:
    await stage.choose(legal_hold=(SUBJECT,))
    await stage.passes(days=400)

    assert (await count_backlog(stage.stores, lambda: stage.now)).pieces == 0


async def test_a_case_that_is_still_open_can_be_concluded_afterwards() -> None:
    stage = RetentionStage(Scene(distance=0.55))
    await stage.furnish()
    await stage.stage.submit()
    await stage.passes(days=90)
    await stage.round()
    stored = await stage.stage.stored()

    assert stored.verification.status is VerificationStatus.REVIEW_REQUIRED
    assert (await stage.stage.case()).verification_id == VERIFICATION


async def test_a_replay_after_the_end_brings_no_evidence_back(stage: RetentionStage) -> None:
    await stage.passes(days=90)
    await stage.round()
    stage.stage.state.stored.clear()

    answer = await stage.stage.submit(request_id="req-2")

    assert answer.replayed
    assert stage.stage.evidence_ids() == set()


async def test_the_chain_verifies_after_the_end(stage: RetentionStage) -> None:
    await stage.passes(days=90)
    await stage.round()
    key = b"k" * 32
    log = stage.stores.audit_log
    await SealChain(log, key)(_seal())

    report = await verify_chain(log, ACME, key)

    assert report.ok


def _seal() -> SealAudit:
    return SealAudit(tenant_id=ACME)


async def test_nothing_personal_is_in_what_is_written_down() -> None:
    stage = RetentionStage(SCENES["approved"])
    await stage.furnish()
    await stage.stage.submit()
    await stage.passes(days=90)
    await stage.round()

    rows = [row.to_bytes() for row in stage.stage.shelves.audit[ACME].values()]
    events = [event.to_bytes() for event in stage.stage.shelves.events.values()]
    commands = [command.to_bytes() for command in stage.written]
    for written in (*rows, *events, *commands):
        assert b"CANARY" not in written


ENDS = [("journal", "commit"), ("ages", "remove"), ("evidence", "describe")]


@pytest.mark.parametrize(("port", "method"), ENDS)
@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("days", [30, 90])
async def test_whatever_ends_the_process_the_work_is_finished_once(
    stage: RetentionStage, port: str, method: str, moment: str, days: int
) -> None:
    await stage.passes(days=days)
    genuine = stage.stores
    await stage.new_sweeper().sweep()
    breaking = Breaking(getattr(genuine, port), method, StoreUnavailable("killed"), after=moment == "after")
    stage.stage.stores = replace(genuine, **{port: cast("Any", breaking)})
    with pytest.raises(StoreUnavailable):
        await stage.give(stage.written)
    stage.stage.stores = genuine
    await stage.round()

    expected = [DELETED] if days == 30 else [DELETED, WHOLE]
    assert stage.actions() == expected
    assert stage.published() == [EventType.VERIFICATION_REDACTED]
    assert len(stage.stage.evidence_ids()) == (2 if days == 30 else 0)
    with pytest.raises(NotFound):
        await genuine.evidence.get(ACME, build_command().selfie_evidence_id)
