"""Audit rows and decision events of a transaction; pure, from its record alone."""

from datetime import datetime
from typing import Any, Final

from schemas.audit import Actor, AuditAction, AuditEvent
from schemas.enums import ActorType, CaseStatus, DecisionOutcome
from schemas.events import DecisionEvent, EventData, EventType
from schemas.ids import AuditEventId, EventId, TenantId, derive_id
from schemas.transaction_decisions import StoredTransaction
from schemas.verifications import codes_of
from streams.audit.rows import write_row

SYSTEM: Final = Actor(actor_type=ActorType.SYSTEM)


def audit_rows(tenant_id: TenantId, stored: StoredTransaction) -> tuple[AuditEvent, ...]:
    """Return the rows of a transaction's first decision."""
    transaction = stored.transaction
    codes = ", ".join(codes_of(stored.transaction.reasons)) or "no reason"
    changes = {
        "transaction_id": transaction.transaction_id,
        "type": transaction.type,
        "decision": transaction.decision,
        "risk_level": transaction.risk_level,
        "risk_score": transaction.risk_score,
        "policy_revision": transaction.policy.revision,
        "policy_sha256": transaction.policy.sha256,
    }
    key = Actor(actor_type=ActorType.API_KEY, actor_id=stored.key_id, request_id=stored.request_id)
    detail = f"A transaction was screened and ended {transaction.decision} with {codes}."
    rows = [
        row(tenant_id, stored, AuditAction.TRANSACTION_SCREENED, key, transaction.created_at, detail, changes)
    ]
    system = SYSTEM.model_copy(update={"request_id": stored.request_id})
    if transaction.review_case_id is not None:
        rows.append(case_row(tenant_id, stored, system, transaction.created_at))
    if transaction.decision is DecisionOutcome.SUSPEND:
        detail = "The subject was suspended: its transactions are blocked until a reviewer lifts it."
        said = {"transaction_id": transaction.transaction_id}
        rows.append(
            row(
                tenant_id, stored, AuditAction.SUBJECT_SUSPENDED, system, transaction.created_at, detail, said
            )
        )
    return tuple(rows)


def case_row(tenant_id: TenantId, stored: StoredTransaction, actor: Actor, at: datetime) -> AuditEvent:
    """Return the audit row of the opening of a transaction's case."""
    case = stored.transaction.review_case_id
    changes = {
        "review_case_id": case,
        "transaction_id": stored.transaction.transaction_id,
        "status": CaseStatus.OPEN,
        "recommendation": stored.recommendation,
    }
    detail = f"Review case {case} was opened because the transaction needs a person."
    return row(tenant_id, stored, AuditAction.CASE_OPENED, actor, at, detail, changes)


def row(
    tenant_id: TenantId,
    stored: StoredTransaction,
    action: AuditAction,
    actor: Actor,
    at: datetime,
    detail: str,
    changes: dict[str, Any],
) -> AuditEvent:
    """Return an audit row about the decision that stands."""
    transaction = stored.transaction
    return write_row(
        AuditEventId(derive_id("aud", tenant_id, transaction.decision_id, action)),
        action,
        actor,
        transaction.subject_id,
        at,
        detail=detail,
        changes=changes,
        decision_id=transaction.decision_id,
        livemode=transaction.livemode,
    )


def decision_events(tenant_id: TenantId, stored: StoredTransaction) -> tuple[DecisionEvent, ...]:
    """Return the events of a transaction's first decision, the same ones each time."""
    transaction = stored.transaction
    at = transaction.created_at
    made = [event(tenant_id, stored, EventType.TRANSACTION_SCREENED, 1, at)]
    if transaction.review_case_id is not None:
        made.append(event(tenant_id, stored, EventType.CASE_OPENED, 1, at, status=CaseStatus.OPEN))
    if transaction.decision is DecisionOutcome.SUSPEND:
        made.append(event(tenant_id, stored, EventType.SUBJECT_SUSPENDED, 1, at))
    return tuple(made)


def event(
    tenant_id: TenantId,
    stored: StoredTransaction,
    type_: EventType,
    sequence: int,
    at: datetime,
    *,
    status: str | None = None,
) -> DecisionEvent:
    """Return an event about the decision that stands."""
    transaction = stored.transaction
    return DecisionEvent(
        id=EventId(derive_id("evt", tenant_id, transaction.decision_id, type_)),
        type=type_,
        timestamp=at,
        tenant_id=tenant_id,
        livemode=transaction.livemode,
        sequence=sequence,
        data=EventData(
            subject_id=transaction.subject_id,
            transaction_id=transaction.transaction_id,
            decision_id=transaction.decision_id,
            review_case_id=transaction.review_case_id,
            status=status,
            decision=transaction.decision,
            risk_level=transaction.risk_level,
            review_status=transaction.review_status,
            reason_codes=codes_of(stored.transaction.reasons),
        ),
    )
