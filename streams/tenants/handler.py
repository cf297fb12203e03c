"""Create tenants and keys, revoke and authenticate keys; every change writes an audit row."""

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from ipaddress import IPv4Network, IPv6Network
from typing import Any, Final

from schemas.access import ApiKey, Tenant, TenantCaller
from schemas.audit import OPERATOR_ID, Actor, AuditAction, AuditEvent
from schemas.enums import Scope
from schemas.ids import PLATFORM, KeyId, TenantId, derive_id
from schemas.problems import NotFound
from streams.aggregate import key_reused
from streams.audit.commit import Commit
from streams.audit.rows import write_row
from streams.ports.errors import Conflict
from streams.ports.records import Change, Record, RecordKind, Records
from streams.tenants.rules import PREFIX_BYTES, SECRET_BYTES, admit, hash_key, read_key, write_key

Clock = Callable[[], datetime]
"""Return the current time, with its zone."""

NewId = Callable[[str], str]
"""Return a fresh identifier with this prefix."""

Draw = Callable[[int], bytes]
"""Return this number of random bytes."""

TENANTS_INDEX = ("all", "tenant")
"""Lists every tenant."""

TENANT_INDEX = "tenant"
"""Lists a tenant's keys."""

KEY_INDEX = "key"
"""Finds a key by its key id; the record itself is under its look-up prefix."""

MOST_PARSED: Final = 4_096
"""Records of keys remembered in parsed form; all are forgotten when there would be more."""

_DETAIL_OF = {
    AuditAction.TENANT_CREATED: "A tenant was created.",
    AuditAction.API_KEY_CREATED: "An API key was created.",
    AuditAction.API_KEY_ROTATED: "An API key was rotated.",
    AuditAction.API_KEY_REVOKED: "An API key was revoked.",
}


OPERATOR = Actor(actor_id=OPERATOR_ID)
"""The operator at the command line."""


@dataclass(frozen=True, slots=True)
class RequestName:
    """The identity of an idempotent request (G2)."""

    id: str
    """Derived from its Idempotency-Key; fresh without one."""
    fingerprint: str = ""
    """SHA-256 of the canonical body."""

    def require_same(self, fingerprint: str) -> None:
        """Raise if the key was used for another body.

        Raises:
            Refused: IDEMPOTENCY_KEY_REUSED.
        """
        if fingerprint != self.fingerprint:
            raise key_reused()


def access_row(
    event_id: str,
    actor: Actor,
    action: AuditAction,
    subject_id: str,
    now: datetime,
    *,
    livemode: bool,
    changes: Mapping[str, Any] | None = None,
) -> AuditEvent:
    """Return the audit row of a change to a tenant or a key."""
    detail = _DETAIL_OF[action]
    return write_row(
        event_id, action, actor, subject_id, now, detail=detail, changes=changes, livemode=livemode
    )


class CreateTenant:
    """Create a tenant; its audit row is in the platform's chain (G93)."""

    def __init__(self, commit: Commit, clock: Clock, new_id: NewId) -> None:
        self._commit = commit
        self._clock = clock
        self._new_id = new_id

    async def __call__(self, name: str, actor: Actor = OPERATOR) -> Tenant:
        """Return the new tenant."""
        return (await self.once(name, RequestName(self._new_id("ten")), actor))[0]

    async def once(self, name: str, request: RequestName, actor: Actor) -> tuple[Tenant, bool]:
        """Return the tenant of a request, and whether an earlier attempt created it.

        Raises:
            Refused: IDEMPOTENCY_KEY_REUSED.
        """
        tenant = Tenant(tenant_id=TenantId(request.id), name=name, created_at=self._clock())
        record = Record(
            tenant_id=PLATFORM,
            kind=RecordKind.TENANT,
            id=tenant.tenant_id,
            body=tenant.to_bytes(),
            created_at=tenant.created_at,
            fingerprint=request.fingerprint,
            indexes=(TENANTS_INDEX,),
        )
        row = access_row(
            self._new_id("aud"),
            actor,
            AuditAction.TENANT_CREATED,
            tenant.tenant_id,
            tenant.created_at,
            livemode=True,
        )
        committed = await self._commit(Change(PLATFORM, (record,), (row,)))
        if committed.won:
            return tenant, False
        request.require_same(committed.record.fingerprint)
        return Tenant.from_bytes(committed.record.first_body), True


def key_record(key: ApiKey, version: int, fingerprint: str = "") -> Record:
    """Return the key's record, whose id is the look-up prefix."""
    return Record(
        tenant_id=PLATFORM,
        kind=RecordKind.API_KEY,
        id=key.prefix,
        body=key.to_bytes(),
        created_at=key.created_at,
        version=version,
        fingerprint=fingerprint,
        indexes=((TENANT_INDEX, key.tenant_id), (KEY_INDEX, key.key_id)),
    )


async def find_key(records: Records, tenant_id: TenantId, key_id: KeyId) -> Record:
    """Return a tenant's key by its key id, or raise `NotFound`."""
    found = await records.page(PLATFORM, RecordKind.API_KEY, (KEY_INDEX, key_id), limit=1)
    if not found or ApiKey.from_bytes(found[0].body).tenant_id != tenant_id:
        raise NotFound(key_id)
    return found[0]


class CreateKey:
    """Create a key of a tenant; its audit row is in the tenant's chain."""

    def __init__(
        self,
        commit: Commit,
        pepper: bytes,
        clock: Clock,
        new_id: NewId,
        draw: Draw = secrets.token_bytes,
    ) -> None:
        self._commit = commit
        self._pepper = pepper
        self._clock = clock
        self._new_id = new_id
        self._draw = draw

    async def __call__(
        self,
        tenant_id: TenantId,
        *,
        name: str,
        livemode: bool,
        expires_at: datetime | None,
        scopes: Sequence[Scope] = tuple(Scope),
        allowed_cidrs: Sequence[IPv4Network | IPv6Network] = (),
        actor: Actor = OPERATOR,
    ) -> tuple[ApiKey, str]:
        """Return the stored key and its text, which is shown once.

        That the tenant exists is the caller's business; `expires_at` None means never.
        """
        key_id = KeyId(self._new_id("key"))
        while True:
            written = write_key(
                livemode=livemode, prefix_entropy=self._draw(PREFIX_BYTES), secret=self._draw(SECRET_BYTES)
            )
            key = ApiKey(
                key_id=key_id,
                tenant_id=tenant_id,
                prefix=written.prefix,
                secret_hash=hash_key(written, self._pepper),
                name=name,
                livemode=livemode,
                scopes=tuple(scopes),
                allowed_cidrs=tuple(allowed_cidrs),
                created_at=self._clock(),
                expires_at=expires_at,
            )
            if await self._add(key, actor):
                return key, written.text

    async def _add(self, key: ApiKey, actor: Actor) -> bool:
        """Commit the key; return False when another key has its look-up prefix."""
        row = access_row(
            self._new_id("aud"),
            actor,
            AuditAction.API_KEY_CREATED,
            key.key_id,
            key.created_at,
            livemode=key.livemode,
        )
        committed = await self._commit(Change(key.tenant_id, (key_record(key, 1),), (row,)))
        return committed.won


class RevokeKey:
    """Revoke a key at once; its audit row is in the tenant's chain."""

    def __init__(self, records: Records, commit: Commit, clock: Clock) -> None:
        self._records = records
        self._commit = commit
        self._clock = clock

    async def __call__(self, tenant_id: TenantId, key_id: KeyId, actor: Actor = OPERATOR) -> ApiKey:
        """Revoke and return the key; a key revoked before is unchanged.

        Raises:
            NotFound: The tenant has no such key.
        """
        while True:
            try:
                return await self._revoke(tenant_id, key_id, actor)
            except Conflict:
                continue  # changed concurrently: read again

    async def _revoke(self, tenant_id: TenantId, key_id: KeyId, actor: Actor) -> ApiKey:
        standing = await find_key(self._records, tenant_id, key_id)
        key = ApiKey.from_bytes(standing.body)
        if key.revoked_at is not None:
            return key
        now = self._clock()
        revoked = key.model_copy(update={"revoked_at": now})
        row = access_row(
            derive_id("aud", key_id, AuditAction.API_KEY_REVOKED),
            actor,
            AuditAction.API_KEY_REVOKED,
            key_id,
            now,
            livemode=revoked.livemode,
        )
        record = replace(standing, body=revoked.to_bytes(), version=standing.version + 1)
        await self._commit(Change(tenant_id, (record,), (row,)))
        return revoked


NoteUse = Callable[[Record, ApiKey, datetime], None]
"""Record that a key was used; returns at once and never raises."""


class Authenticate:
    """Authenticate an API key with one read, so that a revocation counts at once.

    Only the parsed form of a record is remembered, for as long as the store returns the same bytes.
    """

    def __init__(
        self, records: Records, pepper: bytes, clock: Clock, note_use: NoteUse | None = None
    ) -> None:
        self._records = records
        self._pepper = pepper
        self._clock = clock
        self._note_use = note_use
        self._parsed: dict[str, tuple[bytes, ApiKey]] = {}

    async def __call__(self, presented: str, address: str | None = None) -> TenantCaller:
        """Return the caller behind a key used from this address.

        Raises:
            Unauthenticated: Malformed, unknown, revoked, expired, or used from elsewhere.
            StoreUnavailable: The store cannot be read for now.
        """
        read, now = read_key(presented), self._clock()
        secret_hash = hash_key(read, self._pepper)
        try:
            record = await self._records.get(PLATFORM, RecordKind.API_KEY, read.prefix)
        except NotFound:
            return admit(None, secret_hash, address, now)
        key = self._parse(record)
        caller = admit(key, secret_hash, address, now)
        if self._note_use is not None:
            self._note_use(record, key, now)
        return caller

    def _parse(self, record: Record) -> ApiKey:
        known = self._parsed.get(record.id)
        if known is not None and known[0] == record.body:
            return known[1]
        key = ApiKey.from_bytes(record.body)
        if len(self._parsed) >= MOST_PARSED:
            self._parsed.clear()
        self._parsed[record.id] = record.body, key
        return key
