"""Build audit rows, and the change of an act that only writes its row."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from schemas.audit import Actor, AuditAction, AuditEvent
from schemas.events import DecisionEvent
from schemas.ids import AuditEventId, TenantId
from streams.ports.records import BY_AGE, Change, Record, RecordKind


def write_row(
    event_id: str,
    action: AuditAction,
    actor: Actor,
    subject_id: str,
    now: datetime,
    *,
    detail: str,
    changes: Mapping[str, Any] | None = None,
    decision_id: str | None = None,
    livemode: bool = True,
) -> AuditEvent:
    """Return the audit row of an act.

    `subject_id` is the tenant's customer, or the id of the thing acted on when no customer is concerned;
    `detail` is one sentence and `changes` ids, statuses and codes, both without personal data (G20).
    """
    context = {"request_id": actor.request_id, "ip": actor.ip, "changes": dict(changes or {}) or None}
    return AuditEvent(
        event_id=AuditEventId(event_id),
        action=action,
        actor_type=actor.actor_type,
        actor_id=actor.actor_id,
        subject_id=subject_id,
        correlation_id=actor.request_id,
        decision_id=decision_id,
        context={name: value for name, value in context.items() if value is not None},
        detail=detail,
        created_at=now,
        livemode=livemode,
    )


def act(
    tenant_id: TenantId,
    row: AuditEvent,
    events: Sequence[DecisionEvent] = (),
    *,
    indexes: tuple[tuple[str, str], ...] = (),
    about: str = "",
) -> Change:
    """Return the change that writes the row; a marker under the row's id makes it happen once.

    The marker holds what the act was `about` and can be listed under `indexes`; it ends by age.
    """
    marker = Record(
        tenant_id,
        RecordKind.ACT,
        row.event_id,
        about.encode(),
        row.created_at,
        indexes=(*indexes, BY_AGE),
    )
    return Change(tenant_id, (marker,), (row,), tuple(events))
