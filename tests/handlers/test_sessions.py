"""The session's actor: every command once, whatever is delivered again, and every end it can come to."""

import pytest

from app.doctor.invariants.store_state import StoreState
from schemas.enums import EvidenceKind, FlowType, SessionStatus
from schemas.ids import SessionId, derive_id
from schemas.problems import NotFound, ProblemCode, Refused, StoreUnavailable
from schemas.reasons import ReasonCode
from schemas.sessions import RecordOutcome, StartSession, with_row
from schemas.verifications import StoredVerification
from streams.ports.records import Change, RecordKind, due_index
from streams.sessions import rules
from streams.verification.records import next_session_record
from streams.vision_ports import Face
from tests.builders import ACME, SUBJECT, build_fields, build_findings
from tests.handlers.session_stage import PASSPORT, SESSION, SessionStage
from tests.handlers.verification_stage import FACE_BOX, Scene, Trouble

OTHER = SessionId(derive_id("vs", "acme", "second"))


@pytest.fixture
async def stage() -> SessionStage:
    """A deployment with a published flow and a started session."""
    deployment = SessionStage()
    await deployment.publish()
    await deployment.start()
    return deployment


async def verification(stage: SessionStage, attempt: int = 1) -> StoredVerification:
    """The verification of an attempt."""
    run = rules.verification_id(ACME, SESSION, attempt)
    record = await stage.stores.records.get(ACME, RecordKind.VERIFICATION, run)
    return StoredVerification.from_bytes(record.body)


async def test_every_command_delivered_again_changes_nothing() -> None:
    stage = SessionStage()
    await stage.publish()
    opening = await stage.opening()
    await stage.give(opening)
    starting = StartSession(**stage.common(), accepted=True, notice_version="1")
    await stage.give(starting)
    captures = [await stage.capture(kind) for kind in (EvidenceKind.IMAGE, EvidenceKind.SELFIE)]
    submission = await stage.submission()
    await stage.give(submission)
    commands = [opening, starting, *captures, submission]
    before = stage.shelves.records.copy()

    for memory in (True, False):
        if not memory:
            stage.memory.stored.clear()
        for command in commands:
            await stage.give(command)

    assert stage.shelves.records == before
    assert stage.audited() == ["session.created", "session.started", "session.submitted"]
    assert stage.emitted() == [f"verification_{action}" for action in stage.audited()]
    await stage.settle()
    assert (await stage.session()).session.status is SessionStatus.APPROVED
    assert len(stage.evidence_ids()) == 4


async def test_a_death_between_handing_in_and_sending_is_made_good(stage: SessionStage) -> None:
    await stage.capture(EvidenceKind.IMAGE)
    await stage.capture(EvidenceKind.SELFIE)
    submission = await stage.submission()
    sending = stage.hand

    async def away(_: object) -> None:
        raise StoreUnavailable

    stage.hand = away  # type: ignore[method-assign, assignment]  # the log is away
    with pytest.raises(StoreUnavailable):
        await stage.give(submission)
    assert (await stage.session()).session.status is SessionStatus.SUBMITTED
    stage.hand = sending  # type: ignore[method-assign]

    await stage.give(submission)
    await stage.settle()

    assert (await stage.session()).session.status is SessionStatus.APPROVED


@pytest.mark.parametrize("lost", ["the command", "the outcome"])
async def test_a_session_nobody_heard_of_is_asked_for_again(stage: SessionStage, lost: str) -> None:
    await stage.capture(EvidenceKind.IMAGE)
    await stage.capture(EvidenceKind.SELFIE)
    await stage.give(await stage.submission())
    if lost == "the outcome":
        await stage.evaluate(stage.handed[0])
    stage.handed.clear()
    stage.outcomes.clear()

    await stage.give(RecordOutcome(**stage.common(), attempt=1))
    await stage.settle()

    assert (await stage.session()).session.status is SessionStatus.APPROVED
    assert stage.audited().count("verification.evaluated") == 1


async def test_an_outcome_published_again_or_of_another_attempt_changes_nothing(stage: SessionStage) -> None:
    ended = await stage.run()

    for attempt, retry in ((1, True), (2, True), (1, False)):
        await stage.give(RecordOutcome(**stage.common(), attempt=attempt, retry=retry))

    assert await stage.session() == ended


async def test_time_ends_a_session_once(stage: SessionStage) -> None:
    await stage.give(stage.expire())
    assert (await stage.session()).session.status is SessionStatus.STARTED
    stage.passes(by=rules.LIFETIME)

    for _ in range(2):
        await stage.give(stage.expire())

    ended = await stage.session()
    assert (ended.session.status, ended.session.completed_at) == (SessionStatus.EXPIRED, stage.now)
    assert stage.audited()[-1] == "session.expired"
    assert stage.audited().count("session.expired") == stage.emitted().count("verification_session.expired")


async def test_a_late_command_finds_the_session_expired(stage: SessionStage) -> None:
    stage.passes(by=rules.LIFETIME)

    with pytest.raises(Refused, match="nothing any more"):
        await stage.give(stage.cancel())

    row = list(stage.shelves.audit[ACME].values())[-1]
    assert (row.action, row.actor_type) == ("session.expired", "SYSTEM")


async def test_a_session_handed_in_is_not_ended_by_time(stage: SessionStage) -> None:
    await stage.capture(EvidenceKind.IMAGE)
    await stage.capture(EvidenceKind.SELFIE)
    await stage.give(await stage.submission())
    stage.passes(by=rules.LIFETIME)

    await stage.give(stage.expire())
    await stage.settle()

    assert (await stage.session()).session.status is SessionStatus.APPROVED


async def test_only_one_of_two_sessions_is_opened(stage: SessionStage) -> None:
    result = await stage.give(await stage.opening(OTHER))

    assert (result.session_id, result.created) == (SESSION, False)
    with pytest.raises(NotFound):
        await stage.session(OTHER)


async def test_a_session_cut_short_while_it_was_opened_does_not_hold_its_place() -> None:
    stage = SessionStage()
    await stage.publish()
    command = await stage.opening()
    await stage.give(command)
    del stage.shelves.records[ACME, RecordKind.SESSION, SESSION]

    result = await stage.give(await stage.opening(OTHER))

    assert result.created
    assert (await stage.session(OTHER)).session.status is SessionStatus.CREATED


async def test_the_mark_of_a_session_follows_what_it_waits_for(stage: SessionStage) -> None:
    def due() -> tuple[tuple[str, str], ...]:
        (mark,) = [one for key, one in stage.shelves.records.items() if key[1] is RecordKind.SESSION_WATCH]
        return mark.indexes

    assert due() == (due_index(stage.now + rules.LIFETIME),)
    await stage.capture(EvidenceKind.IMAGE)
    await stage.capture(EvidenceKind.SELFIE)
    await stage.give(await stage.submission())
    assert due() == (due_index(stage.now + rules.STUCK_AFTER),)
    await stage.settle()
    assert due() == (rules.ended_index(ACME),)


async def test_without_movements_a_person_must_look() -> None:
    stage = SessionStage(with_liveness=False)
    stage.moving = False
    await stage.publish()
    await stage.start()

    ended = await stage.run()

    reasons = [reason.code for reason in (await verification(stage)).verification.reasons]
    assert ended.session.status is SessionStatus.REVIEW_REQUIRED
    assert ended.session.review_case_id is not None
    assert reasons == [ReasonCode.LIVENESS_UNCERTAIN]


async def test_a_number_typed_otherwise_than_read_goes_to_a_person(stage: SessionStage) -> None:
    ended = await stage.run(last4="9999")

    reasons = [reason.code for reason in (await verification(stage)).verification.reasons]
    assert (ended.session.status, reasons) == (SessionStatus.REVIEW_REQUIRED, [ReasonCode.NUMBER_MISMATCH])


async def test_a_selfie_without_a_face_is_asked_for_again_and_goes_to_a_person_at_last() -> None:
    stage = SessionStage(Scene(selfie_faces=()))
    await stage.publish()
    await stage.start()

    first, second, third = [await stage.run() for _ in range(3)]

    reasons = {reason.code for reason in (await verification(stage, 3)).verification.reasons}
    assert [one.session.status for one in (first, second)] == [SessionStatus.STARTED] * 2
    assert first.retry_reasons == (ReasonCode.FACE_NOT_FOUND_SELFIE,)
    assert third.session.status is SessionStatus.REVIEW_REQUIRED
    assert reasons == {ReasonCode.FACE_NOT_FOUND_SELFIE, ReasonCode.ATTEMPTS_EXHAUSTED}
    assert stage.audited().count("case.opened") == 1
    assert len(stage.evidence_ids()) == 2


async def test_a_retry_delivered_again_is_published_again(stage: SessionStage) -> None:
    stage.scene.selfie_faces = ()
    await stage.capture(EvidenceKind.IMAGE)
    await stage.capture(EvidenceKind.SELFIE)
    await stage.give(await stage.submission())
    (command,) = stage.handed

    for _ in range(2):
        with pytest.raises(Refused):
            await stage.evaluate(command)

    assert [(outcome.retry, outcome.retry_reasons) for outcome in stage.outcomes] == [
        (True, (ReasonCode.FACE_NOT_FOUND_SELFIE,))
    ] * 2


async def test_an_engine_that_breaks_holds_the_session(stage: SessionStage) -> None:
    stage.scene.trouble = {"read": Trouble.BROKEN}

    ended = await stage.run()

    assert ended.session.status is SessionStatus.FAILED


async def test_pictures_that_are_gone_are_asked_for_again(stage: SessionStage) -> None:
    await stage.capture(EvidenceKind.IMAGE)
    await stage.capture(EvidenceKind.SELFIE)
    await stage.give(await stage.submission())
    await stage.stores.evidence.discard(ACME, sorted(stage.evidence_ids()))

    await stage.settle()

    assert (await stage.session()).session.status is SessionStatus.STARTED


@pytest.mark.parametrize(
    ("issuer", "status", "reasons"),
    [
        ("NG", SessionStatus.APPROVED, []),
        ("UTO", SessionStatus.REJECTED, [ReasonCode.COUNTRY_NOT_ACCEPTED]),
        ("GB", SessionStatus.REJECTED, [ReasonCode.COUNTRY_NOT_ACCEPTED]),
        ("UNO", SessionStatus.REVIEW_REQUIRED, [ReasonCode.COUNTRY_NOT_ACCEPTED]),
    ],
)
async def test_a_flow_accepts_the_documents_it_names(
    issuer: str, status: SessionStatus, reasons: list[ReasonCode]
) -> None:
    stage = SessionStage(Scene(findings=build_findings(fields=build_fields(issuing_state=issuer))))
    await stage.publish(FlowType.DOCUMENT, (PASSPORT,))
    await stage.start()

    ended = await stage.run()

    found = [reason.code for reason in (await verification(stage)).verification.reasons]
    assert (ended.session.status, found) == (status, reasons)


async def test_a_biometric_session_compares_with_the_last_portrait(stage: SessionStage) -> None:
    first = await stage.run()
    portrait = next(
        one.id
        for one in (await verification(stage)).verification.evidence
        if one.kind is EvidenceKind.PORTRAIT
    )
    assert first.session.status is SessionStatus.APPROVED
    deployment = SessionStage(Scene(document_faces=(Face(FACE_BOX, 1.1, ()),)))
    deployment.stores, deployment.shelves = stage.stores, stage.shelves
    del stage.shelves.records[ACME, RecordKind.FLOW, (await stage.opening()).flow_id]
    await deployment.publish(FlowType.BIOMETRIC)

    opened = await deployment.give(await deployment.opening(OTHER))

    stored = await deployment.session(OTHER)
    assert (opened.created, stored.reference) == (True, portrait)


@pytest.mark.parametrize(
    ("distance", "status"), [(0.31, SessionStatus.APPROVED), (0.9, SessionStatus.REJECTED)]
)
async def test_a_selfie_alone_is_compared_with_the_known_portrait(
    distance: float, status: SessionStatus
) -> None:
    stage = SessionStage()
    await stage.publish(FlowType.BIOMETRIC)
    await stage.submit()
    stage.scene.distance = distance
    await stage.start()

    ended = await stage.run()

    found = (await verification(stage)).verification
    assert ended.session.status is status
    assert (found.document, found.distance) == (None, distance)
    assert [one.kind for one in found.evidence] == [EvidenceKind.SELFIE]
    assert stage.scene.calls.count("read") == 1  # by the verification that had a document


async def test_a_selfie_without_a_face_leaves_the_known_portrait_where_it_is() -> None:
    stage = SessionStage()
    await stage.publish(FlowType.BIOMETRIC)
    await stage.submit()
    stored = stage.evidence_ids()
    stage.scene.selfie_faces = ()
    await stage.start()

    ended = await stage.run()

    assert ended.session.status is SessionStatus.STARTED
    assert stage.evidence_ids() == stored


async def test_the_checker_finds_nothing_wrong_with_a_hosted_verification(stage: SessionStage) -> None:
    await stage.run()
    store_state = StoreState(
        stores=stage.stores,
        due_before=stage.now,
        retained_since=stage.now,
    )

    await store_state.walk_records(ACME)

    assert store_state.violations == []
    assert store_state.decided


async def test_a_conclusion_before_the_outcome_was_published_is_completed(stage: SessionStage) -> None:
    for kind in (EvidenceKind.IMAGE, EvidenceKind.SELFIE):
        await stage.capture(kind)
    await stage.give(await stage.submission())
    record = await stage.stores.records.get(ACME, RecordKind.SESSION, SESSION)
    concluded = (await stage.session()).session.model_copy(update={"status": SessionStatus.APPROVED})
    body = with_row(record.body, concluded)
    await stage.stores.journal.commit(Change(ACME, (next_session_record(record, concluded, body),)))

    await stage.settle()

    row = (await stage.session()).session
    assert (row.status, row.verification_id) == (
        SessionStatus.APPROVED,
        rules.verification_id(ACME, SESSION, 1),
    )
    assert row.completed_at is not None


@pytest.mark.parametrize("end", ["cancelled", "expired"])
async def test_an_end_before_handing_in_removes_the_pictures(stage: SessionStage, end: str) -> None:
    for kind in (EvidenceKind.IMAGE, EvidenceKind.SELFIE):
        await stage.capture(kind)
    if end == "expired":
        stage.passes(by=rules.LIFETIME)

    await stage.give(stage.cancel() if end == "cancelled" else stage.expire())

    assert stage.evidence_ids() == set()


async def test_a_subject_erased_while_its_session_is_opened_gets_none() -> None:
    stage = SessionStage()
    await stage.publish()
    command = await stage.opening()
    await stage.stores.vault.destroy(ACME, SUBJECT)

    with pytest.raises(Refused) as response:
        await stage.give(command)

    (error,) = response.value.refusal.errors
    assert (error.code, error.pointer) == (ProblemCode.VALIDATION_FAILED, "/subject_id")
    with pytest.raises(NotFound):
        await stage.session()
