"""Decide a transaction anew: after a review, or when its hold ends; pure (G121).

The first decision stays as it was answered, and what features counted never changes.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from schemas.audit import Actor, AuditAction, AuditEvent
from schemas.enums import CaseStatus, DecisionOutcome, Recommendation, ReviewStatus
from schemas.events import DecisionEvent, EventType
from schemas.ids import TenantId
from schemas.transaction_decisions import DecisionBy, DecisionStep, StoredTransaction, TransactionReason
from streams.ports.records import Record
from streams.transactions import events, records, review_case
from streams.transactions.rules import OPENS_CASE


@dataclass(frozen=True, slots=True)
class Redecision:
    """A later decision of a transaction."""

    decision: DecisionOutcome
    reasons: Sequence[TransactionReason]
    by: DecisionBy
    cause: str
    """What led to it, such as a case and its version: two causes are two decisions."""
    at: datetime
    actor: Actor


def redecided(
    tenant_id: TenantId,
    before: StoredTransaction,
    what: Redecision,
    review_status: ReviewStatus | None = None,
) -> StoredTransaction:
    """Return the transaction with the new decision; one that needs a person gets its case."""
    transaction = before.transaction
    about = transaction.transaction_id
    decision_id = records.next_decision_id(tenant_id, about, what.cause)
    opens = review_status is None and what.decision in OPENS_CASE
    step = DecisionStep(decision_id=decision_id, decision=what.decision, at=what.at, by=what.by)
    update: dict[str, object] = {
        "decision": what.decision,
        "decision_id": decision_id,
        "hold_expires_at": None,
        "reasons": tuple(what.reasons),
        "review_status": ReviewStatus.PENDING if opens else review_status or transaction.review_status,
    }
    if opens:
        update["review_case_id"] = records.case_id(tenant_id, about)
    approve = what.decision is DecisionOutcome.REVIEW_REQUIRED
    recommendation = Recommendation.APPROVED if approve else Recommendation.REJECTED
    return before.model_copy(
        update={
            "transaction": transaction.model_copy(update=update),
            "decisions": (*before.decisions, step),
            "recommendation": recommendation if opens else before.recommendation,
        }
    )


def next_record(current: Record, after: StoredTransaction) -> Record:
    """Return the record's next version."""
    return replace(
        current,
        body=after.to_bytes(),
        version=current.version + 1,
        indexes=records.indexes(after),
    )


def opened_case(
    tenant_id: TenantId, before: StoredTransaction, after: StoredTransaction
) -> tuple[Record, ...]:
    """Return the record of the case that the new decision opened; none when it opened none."""
    return review_case.opened(tenant_id, after) if _opens(before, after) else ()


def change_events(
    tenant_id: TenantId, before: StoredTransaction, after: StoredTransaction, version: int
) -> tuple[DecisionEvent, ...]:
    """Return the events of the new decision; `version` is the record's."""
    at = after.decisions[-1].at
    changed = events.event(tenant_id, after, EventType.TRANSACTION_DECISION_CHANGED, version, at)
    if not _opens(before, after):
        return (changed,)
    return changed, events.event(tenant_id, after, EventType.CASE_OPENED, 1, at, status=CaseStatus.OPEN)


def change_rows(
    tenant_id: TenantId, before: StoredTransaction, after: StoredTransaction, actor: Actor
) -> tuple[AuditEvent, ...]:
    """Return the audit rows of the new decision."""
    was, now, at = before.transaction, after.transaction, after.decisions[-1].at
    detail = f"The decision of a transaction changed from {was.decision} to {now.decision}."
    changes = {
        "transaction_id": now.transaction_id,
        "decision": now.decision,
        "superseded": was.decision_id,
        "by": after.decisions[-1].by,
    }
    action = AuditAction.TRANSACTION_DECISION_CHANGED
    rows = (events.row(tenant_id, after, action, actor, at, detail, changes),)
    return (*rows, events.case_row(tenant_id, after, actor, at)) if _opens(before, after) else rows


def _opens(before: StoredTransaction, after: StoredTransaction) -> bool:
    return before.transaction.review_case_id is None and after.transaction.review_case_id is not None
