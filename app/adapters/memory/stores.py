"""Every store port in memory, for tests; nothing outlives the process."""

import base64
import binascii
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from typing_extensions import override

from app.adapters.memory.ages import MemoryEvidenceAges, MemoryRecordRemoval
from app.adapters.memory.feed import FeedShelf, MemoryEventFeed
from app.adapters.security.crypto import Keys
from app.adapters.security.derived_keys import chain_keys_of
from app.adapters.security.keyring import TOMBSTONE, KeyRing, SubjectKey
from schemas.audit import AuditEvent, AuditFilter, ChainLink
from schemas.checkpoints import ChainHead
from schemas.events import DecisionEvent
from schemas.ids import PLATFORM, AuditEventId, EventId, EvidenceId, SubjectId, TenantId
from schemas.problems import NotFound
from streams.audit.rules import CHAIN, check_head, is_chosen, is_head, seal_head
from streams.ports.audit import AuditLog, ChainKeys, SealedRow
from streams.ports.errors import Conflict, Damaged
from streams.ports.evidence import EvidenceDraft, EvidenceRow, EvidenceStore, Vault
from streams.ports.records import Change, Committed, Found, Journal, Position, Record, RecordKind, Records
from streams.ports.stores import Stores

_VALUE_KIND = "VALUE"


@dataclass(slots=True)
class Shelves:
    """The contents of the stores of one process; tests may read or change them."""

    records: dict[tuple[TenantId, RecordKind, str], Record] = field(default_factory=dict)
    events: dict[EventId, DecisionEvent] = field(default_factory=dict)
    emitted: set[EventId] = field(default_factory=set)
    feed: FeedShelf = field(default_factory=FeedShelf)
    audit: dict[TenantId, dict[AuditEventId, AuditEvent]] = field(default_factory=dict)
    links: dict[TenantId, dict[AuditEventId, ChainLink]] = field(default_factory=dict)
    heads: dict[TenantId, tuple[ChainLink, str]] = field(default_factory=dict)
    evidence: dict[tuple[TenantId, EvidenceId], tuple[EvidenceRow, bytes]] = field(default_factory=dict)
    keys: dict[tuple[TenantId, SubjectId], bytes] = field(default_factory=dict)
    erasures: dict[TenantId, list[SubjectId]] = field(default_factory=dict)


def open_memory_stores(keys: Keys, shelves: Shelves | None = None) -> Stores:
    """Return stores over the shelves, or over new ones."""
    shared = shelves or Shelves()
    ring = KeyRing(keys)
    return Stores(
        journal=MemoryJournal(shared),
        records=MemoryRecords(shared),
        audit_log=MemoryAuditLog(shared, chain_keys_of(keys)),
        evidence=MemoryEvidenceStore(shared, ring),
        vault=MemoryVault(shared, ring),
        feed=MemoryEventFeed(shared.feed),
        ages=MemoryEvidenceAges(shared.evidence),
        removal=MemoryRecordRemoval(shared.records, shared.feed, shared.events, shared.emitted),
    )


class MemoryJournal(Journal):
    """Checks every record of a change before it writes the first."""

    def __init__(self, shelves: Shelves) -> None:
        self._shelves = shelves

    @override
    async def commit(self, change: Change) -> Committed:
        if any(record.tenant_id not in (change.tenant_id, PLATFORM) for record in change.records):
            raise ValueError("a record of a change is this tenant's or the platform's")
        next_ones = [self._next(record) for record in change.records]
        deciding = change.records[0]
        if change.first_body is not None and next_ones[0] is not None:
            next_ones[0] = replace(next_ones[0], first_body=change.first_body)
        if next_ones[0] is None:
            return Committed(self._shelves.records[_key(deciding)], won=False)
        for record in next_ones:
            if record is not None:
                self._shelves.records[_key(record)] = record
        rows = self._shelves.audit.setdefault(change.tenant_id, {})
        for row in change.audit:
            rows.setdefault(row.event_id, _as_stored(row))
        for event in change.events:
            if event.id not in self._shelves.events:
                self._shelves.events[event.id] = event
                self._shelves.feed.add(event)
        return Committed(self._shelves.records[_key(deciding)], won=True)

    def _next(self, record: Record) -> Record | None:
        """Return the record as it will be stored, None when it does not change."""
        standing = self._shelves.records.get(_key(record))
        if record.version == 1:
            return replace(record, first_body=record.body) if standing is None else None
        if standing is None:
            raise Conflict(f"{record.id} is not there")
        if (standing.version, standing.body) == (record.version, record.body):
            return None
        if standing.version != record.version - 1:
            raise Conflict(f"{record.id} has version {standing.version}")
        return replace(standing, body=record.body, version=record.version, indexes=record.indexes)

    @override
    async def pending_events(self, limit: int) -> Sequence[DecisionEvent]:
        waiting = [event for event in self._shelves.events.values() if event.id not in self._shelves.emitted]
        return waiting[:limit]

    @override
    async def mark_emitted(self, event_ids: Sequence[EventId]) -> None:
        self._shelves.emitted.update(event_id for event_id in event_ids if event_id in self._shelves.events)

    @override
    async def touch(self) -> None:
        """Nothing can fail here."""


def _as_stored(row: AuditEvent) -> AuditEvent:
    """Return the row as JSON gives it back, without an unsealed link."""
    context = {name: value for name, value in row.context.items() if name != CHAIN}
    return AuditEvent.from_bytes(row.model_copy(update={"context": context}).to_bytes())


def _key(record: Record) -> tuple[TenantId, RecordKind, str]:
    return record.tenant_id, record.kind, record.id


class MemoryRecords(Records):
    """Records by linear scan; for the few records of a test."""

    def __init__(self, shelves: Shelves) -> None:
        self._shelves = shelves

    @override
    async def get(self, tenant_id: TenantId, kind: RecordKind, record_id: str) -> Record:
        try:
            return self._shelves.records[tenant_id, kind, record_id]
        except KeyError as error:
            raise NotFound(record_id) from error

    @override
    async def page(
        self,
        tenant_id: TenantId,
        kind: RecordKind,
        index: tuple[str, str],
        *,
        limit: int,
        before: Position | None = None,
    ) -> Sequence[Record]:
        return self._listed(tenant_id, kind, index, before)[:limit]

    @override
    async def search(
        self,
        tenant_id: TenantId,
        kind: RecordKind,
        index: tuple[str, str],
        fragment: str,
        *,
        limit: int,
        before: Position | None = None,
    ) -> Found:
        listed = self._listed(tenant_id, kind, index, before)
        return Found([record for record in listed if fragment in record.searched][:limit])

    def _listed(
        self, tenant_id: TenantId, kind: RecordKind, index: tuple[str, str], before: Position | None
    ) -> list[Record]:
        found = [
            record
            for (owner, of_kind, _), record in self._shelves.records.items()
            if (owner, of_kind) == (tenant_id, kind) and index in record.indexes
        ]
        found.sort(key=lambda record: (record.created_at, record.id), reverse=True)
        return [record for record in found if _is_before(record.created_at, record.id, before)]


def _is_before(created_at: datetime, own_id: str, position: Position | None) -> bool:
    return position is None or (created_at, own_id) < (position.created_at, position.id)


class MemoryAuditLog(AuditLog):
    """Dictionaries keep the order of commits."""

    def __init__(self, shelves: Shelves, keys: ChainKeys) -> None:
        self._shelves = shelves
        self._keys = keys

    @override
    async def page(
        self, tenant_id: TenantId, chosen: AuditFilter, *, limit: int, before: Position | None = None
    ) -> Sequence[AuditEvent]:
        rows = [row for row in self._shelves.audit.get(tenant_id, {}).values() if is_chosen(row, chosen)]
        rows.sort(key=lambda row: (row.created_at, row.event_id), reverse=True)
        later = [row for row in rows if _is_before(row.created_at, row.event_id, before)][:limit]
        return [self._with_link(tenant_id, row) for row in later]

    def _with_link(self, tenant_id: TenantId, row: AuditEvent) -> AuditEvent:
        link = self._shelves.links.get(tenant_id, {}).get(row.event_id)
        if link is None:
            return row
        return row.model_copy(update={"context": {**row.context, CHAIN: link.model_dump()}})

    def _waiting(self, tenant_id: TenantId) -> Iterator[AuditEvent]:
        links = self._shelves.links.get(tenant_id, {})
        return (row for row in self._shelves.audit.get(tenant_id, {}).values() if row.event_id not in links)

    @override
    async def unsealed_tenants(self) -> Sequence[TenantId]:
        return [tenant_id for tenant_id in self._shelves.audit if any(self._waiting(tenant_id))]

    @override
    async def unsealed(self, tenant_id: TenantId, limit: int) -> Sequence[AuditEvent]:
        return list(self._waiting(tenant_id))[:limit]

    @override
    async def keys(self) -> ChainKeys:
        return self._keys

    @override
    async def head(self, tenant_id: TenantId) -> ChainLink | None:
        if tenant_id not in self._shelves.heads:
            return None
        head, seal = self._shelves.heads[tenant_id]
        check_head(head, seal, self._keys, tenant_id)
        return head

    @override
    async def heads(self) -> Sequence[ChainHead]:
        return [
            ChainHead(tenant_id=tenant_id, position=head.position, hash=head.hash)
            for tenant_id, (head, seal) in self._shelves.heads.items()
            if is_head(head, seal, self._keys, tenant_id)
        ]

    @override
    async def seal(self, tenant_id: TenantId, rows: Sequence[tuple[AuditEventId, ChainLink]]) -> bool:
        if not rows:
            return True
        first, last = rows[0][1], rows[-1][1]
        head = await self.head(tenant_id)
        standing = (0, first.prev_hash) if head is None else (head.position, head.hash)
        if standing != (first.position - 1, first.prev_hash):
            return False
        links = self._shelves.links.setdefault(tenant_id, {})
        known = self._shelves.audit.get(tenant_id, {})
        if any(event_id in links or event_id not in known for event_id, _ in rows):
            raise Damaged("a row is unknown or in the chain already")
        links.update(rows)
        self._shelves.heads[tenant_id] = (last, seal_head(last, self._keys.newest, tenant_id))
        return True

    @override
    async def walk(self, tenant_id: TenantId, after: int, limit: int) -> Sequence[SealedRow]:
        rows = self._shelves.audit.get(tenant_id, {})
        links = sorted(self._shelves.links.get(tenant_id, {}).items(), key=lambda pair: pair[1].position)
        walked = [SealedRow(rows.get(event_id), link) for event_id, link in links if link.position > after]
        return walked[:limit]


class MemoryVault(Vault):
    """Vault whose wrapped keys are in a dictionary."""

    def __init__(self, shelves: Shelves, ring: KeyRing) -> None:
        self._shelves = shelves
        self._ring = ring

    @override
    async def seal(self, tenant_id: TenantId, subject_id: SubjectId, label: str, plain: bytes) -> str:
        key = _key_of(self._shelves, self._ring, tenant_id, subject_id)
        return base64.b64encode(key.seal(label, _VALUE_KIND, plain)).decode()

    @override
    async def open(self, tenant_id: TenantId, subject_id: SubjectId, label: str, sealed: str) -> bytes:
        if (tenant_id, subject_id) not in self._shelves.keys:
            raise Damaged("the subject has no key")
        key = _key_of(self._shelves, self._ring, tenant_id, subject_id)
        try:
            raw = base64.b64decode(sealed, validate=True)
        except (binascii.Error, ValueError) as error:
            raise Damaged("no sealed value") from error
        return key.open(label, _VALUE_KIND, raw)

    @override
    async def key_id(self, tenant_id: TenantId, subject_id: SubjectId) -> str | None:
        wrapped = self._shelves.keys.get((tenant_id, subject_id))
        return None if wrapped is None else self._ring.unwrap(tenant_id, subject_id, wrapped).key_id

    @override
    async def destroy(self, tenant_id: TenantId, subject_id: SubjectId) -> None:
        if self._shelves.keys.get((tenant_id, subject_id)) != TOMBSTONE:
            self._shelves.erasures.setdefault(tenant_id, []).append(subject_id)
        self._shelves.keys[tenant_id, subject_id] = TOMBSTONE
        self._ring.bury(tenant_id, subject_id)

    @override
    async def erased(self, tenant_id: TenantId, *, after: int, limit: int) -> Sequence[SubjectId]:
        return self._shelves.erasures.get(tenant_id, [])[after:][: max(limit, 0)]


def _key_of(shelves: Shelves, ring: KeyRing, tenant_id: TenantId, subject_id: SubjectId) -> SubjectKey:
    """Return the subject's key, made on first use."""
    owner = (tenant_id, subject_id)
    if owner not in shelves.keys:
        shelves.keys[owner] = ring.make(*owner).wrapped
    return ring.unwrap(*owner, shelves.keys[owner])


class MemoryEvidenceStore(EvidenceStore):
    """Sealed content in a dictionary."""

    def __init__(self, shelves: Shelves, ring: KeyRing) -> None:
        self._shelves = shelves
        self._ring = ring

    @override
    async def put(self, drafts: Sequence[EvidenceDraft]) -> None:
        sealed: dict[tuple[TenantId, EvidenceId], tuple[EvidenceRow, bytes]] = {}
        for row, content in ((draft.row, draft.content) for draft in drafts):
            key = _key_of(self._shelves, self._ring, row.tenant_id, row.subject_id)
            value = key.seal(row.evidence_id, row.kind.value, content)
            sealed.setdefault((row.tenant_id, row.evidence_id), (row, value))
        for owner, shared in sealed.items():
            self._shelves.evidence.setdefault(owner, shared)

    @override
    async def get(self, tenant_id: TenantId, evidence_id: EvidenceId) -> bytes:
        row = await self.describe(tenant_id, evidence_id)
        _, sealed = self._shelves.evidence[tenant_id, evidence_id]
        key = _key_of(self._shelves, self._ring, tenant_id, row.subject_id)
        return key.open(evidence_id, row.kind.value, sealed)

    @override
    async def describe(self, tenant_id: TenantId, evidence_id: EvidenceId) -> EvidenceRow:
        try:
            return self._shelves.evidence[tenant_id, evidence_id][0]
        except KeyError as error:
            raise NotFound(evidence_id) from error

    @override
    async def discard(self, tenant_id: TenantId, evidence_ids: Sequence[EvidenceId]) -> None:
        for evidence_id in evidence_ids:
            self._shelves.evidence.pop((tenant_id, evidence_id), None)

    @override
    async def sweep_orphans(self, older_than: datetime) -> int:
        return 0
