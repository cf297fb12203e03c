"""The keys of a transaction beside its subject, by their keyed hashes; pure."""

from typing import Final

from schemas.ids import TenantId
from schemas.policies import FeatureKey
from schemas.transactions import TransactionRequest
from streams.transactions.keyed_hashes import KeyedHashes
from streams.verification.records import Index, mode

OTHER_KEYS: Final = tuple(key for key in FeatureKey if key is not FeatureKey.SUBJECT_ID)
"""Every key that is not the subject."""

_HASH_BYTES: Final = 16


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
