"""Records, audit rows and events of a session; pure."""

from typing import Final

from schemas.audit import Actor, AuditAction, AuditEvent
from schemas.events import DecisionEvent, EventData, EventType
from schemas.ids import PLATFORM, EventId, TenantId, derive_id
from schemas.sessions import SessionCommandBase, SessionWatch, StoredSession
from streams.audit.rows import NOBODY, write_row
from streams.ports.records import Record, RecordKind, due_index
from streams.sessions import rules
from streams.verification.records import next_session_record, session_record

_DONE: Final = {
    AuditAction.SESSION_CREATED: "was opened",
    AuditAction.SESSION_STARTED: "was started: the notice was accepted",
    AuditAction.SESSION_SUBMITTED: "was handed in",
    AuditAction.SESSION_EXPIRED: "expired",
    AuditAction.SESSION_CANCELLED: "was cancelled",
}


def by_the_clock(command: SessionCommandBase) -> SessionCommandBase:
    """Return the command with the system as its actor, for changes made before it is executed."""
    return command.model_copy(update={"actor": NOBODY})


def new_record(tenant_id: TenantId, stored: StoredSession, fingerprint: str) -> Record:
    """Return the first record of a session."""
    row = stored.session
    return session_record(tenant_id, row, stored.to_bytes(), fingerprint)


def next_record(record: Record, stored: StoredSession) -> Record:
    """Return the record's next version."""
    row = stored.session
    return next_session_record(record, row, stored.to_bytes())


def watch_record(tenant_id: TenantId, stored: StoredSession) -> Record:
    """Return the record by which the scheduler finds the session while it needs attention."""
    row, due = stored.session, rules.due(stored)
    return Record(
        tenant_id=PLATFORM,
        kind=RecordKind.SESSION_WATCH,
        id=row.session_id,
        body=SessionWatch(tenant_id=tenant_id, session_id=row.session_id, due=due).to_bytes(),
        created_at=row.created_at,
        version=stored.watch_version,
        indexes=(rules.ended_index(tenant_id) if due is None else due_index(due),),
    )


def rows(
    tenant_id: TenantId, stored: StoredSession, action: AuditAction | None, actor: Actor, version: int
) -> tuple[AuditEvent, ...]:
    """Return the audit row of a change; most changes without an actor have none."""
    if action is None:
        return ()
    row = stored.session
    changes = {
        "session_id": row.session_id,
        "flow_id": row.flow_id,
        "flow_revision": row.flow_revision,
        "status": row.status,
        "attempts": row.attempts,
    }
    if action is AuditAction.SESSION_STARTED and stored.consent is not None:
        changes["notice_version"] = stored.consent.notice_version
    actor = actor.model_copy(update={"request_id": actor.request_id or None})
    event_id = derive_id("aud", tenant_id, row.session_id, action, str(version))
    detail = f"The verification session {row.session_id} {_DONE[action]}."
    return (
        write_row(
            event_id, action, actor, row.subject_id, row.updated_at,
            detail=detail, changes=changes, livemode=row.livemode,
        ),
    )  # fmt: skip


def events(
    tenant_id: TenantId, stored: StoredSession, type_: EventType | None, version: int
) -> tuple[DecisionEvent, ...]:
    """Return the event of a change; the outcome is published by the verification's own events."""
    if type_ is None:
        return ()
    row = stored.session
    data = EventData(
        subject_id=row.subject_id, session_id=row.session_id, flow_id=row.flow_id, status=row.status
    )
    return (
        DecisionEvent(
            id=EventId(derive_id("evt", tenant_id, row.session_id, type_, str(version))),
            type=type_,
            timestamp=row.updated_at,
            tenant_id=tenant_id,
            livemode=row.livemode,
            sequence=version,
            data=data,
        ),
    )
