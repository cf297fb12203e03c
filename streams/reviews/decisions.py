"""The records of decisions: the one in force, and one that a reviewer overturned."""

from dataclasses import replace
from datetime import datetime

from schemas.enums import ActorType
from schemas.ids import DecisionId, TenantId, UserId
from schemas.problems import NotFound
from schemas.reviews import Decision, ReviewCase
from schemas.verifications import StoredVerification
from streams.ports.records import Record, RecordKind, Records


async def superseded(
    records: Records, current: Record, before: StoredVerification, after: StoredVerification, case: ReviewCase
) -> tuple[Record, Record]:
    """Return the records of the superseded decision and of the one in force now.

    The decision of an evaluation has no record until it is superseded; that of a reviewer has one.
    """
    tenant_id, now = current.tenant_id, after.verification.decision_id
    reviewer = case.conclusion.reviewer_id if case.conclusion else None
    standing = await _record(records, tenant_id, before.verification.decision_id)
    if standing is None:
        overturned = _new(tenant_id, decision_of(before, current.created_at, None, now))
    else:
        ended = Decision.from_bytes(standing.body).model_copy(update={"superseded_by": now})
        overturned = replace(standing, body=ended.to_bytes(), version=standing.version + 1)
    return overturned, _new(tenant_id, decision_of(after, case.updated_at, reviewer))


async def _record(records: Records, tenant_id: TenantId, decision_id: DecisionId) -> Record | None:
    try:
        return await records.get(tenant_id, RecordKind.DECISION, decision_id)
    except NotFound:
        return None


def _new(tenant_id: TenantId, decision: Decision) -> Record:
    about, body = decision.decision_id, decision.to_bytes()
    return Record(tenant_id, RecordKind.DECISION, about, body, decision.decided_at)


def decision_of(
    stored: StoredVerification,
    decided_at: datetime,
    reviewer: UserId | None,
    superseded_by: DecisionId | None = None,
) -> Decision:
    """Return the record of the current decision of a verification."""
    verification = stored.verification
    return Decision(
        decision_id=verification.decision_id,
        verification_id=verification.verification_id,
        subject_id=verification.subject_id,
        status=verification.status,
        decision=verification.decision,
        review_status=verification.review_status,
        risk_level=verification.risk_level,
        reasons=verification.reasons,
        recommendation=stored.recommendation,
        review_case_id=verification.review_case_id,
        decided_at=decided_at,
        decided_by=ActorType.SYSTEM if reviewer is None else ActorType.REVIEWER,
        reviewer_id=reviewer,
        superseded_by=superseded_by,
        livemode=stored.livemode,
    )
