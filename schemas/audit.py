"""The audit log: one row per consequential act, and its place in the tenant's chain (G19-G21)."""

from typing import Any, Final

from pydantic import Field

from schemas.base import Event, Frozen, Timestamp
from schemas.enums import ActorType, TextEnum
from schemas.ids import AuditEventId, TenantId


class AuditAction(TextEnum):
    """`<resource>.<past verb>`, a closed list; it grows with the routes that write it."""

    FLOW_CREATED = "flow.created"
    FLOW_UPDATED = "flow.updated"
    FLOW_PUBLISHED = "flow.published"
    FLOW_ARCHIVED = "flow.archived"
    POLICY_DRAFTED = "policy.drafted"
    POLICY_PROPOSED = "policy.proposed"
    """A second member must agree before it is published."""
    POLICY_PUBLISHED = "policy.published"
    POLICY_SHADOWED = "policy.shadowed"
    """Another text runs beside the published one, or none any more."""
    POLICY_BACKTESTED = "policy.backtested"
    LIST_UPDATED = "list.updated"
    LIST_DELETED = "list.deleted"
    SESSION_CREATED = "session.created"
    SESSION_STARTED = "session.started"
    SESSION_SUBMITTED = "session.submitted"
    SESSION_EXPIRED = "session.expired"
    SESSION_CANCELLED = "session.cancelled"
    VERIFICATION_EVALUATED = "verification.evaluated"
    VERIFICATION_REDACTED = "verification.redacted"
    WALLET_ASSESSED = "wallet.assessed"
    NAME_SCREENED = "name.screened"
    DISPOSITION_CREATED = "disposition.created"
    DISPOSITION_APPROVED = "disposition.approved"
    """A second person agreed; until then it did not count."""
    DISPOSITION_ENDED = "disposition.ended"
    CASE_OPENED = "case.opened"
    CASE_ASSIGNED = "case.assigned"
    CASE_RELEASED = "case.released"
    CASE_NOTED = "case.noted"
    CASE_ESCALATED = "case.escalated"
    CASE_FIRST_CONCLUDED = "case.first_concluded"
    CASE_CONCLUDED = "case.concluded"
    CASE_REOPENED = "case.reopened"
    EVIDENCE_VIEWED = "evidence.viewed"
    EVIDENCE_DELETED = "evidence.deleted"
    PRIVACY_EXPORTED = "privacy.exported"
    TRANSACTION_SCREENED = "transaction.screened"
    TRANSACTION_IMPORTED = "transaction.imported"
    TRANSACTION_DECISION_CHANGED = "transaction.decision_changed"
    SUBJECT_SUSPENDED = "subject.suspended"
    SUBJECT_REINSTATED = "subject.reinstated"
    WEBHOOK_CREATED = "webhook.created"
    WEBHOOK_UPDATED = "webhook.updated"
    WEBHOOK_ROTATED = "webhook.rotated"
    WEBHOOK_DISABLED = "webhook.disabled"
    WEBHOOK_DELETED = "webhook.deleted"
    WEBHOOK_REPLAYED = "webhook.replayed"
    API_KEY_CREATED = "api_key.created"
    API_KEY_ROTATED = "api_key.rotated"
    API_KEY_REVOKED = "api_key.revoked"
    MEMBER_INVITED = "member.invited"
    MEMBER_ROLE_CHANGED = "member.role_changed"
    MEMBER_SUSPENDED = "member.suspended"
    REVIEWER_SIGNED_IN = "reviewer.signed_in"
    REVIEWER_SIGN_IN_FAILED = "reviewer.sign_in_failed"
    REVIEWER_SIGNED_OUT = "reviewer.signed_out"
    REVIEWER_PASSWORD_CHANGED = "reviewer.password_changed"  # noqa: S105 - an action
    """A new password, and every other session ended."""
    REVIEWER_PREFERENCES_CHANGED = "reviewer.preferences_changed"
    MFA_ENROLLED = "mfa.enrolled"
    MFA_VERIFIED = "mfa.verified"
    MFA_FAILED = "mfa.failed"
    MFA_RESET = "mfa.reset"
    CATALOG_CREATED = "catalog.created"
    CATALOG_UPDATED = "catalog.updated"
    CATALOG_ENABLED = "catalog.enabled"
    CATALOG_DISABLED = "catalog.disabled"
    PRIVACY_REQUESTED = "privacy.requested"
    PRIVACY_APPROVED = "privacy.approved"
    PRIVACY_EXECUTED = "privacy.executed"
    ACCESS_DENIED = "access.denied"
    """Refused acts of one caller, from one address, for one reason, within a minute."""
    AUDIT_EXPORTED = "audit.exported"
    ROOT_KEY_ROTATED = "root_key.rotated"
    """Every data key is under a new root key."""
    ROOT_KEY_REMOVED = "root_key.removed"
    """The root key before it was removed: nothing needs it any more."""
    SERVICE_STARTED = "service.started"
    """A process began to serve, under which version and which settings."""
    TENANT_CREATED = "tenant.created"
    TENANT_SETTINGS_CHANGED = "tenant.settings_changed"


OPERATOR_ID: Final = "operator"
"""The operator as an actor (G19): who that is, only the holders of token and data folder know."""


class Actor(Frozen):
    """Who acts, from where, and at which request."""

    actor_type: ActorType = ActorType.OPERATOR
    actor_id: str | None = None
    request_id: str | None = None
    ip: str | None = None


class ChainLink(Frozen):
    """The place of a row in its tenant's chain."""

    position: int
    """Counted from 1, without gaps."""
    prev_hash: str
    """`hash` of the row before it, 64 zeros for the first."""
    hash: str
    """HMAC-SHA-256, hexadecimal, over position, previous hash and the canonical row."""


class AuditEvent(Event):
    """One row of the audit log; `detail` is one sentence without personal data."""

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
    """The filter of a query (G32)."""

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
    """The command that seals a tenant's unsealed audit rows."""

    tenant_id: TenantId
    event_ids: tuple[AuditEventId, ...] = ()
