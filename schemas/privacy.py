"""What ends: the erasure of a subject and its proof (G65), and the redaction of what is past its date."""

from typing import Annotated, Literal

from pydantic import Field, RootModel

from schemas.base import Command, Frozen, Timestamp
from schemas.enums import TextEnum
from schemas.ids import AuditEventId, ErasureId, EvidenceId, SubjectId, TenantId, VerificationId


class RedactVerification(Command):
    """Remove what of a verification is past its date. Keyed by verification id."""

    kind: Literal["redact"] = "redact"
    tenant_id: TenantId
    verification_id: VerificationId
    evidence_ids: tuple[EvidenceId, ...] = ()
    """Pieces that were found past their date; the verification may refer to more, or not exist at all."""
    requested_at: Timestamp


class ErasureStatus(TextEnum):
    """How far an erasure is."""

    REQUESTED = "REQUESTED"
    """A second person must agree."""
    APPROVED = "APPROVED"
    EXECUTED = "EXECUTED"


class Removed(Frozen):
    """What an erasure removed."""

    verifications: int
    """Redacted; their decisions stay."""
    evidence: int
    sessions: int
    """Open ones, that were ended."""
    transactions: int = 0
    """Whose parties, devices, wallets and metadata nobody reads any more; amounts and decisions stay."""


class ChainPosition(Frozen):
    """Where the row of the erasure stands in the tenant's audit chain."""

    event_id: AuditEventId
    position: int
    hash: str


class Erasure(Frozen):
    """An erasure as it stands; once EXECUTED, its proof."""

    erasure_id: ErasureId
    subject_id: SubjectId
    status: ErasureStatus
    reason: str
    requested_at: Timestamp
    requested_by: str
    approved_at: Timestamp | None = None
    approved_by: str | None = None
    """The second person; absent where none was needed."""
    executed_at: Timestamp | None = None
    key_id: str | None = None
    """Which data key was to be destroyed, a digest of its wrapped form; absent where the subject had none."""
    removed: Removed | None = None
    chain: ChainPosition | None = None
    """Absent until the row is sealed."""


class EraseSubject(Command):
    """Carry an approved erasure out. Keyed by erasure id."""

    kind: Literal["erase"] = "erase"
    tenant_id: TenantId
    erasure_id: ErasureId
    requested_at: Timestamp


class RetentionCommand(RootModel[Annotated[RedactVerification | EraseSubject, Field(discriminator="kind")]]):
    """Any command of the stream of retention."""

    @property
    def key(self) -> str:
        """The key under which its record stands."""
        command = self.root
        return command.erasure_id if isinstance(command, EraseSubject) else command.verification_id
