"""Encrypt personal values before a store writes them: members, webhook endpoints, addresses of audit rows.

The stores get bodies and addresses they cannot read, so neither a copy of their files nor a look into their
tables shows any. Sealing is deterministic (AES-SIV, RFC 5297): a change that is committed again must be the
same bytes, for a store knows a replay by them. Equal values show as equal only within one field of one row.
"""

import base64
import binascii
import hmac
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESSIV
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from typing_extensions import override

from app.adapters.security.crypto import Purpose, bind
from app.adapters.security.message_authentication import HmacSha256
from schemas.audit import AuditEvent, AuditFilter, ChainLink
from schemas.checkpoints import ChainHead
from schemas.events import DecisionEvent
from schemas.ids import AuditEventId, EventId, TenantId
from streams.audit.rules import canonical
from streams.ports.audit import AuditLog, ChainKeys, SealedRow
from streams.ports.errors import Damaged
from streams.ports.records import Change, Committed, Found, Journal, Position, Record, RecordKind, Records
from streams.ports.stores import Stores

SEALED_KINDS: Final[Mapping[RecordKind, Purpose]] = MappingProxyType(
    {
        RecordKind.REVIEWER: Purpose.SEALED_PEOPLE,
        RecordKind.WEBHOOK_ENDPOINT: Purpose.SEALED_ENDPOINTS,
        RecordKind.PICTURE: Purpose.SEALED_PICTURES,
        RecordKind.ERASURE: Purpose.SEALED_PEOPLE,
    }
)
"""Records whose whole body is sealed, and under which key: a sender of webhooks needs only the second."""

MOST_CIPHERS: Final = 4_096
"""Ciphers in memory, one per tenant and key; all are forgotten when there would be more."""

_HASH_BYTES: Final = 18
"""144 bits: no two values of a tenant collide."""

_SIV_BYTES: Final = 64
"""AES-256-SIV takes two AES-256 keys."""

_MARK: Final = b"sealed/1:"
"""Begins a sealed value; what follows is base64, so that it passes through text columns."""

HASHED_INDEXES: Final = frozenset({"subject", "subject_status", "reference"})
"""Indexes whose value names a subject, or is the tenant's own id of a payment, and is only ever asked for
whole: the store gets a keyed hash of it.

The reviewers' list of sessions finds fragments of subject ids (interface 4.7), so their text stays.
"""

HASHED_IDS: Final = frozenset({RecordKind.PICTURE})
"""Records whose id is personal, a mode and a digest of pixels: the store gets the mode and a keyed hash."""

_HASH_MARK: Final = "#"
"""Begins a hashed value; no other value of these indexes begins with it."""

_IP: Final = "ip"


class AtRest:
    """Seals and opens; a key is derived when it is first needed, so a process may hold only some."""

    def __init__(
        self, derive: Callable[[str], bytes], kinds: Mapping[RecordKind, Purpose] = SEALED_KINDS
    ) -> None:
        self._derive = derive
        self._kinds = kinds
        self._ciphers: dict[tuple[Purpose, TenantId], AESSIV] = {}
        self._indexes: HmacSha256 | None = None
        self._picture_key = b""

    def seal_change(self, change: Change, forms: tuple[bytes, ...] = ()) -> Change:
        """Return the change as a store may see it, with the canonical forms of its audit rows."""
        records = tuple(self._seal_record(record) for record in change.records)
        rows = tuple(self._seal_row(change.tenant_id, row) for row in change.audit)
        first = change.first_body
        if first is not None and (purpose := self._kinds.get(change.records[0].kind)) is not None:
            first = self._seal(purpose, change.records[0].tenant_id, _names(records[0]), first)
        return replace(change, records=records, audit=rows, first_body=first, canonical=forms)

    def index(self, tenant_id: TenantId, pair: tuple[str, str]) -> tuple[str, str]:
        """Return the index as it is stored."""
        name, value = pair
        if name not in HASHED_INDEXES or value.startswith(_HASH_MARK):
            return pair
        self._indexes = self._indexes or HmacSha256(self._derive(Purpose.SUBJECT_INDEXES))
        hashed = self._indexes.digest(bind(tenant_id, name, value))
        return name, _HASH_MARK + base64.urlsafe_b64encode(hashed[:_HASH_BYTES]).decode()

    def record_id(self, tenant_id: TenantId, kind: RecordKind, record_id: str) -> str:
        """Return the id of a record as it is stored."""
        mode, bar, value = record_id.partition("|")
        if kind not in HASHED_IDS or value.startswith(_HASH_MARK):
            return record_id
        self._picture_key = self._picture_key or self._derive(Purpose.SEALED_PICTURES)
        hashed = hmac.digest(self._picture_key, bind(tenant_id, kind.value, record_id), "sha256")
        return mode + bar + _HASH_MARK + base64.urlsafe_b64encode(hashed[:_HASH_BYTES]).decode()

    def open_record(self, record: Record) -> Record:
        """Return the record as it was before it was sealed, but for an id of `HASHED_IDS`.

        Raises:
            Damaged: It was altered, or is another record's.
        """
        purpose = self._kinds.get(record.kind)
        if purpose is None:
            return record
        body = self._open(purpose, record.tenant_id, _names(record), record.body)
        first = record.first_body
        if first:
            same = first == record.body
            first = body if same else self._open(purpose, record.tenant_id, _names(record), first)
        return replace(record, body=body, first_body=first)

    def open_row(self, tenant_id: TenantId, row: AuditEvent) -> AuditEvent:
        """Return the row with its address decrypted; an altered row is returned as it is.

        It is then no row that the chain knows, which verifying the chain reports.
        """
        sealed = row.context.get(_IP)
        if not isinstance(sealed, str) or not sealed.startswith(_MARK.decode()):
            return row
        names = (row.event_id, _IP)
        try:
            ip = self._open(Purpose.SEALED_ADDRESSES, tenant_id, names, sealed.encode())
        except Damaged:
            return row
        return _with_ip(row, ip)

    def _seal_record(self, record: Record) -> Record:
        purpose = self._kinds.get(record.kind)
        body = record.body
        if record.kind in HASHED_IDS:
            record = replace(record, id=self.record_id(record.tenant_id, record.kind, record.id))
        if purpose is not None:
            body = self._seal(purpose, record.tenant_id, _names(record), body)
        elif not any(name in HASHED_INDEXES for name, _ in record.indexes):
            return record
        indexes = tuple(self.index(record.tenant_id, pair) for pair in record.indexes)
        return replace(record, body=body, indexes=indexes)

    def _seal_row(self, tenant_id: TenantId, row: AuditEvent) -> AuditEvent:
        ip = row.context.get(_IP)
        if not isinstance(ip, str):
            return row
        names = (row.event_id, _IP)
        return _with_ip(row, self._seal(Purpose.SEALED_ADDRESSES, tenant_id, names, ip.encode()))

    def _seal(self, purpose: Purpose, tenant_id: TenantId, names: Sequence[str], plain: bytes) -> bytes:
        bound = bind(tenant_id, *names)
        return _MARK + base64.b64encode(self._cipher(purpose, tenant_id).encrypt(b"." + plain, [bound]))

    def _open(self, purpose: Purpose, tenant_id: TenantId, names: Sequence[str], sealed: bytes) -> bytes:
        if not sealed.startswith(_MARK):
            raise Damaged("a value that should be sealed is not")
        bound = bind(tenant_id, *names)
        try:
            raw = base64.b64decode(sealed[len(_MARK) :], validate=True)
            return self._cipher(purpose, tenant_id).decrypt(raw, [bound])[1:]
        except (InvalidTag, binascii.Error, ValueError) as error:
            raise Damaged("a sealed value does not open") from error

    def _cipher(self, purpose: Purpose, tenant_id: TenantId) -> AESSIV:
        cipher = self._ciphers.get((purpose, tenant_id))
        if cipher is None:
            if len(self._ciphers) >= MOST_CIPHERS:
                self._ciphers.clear()
            info = b"veristream/1/tenant/" + tenant_id.encode()
            own = HKDF(algorithm=SHA256(), length=_SIV_BYTES, salt=None, info=info)
            cipher = self._ciphers[purpose, tenant_id] = AESSIV(own.derive(self._derive(purpose)))
        return cipher


def _names(record: Record) -> tuple[str, str]:
    return record.kind.value, record.id


def _with_ip(row: AuditEvent, ip: bytes) -> AuditEvent:
    context: dict[str, Any] = {**row.context, _IP: ip.decode()}
    return row.model_copy(update={"context": context})


class SealingJournal(Journal):
    """Commits what it sealed; the chain is computed over audit rows as they were before."""

    def __init__(self, inner: Journal, at_rest: AtRest, *, links_in_commit: bool = False) -> None:
        self.inner = inner
        self._at_rest = at_rest
        self._links_in_commit = links_in_commit

    @override
    async def commit(self, change: Change) -> Committed:
        forms = tuple(map(canonical, change.audit)) if self._links_in_commit else ()
        sealed = self._at_rest.seal_change(change, forms)
        committed = await self.inner.commit(sealed)
        given, written, standing = change.records[0], sealed.records[0], committed.record
        if (
            committed.won
            and standing.body == written.body
            and standing.first_body in (None, b"", written.body)
        ):
            first = standing.first_body and given.body  # as it was sealed a moment ago
            record = replace(standing, body=given.body, first_body=first, indexes=given.indexes)
        else:
            record = self._at_rest.open_record(standing)
            if committed.won and written is not given:
                record = replace(record, indexes=given.indexes)
        if record.kind in HASHED_IDS:
            record = replace(record, id=given.id)
        return replace(committed, record=record)

    @override
    async def pending_events(self, limit: int) -> Sequence[DecisionEvent]:
        return await self.inner.pending_events(limit)

    @override
    async def mark_emitted(self, event_ids: Sequence[EventId]) -> None:
        await self.inner.mark_emitted(event_ids)

    @override
    async def touch(self) -> None:
        await self.inner.touch()


class OpeningRecords(Records):
    """Records that are decrypted when read; `HASHED_INDEXES` stay as stored."""

    def __init__(self, inner: Records, at_rest: AtRest) -> None:
        self.inner = inner
        self._at_rest = at_rest

    @override
    async def get(self, tenant_id: TenantId, kind: RecordKind, record_id: str) -> Record:
        known_as = self._at_rest.record_id(tenant_id, kind, record_id)
        return self._opened(await self.inner.get(tenant_id, kind, known_as), record_id)

    @override
    async def find(self, tenant_id: TenantId, *wanted: tuple[RecordKind, str]) -> Sequence[Record | None]:
        known_as = [(kind, self._at_rest.record_id(tenant_id, kind, one)) for kind, one in wanted]
        found = await self.inner.find(tenant_id, *known_as)
        pairs = zip(found, wanted, strict=True)
        return [None if record is None else self._opened(record, one) for record, (_, one) in pairs]

    def _opened(self, record: Record, record_id: str) -> Record:
        opened = self._at_rest.open_record(record)
        return opened if opened.id == record_id else replace(opened, id=record_id)

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
        known_as = self._at_rest.index(tenant_id, index)
        found = await self.inner.page(tenant_id, kind, known_as, limit=limit, before=before)
        return [self._at_rest.open_record(record) for record in found]

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
        found = await self.inner.search(tenant_id, kind, index, fragment, limit=limit, before=before)
        return Found([self._at_rest.open_record(record) for record in found.records], found.further)


class OpeningAuditLog(AuditLog):
    """Opens the addresses of rows; the chain is computed over rows as they were before they were sealed."""

    def __init__(self, inner: AuditLog, at_rest: AtRest) -> None:
        self.inner = inner
        self._at_rest = at_rest

    @override
    async def page(
        self, tenant_id: TenantId, chosen: AuditFilter, *, limit: int, before: Position | None = None
    ) -> Sequence[AuditEvent]:
        rows = await self.inner.page(tenant_id, chosen, limit=limit, before=before)
        return [self._at_rest.open_row(tenant_id, row) for row in rows]

    @override
    async def unsealed_tenants(self) -> Sequence[TenantId]:
        return await self.inner.unsealed_tenants()

    @override
    async def unsealed(self, tenant_id: TenantId, limit: int) -> Sequence[AuditEvent]:
        rows = await self.inner.unsealed(tenant_id, limit)
        return [self._at_rest.open_row(tenant_id, row) for row in rows]

    @override
    async def keys(self) -> ChainKeys:
        return await self.inner.keys()

    @override
    async def head(self, tenant_id: TenantId) -> ChainLink | None:
        return await self.inner.head(tenant_id)

    @override
    async def heads(self) -> Sequence[ChainHead]:
        return await self.inner.heads()

    @override
    async def seal(self, tenant_id: TenantId, rows: Sequence[tuple[AuditEventId, ChainLink]]) -> bool:
        return await self.inner.seal(tenant_id, rows)

    @override
    async def walk(self, tenant_id: TenantId, after: int, limit: int) -> Sequence[SealedRow]:
        return [
            one if one.event is None else replace(one, event=self._at_rest.open_row(tenant_id, one.event))
            for one in await self.inner.walk(tenant_id, after, limit)
        ]


def seal_stores(
    stores: Stores,
    derive: Callable[[str], bytes],
    kinds: Mapping[RecordKind, Purpose] = SEALED_KINDS,
) -> Stores:
    """Return the stores with personal values sealed at rest under keys that `derive` gives for a purpose."""
    at_rest = AtRest(derive, kinds)
    return replace(
        stores,
        journal=SealingJournal(stores.journal, at_rest, links_in_commit=stores.links_in_commit),
        records=OpeningRecords(stores.records, at_rest),
        audit_log=OpeningAuditLog(stores.audit_log, at_rest),
    )
