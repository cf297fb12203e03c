"""Build the evidence, records and change of a decided command; pure, with ids derived from the command."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from schemas.base import Frozen, Timestamp
from schemas.enums import (
    DocumentType,
    EvidenceKind,
    ExtractionStatus,
    FlowType,
    ReaderClass,
    RetentionPolicy,
    RiskLevel,
    SessionStatus,
    VerificationStatus,
)
from schemas.ids import EvidenceId, SessionId, TenantId, derive_id
from schemas.problems import Refusal
from schemas.reasons import ReasonCode
from schemas.reviews import ReviewCase, StoredCase
from schemas.sessions import VerificationSession
from schemas.verifications import (
    DocumentResult,
    Evidence,
    StoredVerification,
    SubmitVerification,
    Verification,
)
from streams.ports.records import Change, Record, RecordKind
from streams.verification import events, evidence, review_case
from streams.verification import records as verification_records
from streams.verification.observations import Evaluation
from streams.verification.policy import VerificationPolicy
from streams.verification.records import session_record
from streams.verification.rules import Judgement, model_version, summarise, to_reasons

DOCUMENT_TYPE_OF: Final = {
    ReaderClass.TD3_MRZ: DocumentType.PASSPORT,
    ReaderClass.NG_NIN_SLIP: DocumentType.NIN_SLIP,
}
"""The document type of each reader; any other document is OTHER."""


@dataclass(frozen=True, slots=True)
class Decided:
    """A judgement about a command, and its time."""

    command: SubmitVerification
    evaluation: Evaluation
    judgement: Judgement
    policy: VerificationPolicy
    at: datetime
    ip: str | None = None


class Remembered(Frozen):
    """What the actor remembers of a command: enough to answer it again, without personal data."""

    tenant_id: TenantId
    fingerprint: str
    request_id: str
    evidence_ids: tuple[EvidenceId, ...] = ()
    """Evidence the verification refers to; other evidence of a replayed command is discarded."""
    refusal: Refusal | None = None
    """Why the command was refused; then nothing was created and the evidence is gone."""
    retry_reasons: tuple[ReasonCode, ...] = ()
    """Why a session must take its images again."""
    refused_at: Timestamp | None = None

    def answers(self, command: SubmitVerification) -> bool:
        """Return whether the command needs no evaluation.

        A decision answers every command under its id. A refusal leaves the key free: it answers only the
        same request when that was sent before the refusal, for concurrent ones find no evidence left.
        """
        if command.tenant_id != self.tenant_id:
            return False
        if self.refusal is None or self.refused_at is None:
            return True
        return self.is_about(command) and command.requested_at <= self.refused_at

    def is_about(self, command: SubmitVerification) -> bool:
        """Return whether the command is the same request of the same tenant."""
        return (command.tenant_id, command.fingerprint) == (self.tenant_id, self.fingerprint)


def stored_verification(
    decided: Decided, sealed_fields: str | None, sealed_face: str | None = None
) -> StoredVerification:
    """Build the verification as stored: the document without its personal fields."""
    command, judgement = decided.command, decided.judgement
    return StoredVerification(
        verification=_verification(decided),
        sealed_fields=sealed_fields,
        session_id=session_id(command),
        livemode=command.livemode,
        checks=decided.evaluation.results,
        risk_points=judgement.risk_points,
        risk_terms=judgement.risk_terms,
        recommendation=judgement.recommendation,
        policy_revision=decided.policy.revision,
        thresholds=decided.policy.thresholds() | dict(decided.evaluation.bands),
        sealed_submission=command.sealed_submission,
        sealed_face=sealed_face,
        request_id=command.request_id,
    )


def session_id(command: SubmitVerification) -> SessionId:
    """Return the session of a command; a direct verification gets its own (G69)."""
    own = SessionId(derive_id("vs", command.tenant_id, command.verification_id))
    return command.session_id or own


def _verification(decided: Decided) -> Verification:
    command, judgement, evaluation = decided.command, decided.judgement, decided.evaluation
    document = evidence.of_document(command, evaluation)
    selfie = verification_records.refer(command.selfie_evidence_id, EvidenceKind.SELFIE)
    scored = evaluation.distance is not None and evaluation.engine_version is not None
    in_review = judgement.status is VerificationStatus.REVIEW_REQUIRED
    return Verification(
        verification_id=command.verification_id,
        subject_id=command.subject_id,
        created_at=decided.at,
        status=judgement.status,
        decision=judgement.outcome,
        decision_id=verification_records.first_decision_id(command.tenant_id, command.verification_id),
        distance=evaluation.distance,
        model_version=model_version(evaluation.engine_version or "", decided.policy) if scored else None,
        review_case_id=review_case.case_id(command.tenant_id, command.verification_id) if in_review else None,
        review_status=judgement.review_status,
        risk_level=judgement.risk_level,
        evidence=document
        if command.flow_type is FlowType.DOCUMENT
        else (*document, selfie, *evidence.of_movements(command)),
        reasons=to_reasons(judgement.reasons, _pointers(decided)),
        document=_document(decided, document) if command.flow_type is not FlowType.BIOMETRIC else None,
        livemode=command.livemode,
        checks=summarise(evaluation.results),
    )


def _pointers(decided: Decided) -> tuple[str, ...]:
    """Return the declared fields that differ; a session's images have no declared values."""
    if decided.command.session_id is not None:
        return ()
    return tuple(pointer for result in decided.evaluation.results for pointer in result.pointers)


def _document(decided: Decided, evidence: tuple[Evidence, ...]) -> DocumentResult:
    findings = decided.evaluation.findings
    reader = findings.reader if findings else None
    return DocumentResult(
        document_type=DOCUMENT_TYPE_OF[reader] if reader else DocumentType.OTHER,
        evidence=evidence,
        extraction_status=findings.status if findings else ExtractionStatus.FAILED,
    )


def change(decided: Decided, stored: StoredVerification) -> Change:
    """Return the change with everything the command writes; the verification's record decides."""
    command = decided.command
    verification = stored.verification
    records = [
        _record(decided, RecordKind.VERIFICATION, verification.verification_id, verification.status, stored)
    ]
    records[0] = replace(
        records[0], indexes=(*records[0].indexes, verification_records.by_decision(verification.decision_id))
    )
    if command.session_id is None:
        session = _session(stored)
        body = session.to_bytes()
        records.append(session_record(command.tenant_id, session, body, command.fingerprint))
    if verification.review_case_id is not None:
        due_after = _due_after(decided.policy, verification.risk_level)
        case: ReviewCase = review_case.open_case(command.tenant_id, stored, due_after)
        records.append(_case_record(decided, case))
    return Change(
        tenant_id=command.tenant_id,
        records=tuple(records),
        audit=events.audit_rows(command, stored, decided.ip),
        events=events.events(command.tenant_id, stored),
    )


def _record(decided: Decided, kind: RecordKind, record_id: str, status: str, body: Frozen) -> Record:
    command = decided.command
    return Record(
        tenant_id=command.tenant_id,
        kind=kind,
        id=record_id,
        body=body.to_bytes(),
        created_at=decided.at,
        fingerprint=command.fingerprint,
        indexes=verification_records.indexes(command.livemode, command.subject_id, status),
    )


def _case_record(decided: Decided, case: ReviewCase) -> Record:
    return Record(
        tenant_id=decided.command.tenant_id,
        kind=RecordKind.REVIEW_CASE,
        id=case.review_case_id,
        body=StoredCase(case=case).to_bytes(),
        created_at=decided.at,
        fingerprint=decided.command.fingerprint,
        indexes=review_case.indexes(case),
    )


def _session(stored: StoredVerification) -> VerificationSession:
    """Return the finished session record of a direct verification, for the reviewers' list (G69)."""
    verification = stored.verification
    return VerificationSession(
        session_id=stored.session_id,
        subject_id=verification.subject_id,
        flow_type=FlowType.FULL_IDENTITY,
        status=SessionStatus(verification.status),
        decision=verification.decision,
        risk_level=verification.risk_level,
        review_status=verification.review_status,
        review_case_id=verification.review_case_id,
        verification_id=verification.verification_id,
        attempts=1,
        created_at=verification.created_at,
        updated_at=verification.created_at,
        completed_at=verification.created_at,
        livemode=stored.livemode,
    )


def _due_after(policy: VerificationPolicy, risk_level: RiskLevel) -> timedelta:
    critical = risk_level is RiskLevel.CRITICAL
    return timedelta(hours=policy.review_due_critical_h if critical else policy.review_due_h)


def remembered(record: Record) -> Remembered:
    """Return what the actor remembers of a record, from the body as it was first answered."""
    return memo_of(record, first_stored(record))


def memo_of(record: Record, stored: StoredVerification) -> Remembered:
    """Return what the actor remembers of a record, given its first body."""
    return Remembered(
        tenant_id=record.tenant_id,
        fingerprint=record.fingerprint,
        request_id=stored.request_id,
        evidence_ids=tuple(
            evidence.id
            for evidence in stored.verification.evidence
            if evidence.retention_policy is not RetentionPolicy.REDACTED
        ),
    )


def refused(
    command: SubmitVerification, refusal: Refusal, at: datetime, retry_reasons: tuple[ReasonCode, ...] = ()
) -> Remembered:
    """Return what the actor remembers of a refusal that the same images always get."""
    return Remembered(
        tenant_id=command.tenant_id,
        fingerprint=command.fingerprint,
        request_id=command.request_id,
        refusal=refusal,
        refused_at=at,
        retry_reasons=retry_reasons,
    )


def first_stored(record: Record) -> StoredVerification:
    """Return the verification as first answered (G2)."""
    return StoredVerification.from_bytes(record.first_body or record.body)
