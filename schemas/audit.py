"""The audit log: one row per consequential act, and its place in the tenant's chain (G19-G21)."""

from enum import StrEnum
from typing import Any

from pydantic import Field

from schemas.base import Event, Frozen, Timestamp
from schemas.enums import ActorType
from schemas.ids import AuditEventId, TenantId


class AuditAction(StrEnum):
    """`<resource>.<past verb>`, a closed list (G20); it grows with the routes that write it."""

    VERIFICATION_EVALUATED = "verification.evaluated"
    CASE_OPENED = "case.opened"
    EVIDENCE_VIEWED = "evidence.viewed"
    EVIDENCE_DELETED = "evidence.deleted"
    API_KEY_CREATED = "api_key.created"
    API_KEY_ROTATED = "api_key.rotated"
    API_KEY_REVOKED = "api_key.revoked"
    TENANT_CREATED = "tenant.created"
    TENANT_SETTINGS_CHANGED = "tenant.settings_changed"


class ChainLink(Frozen):
    """The place of a row in its tenant's chain."""

    position: int
    """Counted from 1, without gaps."""
    prev_hash: str
    """`hash` of the row before it, 64 zeros for the first."""
    hash: str
    """HMAC-SHA-256, hexadecimal, over position, previous hash and the canonical row."""


class AuditEvent(Event):
    """One row of the audit log (interface section 2.10); `detail` is one sentence without personal data."""

    event_id: AuditEventId
    action: AuditAction
    actor_type: ActorType
    actor_id: str | None = None
    subject_id: str
    """The tenant's customer, or the id of the thing acted on when no customer is concerned (G20)."""
    correlation_id: str | None = None
    decision_id: str | None = None
    context: dict[str, Any] = Field(default_factory=dict)
    """`request_id`, `ip`, `changes`; the reader adds `chain` once the row is sealed."""
    detail: str
    created_at: Timestamp
    livemode: bool = True


class AuditFilter(Frozen):
    """Which rows a reader asks for (G32)."""

    action: str | None = None
    """An action, or a resource with a trailing dot."""
    actor_type: ActorType | None = None
    actor_id: str | None = None
    subject_id: str | None = None
    decision_id: str | None = None
    correlation_id: str | None = None
    since: Timestamp | None = None
    """Inclusive (`from`)."""
    until: Timestamp | None = None
    """Exclusive (`to`)."""
    livemode: bool | None = None


class SealAudit(Frozen):
    """The wish that rows written for a tenant be joined to its chain."""

    tenant_id: TenantId
    event_ids: tuple[AuditEventId, ...] = ()
