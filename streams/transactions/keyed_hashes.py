"""Keyed hashes of what topics, tables and indexes must not hold in the clear, such as keys (G130)."""

import hashlib
from dataclasses import dataclass, field
from typing import Final

from schemas.ids import SubjectId, TenantId
from schemas.policies import FeatureKey
from schemas.transactions import TransactionRequest
from streams.verification.records import Index, mode

ROW_HASH_BYTES: Final = 8
"""Of a value in a velocity row: among the thousands of values of one key two collide once in 10^12 rows."""

_DIGEST_BYTES: Final = 32
OTHER_KEYS: Final = tuple(key for key in FeatureKey if key is not FeatureKey.SUBJECT_ID)
"""Every key that is not the subject."""

_HASH_BYTES: Final = 16


@dataclass(frozen=True, slots=True)
class KeyedHashes:
    """Hashes values under the deployment's key, those of two tenants or kinds differently."""

    key: bytes = field(repr=False)
    """32 secret bytes that outlive the root key."""

    def of(self, tenant_id: TenantId, kind: str, value: str) -> bytes:
        """Return 32 bytes (BLAKE2b with a key, RFC 7693)."""
        parts = [part.encode() for part in (tenant_id, kind, value)]
        framed = b"".join(len(part).to_bytes(4, "big") + part for part in parts)
        return hashlib.blake2b(framed, key=self.key, digest_size=_DIGEST_BYTES).digest()

    def in_row(self, tenant_id: TenantId, kind: str, value: str) -> bytes:
        """Return the hash of a distinct field in a velocity row."""
        return self.of(tenant_id, kind, value)[:ROW_HASH_BYTES]

    def subject_key(self, tenant_id: TenantId, subject_id: SubjectId, *, livemode: bool) -> str:
        """Return the key of a subject's commands and of its row: tenant, mode and a hash of the id."""
        hashed = self.of(tenant_id, f"subject|{mode(livemode)}", subject_id)[:16].hex()
        return f"{tenant_id}:{mode(livemode)}:{hashed}"

    def stream_id(self, tenant_id: TenantId, stream_id: str, *, livemode: bool) -> str:
        """Return the id of the record of a stream of payments."""
        return f"{mode(livemode)}:{self.of(tenant_id, f'stream|{mode(livemode)}', stream_id)[:16].hex()}"


def keys_of(
    hashes: KeyedHashes, tenant_id: TenantId, request: TransactionRequest, *, livemode: bool
) -> dict[FeatureKey, str]:
    """Return a keyed hash for each key that the transaction has; a missing one is not in it."""
    found = dict[FeatureKey, str]()
    for key in OTHER_KEYS:
        value = _read(request, *key.split("."))
        if value is not None:
            hashed = hashes.of(tenant_id, f"{key}|{mode(livemode)}", value)
            found[key] = hashed[:_HASH_BYTES].hex()
    return found


def row_key(tenant_id: TenantId, kind: FeatureKey, hashed: str, *, livemode: bool) -> str:
    """Return the key of the commands about a key, and of its row."""
    return f"{tenant_id}:{mode(livemode)}:{kind}:{hashed}"


def by_key(livemode: bool, kind: FeatureKey, hashed: str) -> Index:  # noqa: FBT001
    """Return the index of the transactions of a key."""
    return "key", f"{mode(livemode)}|{kind}|{hashed}"


def index_of(key: str) -> Index:
    """Return the index of the transactions of a row's key."""
    _, mode_word, kind, hashed = key.rsplit(":", 3)
    return "key", f"{mode_word}|{kind}|{hashed}"


def _read(request: TransactionRequest, group: str, name: str) -> str | None:
    found: str | None = getattr(getattr(request, group), name, None)
    return found or None
