"""The people of a tenant: roles, permissions, reviewers and the sessions they sign in to (G47-G51)."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from pydantic import Field

from schemas.base import Frozen, Timestamp
from schemas.enums import ActorType, TextEnum
from schemas.ids import ReviewerSessionId, SessionId, TenantId, UserId


class Permission(TextEnum):
    """What a role may do (G47)."""

    VERIFICATION_FLOWS_MANAGE = "VERIFICATION_FLOWS_MANAGE"
    VERIFICATION_FLOWS_READ = "VERIFICATION_FLOWS_READ"
    VERIFICATIONS_READ = "VERIFICATIONS_READ"
    EVIDENCE_READ = "EVIDENCE_READ"
    CASES_READ = "CASES_READ"
    CASES_WORK = "CASES_WORK"
    CASES_CONCLUDE = "CASES_CONCLUDE"
    CASES_OVERTURN = "CASES_OVERTURN"
    TRANSACTIONS_READ = "TRANSACTIONS_READ"
    WALLETS_READ = "WALLETS_READ"
    POLICIES_READ = "POLICIES_READ"
    POLICIES_MANAGE = "POLICIES_MANAGE"
    LISTS_READ = "LISTS_READ"
    LISTS_MANAGE = "LISTS_MANAGE"
    SCREENINGS_READ = "SCREENINGS_READ"
    AUDIT_READ = "AUDIT_READ"
    WEBHOOKS_MANAGE = "WEBHOOKS_MANAGE"
    API_KEYS_MANAGE = "API_KEYS_MANAGE"
    MEMBERS_MANAGE = "MEMBERS_MANAGE"
    PRIVACY_MANAGE = "PRIVACY_MANAGE"
    SETTINGS_MANAGE = "SETTINGS_MANAGE"


class Role(TextEnum):
    """The fixed set of roles."""

    OWNER = "OWNER"
    ADMIN = "ADMIN"
    COMPLIANCE_LEAD = "COMPLIANCE_LEAD"
    REVIEWER = "REVIEWER"
    DEVELOPER = "DEVELOPER"
    AUDITOR = "AUDITOR"


_P = Permission

_EVERY_ROLE: Final = frozenset(
    {_P.VERIFICATION_FLOWS_READ, _P.POLICIES_READ, _P.LISTS_READ, _P.SCREENINGS_READ, _P.AUDIT_READ}
    | {_P.WEBHOOKS_MANAGE}
)
"""The interface lists no refusal for a role on these routes (G84, G109)."""

_READS: Final = _EVERY_ROLE | {_P.VERIFICATIONS_READ, _P.CASES_READ, _P.TRANSACTIONS_READ, _P.WALLETS_READ}

PERMISSIONS_OF: Final[Mapping[Role, frozenset[Permission]]] = MappingProxyType(
    {
        Role.OWNER: frozenset(Permission),
        Role.ADMIN: frozenset(Permission) - {_P.CASES_CONCLUDE, _P.CASES_OVERTURN},
        Role.COMPLIANCE_LEAD: _READS
        | {_P.EVIDENCE_READ, _P.CASES_WORK, _P.CASES_CONCLUDE, _P.CASES_OVERTURN, _P.PRIVACY_MANAGE}
        | {_P.POLICIES_MANAGE, _P.LISTS_MANAGE},
        Role.REVIEWER: _READS | {_P.EVIDENCE_READ, _P.CASES_WORK, _P.CASES_CONCLUDE},
        Role.DEVELOPER: _EVERY_ROLE | {_P.VERIFICATION_FLOWS_MANAGE, _P.API_KEYS_MANAGE},
        Role.AUDITOR: _READS,
    }
)
"""G48, G109. Ownership itself (making or changing an OWNER) is the owners' alone and is no permission."""


class OpenSession(Frozen):
    """An open session; only sessions listed in the member's record are valid."""

    session_id: ReviewerSessionId
    lookup: str
    """Of the one cookie that is good for it; a rotated cookie has another."""


class PendingFactor(Frozen):
    """A second factor that waits for its first code."""

    factor_id: str
    """Derived from the request's key, so that a repeated request is known."""
    sealed_seed: str
    """The TOTP seed, sealed by the vault for this member."""
    created_at: Timestamp


class Factor(Frozen):
    """A second factor in use: TOTP (RFC 6238) and the recovery codes beside it."""

    factor_id: str
    """Of the enrolment it came from."""
    sealed_seed: str
    """The TOTP seed, sealed by the vault for this member."""
    confirmed_at: Timestamp
    last_step: int
    """The time step of the last accepted code; no code of it or before it is accepted again."""
    recovery_hashes: tuple[str, ...]
    """Keyed hashes of the recovery codes that are left."""


class FactorResetRequest(Frozen):
    """A colleague's request to reset the second factor, which a second person must confirm."""

    asked_by: UserId
    asked_at: Timestamp
    expires_at: Timestamp


class Theme(TextEnum):
    """The colours of the console."""

    SYSTEM = "SYSTEM"
    LIGHT = "LIGHT"
    DARK = "DARK"


class Preferences(Frozen):
    """How a reviewer wants the console."""

    locale: str | None = None
    """A language tag (BCP 47) for dates and numbers; None: the browser's."""
    theme: Theme = Theme.SYSTEM
    single_keys: bool = True
    """Whether single letters are shortcuts (WCAG 2.1.4)."""


AS_THEY_COME: Final = Preferences()
"""The preferences of a reviewer who chose none."""


class Reviewer(Frozen):
    """A member of a tenant; one record, so its version decides every race about credentials and sessions."""

    reviewer_id: UserId
    tenant_id: TenantId
    email: str
    """Trimmed and in lower case."""
    name: str
    role: Role
    active: bool = True
    withdrawn: bool = False
    """The invitation was withdrawn before it was redeemed: no colleague sees the member any more, and the
    address and the name are gone from here."""
    created_at: Timestamp
    updated_at: Timestamp
    password_hash: str | None = None
    """Argon2id in its PHC form; None: invited, and no password set yet."""
    password_changed_at: Timestamp | None = None
    factor: Factor | None = None
    pending_factor: PendingFactor | None = None
    open_sessions: tuple[OpenSession, ...] = ()
    """Oldest first; a session that is not here is over, whatever its own record says."""
    token_id: str | None = None
    """The one-time token that is outstanding; a newer one takes its place."""
    factor_reset: FactorResetRequest | None = None
    """A reset of the second factor that waits for a second person."""
    preferences: Preferences = Field(default=AS_THEY_COME, exclude_if=lambda chosen: chosen == AS_THEY_COME)


class ReviewerEmail(Frozen):
    """The owner of an e-mail address; stored under a keyed hash of the address.

    A tenant has such a record for each of its members, invited ones too. The platform has one for each
    address that signs in, so that it signs in to one member only, of whatever tenant.
    """

    tenant_id: TenantId
    reviewer_id: UserId | None = None
    """None: free again, because the invitation was withdrawn."""
    bound_at: Timestamp | None = None
    """On the platform's record: when the member took the address, just before it got its first password."""


class TokenPurpose(TextEnum):
    """What a one-time token was given for."""

    INVITATION = "INVITATION"
    PASSWORD_RESET = "PASSWORD_RESET"  # noqa: S105 - the name of a purpose


class OneTimeToken(Frozen):
    """A one-time token, stored under its keyed hash and immutable; the member's record says if it is used."""

    tenant_id: TenantId
    reviewer_id: UserId
    purpose: TokenPurpose
    created_at: Timestamp
    expires_at: Timestamp


class ReviewerSession(Frozen):
    """A stored reviewer session, with the cookie's secret only as a keyed hash."""

    session_id: ReviewerSessionId
    lookup: str
    """The part of the cookie under which the session is found; a rotated cookie has another."""
    secret_hash: str
    """HMAC-SHA-256 of the whole cookie value under the pepper, hexadecimal."""
    tenant_id: TenantId
    reviewer_id: UserId
    satisfied: bool = False
    """The second factor was verified."""
    factor_at: Timestamp | None = None
    """When it was last verified, for acts that require a recent verification."""
    created_at: Timestamp
    seen_at: Timestamp
    expires_at: Timestamp
    """Absolute; the idle limit runs from `seen_at`."""


class ReviewerCaller(Frozen):
    """An authenticated reviewer."""

    tenant_id: TenantId
    reviewer_id: UserId
    session_id: ReviewerSessionId
    role: Role
    satisfied: bool
    """The second factor was verified; without it almost nothing may be called (G51)."""

    def may(self, permission: Permission) -> bool:
        """Return whether the role has the permission."""
        return permission in PERMISSIONS_OF[self.role]


class SentActor(Frozen):
    """The actor of a command; the address is sealed, because it is personal."""

    actor_type: ActorType
    actor_id: str | None = None
    request_id: str
    sealed_ip: str | None = None


class CaptureCaller(Frozen):
    """A subject's page with the client token of one verification session (G36, G76)."""

    tenant_id: TenantId
    session_id: SessionId
