"""What a change of a case does to the transaction it is about (G121)."""

from dataclasses import dataclass, replace

from schemas.audit import Actor, AuditAction, AuditEvent
from schemas.enums import CaseStatus, DecisionOutcome
from schemas.events import DecisionEvent, EventType
from schemas.ids import DecisionId, TenantId
from schemas.problems import NotFound
from schemas.reasons import ReasonCode
from schemas.reviews import CaseOutcome, ReviewCase
from schemas.transaction_decisions import DecisionBy, StoredTransaction, SubjectStanding
from streams.ports.records import Record, RecordKind, Records
from streams.transactions import events
from streams.transactions.records import standing_id
from streams.transactions.redecision import Redecision, change_events, change_rows, next_record, redecided
from streams.transactions.rules import reason_of
from streams.transactions.wallets import transfer_records

_DECISION_OF = {CaseOutcome.APPROVE: DecisionOutcome.ALLOW, CaseOutcome.REJECT: DecisionOutcome.BLOCK}


@dataclass(frozen=True, slots=True)
class TransactionEffects:
    """Further records, audit rows and events of a change of a case about a transaction."""

    records: tuple[Record, ...]
    rows: tuple[AuditEvent, ...]
    events: tuple[DecisionEvent, ...]
    decision_id: DecisionId


async def transaction_effects(
    stored: Records, tenant_id: TenantId, case: ReviewCase, actor: Actor
) -> TransactionEffects:
    """Return what the case, as it stands now, makes of its transaction.

    Raises:
        NotFound: There is no such transaction.
    """
    current = await stored.get(tenant_id, RecordKind.TRANSACTION, case.transaction_id or "")
    before = StoredTransaction.from_bytes(current.body)
    after = _reviewed(tenant_id, before, case, actor)
    transaction = after.transaction
    if after == before:
        return TransactionEffects((), (), (), transaction.decision_id)
    record = next_record(current, after)
    if transaction.decision_id == before.transaction.decision_id:
        return TransactionEffects((record,), (), (), transaction.decision_id)
    reinstated = await _reinstated(stored, tenant_id, after)
    return TransactionEffects(
        (record, *(() if reinstated is None else (reinstated,)), *transfer_records(tenant_id, after)),
        (
            *change_rows(tenant_id, before, after, actor),
            *(() if reinstated is None else (_reinstated_row(tenant_id, after, actor),)),
        ),
        (
            *change_events(tenant_id, before, after, record.version),
            *(() if reinstated is None else (_reinstated_event(tenant_id, after, reinstated.version),)),
        ),
        transaction.decision_id,
    )


def _reviewed(
    tenant_id: TenantId, before: StoredTransaction, case: ReviewCase, actor: Actor
) -> StoredTransaction:
    """Return the transaction with the case's review status and, once it is concluded, its decision."""
    conclusion = case.conclusion
    decision = None if conclusion is None else _DECISION_OF.get(conclusion.outcome)
    transaction = before.transaction
    if (
        conclusion is None
        or decision in (None, transaction.decision)
        or case.status is not CaseStatus.CONCLUDED
    ):
        update = {"review_status": case.review_status}
        return before.model_copy(update={"transaction": transaction.model_copy(update=update)})
    own = ReasonCode.REVIEWER_APPROVED if decision is DecisionOutcome.ALLOW else ReasonCode.REVIEWER_REJECTED
    codes = (own,) if decision is DecisionOutcome.ALLOW else dict.fromkeys((own, *conclusion.reason_codes))
    what = Redecision(
        decision=decision or DecisionOutcome.BLOCK,
        reasons=tuple(reason_of(code) for code in codes),
        by=DecisionBy.REVIEWER,
        cause=f"{case.review_case_id}|{transaction.decision_id}",
        at=case.updated_at,
        actor=actor,
    )
    return redecided(tenant_id, before, what, case.review_status)


async def _reinstated(stored: Records, tenant_id: TenantId, after: StoredTransaction) -> Record | None:
    """Return the subject's record without the suspension that an approved transaction had caused."""
    transaction = after.transaction
    if transaction.decision is not DecisionOutcome.ALLOW:
        return None
    try:
        about = standing_id(after.subject_key)
        current = await stored.get(tenant_id, RecordKind.SUBJECT_STANDING, about)
    except NotFound:
        return None
    standing = SubjectStanding.from_bytes(current.body)
    if standing.suspended_by != transaction.transaction_id:
        return None
    lifted = standing.model_copy(update={"suspended_by": None, "suspended_at": None})
    return replace(current, body=lifted.to_bytes(), version=current.version + 1)


def _reinstated_row(tenant_id: TenantId, after: StoredTransaction, actor: Actor) -> AuditEvent:
    detail = "The subject was reinstated: the transaction that had suspended it was approved."
    said = {"transaction_id": after.transaction.transaction_id}
    at = after.decisions[-1].at
    return events.row(tenant_id, after, AuditAction.SUBJECT_REINSTATED, actor, at, detail, said)


def _reinstated_event(tenant_id: TenantId, after: StoredTransaction, version: int) -> DecisionEvent:
    at = after.decisions[-1].at
    return events.event(tenant_id, after, EventType.SUBJECT_REINSTATED, version, at)
