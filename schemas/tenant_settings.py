"""What a tenant decides about its own reviews (G42, G43, G87)."""

from enum import StrEnum

from schemas.base import Frozen


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
