"""Create dispositions, bound to the listed entry or to the rule that was judged."""

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any

from schemas.audit import AuditAction
from schemas.base import to_milliseconds
from schemas.dispositions import (
    CreateDisposition,
    Disposition,
    DispositionCreated,
    DispositionRequest,
    DispositionStatus,
    SealedWords,
    StoredDisposition,
)
from schemas.enums import CheckKind
from schemas.ids import PLATFORM, TenantId
from schemas.problems import NotFound, ProblemCode, Refused
from schemas.tenant_settings import FourEyes, TenantSettings
from streams.aggregate import key_reused
from streams.audit.commit import Commit
from streams.audit.rows import open_actor
from streams.dispositions.records import Hashes, audit_row, disposition_records, request_label, words_label
from streams.lists.storage import ListStorage
from streams.policies.printing import rule_sha256
from streams.policies.published import PolicyUnavailable, PublishedPolicies
from streams.ports.errors import Erased
from streams.ports.records import Change, Record, RecordKind
from streams.ports.screening import ListedEntries
from streams.ports.stores import Stores
from streams.privacy.sealing import open_subject_id, seal, subject_erased, unseal


class CreateDispositions:
    """Execute each `CreateDisposition` once; the same command again changes nothing."""

    def __init__(
        self,
        stores: Stores,
        entries: ListedEntries,
        hashes: Hashes,
        commit: Commit,
        clock: Callable[[], datetime],
        settings: Callable[[TenantId], Awaitable[TenantSettings]],
    ) -> None:
        self._settings = settings
        self._policies = PublishedPolicies(stores.records)
        self._lists = ListStorage(stores.records, stores.journal, stores.vault)
        self._stores = stores
        self._entries = entries
        self._hashes = hashes
        self._commit = commit
        self._clock = clock

    async def __call__(self, command: CreateDisposition) -> DispositionCreated:
        """Create the disposition; `replayed` when another request had the same one made.

        Raises:
            Refused: The list has no such entry, the policy no such rule, the key was used for another body,
                or the subject was erased. Nothing was created.
            StoreUnavailable: The outcome is unknown; the same command may be sent again.
        """
        try:
            kind = RecordKind.DISPOSITION
            record = await self._stores.records.get(command.tenant_id, kind, command.disposition_id)
        except NotFound:
            try:
                record = await self._create(command)
            except Erased:
                raise subject_erased() from None
        if record.fingerprint != command.fingerprint:
            raise key_reused()
        first = StoredDisposition.from_bytes(record.body)
        replayed = first.request_id != command.actor.request_id
        return DispositionCreated(disposition_id=command.disposition_id, replayed=replayed)

    async def _create(self, command: CreateDisposition) -> Record:
        vault, tenant_id, about = self._stores.vault, command.tenant_id, command.disposition_id
        subject_id = None
        if command.subject_id is not None:
            subject_id = await open_subject_id(vault, tenant_id, command.subject_id)
        label = request_label(about)
        request = await unseal(
            vault, tenant_id, subject_id, label, command.sealed_request, DispositionRequest
        )
        bound = await self._bind(tenant_id, request, livemode=command.livemode)
        disposition = Disposition(
            disposition_id=about,
            kind=request.kind,
            status=await self._status(tenant_id, request),
            subject_id=subject_id,
            counterparty_id=request.counterparty_id,
            expires_at=request.expires_at,
            created_at=to_milliseconds(self._clock()),
            created_by=command.actor.actor_id or "",
            livemode=command.livemode,
            **bound,
        )
        words = SealedWords(note=request.note, counterparty_id=request.counterparty_id)
        sealed = await seal(vault, tenant_id, subject_id, words_label(about), words)
        stored = StoredDisposition(
            disposition=disposition, sealed=sealed, request_id=command.actor.request_id
        )
        records = disposition_records(self._hashes, tenant_id, stored, command.fingerprint)
        actor = await open_actor(vault, tenant_id, command.actor)
        row = audit_row(
            tenant_id, disposition, AuditAction.DISPOSITION_CREATED, actor, disposition.created_at
        )
        return (await self._commit(Change(tenant_id, records, (row,)))).record

    async def _bind(
        self, tenant_id: TenantId, request: DispositionRequest, *, livemode: bool
    ) -> dict[str, Any]:
        """Return what the disposition is about, with its hash as it is now.

        Raises:
            Refused: There is no such entry, or no such rule.
        """
        if request.rule_id is not None:
            return {"rule_id": request.rule_id, "rule_sha256": await self._rule(tenant_id, request.rule_id)}
        named, entity_id = request.list or "", request.entity_id or ""
        digest = await self._entries.entry_digest(tenant_id, named, entity_id, livemode=livemode)
        if digest is None:
            message = "No list of that name has such an entry."
            raise Refused.at("/entity_id", ProblemCode.VALIDATION_FAILED, message)
        return {"list": named, "entity_id": entity_id, "entry_sha256": digest}

    async def _rule(self, tenant_id: TenantId, rule_id: str) -> str:
        try:
            policy = await self._policies.current(tenant_id)
        except PolicyUnavailable:
            digest = None
        else:
            digest = rule_sha256(policy.document, rule_id)
        if digest is None:
            message = "The published policy has no such rule."
            raise Refused.at("/rule_id", ProblemCode.VALIDATION_FAILED, message)
        return digest

    async def _status(self, tenant_id: TenantId, request: DispositionRequest) -> DispositionStatus:
        """Return whether it counts at once, or only when a second person agrees (G43)."""
        four_eyes = (await self._settings(tenant_id)).four_eyes
        second = four_eyes is FourEyes.ALWAYS
        if four_eyes in {FourEyes.CRITICAL, FourEyes.OVERTURN} and request.list is not None:
            second = await self._is_of_sanctions(tenant_id, request.list)
        return DispositionStatus.PROPOSED if second else DispositionStatus.ACTIVE

    async def _is_of_sanctions(self, tenant_id: TenantId, name: str) -> bool:
        """Return whether a match with the list is CRITICAL; so is one with a list that is not known."""
        for owner in (tenant_id, PLATFORM):
            stored = (await self._lists.load(owner))[0].named(name)
            if stored is not None:
                return stored.check is CheckKind.SANCTIONS
        return True
