"""Decision events: published on `idv.decisions.v1` and by webhook (G52, G53)."""

from typing import Literal

from schemas.base import Event, Frozen, Timestamp
from schemas.enums import DecisionOutcome, ReviewStatus, RiskLevel, TextEnum
from schemas.ids import EventId, TenantId

API_VERSION: Literal["0.1.0"] = "0.1.0"


class EventType(TextEnum):
    """The closed, versioned list of event types."""

    SESSION_CREATED = "verification_session.created"
    SESSION_STARTED = "verification_session.started"
    SESSION_SUBMITTED = "verification_session.submitted"
    SESSION_EXPIRED = "verification_session.expired"
    SESSION_CANCELLED = "verification_session.cancelled"
    VERIFICATION_COMPLETED = "verification.completed"
    VERIFICATION_APPROVED = "verification.approved"
    VERIFICATION_REVIEW_REQUIRED = "verification.review_required"
    VERIFICATION_REJECTED = "verification.rejected"
    VERIFICATION_FAILED = "verification.failed"
    VERIFICATION_REDACTED = "verification.redacted"
    CASE_OPENED = "review_case.opened"
    CASE_ASSIGNED = "review_case.assigned"
    CASE_ESCALATED = "review_case.escalated"
    CASE_CONCLUDED = "review_case.concluded"
    CASE_REOPENED = "review_case.reopened"
    FLOW_PUBLISHED = "flow.published"
    FLOW_ARCHIVED = "flow.archived"
    POLICY_PUBLISHED = "policy.published"
    LIST_UPDATED = "list.updated"
    TRANSACTION_SCREENED = "transaction.screened"
    TRANSACTION_DECISION_CHANGED = "transaction.decision_changed"
    WALLET_ASSESSED = "wallet.assessed"
    SCREENING_MATCH_FOUND = "screening.match_found"
    DOCUMENT_EXPIRING = "document.expiring"
    SUBJECT_SUSPENDED = "subject.suspended"
    SUBJECT_REINSTATED = "subject.reinstated"
    SUBJECT_ERASED = "subject.erased"
    WEBHOOK_ENDPOINT_DISABLED = "webhook_endpoint.disabled"
    PING = "ping"


class EventData(Frozen):
    """Ids, status and codes; never a name, a number or an image."""

    subject_id: str | None = None
    verification_id: str | None = None
    session_id: str | None = None
    decision_id: str | None = None
    review_case_id: str | None = None
    flow_id: str | None = None
    transaction_id: str | None = None
    assessment_id: str | None = None
    screening_id: str | None = None
    endpoint_id: str | None = None
    policy: str | None = None
    policy_revision: int | None = None
    list: str | None = None
    list_version: str | None = None
    status: str | None = None
    decision: DecisionOutcome | None = None
    risk_level: RiskLevel | None = None
    review_status: ReviewStatus | None = None
    reason_codes: tuple[str, ...] = ()


class DecisionEvent(Event):
    """One thing that happened; `sequence` rises per resource, so a receiver drops the older one."""

    id: EventId
    type: EventType
    timestamp: Timestamp
    api_version: Literal["0.1.0"] = API_VERSION
    tenant_id: TenantId
    livemode: bool
    sequence: int
    data: EventData
