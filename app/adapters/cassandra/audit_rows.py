"""Convert audit rows to statements and from columns. Pure.

The row itself stands in one place, so an altered column is an altered row; every other table only says
where it stands.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias
from zlib import crc32

from cassandra.query import UNSET_VALUE
from pydantic import ValidationError

from app.adapters.cassandra.session import Statement, Write
from app.adapters.shared.columns import from_millis, to_millis
from schemas.audit import AuditEvent, ChainLink
from schemas.ids import AuditEventId, TenantId
from streams.audit.rules import CHAIN
from streams.ports.errors import Damaged
from streams.ports.records import Change

DAY_MS: Final = 86_400_000
"""A partition of rows holds one tenant's day of one mode, in milliseconds (UTC): some 600 B a row."""

SLOT_MS: Final = 60_000
"""A partition of waiting rows holds a minute, in milliseconds, so that what was removed from it never adds
up to what Cassandra refuses to read over: 100,000 tombstones, which are 1,600 rows a second of one tenant."""

SHARDS: Final = 16
"""Partitions of the list of slots, so that not every commit of the deployment writes to one."""

WHOLE: Final = 0
"""The day under which places are listed that are not parted by days."""

BY_DAY: Final = ("actor_id", "action", "actor_type")
"""Fields of which one value may have most of a tenant's rows: listed day by day; the rarer first."""

AT_ONCE: Final = ("decision_id", "correlation_id", "subject_id")
"""Fields of which one value has few rows: listed in one partition; the rarest first."""

COLUMNS: Final = (
    "created_at, event_id, livemode, action, actor_type, actor_id, subject_id, correlation_id, decision_id, "
    "context, detail, position"
)
"""What makes an event, and the place in the chain it was sealed at, in the order `StoredRow` reads them."""

_ROW: Final = Statement("""
INSERT INTO audit (tenant, livemode, day, created_at, event_id, action, actor_type, actor_id, subject_id,
    correlation_id, decision_id, context, detail)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)""")
DAY: Final = Statement("INSERT INTO audit_days (tenant, livemode, day) VALUES (?, ?, ?)")
_PLACE: Final = Statement("""
INSERT INTO audit_places (tenant, livemode, name, value, day, created_at, event_id)
VALUES (?, ?, ?, ?, ?, ?, ?)""")
_WAIT: Final = Statement("""
INSERT INTO audit_waiting (tenant, slot, at, event_id, created_at, livemode) VALUES (?, ?, now(), ?, ?, ?)""")
_SLOT: Final = Statement("INSERT INTO audit_slots (shard, tenant, slot, used) VALUES (?, ?, ?, true)")

_Write: TypeAlias = tuple[Statement, tuple[object, ...]]


class RowKey(NamedTuple):
    """The position of a tenant's row; rows of one mode sort by their keys."""

    created_at: int
    """Milliseconds since 1970."""
    event_id: AuditEventId
    livemode: bool

    @property
    def day(self) -> int:
        """The partition's day, counted from 1970-01-01."""
        return self.created_at // DAY_MS


def key_of(event: AuditEvent) -> RowKey:
    """Return where the row stands."""
    return RowKey(to_millis(event.created_at), event.event_id, event.livemode)


def shard_of(tenant_id: TenantId) -> int:
    """Return the shard of the list of slots that names the tenant's."""
    return crc32(tenant_id.encode()) % SHARDS


def audit_statements(change: Change) -> Sequence[Write]:
    """Return what writes the audit rows of the change, for the logged batch of its commit.

    Written again they change nothing that is seen: a row that waits twice is sealed once. A row comes to
    some 1.5 KB with all its places, which counts toward Cassandra's limit of a batch (50 KiB unless
    configured).
    """
    owner = change.tenant_id
    hints = [write for event in change.audit for write in _hints(owner, event)]
    rows = [write for event in change.audit for write in _rows(owner, event)]
    return list(dict.fromkeys([*hints, *rows]))


def _hints(tenant_id: TenantId, event: AuditEvent) -> Iterator[_Write]:
    """Return what says that the row waits; it comes first, so no row of a parted batch is without."""
    key = key_of(event)
    slot = key.created_at // SLOT_MS
    yield _SLOT, (shard_of(tenant_id), tenant_id, slot)
    yield _WAIT, (tenant_id, slot, key.event_id, key.created_at, key.livemode)


def _rows(tenant_id: TenantId, event: AuditEvent) -> Iterator[_Write]:
    """Return what writes the row, and where it is found."""
    key = key_of(event)
    yield _ROW, (tenant_id, key.livemode, key.day, key.created_at, key.event_id, *_to_columns(event))
    yield DAY, (tenant_id, key.livemode, key.day)
    for name in (*AT_ONCE, *BY_DAY):
        value = getattr(event, name)
        if value is not None:
            day = key.day if name in BY_DAY else WHOLE
            yield _PLACE, (tenant_id, key.livemode, name, str(value), day, key.created_at, key.event_id)


def _to_columns(event: AuditEvent) -> tuple[Any, ...]:
    columns = (
        event.action.value,
        event.actor_type.value,
        event.actor_id,
        event.subject_id,
        event.correlation_id,
        event.decision_id,
        event.model_dump_json(include={"context"}),
        event.detail,
    )
    return tuple(UNSET_VALUE if column is None else column for column in columns)  # None leaves a tombstone


@dataclass(frozen=True, slots=True)
class StoredRow:
    """A row as it stands in its table."""

    columns: Sequence[Any]
    """Those of `COLUMNS`."""

    @property
    def key(self) -> RowKey:
        """Its position."""
        return RowKey(*self.columns[:3])

    @property
    def position(self) -> int | None:
        """The place in the chain it was sealed at; only the chain knows whether that is true."""
        position: int | None = self.columns[11]
        return position

    @property
    def is_row(self) -> bool:
        """Whether it was written: a place may also have been noted where a row was taken away."""
        return any(column is not None for column in self.columns[3:11])

    def to_event(self, sealed: ChainLink | None = None) -> AuditEvent:
        """Return the event, with its link in the context when it is sealed.

        Raises:
            Damaged: The columns are not those of an event.
        """
        try:
            return _read(self.columns, sealed)
        except (ValidationError, ValueError, TypeError, LookupError, OverflowError) as error:
            raise Damaged("a row of the audit log was altered and cannot be read") from error

    def to_event_or_none(self) -> AuditEvent | None:
        """Return the event, or None when it is no row any more."""
        try:
            return self.to_event()
        except Damaged:
            return None


def _read(columns: Sequence[Any], sealed: ChainLink | None) -> AuditEvent:
    created_at, event_id, livemode, action, actor_type, actor_id, subject_id = columns[:7]
    correlation_id, decision_id, context, detail = columns[7:11]
    stored = json.loads(context)["context"]
    stored.pop(CHAIN, None)  # only a link that stands in the chain is shown
    if sealed is not None:
        stored[CHAIN] = sealed.model_dump()
    return AuditEvent(
        event_id=event_id,
        action=action,
        actor_type=actor_type,
        actor_id=actor_id,
        subject_id=subject_id,
        correlation_id=correlation_id,
        decision_id=decision_id,
        context=stored,
        detail=detail,
        created_at=from_millis(created_at),
        livemode=livemode,
    )
