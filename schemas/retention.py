"""Commands about data whose retention period is over."""

from typing import Literal

from schemas.base import Command, Timestamp
from schemas.ids import EvidenceId, TenantId, VerificationId


class RedactVerification(Command):
    """Remove what of a verification is past its date. Keyed by verification id."""

    kind: Literal["redact"] = "redact"
    tenant_id: TenantId
    verification_id: VerificationId
    evidence_ids: tuple[EvidenceId, ...] = ()
    """Pieces that were found past their date; the verification may refer to more, or not exist at all."""
    requested_at: Timestamp
