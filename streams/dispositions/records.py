"""How dispositions are sealed, listed and looked up."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Protocol

from typing_extensions import override

from schemas.audit import Actor, AuditAction, AuditEvent
from schemas.base import to_milliseconds
from schemas.dispositions import (
    Disposition,
    DispositionKind,
    DispositionStatus,
    DispositionWatch,
    SealedWords,
    StoredDisposition,
)
from schemas.ids import PLATFORM, DispositionId, SubjectId, TenantId, derive_id
from schemas.transaction_decisions import SuppressedRule
from streams.audit.rows import write_row
from streams.ports.errors import Erased
from streams.ports.evidence import Vault
from streams.ports.records import BY_AGE, Record, RecordKind, Records, due_index
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


def disposition_records(
    hashes: Hashes, tenant_id: TenantId, stored: StoredDisposition, fingerprint: str = ""
) -> tuple[Record, Record]:
    """Return the first record of a disposition, whose counterparty is still named, and that of its watch."""
    disposition = stored.disposition
    about, at, due = disposition.disposition_id, disposition.created_at, disposition.expires_at
    without = disposition.model_copy(update={"note": None, "counterparty_id": None})
    return (
        Record(
            tenant_id,
            RecordKind.DISPOSITION,
            about,
            stored.model_copy(update={"disposition": without}).to_bytes(),
            at,
            fingerprint=fingerprint,
            indexes=(by_mode(disposition.livemode), whose(hashes, tenant_id, disposition), BY_AGE),
        ),
        Record(
            PLATFORM,
            RecordKind.DISPOSITION_WATCH,
            about,
            DispositionWatch(tenant_id=tenant_id, disposition_id=about, due=due).to_bytes(),
            at,
            indexes=(due_index(due), BY_AGE),
        ),
    )


_SAID = {
    AuditAction.DISPOSITION_CREATED: "was judged not to concern somebody",
    AuditAction.DISPOSITION_APPROVED: "was judged so by a second person",
    AuditAction.DISPOSITION_ENDED: "may count again",
}


def audit_row(
    tenant_id: TenantId, disposition: Disposition, action: AuditAction, actor: Actor, now: datetime
) -> AuditEvent:
    """Return the audit row of an act on a disposition; without note and counterparty."""
    about = disposition.disposition_id
    is_rule = disposition.kind is DispositionKind.RULE
    what = "The hit of a rule" if is_rule else f"A match with an entry of the list {disposition.list}"
    shown = disposition.model_dump(mode="json", exclude_none=True)
    named = ("disposition_id", "status", "list", "entity_id", "entry_sha256", "rule_id", "rule_sha256")
    changes = {name: shown[name] for name in (*named, "review_case_id", "expires_at") if name in shown}
    return write_row(
        derive_id("aud", tenant_id, about, action),
        action,
        actor,
        disposition.subject_id or about,
        now,
        detail=f"{what} {_SAID[action]}.",
        changes=changes,
        livemode=disposition.livemode,
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

    async def of_rules(
        self, tenant_id: TenantId, subject_key: str, counterparty_id: str | None, *, livemode: bool
    ) -> Mapping[str, SuppressedRule]:
        """Return the rules that count neither for the subject nor for the counterparty, by their ids."""
        found = [*await self._counting(tenant_id, by_subject_key(subject_key))]
        if counterparty_id is not None:
            index = by_counterparty(self._hashes, tenant_id, counterparty_id, livemode=livemode)
            found += await self._counting(tenant_id, index)
        rules = dict[str, SuppressedRule]()
        for one in found:
            if one.rule_id is not None and one.rule_sha256 is not None:
                about = SuppressedRule(disposition_id=one.disposition_id, rule_sha256=one.rule_sha256)
                rules.setdefault(one.rule_id, about)
        return rules

    async def _listed(self, tenant_id: TenantId, index: Index) -> Mapping[tuple[str, str], Suppression]:
        found: dict[tuple[str, str], Suppression] = {}
        for one in await self._counting(tenant_id, index):
            if one.list is not None and one.entity_id is not None and one.entry_sha256 is not None:
                about = Suppression(one.disposition_id, one.entry_sha256)
                found.setdefault((one.list, one.entity_id), about)
        return found

    async def _counting(self, tenant_id: TenantId, index: Index) -> list[Disposition]:
        """Return the dispositions that count now, the newest first."""
        kind, now = RecordKind.DISPOSITION, to_milliseconds(self._clock())
        page = await self._records.page(tenant_id, kind, index, limit=MOST_LOOKED_AT)
        stored = (StoredDisposition.from_bytes(record.body).disposition for record in page)
        return [one for one in stored if one.status is DispositionStatus.ACTIVE and one.expires_at > now]
