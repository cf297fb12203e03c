"""Open the review case of a verification, and its indexes; pure."""

from datetime import timedelta
from typing import Final

from schemas.audit import AuditAction, AuditEvent
from schemas.enums import ActorType, CaseKind, CaseStatus, Recommendation, ReviewStatus, RiskLevel
from schemas.events import DecisionEvent, EventData, EventType
from schemas.ids import AuditEventId, EventId, ReviewCaseId, TenantId, VerificationId, derive_id
from schemas.reviews import ReviewCase
from schemas.verifications import StoredVerification, codes_of

UNASSIGNED: Final = "none"
"""Index value of unassigned cases."""


def case_id(tenant_id: TenantId, verification_id: VerificationId) -> ReviewCaseId:
    """Derive the id of the first case of a verification."""
    return ReviewCaseId(derive_id("rc", tenant_id, verification_id))


def open_case(tenant_id: TenantId, stored: StoredVerification, due_after: timedelta) -> ReviewCase:
    """Return the new case of a verification that needs a review (G26, G42).

    Without a recommendation of the evaluation the case recommends to reject, which is safe.
    """
    verification = stored.verification
    return ReviewCase(
        review_case_id=case_id(tenant_id, verification.verification_id),
        kind=CaseKind.VERIFICATION,
        subject_id=verification.subject_id,
        verification_id=verification.verification_id,
        status=CaseStatus.OPEN,
        risk_level=verification.risk_level,
        recommendation=stored.recommendation or Recommendation.REJECTED,
        review_status=ReviewStatus.PENDING,
        reasons=verification.reasons,
        risk=stored.risk,
        due_at=verification.created_at + due_after,
        livemode=stored.livemode,
        created_at=verification.created_at,
        updated_at=verification.created_at,
    )


def indexes(case: ReviewCase) -> tuple[tuple[str, str], ...]:
    """Return the indexes of the case, one for each combination of filters."""
    return tuple(
        index_of(case.livemode, status, assignee, risk)
        for status in (None, case.status)
        for assignee in (None, case.assignee or UNASSIGNED)
        for risk in (None, case.risk_level)
    )


def index_of(
    livemode: bool,  # noqa: FBT001 - the interface's own word for it
    status: CaseStatus | None,
    assignee: str | None,
    risk: RiskLevel | None,
) -> tuple[str, str]:
    """Return the index of the cases of one mode for a filter; None means any."""
    mode = "live" if livemode else "test"
    return "cases", f"{mode}|{status or '*'}|{assignee or '*'}|{risk or '*'}"


def opened_event(tenant_id: TenantId, stored: StoredVerification) -> DecisionEvent:
    """Return the event of the opened case; the same event in every retry."""
    verification = stored.verification
    about = verification.verification_id
    case = case_id(tenant_id, about)
    return DecisionEvent(
        id=EventId(derive_id("evt", tenant_id, case, EventType.CASE_OPENED, near=about)),
        type=EventType.CASE_OPENED,
        timestamp=verification.created_at,
        tenant_id=tenant_id,
        livemode=stored.livemode,
        sequence=1,
        data=EventData(
            subject_id=verification.subject_id,
            verification_id=about,
            session_id=stored.session_id,
            decision_id=verification.decision_id,
            review_case_id=case,
            status=CaseStatus.OPEN,
            decision=verification.decision,
            risk_level=verification.risk_level,
            review_status=ReviewStatus.PENDING,
            reason_codes=codes_of(verification.reasons),
        ),
    )


def opened_audit(tenant_id: TenantId, stored: StoredVerification) -> AuditEvent:
    """Return the audit row of the opening, with the system as actor."""
    verification = stored.verification
    case = case_id(tenant_id, verification.verification_id)
    return AuditEvent(
        event_id=opened_audit_id(tenant_id, verification.verification_id),
        action=AuditAction.CASE_OPENED,
        actor_type=ActorType.SYSTEM,
        subject_id=verification.subject_id,
        correlation_id=stored.request_id or None,
        decision_id=verification.decision_id,
        context={
            "request_id": stored.request_id,
            "changes": {
                "review_case_id": case,
                "verification_id": verification.verification_id,
                "status": CaseStatus.OPEN,
                "recommendation": stored.recommendation,
            },
        },
        detail=f"Review case {case} was opened because the verification needs a person.",
        created_at=verification.created_at,
        livemode=stored.livemode,
    )


def opened_audit_id(tenant_id: TenantId, verification_id: VerificationId) -> AuditEventId:
    """Derive the id of the audit row of a case's opening."""
    return AuditEventId(
        derive_id("aud", tenant_id, verification_id, AuditAction.CASE_OPENED, near=verification_id)
    )
