"""The record of a decision: outcome, actor, and the decision it superseded (G25, G87)."""

from schemas.base import Frozen, Timestamp
from schemas.enums import (
    ActorType,
    DecisionOutcome,
    Recommendation,
    ReviewStatus,
    RiskLevel,
    VerificationStatus,
)
from schemas.ids import DecisionId, ReviewCaseId, SubjectId, VerificationId
from schemas.verifications import Reason


class Decision(Frozen):
    """One decision; it never changes, but a later one may supersede it."""

    decision_id: DecisionId
    verification_id: VerificationId
    subject_id: SubjectId
    status: VerificationStatus
    decision: DecisionOutcome
    review_status: ReviewStatus
    risk_level: RiskLevel
    reasons: tuple[Reason, ...]
    recommendation: Recommendation | None = None
    review_case_id: ReviewCaseId | None = None
    decided_at: Timestamp
    decided_by: ActorType
    """SYSTEM for the machine, REVIEWER for a person."""
    reviewer_id: str | None = None
    superseded_by: DecisionId | None = None
    """Absent while it stands."""
    livemode: bool
