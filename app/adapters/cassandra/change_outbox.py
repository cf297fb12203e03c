"""The rest of a change, stored in its deciding record's row until it is written everywhere.

The row is decided by one lightweight transaction, outbox and all. From then on the change stands, and
who finds its outbox unsettled writes the rest of it: always the first writer's, never a later one's.
All of it may be written again by anybody, at any time.
"""

from collections.abc import Iterator, Sequence
from typing import Final
from uuid import UUID

from app.adapters.cassandra.audit_rows import audit_statements
from app.adapters.cassandra.records import Pairs, place_writes, text_writes
from app.adapters.cassandra.schema import first_wins
from app.adapters.cassandra.session import Statement, Write
from app.adapters.cassandra.time_slot_queue import Hint, wait_writes
from app.adapters.shared.columns import from_micros, to_micros, to_pairs_text
from schemas.audit import AuditEvent
from schemas.base import Frozen
from schemas.events import DecisionEvent
from schemas.ids import TenantId
from streams.ports.records import DERIVED, Change, Record, RecordKind

EVENTS: Final = "events"
"""The queue of events that still have to be published."""

DATED_BACK_MICROS: Final = 60_000_000
"""How far before its commit a derived record is dated: a later transaction outdoes it
as long as the clocks of the nodes differ by less."""

_DERIVED: Final = Statement(
    "INSERT INTO records (tenant, kind, id, part, version, created_at, fingerprint, searched, indexes, "
    "body, attempt) VALUES (?, ?, ?, 0, 1, ?, ?, ?, ?, ?, ?) USING TIMESTAMP ?"
)
_EVENT: Final = Statement(
    "INSERT INTO events (id, tenant, body, waits_at) VALUES (?, ?, ?, ?) USING TIMESTAMP ?"
)
_SETTLED: Final = Statement(
    "INSERT INTO records (tenant, kind, id, part, settled) VALUES (?, ?, ?, 1, ?) USING TIMESTAMP ?"
)


class Companion(Frozen):
    """A record that is written after the one that decides, and what its new version takes it from."""

    tenant_id: TenantId
    kind: RecordKind
    id: str
    body: str
    created_at: int
    """Microseconds since 1970."""
    version: int
    fingerprint: str
    indexes: Pairs
    first_body: str
    gone: Pairs = ()
    searched: str = ""

    @classmethod
    def of(cls, record: Record, standing: Record | None) -> "Companion":
        """Return the record as it will stand, `standing` being the version before it."""
        base = standing or record
        return cls(
            tenant_id=record.tenant_id,
            kind=record.kind,
            id=record.id,
            body=_text(record.body),
            created_at=to_micros(base.created_at),
            version=max(record.version, 1),
            fingerprint=base.fingerprint,
            indexes=record.indexes,
            first_body=_text(record.body if standing is None else standing.first_body),
            gone=pairs_gone(record, standing),
            searched=base.searched,
        )

    def to_record(self) -> Record:
        """Return the record."""
        return Record(
            tenant_id=self.tenant_id,
            kind=self.kind,
            id=self.id,
            body=_raw(self.body),
            created_at=from_micros(self.created_at),
            version=self.version,
            fingerprint=self.fingerprint,
            indexes=self.indexes,
            first_body=_raw(self.first_body),
            searched=self.searched,
        )


class Outbox(Frozen):
    """All of a change but its deciding record."""

    attempt: UUID
    """Distinguishes this change's write of the record from any other's."""
    committed_at: int
    """Microseconds since 1970 by the store's clock; what one process commits later has a later one."""
    tenant_id: TenantId
    gone: Pairs
    """Where the deciding record is no longer listed."""
    companions: tuple[Companion, ...] = ()
    audit: tuple[AuditEvent, ...] = ()
    events: tuple[DecisionEvent, ...] = ()

    def writes(self, deciding: Record, listed: Sequence[Companion]) -> list[Write]:
        """Return all rows but the records; the last one says that the others are written.

        `listed` are the companions that stand as this change wrote them.
        """
        writes = list(audit_statements(Change(self.tenant_id, (), self.audit)))
        writes += place_writes(deciding, deciding.indexes, self.gone)
        writes += text_writes(deciding)
        for companion in listed:
            record = companion.to_record()
            if is_derived(deciding, companion):
                writes.append(self._derived_write(companion))
            writes += place_writes(record, companion.indexes, companion.gone)
            writes += text_writes(record)
        writes += self._event_writes()
        writes.append(settled_write(deciding))
        return writes

    def _derived_write(self, one: Companion) -> Write:
        """Return what creates the record; written again, whenever that is, it undoes no later version."""
        key = (one.tenant_id, one.kind.value, one.id)
        columns = (one.created_at, one.fingerprint, one.searched or None, to_pairs_text(one.indexes))
        at = self.committed_at - DATED_BACK_MICROS
        return _DERIVED, (*key, *columns, _raw(one.body), self.attempt, at)

    def _event_writes(self) -> Iterator[Write]:
        earliest = first_wins(self.committed_at)
        for event in self.events:
            yield _EVENT, (event.id, event.tenant_id, event.to_bytes(), self.committed_at, earliest)
        yield from wait_writes(EVENTS, [Hint(self.committed_at, event.id) for event in self.events])


def is_derived(deciding: Record, companion: Companion) -> bool:
    """Return whether only this change creates the companion, so that a plain write does."""
    return companion.version == 1 and (deciding.kind, companion.kind) in DERIVED


def settled_write(record: Record) -> Write:
    """Return what says that the outbox of this version is written everywhere."""
    return _SETTLED, (record.tenant_id, record.kind.value, record.id, record.version, record.version)


def pairs_gone(record: Record, standing: Record | None) -> Pairs:
    """Return the pairs under which the record was listed and is no more."""
    return tuple(pair for pair in (standing.indexes if standing else ()) if pair not in record.indexes)


def pack(change: Change, attempt: UUID, committed_at: int, standing: Sequence[Record | None]) -> Outbox:
    """Return the outbox of a change; `standing` are its records as they stand before it, in their order."""
    deciding, *others = change.records
    return Outbox(
        attempt=attempt,
        committed_at=committed_at,
        tenant_id=change.tenant_id,
        gone=pairs_gone(deciding, standing[0]),
        companions=tuple(map(Companion.of, others, standing[1:])),
        audit=change.audit,
        events=change.events,
    )


def _text(body: bytes) -> str:
    return body.decode("utf-8", "surrogateescape")


def _raw(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
