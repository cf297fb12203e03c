"""Tenants and their keys (G45, G46, G83)."""

from ipaddress import IPv4Network, IPv6Network

from schemas.base import Frozen, Timestamp
from schemas.enums import Scope
from schemas.ids import KeyId, TenantId


class Tenant(Frozen):
    """Who integrates the service."""

    tenant_id: TenantId
    name: str
    created_at: Timestamp


class ApiKey(Frozen):
    """A tenant's credential as it is kept: the secret only as a keyed hash."""

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


class TenantCaller(Frozen):
    """A tenant key that was presented and found good; everything it does is this tenant's."""

    tenant_id: TenantId
    key_id: KeyId
    livemode: bool
    scopes: frozenset[Scope]
