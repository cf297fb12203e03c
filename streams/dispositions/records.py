"""How dispositions are sealed, listed and looked up."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Protocol

from typing_extensions import override

from schemas.base import to_milliseconds
from schemas.dispositions import Disposition, SealedWords, StoredDisposition
from schemas.ids import DispositionId, SubjectId, TenantId
from streams.ports.errors import Erased
from streams.ports.evidence import Vault
from streams.ports.records import BY_AGE, Record, RecordKind, Records
from streams.ports.screening import Suppression, Suppressions
from streams.privacy.sealing import unseal
from streams.verification.records import Index, by_mode, mode

MOST_LOOKED_AT = 500
"""Dispositions of one subject or counterparty that count; the newest first."""


class Hashes(Protocol):
    """Keyed hashes of ids under which dispositions are listed."""

    def of(self, tenant_id: TenantId, kind: str, value: str) -> bytes:
        """Return 32 bytes."""
        ...

    def subject_key(self, tenant_id: TenantId, subject_id: SubjectId, *, livemode: bool) -> str:
        """Return the key of a subject's commands, which names nobody."""
        ...


def request_label(about: DispositionId) -> str:
    """Return the vault label under which the front seals the request."""
    return f"disposition-request:{about}"


def words_label(about: DispositionId) -> str:
    """Return the vault label under which note and counterparty are sealed."""
    return f"disposition:{about}"


def by_subject_key(subject_key: str) -> Index:
    """Return the index of the dispositions about a subject."""
    return "disposed", f"subject|{subject_key}"


def by_counterparty(hashes: Hashes, tenant_id: TenantId, counterparty_id: str, *, livemode: bool) -> Index:
    """Return the index of the dispositions about a counterparty."""
    hashed = hashes.of(tenant_id, f"disposed|{mode(livemode)}", counterparty_id).hex()
    return "disposed", f"counterparty|{mode(livemode)}|{hashed}"


def whose(hashes: Hashes, tenant_id: TenantId, disposition: Disposition) -> Index:
    """Return the index of those about the same subject or counterparty."""
    livemode = disposition.livemode
    if disposition.subject_id is not None:
        return by_subject_key(hashes.subject_key(tenant_id, disposition.subject_id, livemode=livemode))
    return by_counterparty(hashes, tenant_id, disposition.counterparty_id or "", livemode=livemode)


def disposition_record(
    hashes: Hashes, tenant_id: TenantId, stored: StoredDisposition, fingerprint: str
) -> Record:
    """Return the first record of a disposition, whose counterparty is still named."""
    disposition = stored.disposition
    without = disposition.model_copy(update={"note": None, "counterparty_id": None})
    return Record(
        tenant_id,
        RecordKind.DISPOSITION,
        disposition.disposition_id,
        stored.model_copy(update={"disposition": without}).to_bytes(),
        disposition.created_at,
        fingerprint=fingerprint,
        indexes=(by_mode(disposition.livemode), whose(hashes, tenant_id, disposition), BY_AGE),
    )


async def shown(vault: Vault, tenant_id: TenantId, body: bytes) -> Disposition:
    """Return a stored disposition; without its note once the subject was erased."""
    stored = StoredDisposition.from_bytes(body)
    disposition = stored.disposition
    label = words_label(disposition.disposition_id)
    try:
        words = await unseal(vault, tenant_id, disposition.subject_id, label, stored.sealed, SealedWords)
    except Erased:
        return disposition
    return disposition.model_copy(update=words.model_dump())


class StoredDispositions(Suppressions):
    """Looks the dispositions up that count at the moment."""

    def __init__(self, records: Records, hashes: Hashes, clock: Callable[[], datetime]) -> None:
        self._records = records
        self._hashes = hashes
        self._clock = clock

    @override
    async def of_subject(
        self, tenant_id: TenantId, subject_id: SubjectId, *, livemode: bool
    ) -> Mapping[tuple[str, str], Suppression]:
        key = self._hashes.subject_key(tenant_id, subject_id, livemode=livemode)
        return await self._listed(tenant_id, by_subject_key(key))

    @override
    async def of_subject_key(
        self, tenant_id: TenantId, subject_key: str
    ) -> Mapping[tuple[str, str], Suppression]:
        return await self._listed(tenant_id, by_subject_key(subject_key))

    @override
    async def of_counterparty(
        self, tenant_id: TenantId, counterparty_id: str, *, livemode: bool
    ) -> Mapping[tuple[str, str], Suppression]:
        index = by_counterparty(self._hashes, tenant_id, counterparty_id, livemode=livemode)
        return await self._listed(tenant_id, index)

    async def _listed(self, tenant_id: TenantId, index: Index) -> Mapping[tuple[str, str], Suppression]:
        kind, now = RecordKind.DISPOSITION, to_milliseconds(self._clock())
        page = await self._records.page(tenant_id, kind, index, limit=MOST_LOOKED_AT)
        found: dict[tuple[str, str], Suppression] = {}
        for record in page:
            one = StoredDisposition.from_bytes(record.body).disposition
            if one.ended_at is None and one.expires_at > now:
                found.setdefault((one.list, one.entity_id), Suppression(one.disposition_id, one.entry_sha256))
        return found
