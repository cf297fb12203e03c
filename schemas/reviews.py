"""A review case: the question to a person when the machine does not decide alone (G42, G89)."""

from typing import Any

from schemas.base import Frozen, Timestamp
from schemas.enums import CaseKind, CaseStatus, Recommendation, ReviewStatus, RiskLevel
from schemas.ids import ReviewCaseId, SubjectId, VerificationId
from schemas.verifications import Reason


class CaseNote(Frozen):
    """A reviewer's remark; notes are only ever added."""

    note_id: str
    author_id: str
    text: str
    created_at: Timestamp


class ReviewCase(Frozen):
    """The question, who works on it and, at the end, the answer."""

    review_case_id: ReviewCaseId
    kind: CaseKind
    subject_id: SubjectId
    verification_id: VerificationId | None = None
    transaction_id: str | None = None
    status: CaseStatus
    risk_level: RiskLevel
    recommendation: Recommendation
    review_status: ReviewStatus
    reasons: tuple[Reason, ...]
    assignee: str | None = None
    lease_expires_at: Timestamp | None = None
    due_at: Timestamp
    notes: tuple[CaseNote, ...] = ()
    first_conclusion: dict[str, Any] | None = None
    conclusion: dict[str, Any] | None = None
    livemode: bool
    created_at: Timestamp
    updated_at: Timestamp
