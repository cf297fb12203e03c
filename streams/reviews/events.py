"""Records, audit rows and events of each change of a review case; pure."""

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from schemas import sessions
from schemas.audit import Actor, AuditAction, AuditEvent
from schemas.enums import SessionStatus
from schemas.events import DecisionEvent, EventData, EventType
from schemas.ids import AuditEventId, DecisionId, EventId, TenantId, derive_id
from schemas.reviews import (
    AppealKey,
    AssignCase,
    CaseCommandBase,
    CaseNote,
    ClaimCase,
    EscalateCase,
    NoteCase,
    OpenAppeal,
    ReleaseCase,
    ReopenCase,
    StoredCase,
)
from schemas.verifications import StoredVerification, codes_of
from streams.audit.rows import write_row
from streams.ports.records import Record, RecordKind
from streams.reviews import rules
from streams.verification import records
from streams.verification.events import EVENT_OF, event_of
from streams.verification.records import next_session_record


@dataclass(frozen=True, slots=True)
class Move:
    """A case after a command, with its audit action and event."""

    stored: StoredCase
    action: AuditAction
    detail: str
    event: EventType | None = None
    said: dict[str, Any] | None = None


def moved(command: CaseCommandBase, stored: StoredCase, now: datetime) -> Move:
    """Return the case after a command that is no conclusion.

    Raises:
        Refused: As `rules`.
    """
    name = f"Review case {command.review_case_id}"
    match command:
        case ClaimCase():
            after = rules.claimed(stored, command.reviewer_id, now)
            detail = f"{name} was claimed by {command.reviewer_id}."
            return Move(after, AuditAction.CASE_ASSIGNED, detail, EventType.CASE_ASSIGNED)
        case AssignCase():
            after = rules.assigned(stored, command.reviewer_id, command.actor.actor_id, now)
            detail = f"{name} was assigned to {command.reviewer_id}."
            return Move(after, AuditAction.CASE_ASSIGNED, detail, EventType.CASE_ASSIGNED)
        case ReleaseCase():
            after = rules.released(stored, command.reviewer_id, now)
            return Move(after, AuditAction.CASE_RELEASED, f"{name} was given back.")
        case NoteCase():
            after = rules.noted(stored, note_of(command, now))
            return Move(
                after, AuditAction.CASE_NOTED, f"A note was added to review case {command.review_case_id}."
            )
        case EscalateCase():
            after = rules.escalated(stored, note_of(command, now), now)
            return Move(after, AuditAction.CASE_ESCALATED, f"{name} was escalated.", EventType.CASE_ESCALATED)
        case ReopenCase():
            after = rules.reopened(stored, note_of(command, now), now)
            return Move(after, AuditAction.CASE_REOPENED, f"{name} was reopened.", EventType.CASE_REOPENED)
        case _:
            raise TypeError(f"no such command: {type(command).__name__}")


def keyed(command: OpenAppeal, now: datetime) -> tuple[Record, ...]:
    """Return the record that maps the request's Idempotency-Key to its case; none without a key."""
    if command.key is None:
        return ()
    used = AppealKey(review_case_id=command.review_case_id, request_id=command.actor.request_id)
    return (
        Record(
            command.tenant_id,
            RecordKind.TOKEN,
            command.key,
            used.to_bytes(),
            now,
            fingerprint=command.fingerprint,
        ),
    )


def session_after(current: Record, stored: StoredVerification, now: datetime) -> Record:
    """Return the session's record with the review's result."""
    session, verification = sessions.row_of(current.body), stored.verification
    changed = session.model_copy(
        update={
            "status": SessionStatus(verification.status.value),
            "decision": verification.decision,
            "review_status": verification.review_status,
            "review_case_id": verification.review_case_id,
            "updated_at": now,
        }
    )
    return next_session_record(current, changed, sessions.with_row(current.body, changed))


def verification_record(current: Record, after: StoredVerification) -> Record:
    """Return the verification's record with the review's result."""
    verification = after.verification
    places = records.indexes(after.livemode, verification.subject_id, verification.status)
    indexes = (*places, records.by_decision(verification.decision_id))
    return replace(current, body=after.to_bytes(), version=current.version + 1, indexes=indexes)


def verification_event(
    tenant_id: TenantId, stored: StoredVerification, now: datetime, version: int
) -> DecisionEvent:
    """Return the event of a reviewer's decision; the evaluation itself published two events."""
    verification = stored.verification
    type_ = EVENT_OF[verification.status]
    return event_of(tenant_id, stored, type_, version + 1, verification.decision_id, now)


def case_events(
    tenant_id: TenantId, move: Move, version: int, decision_id: DecisionId | None
) -> tuple[DecisionEvent, ...]:
    """Return the event of a change of a case, if it has one."""
    if move.event is None:
        return ()
    case = move.stored.case
    return (
        DecisionEvent(
            id=EventId(derive_id("evt", tenant_id, case.review_case_id, move.event, str(version))),
            type=move.event,
            timestamp=case.updated_at,
            tenant_id=tenant_id,
            livemode=case.livemode,
            sequence=version,
            data=EventData(
                subject_id=case.subject_id,
                verification_id=case.verification_id,
                transaction_id=case.transaction_id,
                decision_id=decision_id,
                review_case_id=case.review_case_id,
                status=case.status,
                risk_level=case.risk_level,
                review_status=case.review_status,
                reason_codes=codes_of(case.reasons),
            ),
        ),
    )


def row_of(
    command: CaseCommandBase, move: Move, actor: Actor, version: int, decision_id: DecisionId | None
) -> AuditEvent:
    """Return the audit row of a change."""
    case = move.stored.case
    event_id = derive_id("aud", command.tenant_id, case.review_case_id, move.action, str(version))
    changes = {
        "review_case_id": case.review_case_id,
        "verification_id": case.verification_id,
        "transaction_id": case.transaction_id,
        "status": case.status,
        "review_status": case.review_status,
        "assignee": case.assignee,
        **(move.said or {}),
    }
    return write_row(
        AuditEventId(event_id),
        move.action,
        actor,
        case.subject_id,
        case.updated_at,
        detail=move.detail,
        changes={name: value for name, value in changes.items() if value is not None},
        decision_id=decision_id,
        livemode=case.livemode,
    )


def note_of(command: NoteCase | EscalateCase | ReopenCase | OpenAppeal, now: datetime) -> CaseNote:
    """Return the note a command carries, still sealed."""
    return CaseNote(
        note_id=command.note_id, author_id=command.reviewer_id, text=command.sealed_text, created_at=now
    )
