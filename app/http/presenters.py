"""A stored verification as its tenant sees it: personal fields opened from the vault, unless erased."""

from dataclasses import dataclass

from schemas.ids import TenantId
from schemas.verifications import PersonalFields, StoredVerification, Verification
from streams.ports.errors import Erased
from streams.ports.evidence import Vault
from streams.verification.records import fields_label, with_personal


@dataclass(frozen=True, slots=True)
class Presenter:
    """Puts the personal fields back into their places."""

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
