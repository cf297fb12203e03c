"""When evidence is past its date, and how a verification is redacted without it; pure."""

from collections.abc import Collection, Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final

from schemas.audit import Actor, AuditAction, AuditEvent, AuditFilter
from schemas.enums import ActorType, RetentionPolicy
from schemas.events import DecisionEvent, EventType
from schemas.ids import EvidenceId, SubjectId, TenantId, VerificationId, derive_id
from schemas.tenant_settings import Retention
from schemas.verifications import Evidence, StoredVerification
from streams.audit.rows import write_row
from streams.ports.evidence import EvidenceRow
from streams.ports.records import Change, Record
from streams.verification.events import event_of

TIMED: Final = (RetentionPolicy.BIOMETRIC_P30D, RetentionPolicy.DOCUMENT_P90D)
"""The policies that end after a time."""

SYSTEM: Final = Actor(actor_type=ActorType.SYSTEM)
"""Who acts when a date has passed."""


def period(policy: RetentionPolicy, retention: Retention) -> timedelta | None:
    """Return how long the tenant stores evidence under the policy, None: no time ends it."""
    match policy:
        case RetentionPolicy.BIOMETRIC_P30D:
            return timedelta(days=retention.biometric_days)
        case RetentionPolicy.DOCUMENT_P90D:
            return timedelta(days=retention.document_days)
        case RetentionPolicy.LEGAL_HOLD | RetentionPolicy.REDACTED:
            return None


def due_at(row: EvidenceRow, retention: Retention) -> datetime | None:
    """Return when a piece is past its date, None: never, or not before its legal hold is lifted."""
    stored_for = period(row.retention_policy, retention)
    if stored_for is None or is_on_hold(row.subject_id, retention):
        return None
    return row.created_at + stored_for


def is_on_hold(subject_id: SubjectId, retention: Retention) -> bool:
    """Tell whether nothing of the subject may be removed."""
    return subject_id in retention.legal_hold


def due_policies(
    rows: Iterable[EvidenceRow], retention: Retention, now: datetime
) -> frozenset[RetentionPolicy]:
    """Return the policies under which a piece of one verification is past its date.

    What was made of an image a moment later goes with it, so that a verification is redacted once for each.
    """
    dates = ((row.retention_policy, due_at(row, retention)) for row in rows)
    return frozenset(policy for policy, due in dates if due is not None and due <= now)


def evidence_of(stored: StoredVerification) -> tuple[Evidence, ...]:
    """Return each reference of a verification once."""
    document = stored.verification.document
    references = (*stored.verification.evidence, *(document.evidence if document else ()))
    return tuple({reference.id: reference for reference in references}.values())


def redacted(stored: StoredVerification, policies: Collection[RetentionPolicy]) -> StoredVerification:
    """Return the verification without what was stored under the policies; its decision stays."""
    verification = stored.verification
    document = verification.document
    changes: dict[str, Any] = {"evidence": _redacted(verification.evidence, policies)}
    if document is not None:
        evidence = _redacted(document.evidence, policies)
        changes["document"] = document.model_copy(update={"evidence": evidence})
    update: dict[str, Any] = {"verification": verification.model_copy(update=changes)}
    if RetentionPolicy.DOCUMENT_P90D in policies:
        update |= {"sealed_fields": None, "sealed_submission": None}
    if RetentionPolicy.BIOMETRIC_P30D in policies:
        update["sealed_face"] = None
    return stored.model_copy(update=update)


def _redacted(evidence: Iterable[Evidence], policies: Collection[RetentionPolicy]) -> tuple[Evidence, ...]:
    return tuple(
        one.model_copy(update={"retention_policy": RetentionPolicy.REDACTED})
        if one.retention_policy in policies
        else one
        for one in evidence
    )


def is_redacted(stored: StoredVerification) -> bool:
    """Tell whether nothing that the verification refers to is stored any more."""
    return all(one.retention_policy is RetentionPolicy.REDACTED for one in evidence_of(stored))


def audit_rows(
    tenant_id: TenantId,
    after: StoredVerification,
    removed: Collection[EvidenceId],
    version: int,
    now: datetime,
    because: str,
) -> tuple[AuditEvent, ...]:
    """Return the row of the removal and, once nothing is left, that of the redacted verification."""
    verification = after.verification
    about = verification.verification_id
    actions = {AuditAction.EVIDENCE_DELETED: f"Evidence of verification {about} was deleted {because}."}
    if is_redacted(after):
        detail = f"Verification {about} was redacted: nothing of its evidence is stored any more."
        actions[AuditAction.VERIFICATION_REDACTED] = detail
    return tuple(
        write_row(
            derive_id("aud", tenant_id, about, action, str(version)),
            action,
            SYSTEM,
            verification.subject_id,
            now,
            detail=detail,
            changes={"verification_id": about, "evidence_ids": sorted(removed)},
            decision_id=verification.decision_id,
            livemode=after.livemode,
        )
        for action, detail in actions.items()
    )


def redacted_event(
    tenant_id: TenantId, after: StoredVerification, version: int, now: datetime
) -> DecisionEvent:
    """Return the event of a verification of which something was redacted."""
    about = f"{after.verification.verification_id}|{version}"
    return event_of(tenant_id, after, EventType.VERIFICATION_REDACTED, version + 1, about, now)


def executed_rows(subject_id: SubjectId) -> AuditFilter:
    """Return what finds the row of a subject's erasure."""
    return AuditFilter(action=AuditAction.PRIVACY_EXECUTED, subject_id=subject_id)


def unreferenced_row(
    tenant_id: TenantId, verification_id: VerificationId, rows: Collection[EvidenceRow], now: datetime
) -> AuditEvent:
    """Return the row of evidence that no verification refers to: its session ended before a decision."""
    removed = sorted(row.evidence_id for row in rows)
    return write_row(
        derive_id("aud", tenant_id, verification_id, AuditAction.EVIDENCE_DELETED, *removed),
        AuditAction.EVIDENCE_DELETED,
        SYSTEM,
        next(iter(rows)).subject_id,
        now,
        detail="Evidence that led to no decision was deleted at the end of its retention period.",
        changes={"verification_id": verification_id, "evidence_ids": removed},
    )


def redaction(
    current: Record,
    policies: Collection[RetentionPolicy],
    now: datetime,
    because: str = "at the end of its retention period",
) -> Change:
    """Return the redaction: what the verification was answered with first goes too."""
    tenant_id, version = current.tenant_id, current.version + 1
    stored = StoredVerification.from_bytes(current.body)
    before, after = evidence_of(stored), redacted(stored, policies)
    first = redacted(StoredVerification.from_bytes(current.first_body or current.body), policies)
    removed = [one.id for one in before if one.retention_policy in policies]
    return Change(
        tenant_id,
        (replace(current, body=after.to_bytes(), version=version),),
        audit_rows(tenant_id, after, removed, version, now, because),
        (redacted_event(tenant_id, after, version, now),),
        first_body=first.to_bytes(),
    )
