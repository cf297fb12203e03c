"""The review case of a transaction that needs a person; pure (G121)."""

from datetime import timedelta
from typing import Final

from schemas.enums import CaseKind, CaseStatus, Recommendation, ReviewStatus, RiskLevel
from schemas.ids import TenantId
from schemas.reviews import ReviewCase, StoredCase
from schemas.transaction_decisions import StoredTransaction
from streams.ports.records import Record, RecordKind
from streams.verification import review_case

DUE_AFTER: Final = timedelta(hours=24)
"""G42."""

DUE_AFTER_CRITICAL: Final = timedelta(hours=4)
"""G42."""


def case_of(stored: StoredTransaction) -> ReviewCase | None:
    """Return the new case of a transaction, None when it has none."""
    transaction = stored.transaction
    if transaction.review_case_id is None:
        return None
    opened_at = stored.decisions[-1].at
    critical = transaction.risk_level is RiskLevel.CRITICAL
    return ReviewCase(
        review_case_id=transaction.review_case_id,
        kind=CaseKind.TRANSACTION,
        subject_id=transaction.subject_id,
        transaction_id=transaction.transaction_id,
        status=CaseStatus.OPEN,
        risk_level=transaction.risk_level,
        recommendation=stored.recommendation or Recommendation.REJECTED,
        review_status=ReviewStatus.PENDING,
        reasons=transaction.reasons,
        due_at=opened_at + (DUE_AFTER_CRITICAL if critical else DUE_AFTER),
        livemode=transaction.livemode,
        created_at=opened_at,
        updated_at=opened_at,
    )


def opened(tenant_id: TenantId, stored: StoredTransaction) -> tuple[Record, ...]:
    """Return the record of the transaction's new case; none without one."""
    case = case_of(stored)
    if case is None:
        return ()
    return (
        Record(
            tenant_id,
            RecordKind.REVIEW_CASE,
            case.review_case_id,
            StoredCase(case=case).to_bytes(),
            case.created_at,
            indexes=review_case.indexes(case),
        ),
    )
