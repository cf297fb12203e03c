"""Settings of a tenant for its reviews and verifications (G42, G43, G70, G87)."""

from typing import Annotated, Final

from pydantic import Field

from schemas.base import Frozen
from schemas.enums import CheckKind, TextEnum
from schemas.ids import SubjectId

USUAL_CHECKS: Final = (
    CheckKind.AUTHENTICITY,
    CheckKind.DOCUMENT_EXTRACTION,
    CheckKind.DOCUMENT_CONSISTENCY,
    CheckKind.FACE_MATCH,
)
"""G70: without LIVENESS, because the tenant's own system took the picture."""


MinimumAge = Annotated[int, Field(strict=True, ge=1, le=150)]
"""Whole years."""


class DuplicateFaces(TextEnum):
    """Whether faces are searched among those of the tenant's other approved subjects: biometric search."""

    OFF = "off"
    REVIEW = "review"
    """A face that another approved subject has is DUPLICATE_SUBJECT and needs a review."""


class PolicyChoice(Frozen):
    """What a tenant chose of the policy of its direct verifications; a session's checks are its flow's."""

    revision: Annotated[int, Field(ge=1)] = 1
    """One more at each change; it stands in `model_version` and in the decision (G14)."""
    required_checks: Annotated[tuple[CheckKind, ...], Field(min_length=1)] = USUAL_CHECKS
    minimum_age: MinimumAge | None = None
    """By the document's birth date; of the documents of sessions too. None: any age (R10)."""
    duplicate_faces: DuplicateFaces = DuplicateFaces.OFF
    """For verifications of sessions too; faces are stored for it only while it is on."""


class FourEyes(TextEnum):
    """When a second person must agree."""

    NEVER = "NEVER"
    CRITICAL = "CRITICAL"
    OVERTURN = "OVERTURN"
    ALWAYS = "ALWAYS"


class Enforcement(TextEnum):
    """Whether the decisions of transactions bind the tenant."""

    BINDING = "BINDING"
    ADVISORY = "ADVISORY"
    """What would be stopped is only advised against: BLOCK_RECOMMENDED."""


RetentionDays = Annotated[int, Field(strict=True, ge=1, le=1825)]
"""At most five years (R14)."""

MAX_LEGAL_HOLDS: Final = 1_000
"""Subjects under legal hold at one time; a hold is an exception, and the list travels whole."""


class Retention(Frozen):
    """How long evidence is stored."""

    biometric_days: RetentionDays = 30
    """Selfies, portraits and liveness traces."""
    document_days: RetentionDays = 90
    """Images of documents and what was read on them."""
    legal_hold: tuple[SubjectId, ...] = ()
    """Subjects of whom nothing may be removed."""


class TenantRateLimits(Frozen):
    """Limits a tenant chose for its own keys, requests a minute; None: the deployment's."""

    key: int | None = None
    """Per key, for all routes."""
    verifications: int | None = None
    """Per key, `POST /v1/verifications` alone."""
    tenant: int | None = None
    """Shared by all keys of a mode, for all routes."""
    tenant_verifications: int | None = None
    """Shared by all keys of a mode, for `POST /v1/verifications` alone."""
    capture: int | None = None
    """Per client token of a session."""


class TenantSettings(Frozen):
    """A tenant's settings; what was never set has its default."""

    four_eyes: FourEyes = FourEyes.CRITICAL
    require_evidence_view: bool = False
    """Whether all images must have been viewed before a case is concluded."""
    policy_four_eyes: bool = False
    """Whether a second member must agree before a transaction policy is published (G128)."""
    verification_policy: PolicyChoice = PolicyChoice()
    retention: Retention = Retention()
    rate_limits: TenantRateLimits = TenantRateLimits()
    enforcement: Enforcement = Enforcement.BINDING
