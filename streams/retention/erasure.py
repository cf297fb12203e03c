"""Carries out `EraseSubject`: the data key is destroyed first, the record of the erasure is changed last.

Every step may be done again; whatever ends the process on the way, the erasure stays listed as approved
until its last step, and the sweeper asks for it again.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

import structlog

from schemas.audit import AuditAction
from schemas.base import to_milliseconds
from schemas.enums import SessionStatus
from schemas.ids import EvidenceId, SubjectId, TenantId
from schemas.privacy import EraseSubject, Erasure, ErasureStatus, Removed
from schemas.problems import NotFound
from schemas.sessions import CancelSession, row_of, stored_of
from schemas.tenant_settings import TenantSettings
from schemas.topics import Topic
from schemas.transaction_decisions import ForgetSubject, StoredTransaction
from schemas.transaction_history import StoredHistory
from schemas.verifications import StoredVerification
from streams.aggregate import Pause, retry_conflicts
from streams.audit.commit import Commit
from streams.audit.rows import NOBODY
from streams.ports.records import Change, Position, Record, RecordKind
from streams.ports.stores import Stores
from streams.retention import rules
from streams.retention.erasure_records import erased_event, erasure_record, erasure_row
from streams.retention.erasure_requests import verifications_of
from streams.retention.rules import redaction
from streams.runtime.producer import Outgoing
from streams.transactions.queries import history_of, transactions_of
from streams.verification.records import by_status, folded

log = structlog.get_logger(__name__)

PAGE: Final = 100

OPEN: Final = (SessionStatus.CREATED, SessionStatus.STARTED)
"""Sessions that a person may still go on with."""

Write = Callable[..., Awaitable[None]]
"""Writes records to the log; raises `StoreUnavailable`."""


@dataclass(frozen=True, slots=True)
class EraseSubjects:
    """Carries approved erasures out; the same command again changes nothing."""

    stores: Stores
    settings: Callable[[TenantId], Awaitable[TenantSettings]]
    commit: Commit
    write: Write
    clock: Callable[[], datetime]
    pause: Pause = asyncio.sleep

    async def __call__(self, command: EraseSubject) -> None:
        """Erase the subject.

        Raises:
            StoreUnavailable: Some of it may be done; the same command may be given again.
            Conflict: A record changed at every attempt.
        """
        tenant_id = command.tenant_id
        try:
            current = await self.stores.records.get(tenant_id, RecordKind.ERASURE, command.erasure_id)
        except NotFound:
            return
        erasure = Erasure.from_bytes(current.body)
        if erasure.status is not ErasureStatus.APPROVED:
            return
        if rules.is_on_hold(erasure.subject_id, (await self.settings(tenant_id)).retention):
            log.warning("erasure.on_legal_hold", tenant_id=tenant_id, erasure_id=erasure.erasure_id)
            return
        await self.stores.vault.destroy(tenant_id, erasure.subject_id)
        sessions = await self._end_sessions(tenant_id, erasure.subject_id)
        modes, evidence, verifications = set[bool](), 0, 0
        async for record in verifications_of(self.stores.records, tenant_id, erasure.subject_id):
            stored = StoredVerification.from_bytes(record.body)
            await retry_conflicts(lambda record=record: self._redact(record), self.pause)  # type: ignore[misc]
            modes.add(stored.livemode)
            verifications += 1
            evidence += len(rules.evidence_of(stored))
        transactions = await self._forget_transactions(tenant_id, erasure.subject_id)
        modes |= transactions.keys()
        removed = Removed(
            verifications=verifications,
            evidence=evidence,
            sessions=sessions,
            transactions=sum(transactions.values()),
        )
        await self._finish(current, erasure, removed, modes or {True})

    async def _forget_transactions(self, tenant_id: TenantId, subject_id: SubjectId) -> dict[bool, int]:
        """Let the subject's velocity rows be dropped; returns how many transactions there are by mode."""
        found = dict[bool, int]()
        for livemode in (True, False):
            every = transactions_of(self.stores.records, tenant_id, subject_id, livemode=livemode)
            records = [record async for record in every]
            imported = history_of(self.stores.records, tenant_id, subject_id, livemode=livemode)
            keys = [StoredTransaction.from_bytes(record.body).subject_key for record in records[:1]]
            keys += [StoredHistory.from_bytes(record.body).subject_key async for record in imported][:1]
            if keys:
                found[livemode] = len(records)
                await self.write(self._forget(tenant_id, keys[0], livemode=livemode))
        return found

    def _forget(self, tenant_id: TenantId, key: str, *, livemode: bool) -> Outgoing:
        forget = ForgetSubject(
            tenant_id=tenant_id, subject_key=key, livemode=livemode, requested_at=self.clock()
        )
        return Outgoing(Topic.TRANSACTION_COMMANDS, key.encode(), forget.to_bytes())

    async def _redact(self, record: Record) -> None:
        """Redact a verification whole and remove its evidence."""
        tenant_id = record.tenant_id
        current = await self.stores.records.get(tenant_id, RecordKind.VERIFICATION, record.id)
        stored = StoredVerification.from_bytes(current.body)
        own = [one.id for one in rules.evidence_of(stored)]
        if rules.redacted(stored, rules.TIMED) != stored:
            now = to_milliseconds(self.clock())
            await self.commit(redaction(current, rules.TIMED, now, because="with its subject"))
        await self.stores.ages.remove(tenant_id, own)

    async def _end_sessions(self, tenant_id: TenantId, subject_id: SubjectId) -> int:
        """Ask for the end of the subject's open sessions; none can be opened now that the key is gone."""
        ended = 0
        for livemode in (True, False):
            for status in OPEN:
                ended += await self._end_listed(tenant_id, subject_id, by_status(livemode, status))
        return ended

    async def _end_listed(self, tenant_id: TenantId, subject_id: SubjectId, index: tuple[str, str]) -> int:
        ended, before = 0, None
        while True:
            found = await self.stores.records.search(
                tenant_id, RecordKind.SESSION, index, folded(subject_id), limit=PAGE, before=before
            )
            own = [one for one in found.records if row_of(one.body).subject_id == subject_id]
            await self.stores.ages.remove(tenant_id, [one for record in own for one in _captures(record)])
            for record in own:
                await self.write(self._cancel(record))
            ended += len(own)
            if len(found.records) == PAGE:
                before = Position(found.records[-1].created_at, found.records[-1].id)
            elif found.further is not None:
                before = found.further
            else:
                return ended

    def _cancel(self, record: Record) -> Outgoing:
        session_id = row_of(record.body).session_id
        cancel = CancelSession(
            tenant_id=record.tenant_id,
            session_id=session_id,
            actor=NOBODY.model_copy(update={"request_id": f"erasure-{session_id}"}),
            requested_at=self.clock(),
        )
        return Outgoing(Topic.SESSION_COMMANDS, session_id.encode(), cancel.to_bytes())

    async def _finish(self, current: Record, erasure: Erasure, removed: Removed, modes: set[bool]) -> None:
        """Write the proof down; from then on nothing is left to do."""
        tenant_id, now = current.tenant_id, to_milliseconds(self.clock())
        done = erasure.model_copy(
            update={"status": ErasureStatus.EXECUTED, "executed_at": now, "removed": removed}
        )
        detail = "The subject was erased: its data key was destroyed and its evidence removed."
        row = erasure_row(tenant_id, done, AuditAction.PRIVACY_EXECUTED, rules.SYSTEM, detail, now)
        record = replace(erasure_record(tenant_id, done, current.version + 1), created_at=current.created_at)
        events = tuple(
            erased_event(tenant_id, done, livemode=mode, now=now) for mode in sorted(modes, reverse=True)
        )
        await self.commit(Change(tenant_id, (record,), (row,), events))


def _captures(record: Record) -> list[EvidenceId]:
    """Return the images that an open session refers to and no verification does yet."""
    stored = stored_of(record.body)
    taken = () if stored is None else (stored.document, stored.selfie)
    return [one.evidence_id for one in taken if one is not None]
