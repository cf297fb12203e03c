"""The ports of evidence: sealed images and readings, and small sealed personal values.

Every method takes the tenant first, and another tenant's thing is `NotFound`. Each may raise
`StoreUnavailable`; then the outcome is unknown, and calling again is safe.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from schemas.enums import EvidenceKind, RetentionPolicy
from schemas.ids import EvidenceId, SubjectId, TenantId, VerificationId


@dataclass(frozen=True, slots=True)
class EvidenceRow:
    """The metadata of a piece of evidence."""

    tenant_id: TenantId
    subject_id: SubjectId
    verification_id: VerificationId
    evidence_id: EvidenceId
    kind: EvidenceKind
    retention_policy: RetentionPolicy
    media_type: str
    created_at: datetime


@dataclass(frozen=True, slots=True)
class EvidenceDraft:
    """Evidence to be stored."""

    row: EvidenceRow
    content: bytes


class EvidenceStore(Protocol):
    """Store captured images and readings, sealed under the subject's key."""

    async def put(self, drafts: Sequence[EvidenceDraft]) -> None:
        """Store all drafts or none; an id that is already stored is unchanged.

        Raises:
            Erased: A subject was erased.
        """
        ...

    async def get(self, tenant_id: TenantId, evidence_id: EvidenceId) -> bytes:
        """Return the content.

        Raises:
            NotFound: No such evidence of this tenant.
            Erased: The subject was erased.
            Damaged: The bytes are not those that were put.
        """
        ...

    async def describe(self, tenant_id: TenantId, evidence_id: EvidenceId) -> EvidenceRow:
        """Return its metadata, or raise `NotFound`."""
        ...

    async def discard(self, tenant_id: TenantId, evidence_ids: Sequence[EvidenceId]) -> None:
        """Remove evidence that nothing refers to; unknown ids are ignored."""
        ...

    async def sweep_orphans(self, older_than: datetime) -> int:
        """Remove content written before `older_than` that an interrupted `put` or `discard` left behind.

        Returns how many pieces were removed.
        """
        ...


class Vault(Protocol):
    """Seal small personal values under the subject's own key; destroying the key erases them."""

    async def seal(self, tenant_id: TenantId, subject_id: SubjectId, label: str, plain: bytes) -> str:
        """Return the value sealed, base64; `label` must be given again to open it.

        Raises:
            Erased: The subject was erased.
        """
        ...

    async def open(self, tenant_id: TenantId, subject_id: SubjectId, label: str, sealed: str) -> bytes:
        """Return the value.

        Raises:
            Erased: The subject was erased.
            Damaged: It was altered, or sealed for another subject or label.
        """
        ...

    async def destroy(self, tenant_id: TenantId, subject_id: SubjectId) -> None:
        """Destroy the subject's key for good: whatever it sealed is `Erased` from now on.

        Known at once here, within seconds in other processes. A subject without a key gets none.
        """
        ...

    async def erased(self, tenant_id: TenantId, *, after: int, limit: int) -> Sequence[SubjectId]:
        """Return at most `limit` of the holders whose keys were destroyed, behind the first `after` of them.

        In the order in which `destroy` named them; one may be named twice. A holder is among them by the time
        its key is destroyed, and at once in every process: code that caches what a key had opened calls this
        before using it. Keys that an older version of the program destroyed are not returned.
        """
        ...
