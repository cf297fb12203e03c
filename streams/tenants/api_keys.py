"""Create, rotate and list the API keys of a tenant (G46, G82)."""

import hashlib
import hmac
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from ipaddress import IPv4Network, IPv6Network
from itertools import count
from typing import Final

from schemas.access import ApiKey, ShownKey
from schemas.audit import Actor, AuditAction
from schemas.enums import Scope
from schemas.ids import PLATFORM, KeyId, TenantId
from schemas.problems import NotFound, ProblemCode, Refused
from streams.audit.commit import Commit
from streams.ports.errors import Conflict
from streams.ports.records import Change, Position, Record, RecordKind, Records
from streams.tenants.handler import (
    TENANT_INDEX,
    Clock,
    Draw,
    NewId,
    RequestName,
    access_row,
    find_key,
    key_record,
)
from streams.tenants.rules import (
    PREFIX_BYTES,
    SECRET_BYTES,
    PresentedKey,
    hash_key,
    is_usable,
    rotate_key,
    write_key,
    write_key_under,
)

LONGEST_OVERLAP: Final = timedelta(seconds=604_800)
"""G46."""

_BATCH: Final = 100


@dataclass(frozen=True, slots=True)
class NewKey:
    """The properties of a new key."""

    name: str
    livemode: bool
    scopes: tuple[Scope, ...]
    expires_at: datetime | None
    """None: never."""
    allowed_cidrs: tuple[IPv4Network | IPv6Network, ...] = ()


@dataclass(frozen=True, slots=True)
class MadeKey:
    """A stored key, and its text, which is shown once."""

    key: ApiKey
    text: str | None = field(repr=False)
    """None: the request was answered before (G82)."""


@dataclass(frozen=True, slots=True)
class TenantKeys:
    """Create, rotate and list the keys of a tenant; `RevokeKey` revokes them."""

    records: Records
    commit: Commit
    pepper: bytes = field(repr=False)
    clock: Clock
    new_id: NewId
    draw: Draw = secrets.token_bytes

    async def create(
        self, tenant_id: TenantId, new_key: NewKey, request: RequestName, actor: Actor
    ) -> MadeKey:
        """Create a key; the same request again returns the first key, without its text.

        The look-up prefix derives from the request, so the key's own record shows whether it exists.

        Raises:
            Refused: VALIDATION_FAILED, it would be expired already; IDEMPOTENCY_KEY_REUSED.
        """
        for attempt in count():
            written = self._write(new_key, request, attempt)
            standing = await self._standing(written.prefix)
            if standing is None:
                key = self._key(tenant_id, new_key, KeyId(request.id), written)
                standing = await self._add(key, request, actor)
                if standing is None:
                    return MadeKey(key, written.text)
            first = ApiKey.from_bytes(standing.first_body)
            if first.key_id == request.id:
                request.require_same(standing.fingerprint)
                return MadeKey(first, None)
        raise AssertionError  # the loop only ends by returning

    def _write(self, new_key: NewKey, request: RequestName, attempt: int) -> PresentedKey:
        named = f"look-up prefix of {request.id}, {attempt}".encode()
        entropy = hmac.digest(self.pepper, named, hashlib.sha256)[:PREFIX_BYTES]
        return write_key(livemode=new_key.livemode, prefix_entropy=entropy, secret=self.draw(SECRET_BYTES))

    async def _standing(self, prefix: str) -> Record | None:
        try:
            return await self.records.get(PLATFORM, RecordKind.API_KEY, prefix)
        except NotFound:
            return None

    def _key(self, tenant_id: TenantId, new_key: NewKey, key_id: KeyId, written: PresentedKey) -> ApiKey:
        now = self.clock()
        if new_key.expires_at is not None and new_key.expires_at <= now:
            raise Refused.at(
                "/expires_at", ProblemCode.VALIDATION_FAILED, "The key would be expired already."
            )
        return ApiKey(
            key_id=key_id,
            tenant_id=tenant_id,
            prefix=written.prefix,
            secret_hash=hash_key(written, self.pepper),
            name=new_key.name,
            livemode=new_key.livemode,
            scopes=new_key.scopes,
            allowed_cidrs=new_key.allowed_cidrs,
            created_at=now,
            expires_at=new_key.expires_at,
        )

    async def _add(self, key: ApiKey, request: RequestName, actor: Actor) -> Record | None:
        """Commit the key; return the record that already has its prefix, or None."""
        row = access_row(
            self.new_id("aud"), actor, AuditAction.API_KEY_CREATED, key.key_id, key.created_at,
            livemode=key.livemode,
        )  # fmt: skip
        change = Change(key.tenant_id, (key_record(key, 1, request.fingerprint),), (row,))
        committed = await self.commit(change)
        return None if committed.won else committed.record

    async def rotate(self, tenant_id: TenantId, key_id: KeyId, overlap: timedelta, actor: Actor) -> MadeKey:
        """Give a key a new secret; the previous one stays valid until the overlap ends.

        Raises:
            NotFound: The tenant has no such key, or it is revoked or expired.
        """
        row_id, secret = self.new_id("aud"), self.draw(SECRET_BYTES)
        while True:
            standing, now = await find_key(self.records, tenant_id, key_id), self.clock()
            key = ApiKey.from_bytes(standing.body)
            if not is_usable(key, now):
                raise NotFound(key_id)
            written = write_key_under(key.prefix, livemode=key.livemode, secret=secret)
            rotated = rotate_key(key, hash_key(written, self.pepper), overlap, now)
            row = access_row(
                row_id, actor, AuditAction.API_KEY_ROTATED, key_id, now, livemode=key.livemode,
                changes={"overlap_seconds": int(overlap.total_seconds())},
            )  # fmt: skip
            record = replace(standing, body=rotated.to_bytes(), version=standing.version + 1)
            try:
                await self.commit(Change(tenant_id, (record,), (row,)))
            except Conflict:
                continue  # changed concurrently: read again
            return MadeKey(rotated, written.text)

    async def page(
        self, tenant_id: TenantId, modes: Sequence[bool], limit: int, before: Position | None
    ) -> Sequence[ApiKey]:
        """Return at most `limit` of the tenant's keys of these modes, newest first."""
        found: list[ApiKey] = []
        while len(found) < limit:
            listed = await self.records.page(
                PLATFORM, RecordKind.API_KEY, (TENANT_INDEX, tenant_id), limit=_BATCH, before=before
            )
            keys = [ApiKey.from_bytes(record.body) for record in listed]
            found += [key for key in keys if key.livemode in modes]
            if len(listed) < _BATCH:
                break
            before = Position(listed[-1].created_at, listed[-1].id)
        return found[:limit]


def position_of(key: ApiKey) -> Position:
    """Return the key's position in the list."""
    return Position(key.created_at, key.prefix)


def show_key(key: ApiKey, now: datetime) -> ShownKey:
    """Return the key as shown to its tenant, without secret hash and look-up prefix."""
    ends = [one.ends_at for one in key.retired if now < one.ends_at]
    return ShownKey(
        key_id=key.key_id,
        name=key.name,
        livemode=key.livemode,
        scopes=key.scopes,
        allowed_cidrs=key.allowed_cidrs,
        created_at=key.created_at,
        expires_at=key.expires_at,
        revoked_at=key.revoked_at,
        rotated_at=key.rotated_at,
        overlap_ends_at=max(ends, default=None),
        last_used_at=key.last_used_at,
    )
