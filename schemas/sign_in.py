"""Responses of sign-in and second factor: sessions, the factor's state, and secrets shown once."""

from schemas.base import Frozen, Timestamp
from schemas.enums import TextEnum
from schemas.ids import ReviewerSessionId, TenantId, UserId
from schemas.people import Role


class FactorMethod(TextEnum):
    """How the second factor was verified."""

    TOTP = "TOTP"
    RECOVERY_CODE = "RECOVERY_CODE"


class SignedInReviewer(Frozen):
    """Who is signed in."""

    id: UserId
    email: str
    name: str
    role: Role
    tenant_id: TenantId


class FactorOfSession(Frozen):
    """The state of the second factor in a session."""

    enrolled: bool
    satisfied: bool


class SignedInSession(Frozen):
    """A reviewer session as its owner sees it."""

    session_id: ReviewerSessionId
    reviewer: SignedInReviewer
    mfa: FactorOfSession
    idle_expires_at: Timestamp
    expires_at: Timestamp


class ListedSession(Frozen):
    """One of a reviewer's own open sessions."""

    session_id: ReviewerSessionId
    current: bool
    """Whether it is the caller's session."""
    mfa: FactorOfSession
    created_at: Timestamp
    last_seen_at: Timestamp
    """At most a minute behind."""
    idle_expires_at: Timestamp
    expires_at: Timestamp


class ReviewerSessionList(Frozen):
    """All of a reviewer's open sessions, newest first; there are five at most."""

    sessions: tuple[ListedSession, ...]
    next_cursor: None = None


class FactorStanding(Frozen):
    """The state of the caller's second factor."""

    enrolled: bool
    satisfied: bool
    """By the caller's session."""
    pending: bool
    """An enrolment waits for its first code."""
    method: FactorMethod | None = None
    confirmed_at: Timestamp | None = None
    recovery_codes_remaining: int


class FactorEnrolment(Frozen):
    """A TOTP secret, shown this once; all null when the request is a repeated one."""

    otpauth_uri: str | None
    secret: str | None
    """Base32 (RFC 4648)."""
    qr_svg: str | None
    """The URI as a QR code, drawn as SVG."""


class FactorAccepted(Frozen):
    """The second factor was verified; the answer carries a new cookie."""

    session: SignedInSession
    method: FactorMethod
    recovery_codes_remaining: int


class FactorConfirmed(Frozen):
    """The factor is in use; the recovery codes are shown this once, the answer carries a new cookie."""

    session: SignedInSession
    recovery_codes: tuple[str, ...]


class RecoveryCodes(Frozen):
    """New recovery codes, shown this once; the old ones are void."""

    recovery_codes: tuple[str, ...]
