"""Audit rows and decision events of a decided verification; pure, without personal data."""

from datetime import datetime
from typing import Final

from schemas.audit import AuditAction, AuditEvent
from schemas.enums import ActorType, VerificationStatus
from schemas.events import DecisionEvent, EventData, EventType
from schemas.ids import AuditEventId, EventId, TenantId, VerificationId, derive_id
from schemas.verifications import StoredVerification, SubmitVerification, codes_of
from streams.verification import review_case
from streams.verification.review_case import opened_audit_id

EVENT_OF: Final = {
    VerificationStatus.APPROVED: EventType.VERIFICATION_APPROVED,
    VerificationStatus.REVIEW_REQUIRED: EventType.VERIFICATION_REVIEW_REQUIRED,
    VerificationStatus.REJECTED: EventType.VERIFICATION_REJECTED,
    VerificationStatus.FAILED: EventType.VERIFICATION_FAILED,
}
"""The event that follows `verification.completed` (G52)."""


def audit_ids(tenant_id: TenantId, stored: StoredVerification) -> tuple[AuditEventId, ...]:
    """Return the ids of the audit rows the command wrote."""
    verification_id = stored.verification.verification_id
    evaluated = _evaluated_id(tenant_id, verification_id)
    if stored.verification.review_case_id is None:
        return (evaluated,)
    return (evaluated, opened_audit_id(tenant_id, verification_id))


def _evaluated_id(tenant_id: TenantId, verification_id: VerificationId) -> AuditEventId:
    action = AuditAction.VERIFICATION_EVALUATED
    return AuditEventId(derive_id("aud", tenant_id, verification_id, action, near=verification_id))


def audit_rows(
    command: SubmitVerification, stored: StoredVerification, ip: str | None
) -> tuple[AuditEvent, ...]:
    """Return the rows of the evaluation and, with a case, of its opening."""
    rows = (_evaluated(command, stored, ip),)
    if stored.verification.review_case_id is None:
        return rows
    return (*rows, review_case.opened_audit(command.tenant_id, stored))


def _evaluated(command: SubmitVerification, stored: StoredVerification, ip: str | None) -> AuditEvent:
    verification = stored.verification
    codes = ", ".join(codes_of(verification.reasons)) or "no reason"
    context = {
        "request_id": command.request_id,
        "ip": ip,
        "changes": {
            "verification_id": verification.verification_id,
            "status": verification.status,
            "decision": verification.decision,
            "risk_level": verification.risk_level,
            "risk_points": stored.risk_points,
            "policy_revision": stored.policy_revision,
        },
    }
    return AuditEvent(
        event_id=_evaluated_id(command.tenant_id, command.verification_id),
        action=AuditAction.VERIFICATION_EVALUATED,
        actor_type=ActorType.API_KEY if command.session_id is None else ActorType.SUBJECT,
        actor_id=command.session_id or command.key_id,
        subject_id=command.subject_id,
        correlation_id=command.request_id,
        decision_id=verification.decision_id,
        context={name: value for name, value in context.items() if value is not None},
        detail=f"A verification was evaluated and ended {verification.status} with {codes}.",
        created_at=verification.created_at,
        livemode=command.livemode,
    )


def events(tenant_id: TenantId, stored: StoredVerification) -> tuple[DecisionEvent, ...]:
    """Return the events of a verification, from its record alone so that they can be published again."""
    verification = stored.verification
    types = [EventType.VERIFICATION_COMPLETED, EVENT_OF[verification.status]]
    about, at = verification.verification_id, verification.created_at
    made = [
        event_of(tenant_id, stored, type_, place, about, at) for place, type_ in enumerate(types, start=1)
    ]
    if verification.review_case_id is not None:
        made.append(review_case.opened_event(tenant_id, stored))
    return tuple(made)


def event_of(
    tenant_id: TenantId, stored: StoredVerification, type_: EventType, sequence: int, about: str, at: datetime
) -> DecisionEvent:
    """Return an event about a verification; the event's id derives from `about`."""
    verification = stored.verification
    return DecisionEvent(
        id=EventId(derive_id("evt", tenant_id, about, type_, near=about)),
        type=type_,
        timestamp=at,
        tenant_id=tenant_id,
        livemode=stored.livemode,
        sequence=sequence,
        data=EventData(
            subject_id=verification.subject_id,
            verification_id=verification.verification_id,
            session_id=stored.session_id,
            decision_id=verification.decision_id,
            review_case_id=verification.review_case_id,
            status=verification.status,
            decision=verification.decision,
            risk_level=verification.risk_level,
            review_status=verification.review_status,
            reason_codes=codes_of(verification.reasons),
        ),
    )
