"""Records and indexes of sessions, hosted or of direct verifications.

All writers of sessions' records use these functions, and the reviewers' list uses the same index names.
"""

from dataclasses import replace
from typing import Final

from schemas.enums import DecisionOutcome, SessionStatus
from schemas.ids import TenantId
from schemas.sessions import VerificationSession
from streams.ports.records import Record, RecordKind
from streams.verification.records import Index, by_mode, by_status

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
