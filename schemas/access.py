"""Tenants and their keys (G45, G46, G83)."""

from ipaddress import IPv4Network, IPv6Network

from schemas.base import Frozen, Timestamp
from schemas.enums import Scope
from schemas.ids import KeyId, TenantId


class Tenant(Frozen):
    """A tenant, who integrates the service."""

    tenant_id: TenantId
    name: str
    created_at: Timestamp


class RetiredSecret(Frozen):
    """A secret replaced by a rotation; valid until `ends_at`."""

    secret_hash: str
    ends_at: Timestamp


class ApiKey(Frozen):
    """A stored API key, with its secret only as a keyed hash."""

    key_id: KeyId
    tenant_id: TenantId
    prefix: str
    """The ten characters inside the key by which it is looked up."""
    secret_hash: str
    """HMAC-SHA-256 of the whole key under the pepper, hexadecimal."""
    name: str
    livemode: bool
    scopes: tuple[Scope, ...]
    allowed_cidrs: tuple[IPv4Network | IPv6Network, ...] = ()
    created_at: Timestamp
    expires_at: Timestamp | None = None
    """None: never."""
    revoked_at: Timestamp | None = None
    retired: tuple[RetiredSecret, ...] = ()
    """Secrets from before rotations whose overlap may still run; newest first."""
    rotated_at: Timestamp | None = None
    last_used_at: Timestamp | None = None
    """At most a minute behind; written off the request's path, so it may be missing."""


class ShownKey(Frozen):
    """A key as its tenant sees it; what is null is not there (yet)."""

    key_id: KeyId
    name: str
    livemode: bool
    scopes: tuple[Scope, ...]
    allowed_cidrs: tuple[IPv4Network | IPv6Network, ...]
    """Empty: good from anywhere."""
    created_at: Timestamp
    expires_at: Timestamp | None
    """Null: never."""
    revoked_at: Timestamp | None
    rotated_at: Timestamp | None
    overlap_ends_at: Timestamp | None
    """Until when what the key was before its last rotation is good as well."""
    last_used_at: Timestamp | None
    """At most a minute behind."""


class IssuedKey(ShownKey):
    """A key and the secret itself, shown this once."""

    api_key: str | None
    """Null when the request is a repeated one (G82)."""


class KeyList(Frozen):
    """A page of a tenant's keys, newest first; the keys themselves are never shown again."""

    api_keys: tuple[ShownKey, ...]
    next_cursor: str | None
    """Null at the end."""


class TenantCaller(Frozen):
    """A tenant key that was presented and found good; everything it does is this tenant's."""

    tenant_id: TenantId
    key_id: KeyId
    livemode: bool
    scopes: frozenset[Scope]
