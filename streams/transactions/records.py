"""How transactions are named, sealed and listed in the store; pure."""

from datetime import datetime
from typing import Final

from schemas.enums import DecisionOutcome
from schemas.ids import PLATFORM, DecisionId, ReviewCaseId, TenantId, TransactionId, derive_id
from schemas.transaction_decisions import HoldWatch, StoredTransaction
from schemas.transaction_history import StoredHistory
from streams.ports.records import BY_AGE, Record, RecordKind, due_index
from streams.transactions.keyed_hashes import by_key
from streams.verification.records import Index, by_mode, by_subject, mode

ROUTE: Final = "POST /v1/transactions"
"""Part of what a transaction id is derived from (G2); it can never change."""


HISTORY_ROUTE: Final = "POST /v1/transactions/history"
"""Part of what the ids of imported transactions are derived from; it can never change."""


def transaction_id(tenant_id: TenantId, key: str, *, livemode: bool) -> TransactionId:
    """Return the id of the transaction that a request with this Idempotency-Key asks about."""
    return TransactionId(derive_id("txn", tenant_id, mode(livemode), ROUTE, key))


def history_id(tenant_id: TenantId, reference: str, *, livemode: bool) -> TransactionId:
    """Return the id of the transaction that was imported with the tenant's own id."""
    return TransactionId(derive_id("txn", tenant_id, mode(livemode), HISTORY_ROUTE, reference))


def import_id(tenant_id: TenantId, key: str, *, livemode: bool) -> str:
    """Return the id of the import of a request with this Idempotency-Key."""
    return derive_id("imp", tenant_id, mode(livemode), HISTORY_ROUTE, key)


def first_decision_id(tenant_id: TenantId, about: TransactionId) -> DecisionId:
    """Return the id of a transaction's first decision."""
    return DecisionId(derive_id("dec", tenant_id, about))


def next_decision_id(tenant_id: TenantId, about: TransactionId, by: str) -> DecisionId:
    """Return the id of the decision that `by`, a case or an expiry, led to."""
    return DecisionId(derive_id("dec", tenant_id, about, by))


def case_id(tenant_id: TenantId, about: TransactionId) -> ReviewCaseId:
    """Return the id of a transaction's case."""
    return ReviewCaseId(derive_id("rc", tenant_id, about))


def request_label(about: TransactionId) -> str:
    """Return the vault label under which the front seals the request."""
    return f"transaction:{about}"


def parts_label(about: TransactionId) -> str:
    """Return the vault label under which the stored parts are sealed."""
    return f"transaction-parts:{about}"


def standing_id(subject_key: str) -> str:
    """Return the id of the record of what lasts of decisions about a subject; it names nobody."""
    return subject_key.partition(":")[2]


def by_decision(livemode: bool, decision: DecisionOutcome) -> Index:  # noqa: FBT001
    """Return the index of the transactions of one decision."""
    return "decision", f"{mode(livemode)}|{decision}"


def by_reference(livemode: bool, reference: str) -> Index:  # noqa: FBT001
    """Return the index of the transactions with the tenant's own id."""
    return "reference", f"{mode(livemode)}|{reference}"


def indexes(stored: StoredTransaction) -> tuple[Index, ...]:
    """Return all indexes of a transaction."""
    transaction = stored.transaction
    livemode = transaction.livemode
    own = () if transaction.reference is None else (by_reference(livemode, transaction.reference),)
    return (
        by_mode(livemode),
        by_subject(livemode, transaction.subject_id),
        by_decision(livemode, transaction.decision),
        *own,
        *(by_key(livemode, kind, hashed) for kind, hashed in stored.keys.items()),
    )


def transaction_record(tenant_id: TenantId, stored: StoredTransaction, fingerprint: str) -> Record:
    """Return the first record of a transaction."""
    transaction = stored.transaction
    return Record(
        tenant_id,
        RecordKind.TRANSACTION,
        transaction.transaction_id,
        stored.to_bytes(),
        transaction.created_at,
        fingerprint=fingerprint,
        indexes=indexes(stored),
    )


def history_record(tenant_id: TenantId, stored: StoredHistory, reference: str, now: datetime) -> Record:
    """Return the record of an imported transaction."""
    livemode = stored.livemode
    return Record(
        tenant_id,
        RecordKind.HISTORIC_TRANSACTION,
        stored.transaction_id,
        stored.to_bytes(),
        now,
        indexes=(
            by_mode(livemode),
            by_subject(livemode, stored.subject_id),
            by_reference(livemode, reference),
            *(by_key(livemode, kind, hashed) for kind, hashed in stored.keys.items()),
        ),
    )


def hold_watch(tenant_id: TenantId, stored: StoredTransaction) -> tuple[Record, ...]:
    """Return the record by which the sweep finds a hold; none for a transaction without one."""
    transaction = stored.transaction
    due = transaction.hold_expires_at
    if due is None:
        return ()
    watch = HoldWatch(
        tenant_id=tenant_id,
        transaction_id=transaction.transaction_id,
        subject_key=stored.subject_key,
        livemode=transaction.livemode,
        due=due,
    )
    return (
        Record(
            PLATFORM,
            RecordKind.HOLD_WATCH,
            transaction.transaction_id,
            watch.to_bytes(),
            transaction.created_at,
            indexes=(due_index(due), BY_AGE),
        ),
    )
