"""Convert audit rows to columns and back; no value is stored twice, so altered columns are altered rows."""

import json
from collections.abc import Sequence
from typing import Any, Final, TypeAlias

from pydantic import ValidationError

from app.adapters.shared.columns import from_millis, to_millis
from schemas.audit import AuditEvent, ChainLink
from schemas.ids import TenantId
from streams.audit.rules import CHAIN
from streams.ports.errors import Damaged

AuditColumns: TypeAlias = tuple[str | int | None, ...]

COLUMNS: Final = (
    "a.event_id, a.action, a.actor_type, a.actor_id, a.subject_id, a.correlation_id, a.decision_id, "
    "a.context, a.detail, a.created_at, a.livemode"
)
"""What makes an event, in the order `to_event` reads it."""

LINK: Final = "c.position, c.prev_hash, c.hash"
"""What makes a link, in the order `to_link` reads it."""

_MODES: Final = {0: False, 1: True}


def to_columns(tenant_id: TenantId, event: AuditEvent) -> AuditColumns:
    """Return the columns of a row, as they are inserted."""
    return (
        tenant_id,
        event.event_id,
        event.action.value,
        event.actor_type.value,
        event.actor_id,
        event.subject_id,
        event.correlation_id,
        event.decision_id,
        event.model_dump_json(include={"context"}),
        event.detail,
        to_millis(event.created_at),
        int(event.livemode),
    )


def to_event(row: Sequence[Any], sealed: ChainLink | None = None) -> AuditEvent:
    """Return the event of the columns, with its link in the context when it is sealed.

    Raises:
        Damaged: The columns are no row `to_columns` wrote.
    """
    try:
        return _read(row, sealed)
    except (ValidationError, ValueError, TypeError, LookupError, OverflowError) as error:
        raise Damaged("a row of the audit log was altered and cannot be read") from error


def _read(row: Sequence[Any], sealed: ChainLink | None) -> AuditEvent:
    context, detail, created_at, livemode = row[7:11]
    if any(isinstance(value, bytes) for value in row[:11]):
        raise TypeError("a column has another type than was written")
    stored = json.loads(context)["context"]
    stored.pop(CHAIN, None)  # only a link that stands in the chain is shown
    if sealed is not None:
        stored[CHAIN] = sealed.model_dump()
    return AuditEvent(
        event_id=row[0],
        action=row[1],
        actor_type=row[2],
        actor_id=row[3],
        subject_id=row[4],
        correlation_id=row[5],
        decision_id=row[6],
        context=stored,
        detail=detail,
        created_at=from_millis(created_at),
        livemode=_MODES[livemode],
    )


def to_event_or_none(row: Sequence[Any]) -> AuditEvent | None:
    """Return the event, or None when there is none or the columns are no row any more."""
    try:
        return None if row[0] is None else to_event(row)
    except Damaged:
        return None


def to_link(row: Sequence[Any]) -> ChainLink:
    """Return the link of the columns; altered ones give a link that no check accepts."""
    position, prev_hash, own = row
    return ChainLink(
        position=position if isinstance(position, int) else -1, prev_hash=str(prev_hash), hash=str(own)
    )
