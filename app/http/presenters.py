"""Present stored verifications and review cases to callers: open sealed fields unless erased."""

from dataclasses import dataclass
from typing import Final

from schemas.ids import SubjectId, TenantId
from schemas.reviews import CaseNote, Conclusion, ReviewCase, StoredCase
from schemas.verifications import PersonalFields, StoredVerification, Verification
from streams.ports.errors import Erased
from streams.ports.evidence import Vault
from streams.ports.records import Record
from streams.verification.records import fields_label, with_personal


@dataclass(frozen=True, slots=True)
class Presenter:
    """Opens the personal fields of a verification."""

    vault: Vault

    async def present(self, tenant_id: TenantId, stored: StoredVerification) -> bytes:
        """Return the verification as JSON; of an erased subject, without its personal fields.

        Raises:
            Damaged: The sealed fields are not what was sealed.
            StoreUnavailable: The vault cannot be reached.
        """
        return written(await self._whole(tenant_id, stored))

    async def _whole(self, tenant_id: TenantId, stored: StoredVerification) -> Verification:
        shown = stored.verification
        if stored.sealed_fields is None:
            return shown
        label = fields_label(shown.verification_id)
        try:
            opened = await self.vault.open(tenant_id, shown.subject_id, label, stored.sealed_fields)
        except Erased:
            return shown
        return with_personal(stored, PersonalFields.from_bytes(opened))


def written(verification: Verification) -> bytes:
    """Write a verification as JSON: what is absent is left out, but `document` is always there (G13)."""
    raw = verification.to_bytes()
    return raw if verification.document is not None else raw[:-1] + b',"document":null}'


_SEALED_NOTE: Final = "case-note"
"""Vault label of everything a reviewer writes about a subject."""


@dataclass(frozen=True, slots=True)
class CaseTexts:
    """Seals and opens notes; those about an erased subject are shown empty."""

    vault: Vault

    async def seal(self, tenant_id: TenantId, subject_id: SubjectId, written: str) -> str:
        """Return the text as it is stored."""
        return await self.vault.seal(tenant_id, subject_id, _SEALED_NOTE, written.encode())

    async def show(self, tenant_id: TenantId, record: Record) -> bytes:
        """Return the case as reviewers see it, in JSON."""
        case = StoredCase.from_bytes(record.body).case
        notes = [
            note.model_copy(update={"text": await self._open(tenant_id, case, note.text)})
            for note in case.notes
        ]
        update: dict[str, object] = {"notes": tuple[CaseNote, ...](notes)}
        for name in ("first_conclusion", "conclusion"):
            conclusion: Conclusion | None = getattr(case, name)
            if conclusion is not None:
                opened = await self._open(tenant_id, case, conclusion.note)
                update[name] = conclusion.model_copy(update={"note": opened})
        return case.model_copy(update=update).model_dump_json().encode()

    async def _open(self, tenant_id: TenantId, case: ReviewCase, sealed: str) -> str:
        try:
            return (await self.vault.open(tenant_id, case.subject_id, _SEALED_NOTE, sealed)).decode()
        except Erased:
            return ""
