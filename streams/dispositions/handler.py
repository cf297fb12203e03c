"""Create dispositions, bound to the listed entry, and delete them."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime

from schemas.audit import Actor, AuditAction, AuditEvent
from schemas.base import to_milliseconds
from schemas.dispositions import (
    CreateDisposition,
    Disposition,
    DispositionCreated,
    DispositionRequest,
    SealedWords,
    StoredDisposition,
)
from schemas.ids import SubjectId, TenantId, derive_id
from schemas.problems import NotFound, ProblemCode, Refused
from streams.aggregate import key_reused, retry_conflicts
from streams.audit.actors import open_actor
from streams.audit.commit import Commit
from streams.audit.rows import write_row
from streams.dispositions.records import Hashes, disposition_record, request_label, words_label
from streams.ports.errors import Erased
from streams.ports.records import Change, Record, RecordKind, Records
from streams.ports.screening import ListedEntries
from streams.ports.stores import Stores
from streams.privacy.errors import subject_erased
from streams.privacy.sealing import seal, unseal
from streams.privacy.subject_ids import open_subject_id


class CreateDispositions:
    """Execute each `CreateDisposition` once; the same command again changes nothing."""

    def __init__(
        self,
        stores: Stores,
        entries: ListedEntries,
        hashes: Hashes,
        commit: Commit,
        clock: Callable[[], datetime],
    ) -> None:
        self._stores = stores
        self._entries = entries
        self._hashes = hashes
        self._commit = commit
        self._clock = clock

    async def __call__(self, command: CreateDisposition) -> DispositionCreated:
        """Create the disposition; `replayed` when another request had the same one made.

        Raises:
            Refused: The list has no such entry, the key was used for another body, or the subject was
                erased. Nothing was created.
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
        digest = await self._entries.entry_digest(
            tenant_id, request.list, request.entity_id, livemode=command.livemode
        )
        if digest is None:
            message = "No list of that name has such an entry."
            raise Refused.at("/entity_id", ProblemCode.VALIDATION_FAILED, message)
        disposition = _disposition(command, subject_id, request, digest, to_milliseconds(self._clock()))
        words = SealedWords(note=request.note, counterparty_id=request.counterparty_id)
        sealed = await seal(vault, tenant_id, subject_id, words_label(about), words)
        stored = StoredDisposition(
            disposition=disposition, sealed=sealed, request_id=command.actor.request_id
        )
        record = disposition_record(self._hashes, tenant_id, stored, command.fingerprint)
        actor = await open_actor(vault, tenant_id, command.actor)
        row = _row(tenant_id, disposition, AuditAction.DISPOSITION_CREATED, actor, disposition.created_at)
        return (await self._commit(Change(tenant_id, (record,), (row,)))).record


@dataclass(frozen=True, slots=True)
class DeleteDispositions:
    """Ends dispositions before their time."""

    records: Records
    commit: Commit
    clock: Callable[[], datetime]

    async def __call__(self, tenant_id: TenantId, about: str, actor: Actor) -> None:
        """End the disposition; one that has ended stays as it is.

        Raises:
            NotFound: The tenant has no such disposition.
            Conflict: It changed at every attempt.
        """
        await retry_conflicts(lambda: self._end(tenant_id, about, actor))

    async def _end(self, tenant_id: TenantId, about: str, actor: Actor) -> None:
        current = await self.records.get(tenant_id, RecordKind.DISPOSITION, about)
        stored, now = StoredDisposition.from_bytes(current.body), to_milliseconds(self.clock())
        if stored.disposition.ended_at is not None:
            return
        disposition = stored.disposition.model_copy(update={"ended_at": now})
        body = stored.model_copy(update={"disposition": disposition}).to_bytes()
        ended = replace(current, body=body, version=current.version + 1)
        row = _row(tenant_id, stored.disposition, AuditAction.DISPOSITION_ENDED, actor, now)
        await self.commit(Change(tenant_id, (ended,), (row,)))


def _disposition(
    command: CreateDisposition,
    subject_id: SubjectId | None,
    request: DispositionRequest,
    digest: str,
    now: datetime,
) -> Disposition:
    return Disposition(
        disposition_id=command.disposition_id,
        kind=request.kind,
        subject_id=subject_id,
        counterparty_id=request.counterparty_id,
        list=request.list,
        entity_id=request.entity_id,
        entry_sha256=digest,
        expires_at=request.expires_at,
        created_at=now,
        created_by=command.actor.actor_id or "",
        livemode=command.livemode,
    )


def _row(
    tenant_id: TenantId, disposition: Disposition, action: AuditAction, actor: Actor, now: datetime
) -> AuditEvent:
    about = disposition.disposition_id
    ended = action is AuditAction.DISPOSITION_ENDED
    what = "may count again" if ended else "was judged to be none"
    return write_row(
        derive_id("aud", tenant_id, about, action),
        action,
        actor,
        disposition.subject_id or about,
        now,
        detail=f"A match with an entry of the list {disposition.list} {what}.",
        changes={
            "disposition_id": about,
            "list": disposition.list,
            "entity_id": disposition.entity_id,
            "entry_sha256": disposition.entry_sha256,
            "expires_at": disposition.model_dump(mode="json")["expires_at"],
        },
        livemode=disposition.livemode,
    )
