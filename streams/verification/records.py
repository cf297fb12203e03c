"""Index names, seal labels and evidence ids of verifications, and the records of sessions.

The writer and every reader of a record use these names and no others.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from types import MappingProxyType
from typing import Final

from pydantic import ValidationError

from schemas.base import rfc3339
from schemas.enums import DecisionOutcome, EvidenceKind, RetentionPolicy, SessionStatus
from schemas.ids import DecisionId, EvidenceId, SubjectId, TenantId, VerificationId, derive_id
from schemas.sessions import VerificationSession
from schemas.verifications import Evidence, PersonalFields, StoredVerification, Submission, Verification
from streams.ports.errors import Damaged
from streams.ports.records import Record, RecordKind

Index = tuple[str, str]
"""An index name and the value to look up."""

RETENTION_OF: Final[Mapping[EvidenceKind, RetentionPolicy]] = MappingProxyType(
    {
        EvidenceKind.IMAGE: RetentionPolicy.DOCUMENT_P90D,
        EvidenceKind.EXTRACTION: RetentionPolicy.DOCUMENT_P90D,
        EvidenceKind.SCREENING_RESULT: RetentionPolicy.DOCUMENT_P90D,
        EvidenceKind.PORTRAIT: RetentionPolicy.BIOMETRIC_P30D,
        EvidenceKind.SELFIE: RetentionPolicy.BIOMETRIC_P30D,
        EvidenceKind.LIVENESS_TRACE: RetentionPolicy.BIOMETRIC_P30D,
    }
)
"""How long each kind of evidence is stored unless the tenant sets another period (G9, G65)."""


def evidence_id(
    tenant_id: TenantId, verification_id: VerificationId, fingerprint: str, kind: EvidenceKind
) -> EvidenceId:
    """Return the evidence id of an image of a request or a result of its evaluation.

    It derives from the whole request: sent again it stores nothing twice, and another request under the same
    key, for example of another subject, shares no evidence with it.
    """
    return EvidenceId(derive_id("evd", tenant_id, verification_id, fingerprint, kind, near=verification_id))


def first_decision_id(tenant_id: TenantId, verification_id: VerificationId) -> DecisionId:
    """Return the id of the decision of an evaluation; those of reviewers derive from it."""
    return DecisionId(derive_id("dec", tenant_id, verification_id))


def submission_label(verification_id: VerificationId) -> str:
    """Return the vault label under which the front seals `Submission`."""
    return f"submission:{verification_id}"


def submission_of(opened: bytes) -> Submission:
    """Parse what the front end sealed; errors do not say what is wrong, because it is personal.

    Raises:
        Damaged: It is no submission.
    """
    try:
        return Submission.from_bytes(opened)
    except ValidationError:
        raise Damaged("the sealed submission is not one") from None


def fields_label(verification_id: VerificationId) -> str:
    """Return the vault label under which `PersonalFields` are sealed."""
    return f"fields:{verification_id}"


def face_label(verification_id: VerificationId) -> str:
    """Return the vault label under which the subject's face is sealed."""
    return f"face:{verification_id}"


def mode(livemode: bool) -> str:  # noqa: FBT001 - the interface's own word for it
    """Return how an index names live or test data (G92)."""
    return "live" if livemode else "test"


def by_mode(livemode: bool) -> Index:  # noqa: FBT001
    """Return the index of one mode."""
    return "mode", mode(livemode)


def by_subject(livemode: bool, subject_id: SubjectId) -> Index:  # noqa: FBT001
    """Return the index of one subject."""
    return "subject", f"{mode(livemode)}|{subject_id}"


def by_status(livemode: bool, status: str) -> Index:  # noqa: FBT001
    """Return the index of one status."""
    return "status", f"{mode(livemode)}|{status}"


def by_subject_and_status(livemode: bool, subject_id: SubjectId, status: str) -> Index:  # noqa: FBT001
    """Return the index of one subject in one status."""
    return "subject_status", f"{mode(livemode)}|{status}|{subject_id}"


def by_decision(decision_id: DecisionId) -> Index:
    """Return the index of the verification with this current decision."""
    return "decision", decision_id


def seen_index(moment: datetime) -> tuple[str, str]:
    """Return the index of the pictures that were first seen, or taken over, in the month of the time."""
    return "seen", rfc3339(moment)[:7]


def picture_id(livemode: bool, digest: str) -> str:  # noqa: FBT001
    """Return the id of a picture's record; the store gets a keyed hash of the digest."""
    return f"{mode(livemode)}|{digest}"


def indexes(livemode: bool, subject_id: SubjectId, status: str) -> tuple[Index, ...]:  # noqa: FBT001
    """Return all indexes of a verification, session or case."""
    return (
        by_mode(livemode),
        by_subject(livemode, subject_id),
        by_status(livemode, status),
        by_subject_and_status(livemode, subject_id, status),
    )


def refer(evidence: EvidenceId, kind: EvidenceKind) -> Evidence:
    """Return the reference shown to tenants; its location grants no access (G9)."""
    return Evidence(
        id=evidence, kind=kind, location=f"evidence:/{evidence}", retention_policy=RETENTION_OF[kind]
    )


def with_personal(stored: StoredVerification, personal: PersonalFields) -> Verification:
    """Return the verification as shown to tenants, with the opened personal fields."""
    document = stored.verification.document
    if document is None:
        return stored.verification
    whole = document.model_copy(
        update={name: getattr(personal, name) for name in PersonalFields.model_fields}
    )
    return stored.verification.model_copy(update={"document": whole})


STATUS_OF: Final = {
    DecisionOutcome.ALLOW: SessionStatus.APPROVED,
    DecisionOutcome.WARN: SessionStatus.APPROVED,
    DecisionOutcome.BLOCK: SessionStatus.REJECTED,
    DecisionOutcome.HOLD: SessionStatus.FAILED,
    DecisionOutcome.REVIEW_REQUIRED: SessionStatus.REVIEW_REQUIRED,
}
"""The session status of each decision (G15, G34); sessions have no other decisions."""


def session_record(tenant_id: TenantId, row: VerificationSession, body: bytes, fingerprint: str) -> Record:
    """Return the first record of a session."""
    return Record(
        tenant_id=tenant_id,
        kind=RecordKind.SESSION,
        id=row.session_id,
        body=body,
        created_at=row.created_at,
        fingerprint=fingerprint,
        indexes=session_indexes(row),
        searched=folded(row.subject_id),
    )


def next_session_record(record: Record, row: VerificationSession, body: bytes) -> Record:
    """Return the record's next version."""
    return replace(record, body=body, version=record.version + 1, indexes=session_indexes(row))


def session_indexes(row: VerificationSession) -> tuple[Index, ...]:
    """Return the indexes of a session; a decision is indexed by its status."""
    return by_mode(row.livemode), by_status(row.livemode, row.status)


def folded(text: str) -> str:
    """Return the text case-folded for comparing subject ids."""
    return text.lower()
