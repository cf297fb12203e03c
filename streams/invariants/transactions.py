"""Check invariants I3, I5 and I6 of transactions between records and audit rows. Pure."""

from collections.abc import Iterator, Mapping

from pydantic import ValidationError

from schemas.audit import AuditEvent
from schemas.ids import AuditEventId, TenantId
from schemas.transaction_decisions import StoredTransaction
from streams.invariants.rules import Invariant, Violation, judge_tenant, violation
from streams.ports.records import Record
from streams.transactions import events
from streams.transactions.records import first_decision_id


def judge_record(tenant_id: TenantId, record: Record) -> Iterator[Violation]:
    """Yield the violations of a transaction's record."""
    try:
        now = StoredTransaction.from_bytes(record.body)
        first = StoredTransaction.from_bytes(record.first_body or record.body)
    except ValidationError:
        yield violation(Invariant.I5, record.id, "the record holds no transaction")
        return
    yield from judge_tenant(tenant_id, record.id, record.body)
    transaction = first.transaction
    if transaction.decision_id != first_decision_id(tenant_id, transaction.transaction_id):
        yield violation(Invariant.I6, record.id, "its first decision_id is not the one of this tenant")
    if now.decisions[: len(first.decisions)] != first.decisions:
        yield violation(Invariant.I5, record.id, "its first decision is not the first of its decisions")
    last = now.decisions[-1]
    if (last.decision_id, last.decision) != (now.transaction.decision_id, now.transaction.decision):
        yield violation(Invariant.I5, record.id, "its decision is not the last of its decisions")


def judge_audit(
    tenant_id: TenantId, first: StoredTransaction, rows: Mapping[AuditEventId, AuditEvent]
) -> Iterator[Violation]:
    """Yield the audit rows of a first decision that are missing or say something else."""
    for expected in events.audit_rows(tenant_id, first):
        about = f"{expected.event_id} ({expected.action} of {first.transaction.transaction_id})"
        row = rows.get(expected.event_id)
        if row is None:
            yield violation(Invariant.I3, about, "is not in the audit log")
        elif (row.action, row.decision_id, row.subject_id) != (
            expected.action,
            expected.decision_id,
            expected.subject_id,
        ):
            yield violation(Invariant.I3, about, "names another action, decision or subject")
