"""What a tenant decides about its own reviews and verifications (G42, G43, G70, G87)."""

from enum import StrEnum
from typing import Annotated, Final

from pydantic import Field

from schemas.base import Frozen
from schemas.enums import CheckKind

USUAL_CHECKS: Final = (
    CheckKind.AUTHENTICITY,
    CheckKind.DOCUMENT_EXTRACTION,
    CheckKind.DOCUMENT_CONSISTENCY,
    CheckKind.FACE_MATCH,
)
"""G70: without LIVENESS, because the tenant's own system took the picture."""


MinimumAge = Annotated[int, Field(strict=True, ge=1, le=150)]
"""Whole years."""


class PolicyChoice(Frozen):
    """What a tenant chose of the policy of its direct verifications; a session's checks are its flow's."""

    revision: Annotated[int, Field(ge=1)] = 1
    """One more at each change; it stands in `model_version` and in the decision (G14)."""
    required_checks: Annotated[tuple[CheckKind, ...], Field(min_length=1)] = USUAL_CHECKS
    minimum_age: MinimumAge | None = None
    """By the document's birth date; of the documents of sessions too. None: any age (R10)."""


class FourEyes(StrEnum):
    """When a second person must agree (G43)."""

    NEVER = "NEVER"
    CRITICAL = "CRITICAL"
    OVERTURN = "OVERTURN"
    ALWAYS = "ALWAYS"


class TenantSettings(Frozen):
    """A tenant's settings; what was never set has its default."""

    four_eyes: FourEyes = FourEyes.CRITICAL
    require_evidence_view: bool = False
    """Whether all images must have been looked at before a case is concluded."""
    verification_policy: PolicyChoice = PolicyChoice()
