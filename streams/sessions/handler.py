"""Execute the commands about sessions; the session's actor is the only writer (G34, G36)."""

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from schemas.audit import AuditAction
from schemas.base import to_milliseconds
from schemas.enums import EvidenceKind, SessionStatus
from schemas.events import EventType
from schemas.ids import EvidenceId
from schemas.problems import NotFound, Refused
from schemas.sessions import (
    AddCapture,
    AddFrame,
    CancelSession,
    DrawChallenge,
    ExpireSession,
    OpenSession,
    RecordOutcome,
    SessionChanged,
    SessionCommand,
    SessionCommandBase,
    SkipMovements,
    StartSession,
    StoredSession,
    SubmitSession,
    stored_of,
)
from schemas.verifications import StoredVerification, SubmitVerification
from streams.aggregate import (
    Aggregates,
    AnsweredRequests,
    Pause,
    key_reused,
    not_found,
    retry_conflicts,
    with_request,
)
from streams.audit.rows import open_actor
from streams.ports.errors import Conflict
from streams.ports.events import EventPublisher
from streams.ports.records import Change, Record, RecordKind
from streams.ports.stores import Stores, WorkingState
from streams.privacy.sealing import open_subject_id, seal_subject_id
from streams.sessions import events, movements, rules
from streams.sessions.movement_commands import MovementCommands
from streams.sessions.queries import OpeningQueries

Hand = Callable[[SubmitVerification], Awaitable[None]]
"""Write the command that evaluates an attempt to Kafka; raises `StoreUnavailable`."""

_ANNOUNCED: Final = {
    SessionStatus.SUBMITTED: (AuditAction.SESSION_SUBMITTED, EventType.SESSION_SUBMITTED),
    SessionStatus.EXPIRED: (AuditAction.SESSION_EXPIRED, EventType.SESSION_EXPIRED),
    SessionStatus.CANCELLED: (AuditAction.SESSION_CANCELLED, EventType.SESSION_CANCELLED),
}
"""Audit action and event of reaching a status; an outcome is published by its verification."""

_STARTED: Final = (AuditAction.SESSION_STARTED, EventType.SESSION_STARTED)


@dataclass(frozen=True, slots=True)
class _Move:
    """A session after a command, with its audit action and event."""

    stored: StoredSession
    action: AuditAction | None = None
    event: EventType | None = None


class ChangeSession:
    """Execute each command about a session once; the same command again changes nothing."""

    def __init__(
        self,
        stores: Stores,
        clock: Callable[[], datetime],
        state: WorkingState[AnsweredRequests],
        announcer: EventPublisher,
        hand: Hand,
        pause: Pause = asyncio.sleep,
        movement_commands: MovementCommands | None = None,
    ) -> None:
        self._stores = stores
        self._clock = clock
        self._sessions = Aggregates(stores.journal, announcer, state)
        self._hand = hand
        self._pause = pause
        self._openings = OpeningQueries(stores)
        self._movements = movement_commands or MovementCommands(None, secrets.choice)

    async def __call__(self, message: SessionCommand) -> SessionChanged:
        """Change the session as the command says; the result is in the store.

        Raises:
            Refused: NOT_FOUND, FLOW_NOT_PUBLISHED, FLOW_ARCHIVED, NO_REFERENCE_FACE, CONSENT_REQUIRED,
                SESSION_FINISHED, VALIDATION_FAILED, IDEMPOTENCY_KEY_REUSED.
            StoreUnavailable: The outcome is unknown; the same command may be sent again.
            Conflict: The session, or the subject's place under the flow, changed at every attempt.
        """
        command = message.root
        if isinstance(command, OpenSession):
            return await retry_conflicts(lambda: self._open(command), self._pause)
        return await retry_conflicts(lambda: self._change(command), self._pause)

    async def _open(self, command: OpenSession) -> SessionChanged:
        subject_id = await open_subject_id(self._stores.vault, command.tenant_id, command.subject_id)
        command = command.model_copy(update={"subject_id": subject_id})
        standing, flow, slot = await self._openings.find(command)
        if standing is not None:
            return _again(command, standing)
        now = to_milliseconds(self._clock())
        revision = self._openings.revision(command, flow)
        holder = await self._openings.holder(command, slot)
        if holder.stored is not None and rules.is_running(holder.stored, now):
            return SessionChanged(session_id=holder.stored.session.session_id)
        opening = await self._openings.unseal(command)
        reference = await self._openings.reference(command, revision)
        stored = rules.opened(command, revision, opening.return_url, reference, now)
        record = events.new_record(command.tenant_id, stored, command.fingerprint)
        move = _Move(stored, AuditAction.SESSION_CREATED, EventType.SESSION_CREATED)
        won = await self._commit(command, move, (holder.taken_by(command, now), record), record)
        if not won:
            raise Conflict("another session was opened first")
        return SessionChanged(session_id=command.session_id, created=True)

    async def _change(self, command: SessionCommandBase) -> SessionChanged:
        answer = SessionChanged(session_id=command.session_id)
        again = self._sessions.has_answered(command.tenant_id, command.session_id, _id(command))
        if again and not isinstance(command, SubmitSession):
            return answer
        record, stored = await self._find(command)
        if _id(command) and _id(command) in stored.requests:
            await self._hand_over(record, stored)
            return answer
        now = to_milliseconds(self._clock())
        if rules.is_overdue(stored, now) and not isinstance(command, ExpireSession):
            over = _Move(rules.expired(stored, now), AuditAction.SESSION_EXPIRED, EventType.SESSION_EXPIRED)
            _, after = await self._take(events.by_the_clock(command), over, record, stored)
            await self._discard(command, after, stored)
            raise rules.finished()
        try:
            move = await self._move(command, stored, now)
        except Refused:
            await self._discard(command, stored)
            raise
        record, after = await self._take(command, move, record, stored)
        await self._discard(command, after, stored)
        awaited = isinstance(command, RecordOutcome) and command.attempt == after.session.attempts
        await self._hand_over(record, after, again=awaited)
        return answer

    async def _move(self, command: SessionCommandBase, stored: StoredSession, now: datetime) -> _Move:
        match command:
            case StartSession():
                after = rules.decided_on_notice(stored, command, now)
            case AddCapture():
                after = rules.captured(stored, await self._looked_at(command, stored), now)
            case DrawChallenge() | AddFrame() | SkipMovements():
                after = await self._movements(stored, command, now)
            case SubmitSession():
                after = rules.submitted(stored, command, now)
            case CancelSession():
                after = rules.cancelled(stored, now)
            case ExpireSession():
                after = rules.expired(stored, now)
            case RecordOutcome():
                after = await self._outcome(command, stored, now)
            case _:
                raise TypeError(f"no move for {type(command).__name__}")
        if after.session.status is stored.session.status:
            return _Move(after)
        announced = _STARTED if isinstance(command, StartSession) else _ANNOUNCED.get(after.session.status)
        return _Move(after, *announced) if announced is not None else _Move(after)

    async def _looked_at(self, command: AddCapture, stored: StoredSession) -> AddCapture:
        """Return the command with what the engines say of a selfie that its pixels are good enough for."""
        rules.require_capturing(stored, command.what)
        if command.what is not EvidenceKind.SELFIE or command.reasons:
            return command
        return command.model_copy(update={"reasons": await self._movements.reasons(stored, command)})

    async def _outcome(self, command: RecordOutcome, stored: StoredSession, now: datetime) -> StoredSession:
        """Return the session with its verification's outcome, or unchanged while there is none."""
        row = stored.session
        if not rules.awaits(stored, command.attempt):
            return stored
        if command.retry:
            return rules.sent_back(stored, command.retry_reasons, now)
        verification_id = rules.verification_id(command.tenant_id, row.session_id, row.attempts)
        try:
            found = await self._stores.records.get(
                command.tenant_id, RecordKind.VERIFICATION, verification_id
            )
        except NotFound:
            return stored
        return rules.concluded(stored, StoredVerification.from_bytes(found.body), now)

    async def _take(
        self, command: SessionCommandBase, move: _Move, record: Record, before: StoredSession
    ) -> tuple[Record, StoredSession]:
        """Commit a change, if there is one; return the session afterwards."""
        if move.stored == before:
            return record, before
        requests = with_request(before.requests, _id(command)) if _id(command) else before.requests
        watched = rules.due(before) != rules.due(move.stored)
        version = before.watch_version + watched
        after = move.stored.model_copy(update={"requests": requests, "watch_version": version})
        changed = events.next_record(record, after)
        await self._commit(command, replace(move, stored=after), (changed,), changed, watched=watched)
        return changed, after

    async def _hand_over(self, record: Record, stored: StoredSession, *, again: bool = False) -> None:
        """Send a submitted session to be evaluated, and note that; `again`: also one that was sent before."""
        status = stored.session.status
        if status is SessionStatus.SUBMITTED or (again and status is SessionStatus.PROCESSING):
            command = rules.command_of(record.tenant_id, stored)
            subject_id = await seal_subject_id(self._stores.vault, record.tenant_id, command.subject_id)
            changes = {"subject_id": subject_id, "movements": movements.result_of(stored)}
            await self._hand(command.model_copy(update=changes))
        if status is SessionStatus.SUBMITTED:
            now = to_milliseconds(self._clock())
            after = rules.moved(stored, now, status=SessionStatus.PROCESSING)
            change = Change(record.tenant_id, (events.next_record(record, after),))
            await self._stores.journal.commit(change)

    async def _find(self, command: SessionCommandBase) -> tuple[Record, StoredSession]:
        try:
            record = await self._stores.records.get(command.tenant_id, RecordKind.SESSION, command.session_id)
        except NotFound:
            raise not_found() from None
        stored = stored_of(record.body)
        if stored is None:
            raise not_found()
        return record, stored

    async def _commit(
        self,
        command: SessionCommandBase,
        move: _Move,
        records: tuple[Record, ...],
        own: Record,
        *,
        watched: bool = True,
    ) -> bool:
        """Commit the session with its watch, audit row and event; return False when another was first."""
        stored = move.stored
        if watched:
            records = (*records, events.watch_record(command.tenant_id, stored))
        actor = await open_actor(self._stores.vault, command.tenant_id, command.actor)
        change = Change(
            command.tenant_id,
            records,
            events.rows(command.tenant_id, stored, move.action, actor, own.version),
            events.events(command.tenant_id, stored, move.event, own.version),
        )
        return await self._sessions.commit(change, command.session_id, stored.requests)

    async def _discard(
        self, command: SessionCommandBase, stored: StoredSession, before: StoredSession | None = None
    ) -> None:
        """Discard images the session does not refer to: replaced, refused or of an ended attempt."""
        brought = {command.evidence_id} if isinstance(command, AddCapture | AddFrame) else set()
        spare = (brought | (_images(before) if before else set())) - _images(stored)
        if spare:
            await self._stores.evidence.discard(command.tenant_id, sorted(spare))


def _images(stored: StoredSession) -> set[EvidenceId]:
    own = {one.evidence_id for one in (stored.document, stored.selfie) if one is not None}
    return own | movements.frames_of(stored)


def _id(command: SessionCommandBase) -> str:
    return command.actor.request_id


def _again(command: OpenSession, standing: Record) -> SessionChanged:
    if standing.fingerprint != command.fingerprint:
        raise key_reused()
    stored = StoredSession.from_bytes(standing.first_body or standing.body)
    own = _id(command) in stored.requests
    return SessionChanged(session_id=command.session_id, created=own, replayed=not own)
