"""Lift a subject's suspension by a reviewer's act (G121)."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from schemas.audit import Actor, AuditAction
from schemas.base import to_milliseconds
from schemas.events import DecisionEvent, EventData, EventType
from schemas.ids import EventId, SubjectId, TenantId, derive_id
from schemas.problems import NotFound, ProblemCode, Refused
from schemas.transaction_decisions import SealedNote, SubjectStanding
from streams.aggregate import retry_conflicts
from streams.audit.commit import Commit
from streams.audit.rows import write_row
from streams.ports.evidence import Vault
from streams.ports.records import Change, Record, RecordKind, Records
from streams.transactions.keyed_hashes import KeyedHashes
from streams.transactions.records import standing_id
from streams.verification.records import by_subject

NOTE_LABEL: Final = "reinstatement"
"""Vault label of the notes."""
MOST_NOTES: Final = 20
"""Of so many reinstatements the notes are stored; the audit log has all of them."""


@dataclass(frozen=True, slots=True)
class Reinstatement:
    """Whom a reviewer reinstates, and why."""

    subject_id: SubjectId
    livemode: bool
    note: str
    actor: Actor


@dataclass(frozen=True, slots=True)
class Reinstate:
    """Reads what lasts of decisions about a subject, and lifts its suspension."""

    records: Records
    commit: Commit
    vault: Vault
    hashes: KeyedHashes
    clock: Callable[[], datetime]

    async def standing(
        self, tenant_id: TenantId, subject_id: SubjectId, *, livemode: bool
    ) -> SubjectStanding:
        """Return what lasts; nothing of a subject that was never suspended.

        Raises:
            NotFound: The subject never had a transaction in this mode.
        """
        record = await self._find(tenant_id, self._about(tenant_id, subject_id, livemode=livemode))
        if record is not None:
            return SubjectStanding.from_bytes(record.body)
        index = by_subject(livemode, subject_id)
        if not await self.records.page(tenant_id, RecordKind.TRANSACTION, index, limit=1):
            raise NotFound
        return SubjectStanding()

    async def __call__(self, tenant_id: TenantId, asked: Reinstatement) -> SubjectStanding:
        """Lift the suspension and return what lasts.

        Raises:
            NotFound: The subject never had a transaction in this mode.
            Refused: SUBJECT_NOT_SUSPENDED.
            Erased: The subject was erased.
            Conflict: It changed at every attempt.
        """
        return await retry_conflicts(lambda: self._lift(tenant_id, asked))

    async def _lift(self, tenant_id: TenantId, asked: Reinstatement) -> SubjectStanding:
        about = self._about(tenant_id, asked.subject_id, livemode=asked.livemode)
        current = await self._find(tenant_id, about)
        before = await self.standing(tenant_id, asked.subject_id, livemode=asked.livemode)
        if current is None or before.suspended_by is None:
            raise Refused.because(ProblemCode.SUBJECT_NOT_SUSPENDED, "The subject is not suspended.")
        now = to_milliseconds(self.clock())
        text = await self.vault.seal(tenant_id, asked.subject_id, NOTE_LABEL, asked.note.encode())
        note = SealedNote(author_id=asked.actor.actor_id or "", sealed_text=text, created_at=now)
        lifted = SubjectStanding(notes=(*before.notes, note)[-MOST_NOTES:])
        version = current.version + 1
        record = Record(
            tenant_id,
            RecordKind.SUBJECT_STANDING,
            about,
            lifted.to_bytes(),
            current.created_at,
            version=version,
        )
        row = write_row(
            derive_id("aud", tenant_id, about, AuditAction.SUBJECT_REINSTATED, str(version)),
            AuditAction.SUBJECT_REINSTATED,
            asked.actor,
            asked.subject_id,
            now,
            detail="The subject was reinstated.",
            changes={"transaction_id": before.suspended_by},
            livemode=asked.livemode,
        )
        event = DecisionEvent(
            id=EventId(derive_id("evt", tenant_id, about, EventType.SUBJECT_REINSTATED, str(version))),
            type=EventType.SUBJECT_REINSTATED,
            timestamp=now,
            tenant_id=tenant_id,
            livemode=asked.livemode,
            sequence=version,
            data=EventData(subject_id=asked.subject_id, transaction_id=before.suspended_by),
        )
        await self.commit(Change(tenant_id, (record,), (row,), (event,)))
        return lifted

    def _about(self, tenant_id: TenantId, subject_id: SubjectId, *, livemode: bool) -> str:
        return standing_id(self.hashes.subject_key(tenant_id, subject_id, livemode=livemode))

    async def _find(self, tenant_id: TenantId, about: str) -> Record | None:
        try:
            return await self.records.get(tenant_id, RecordKind.SUBJECT_STANDING, about)
        except NotFound:
            return None
