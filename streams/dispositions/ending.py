"""Approve dispositions, and end them before or at their time."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from schemas.audit import Actor, AuditAction
from schemas.base import to_milliseconds
from schemas.dispositions import Disposition, DispositionStatus, EndDisposition, StoredDisposition
from schemas.enums import ActorType
from schemas.ids import TenantId
from schemas.problems import NotFound, ProblemCode, Refused
from streams.aggregate import retry_conflicts
from streams.audit.commit import Commit
from streams.dispositions.records import audit_row
from streams.ports.records import Change, Record, RecordKind, Records

_SYSTEM: Final = Actor(actor_type=ActorType.SYSTEM)


@dataclass(frozen=True, slots=True)
class ChangeDispositions:
    """Approves dispositions and ends them; the same again changes nothing."""

    records: Records
    commit: Commit
    clock: Callable[[], datetime]

    async def approve(self, tenant_id: TenantId, about: str, actor: Actor) -> Record:
        """Return the disposition, which counts from now on if it was proposed.

        Raises:
            NotFound: The tenant has no such disposition.
            Refused: SECOND_REVIEWER_MUST_DIFFER, or it has ended.
            Conflict: It changed at every attempt.
        """
        return await retry_conflicts(lambda: self._approve(tenant_id, about, actor))

    async def delete(self, tenant_id: TenantId, about: str, actor: Actor) -> None:
        """End the disposition; one that has ended stays as it is.

        Raises:
            NotFound: The tenant has no such disposition.
            Conflict: It changed at every attempt.
        """
        await retry_conflicts(lambda: self._end(tenant_id, about, actor))

    async def expire(self, command: EndDisposition) -> None:
        """End the disposition if its time has passed; one that was removed meanwhile needs no end.

        Raises:
            Conflict: It changed at every attempt.
            StoreUnavailable: The outcome is unknown; the same command may be sent again.
        """
        try:
            await retry_conflicts(lambda: self._end(command.tenant_id, command.disposition_id, _SYSTEM))
        except NotFound:
            return

    async def _approve(self, tenant_id: TenantId, about: str, actor: Actor) -> Record:
        current = await self.records.get(tenant_id, RecordKind.DISPOSITION, about)
        disposition, now = _of(current), to_milliseconds(self.clock())
        if disposition.status is DispositionStatus.ACTIVE:
            return current
        if disposition.status is DispositionStatus.ENDED or disposition.expires_at <= now:
            raise Refused.because(ProblemCode.VALIDATION_FAILED, "The disposition has ended; make a new one.")
        if disposition.created_by == actor.actor_id:
            message = "Another person than the one who proposed a disposition approves it."
            raise Refused.because(ProblemCode.SECOND_REVIEWER_MUST_DIFFER, message)
        update = {"status": DispositionStatus.ACTIVE, "approved_by": actor.actor_id}
        return await self._change(current, update, AuditAction.DISPOSITION_APPROVED, actor, now)

    async def _end(self, tenant_id: TenantId, about: str, actor: Actor) -> None:
        current = await self.records.get(tenant_id, RecordKind.DISPOSITION, about)
        disposition, now = _of(current), to_milliseconds(self.clock())
        early = actor is _SYSTEM and disposition.expires_at > now
        if disposition.status is not DispositionStatus.ENDED and not early:
            update = {"status": DispositionStatus.ENDED, "ended_at": now}
            await self._change(current, update, AuditAction.DISPOSITION_ENDED, actor, now)

    async def _change(
        self, current: Record, update: Mapping[str, object], action: AuditAction, actor: Actor, now: datetime
    ) -> Record:
        stored = StoredDisposition.from_bytes(current.body)
        disposition = stored.disposition.model_copy(update=update)
        body = stored.model_copy(update={"disposition": disposition}).to_bytes()
        changed = replace(current, body=body, version=current.version + 1)
        row = audit_row(current.tenant_id, disposition, action, actor, now)
        await self.commit(Change(current.tenant_id, (changed,), (row,)))
        return changed


def _of(record: Record) -> Disposition:
    return StoredDisposition.from_bytes(record.body).disposition
