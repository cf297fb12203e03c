"""How an erasure is stored, and the row and event of one that was carried out; pure."""

from datetime import datetime
from typing import Final

from schemas.audit import Actor, AuditAction, AuditEvent
from schemas.events import DecisionEvent, EventData, EventType
from schemas.ids import ErasureId, EventId, SubjectId, TenantId, derive_id
from schemas.privacy import EraseSubject, Erasure, ErasureStatus
from schemas.topics import Topic
from streams.audit.rows import write_row
from streams.ports.records import Record, RecordKind
from streams.runtime.producer import Outgoing

APPROVED_INDEX: Final = ("status", ErasureStatus.APPROVED.value)
"""Lists the erasures that still have to be carried out."""


def erasure_id(tenant_id: TenantId, subject_id: SubjectId) -> ErasureId:
    """Return the id of a subject's one erasure."""
    return ErasureId(derive_id("era", tenant_id, subject_id))


def erasure_record(tenant_id: TenantId, erasure: Erasure, version: int) -> Record:
    """Return the record of an erasure as it stands now."""
    indexes = (APPROVED_INDEX,) if erasure.status is ErasureStatus.APPROVED else ()
    return Record(
        tenant_id,
        RecordKind.ERASURE,
        erasure.erasure_id,
        erasure.to_bytes(),
        erasure.requested_at,
        version=version,
        indexes=indexes,
    )


def erasure_row(
    tenant_id: TenantId, erasure: Erasure, action: AuditAction, actor: Actor, detail: str, now: datetime
) -> AuditEvent:
    """Return the row of a step of an erasure; the reason, which may be personal, is not in it."""
    changes = {
        "erasure_id": erasure.erasure_id,
        "status": erasure.status,
        "key_id": erasure.key_id,
        "removed": None if erasure.removed is None else erasure.removed.model_dump(),
    }
    return write_row(
        derive_id("aud", tenant_id, erasure.erasure_id, action),
        action,
        actor,
        erasure.subject_id,
        now,
        detail=detail,
        changes={name: value for name, value in changes.items() if value is not None},
    )


def erased_event(tenant_id: TenantId, erasure: Erasure, *, livemode: bool, now: datetime) -> DecisionEvent:
    """Return the event of an erasure for receivers of one mode."""
    mode = "live" if livemode else "test"
    return DecisionEvent(
        id=EventId(derive_id("evt", tenant_id, erasure.erasure_id, EventType.SUBJECT_ERASED, mode)),
        type=EventType.SUBJECT_ERASED,
        timestamp=now,
        tenant_id=tenant_id,
        livemode=livemode,
        sequence=1,
        data=EventData(subject_id=erasure.subject_id, status=erasure.status),
    )


def erase_command(tenant_id: TenantId, erasure: ErasureId, now: datetime) -> Outgoing:
    """Return the record that asks for an approved erasure to be carried out."""
    command = EraseSubject(tenant_id=tenant_id, erasure_id=erasure, requested_at=now)
    return Outgoing(Topic.RETENTION_COMMANDS, erasure.encode(), command.to_bytes())
