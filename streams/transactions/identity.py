"""Read what the verifications of a subject say of it, for the rules of a policy (G112)."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from pydantic import ValidationError

from schemas.enums import VerificationStatus
from schemas.ids import SubjectId, TenantId
from schemas.policies import FieldValue
from schemas.verifications import PersonalFields, StoredVerification
from streams.ports.errors import Damaged
from streams.ports.records import Position, Record, RecordKind
from streams.ports.stores import Stores
from streams.verification.records import by_subject, fields_label

IDENTITY_FIELDS: Final = frozenset(
    {
        "subject.verification_status",
        "subject.verification_risk",
        "subject.verified_country",
        "subject.age_days",
    }
)
"""Fields that cost a reading of the verifications; a policy that reads none of them pays nothing."""

_PAGE: Final = 100


@dataclass(frozen=True, slots=True)
class Identities:
    """Reads the identity state of subjects."""

    stores: Stores

    async def read(
        self, tenant_id: TenantId, subject_id: SubjectId, at: datetime, *, livemode: bool
    ) -> dict[str, FieldValue]:
        """Return the fields of `IDENTITY_FIELDS`; all are null for a subject without a verification.

        Status and risk are those of the latest verification, the country is that of the document of the
        latest approved one, and the age is in whole days since the first one.

        Raises:
            StoreUnavailable: The verifications cannot be read.
            Erased: The subject was erased.
        """
        records = await self._verifications(tenant_id, subject_id, livemode=livemode)
        if not records:
            return dict.fromkeys(IDENTITY_FIELDS)
        latest = StoredVerification.from_bytes(records[0].body).verification
        return {
            "subject.verification_status": latest.status,
            "subject.verification_risk": latest.risk_level,
            "subject.verified_country": await self._country(tenant_id, subject_id, records),
            "subject.age_days": max(0, (at - records[-1].created_at).days),
        }

    async def _verifications(
        self, tenant_id: TenantId, subject_id: SubjectId, *, livemode: bool
    ) -> Sequence[Record]:
        """Return all verifications of the subject, newest first."""
        found: list[Record] = []
        while True:
            before = Position(found[-1].created_at, found[-1].id) if found else None
            page = await self.stores.records.page(
                tenant_id,
                RecordKind.VERIFICATION,
                by_subject(livemode, subject_id),
                limit=_PAGE,
                before=before,
            )
            found += page
            if len(page) < _PAGE:
                return found

    async def _country(
        self, tenant_id: TenantId, subject_id: SubjectId, records: Sequence[Record]
    ) -> str | None:
        for record in records:
            stored = StoredVerification.from_bytes(record.body)
            if stored.verification.status is VerificationStatus.APPROVED and stored.sealed_fields is not None:
                label = fields_label(stored.verification.verification_id)
                try:
                    opened = await self.stores.vault.open(tenant_id, subject_id, label, stored.sealed_fields)
                    return PersonalFields.from_bytes(opened).issuing_country
                except (Damaged, ValidationError):
                    return None
        return None
