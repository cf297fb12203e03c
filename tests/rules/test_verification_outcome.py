from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.audit import AuditAction
from schemas.enums import (
    ActorType,
    CaseStatus,
    CheckKind,
    CheckVerdict,
    DocumentType,
    EvidenceKind,
    ReaderClass,
    ReviewStatus,
    RiskLevel,
    SessionStatus,
)
from schemas.events import EventType
from schemas.ids import SubjectId, VerificationId, derive_id
from schemas.reasons import ReasonCode
from schemas.reviews import StoredCase
from schemas.sessions import VerificationSession
from schemas.verifications import PersonalFields
from streams.ports.records import Change, RecordKind
from streams.verification import change as verification_change
from streams.verification import events
from streams.verification import evidence as made_evidence
from streams.verification import records as verification_records
from streams.verification.change import Decided
from streams.verification.observations import Evaluation
from streams.verification.policy import VerificationPolicy
from streams.verification.rules import decide, found, usual
from tests.builders import ACME, GLOBEX, NOW, SUBJECT, build_command, build_findings, build_record

POLICY = VerificationPolicy()


def decided(*reasons: ReasonCode, **changes: Any) -> Decided:
    results = [found(kind, ()) for kind in POLICY.required_checks if kind is not CheckKind.FACE_MATCH]
    results.append(found(CheckKind.FACE_MATCH, usual(*reasons)))
    evaluation = Evaluation(
        results=tuple(results),
        findings=build_findings(),
        distance=0.3,
        engine_version="dlib-resnet-v1@55533b28",
        portrait=b"portrait",
    )
    values: dict[str, Any] = {
        "command": build_command(),
        "evaluation": evaluation,
        "judgement": decide(POLICY, results),
        "policy": POLICY,
        "at": NOW,
        "ip": "203.0.113.7",
    }
    return Decided(**values | changes)


def change_of(one: Decided) -> Change:
    return verification_change.change(one, verification_change.stored_verification(one, "c2VhbGVk"))


def ids(change: Change) -> list[str]:
    records = [record.id for record in change.records]
    return [*records, *(row.event_id for row in change.audit), *(event.id for event in change.events)]


def test_an_approval_leaves_a_verification_and_its_session() -> None:
    change = change_of(decided())

    assert [record.kind for record in change.records] == [RecordKind.VERIFICATION, RecordKind.SESSION]


def test_the_verification_decides_the_commit() -> None:
    assert change_of(decided(ReasonCode.FACE_MATCH_UNCERTAIN)).records[0].kind is RecordKind.VERIFICATION


def test_a_review_opens_a_case_with_its_row_and_its_event() -> None:
    change = change_of(decided(ReasonCode.FACE_MATCH_UNCERTAIN))

    assert change.records[2].kind is RecordKind.REVIEW_CASE
    assert [row.action for row in change.audit] == [
        AuditAction.VERIFICATION_EVALUATED,
        AuditAction.CASE_OPENED,
    ]
    assert [event.type for event in change.events] == [
        EventType.VERIFICATION_COMPLETED,
        EventType.VERIFICATION_REVIEW_REQUIRED,
        EventType.CASE_OPENED,
    ]


@pytest.mark.parametrize(
    ("reasons", "specific"),
    [
        ((), EventType.VERIFICATION_APPROVED),
        ((ReasonCode.FACE_MISMATCH,), EventType.VERIFICATION_REJECTED),
        ((ReasonCode.PROVIDER_UNAVAILABLE,), EventType.VERIFICATION_FAILED),
    ],
)
def test_every_verification_is_published_as_completed_and_by_its_outcome(
    reasons: tuple[ReasonCode, ...], specific: EventType
) -> None:
    change = change_of(decided(*reasons))

    assert [event.type for event in change.events] == [EventType.VERIFICATION_COMPLETED, specific]


def test_the_sequence_of_one_resource_rises() -> None:
    first, second, case = change_of(decided(ReasonCode.FACE_MATCH_UNCERTAIN)).events

    assert (first.sequence, second.sequence, case.sequence) == (1, 2, 1)


def test_the_case_names_what_it_asks_and_when_it_is_due() -> None:
    change = change_of(decided(ReasonCode.FACE_MATCH_UNCERTAIN))

    case = StoredCase.from_bytes(change.records[2].body).case
    assert (case.status, case.review_status) == (CaseStatus.OPEN, ReviewStatus.PENDING)
    assert case.due_at == NOW + timedelta(hours=24)


def test_a_critical_case_is_due_sooner() -> None:
    several = (ReasonCode.FACE_MATCH_UNCERTAIN, ReasonCode.QR_MISMATCH, ReasonCode.NUMBER_MISMATCH)
    change = change_of(decided(*several))

    case = StoredCase.from_bytes(change.records[2].body).case
    assert case.risk_level is RiskLevel.CRITICAL
    assert case.due_at == NOW + timedelta(hours=4)


def test_the_session_of_a_direct_verification_is_finished_at_once() -> None:
    session = VerificationSession.from_bytes(change_of(decided()).records[1].body)

    assert (session.status, session.completed_at, session.attempts) == (SessionStatus.APPROVED, NOW, 1)


@given(st.text(min_size=1), st.text(min_size=1))
def test_every_id_derives_from_the_command(tenant: str, verification: str) -> None:
    names = {
        "tenant_id": derive_id("ten", tenant),
        "verification_id": derive_id("ver", verification),
    }
    one = decided(ReasonCode.FACE_MATCH_UNCERTAIN, command=build_command(**names))
    later = decided(
        ReasonCode.FACE_MATCH_UNCERTAIN,
        command=build_command(**names, request_id="req-2"),
        at=NOW + timedelta(hours=1),
    )

    assert ids(change_of(one)) == ids(change_of(later))
    assert [draft.row.evidence_id for draft in made_evidence.drafts(one.command, one.evaluation, one.at)] == [
        draft.row.evidence_id for draft in made_evidence.drafts(later.command, later.evaluation, later.at)
    ]


@pytest.mark.parametrize(
    "other",
    [{"tenant_id": GLOBEX}, {"verification_id": VerificationId(derive_id("ver", "other"))}],
)
def test_another_command_has_other_ids(other: dict[str, Any]) -> None:
    one = change_of(decided(ReasonCode.FACE_MATCH_UNCERTAIN))
    two = change_of(decided(ReasonCode.FACE_MATCH_UNCERTAIN, command=build_command(**other)))

    derived = set(ids(one)[1:])
    assert derived.isdisjoint(ids(two)[1:])


def test_no_two_things_of_one_change_share_an_id() -> None:
    made = ids(change_of(decided(ReasonCode.FACE_MATCH_UNCERTAIN)))

    assert len(set(made)) == len(made)


def test_the_evaluation_is_audited_as_the_act_of_the_key() -> None:
    (row,) = change_of(decided()).audit

    assert (row.actor_type, row.actor_id) == (ActorType.API_KEY, build_command().key_id)
    assert row.correlation_id == "req-1"
    assert row.context["ip"] == "203.0.113.7"


def test_the_opening_of_a_case_is_audited_as_the_act_of_the_service() -> None:
    _, row = change_of(decided(ReasonCode.FACE_MATCH_UNCERTAIN)).audit

    assert (row.actor_type, row.actor_id) == (ActorType.SYSTEM, None)


def test_what_is_published_again_is_what_was_committed() -> None:
    one = decided(ReasonCode.FACE_MATCH_UNCERTAIN)
    change = change_of(one)

    stored = verification_change.first_stored(change.records[0])
    assert events.events(ACME, stored) == change.events
    assert events.audit_ids(ACME, stored) == tuple(row.event_id for row in change.audit)


def test_the_stored_document_has_no_personal_field() -> None:
    stored = verification_change.first_stored(change_of(decided()).records[0])

    document = stored.verification.document
    assert document is not None
    assert document.extracted_fields == {}
    assert (document.expires_at, document.issuing_country, document.number_last4) == (None, None, None)


def test_opened_personal_fields_return_to_their_places() -> None:
    one = decided()
    stored = verification_change.first_stored(change_of(one).records[0])

    whole = verification_records.with_personal(stored, one.evaluation.personal)

    assert whole.document is not None
    assert whole.document.extracted_fields["surname"] == "ERIKSSON"
    assert whole.document.number_last4 == "02C3"


def test_a_verification_without_a_document_takes_no_personal_fields() -> None:
    stored = verification_change.first_stored(change_of(decided()).records[0])
    bare = stored.model_copy(
        update={"verification": stored.verification.model_copy(update={"document": None})}
    )

    assert verification_records.with_personal(bare, PersonalFields()).document is None


@pytest.mark.parametrize(
    ("reader", "document_type"),
    [
        (ReaderClass.TD3_MRZ, DocumentType.PASSPORT),
        (ReaderClass.NG_NIN_SLIP, DocumentType.NIN_SLIP),
        (None, DocumentType.OTHER),
    ],
)
def test_the_reader_tells_the_kind_of_document(
    reader: ReaderClass | None, document_type: DocumentType
) -> None:
    one = decided()
    evaluation = Evaluation(results=one.evaluation.results, findings=build_findings(reader=reader))
    stored = verification_change.stored_verification(decided(evaluation=evaluation), None)

    assert stored.verification.document is not None
    assert stored.verification.document.document_type is document_type


def test_the_evidence_is_named_with_its_retention() -> None:
    stored = verification_change.stored_verification(decided(), None)

    kinds = {reference.kind: reference.retention_policy for reference in stored.verification.evidence}
    assert kinds == {
        kind: verification_records.RETENTION_OF[kind]
        for kind in (
            EvidenceKind.IMAGE,
            EvidenceKind.EXTRACTION,
            EvidenceKind.PORTRAIT,
            EvidenceKind.SELFIE,
        )
    }


def test_an_unscored_verification_names_no_model() -> None:
    one = decided()
    evaluation = Evaluation(
        results=(build_unseen(),), findings=None, distance=None, engine_version="engine@00000000"
    )

    stored = verification_change.stored_verification(
        decided(evaluation=evaluation, judgement=one.judgement), None
    )

    assert stored.verification.model_version is None


def build_unseen() -> Any:
    return found(CheckKind.FACE_MATCH, usual(ReasonCode.FACE_NOT_FOUND_DOCUMENT))


def test_test_data_is_listed_apart_from_live_data() -> None:
    live = dict(verification_records.indexes(livemode=True, subject_id=SUBJECT, status="APPROVED"))
    test = dict(verification_records.indexes(livemode=False, subject_id=SUBJECT, status="APPROVED"))

    assert live["mode"] == "live"
    assert set(live.values()).isdisjoint(test.values())


def test_no_subject_can_be_listed_as_another_in_another_status() -> None:
    one = verification_records.by_subject_and_status(True, SubjectId("a"), "APPROVED")
    other = verification_records.by_subject_and_status(True, SubjectId("APPROVED"), "a")

    assert one != other


def test_the_memory_of_a_record_is_that_of_its_first_answer() -> None:
    first = build_record()
    concluded = build_record(body=b"{}", first_body=first.body, version=2)

    assert verification_change.remembered(concluded) == verification_change.remembered(first)


def test_a_failed_check_is_kept_with_its_detail() -> None:
    stored = verification_change.stored_verification(decided(ReasonCode.FACE_MISMATCH), None)

    (match,) = [check for check in stored.checks if check.kind is CheckKind.FACE_MATCH]
    assert match.verdict is CheckVerdict.FAILED
