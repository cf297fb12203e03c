"""A verification session: a subject's run; a direct verification gets a row of its own too (G35, G69)."""

from schemas.base import Frozen, Timestamp
from schemas.enums import DecisionOutcome, FlowType, ReviewStatus, RiskLevel, SessionStatus
from schemas.ids import ReviewCaseId, SessionId, SubjectId, VerificationId


class VerificationSession(Frozen):
    """One row of the reviewers' list."""

    session_id: SessionId
    subject_id: SubjectId
    flow_id: str | None = None
    flow_revision: int | None = None
    flow_type: FlowType
    status: SessionStatus
    decision: DecisionOutcome | None = None
    risk_level: RiskLevel | None = None
    review_status: ReviewStatus | None = None
    review_case_id: ReviewCaseId | None = None
    verification_id: VerificationId | None = None
    attempts: int
    created_at: Timestamp
    updated_at: Timestamp
    expires_at: Timestamp | None = None
    completed_at: Timestamp | None = None
    livemode: bool
