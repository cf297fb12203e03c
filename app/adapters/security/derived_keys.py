"""Keys that stay when the root key is rotated: derived from an earlier one, sealed under the later ones.

Keyed hashes of what nobody can hash again (API keys, addresses, subject ids), the audit chains and the
records of the log need the key they were made under for as long as they are kept. The chains' key has
versions: each root key derives one for what is sealed under it, and the versions before stay.
"""

import base64
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final, TypeVar, overload

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from app.adapters.security.crypto import (
    RECORDS,
    SENDER_LABELS,
    Keys,
    Purpose,
    RootKey,
    RootKeyRefused,
    SenderKey,
    bind,
    derive_own,
    seal,
    unseal,
)
from schemas.base import Frozen, Timestamp
from schemas.topics import Topic
from streams.ports.audit import ChainKey, ChainKeys
from streams.ports.errors import Damaged

AnyKey = TypeVar("AnyKey", RootKey, SenderKey)

TABLES: Final = ("verifications", "flows", "sessions", "reviews", "deliveries", "velocity")
"""The tables of the agents, whose entries are authenticated like records."""

RENEWED: Final = frozenset({
    Purpose.KEY_WRAPPING, Purpose.WEBHOOK_SECRETS,  # what they wrap is wrapped again
    Purpose.CURSORS,  # they live for minutes; those of the key before are accepted as long as it is given
    Purpose.BACKUPS, Purpose.KEY_CHECK, Purpose.SENDER, Purpose.DERIVED_KEYS,  # each root key has its own
})  # fmt: skip
"""What a new root key derives anew; every other purpose keeps the key it has."""

CARRIED: Final = (
    *(purpose.value for purpose in Purpose if purpose not in RENEWED),
    *(RECORDS + topic for topic in Topic),
    *(f"{RECORDS}table.{name}" for name in TABLES),
)
"""Labels of the keys that stay."""

_CHAIN_VERSION: Final = f"{Purpose.AUDIT_CHAIN}/"
"""Begins the label of a version of the chains' key that stays, before its number and its name."""

ID_DIGITS: Final = 16
"""Hexadecimal digits of a root key's id: 64 bits, more than tell the few keys of a deployment apart."""


class KeyEntry(Frozen):
    """A root key under which the data can be opened, without the key itself."""

    key_id: str
    added_at: Timestamp
    derived: str | None = None
    """The keys that stay, sealed under this root key; None: it derives them itself."""
    derived_for_sender: str | None = None
    """Those of them that a sender of webhooks needs, sealed under the sender's key."""


class Rotation(Frozen):
    """How far the last rotation is."""

    before: str
    """Id of the key that is replaced."""
    after: str
    """Id of the key that replaces it."""
    started_at: Timestamp
    finished_at: Timestamp | None = None


class KeySet(Frozen):
    """What the store says about root keys."""

    keys: tuple[KeyEntry, ...] = ()
    rotation: Rotation | None = None

    def entry(self, key_id: str) -> KeyEntry | None:
        """Return the entry of a root key."""
        return next((entry for entry in self.keys if entry.key_id == key_id), None)


def key_id(check: bytes) -> str:
    """Return the id of the root key whose check is this; it tells nothing about the key."""
    return check.hex()[:ID_DIGITS]


def check_of(keys: RootKey | SenderKey) -> bytes:
    """Return the check of the root key, which stands in the store in the clear."""
    return keys.derive(Purpose.KEY_CHECK)


def id_of(keys: RootKey | SenderKey) -> str:
    """Return the id of the root key."""
    return key_id(check_of(keys))


def chain_keys_of(keys: Keys) -> ChainKeys:
    """Return the versions of the key of the audit chains: one of each root key there has been.

    A sender has none: it can neither seal nor verify a chain.
    """
    if isinstance(keys, SenderKey):
        return ChainKeys(())
    own = ChainKey(id_of(keys), derive_own(keys, Purpose.AUDIT_CHAIN))
    labels = sorted(label for label in keys.carried if label.startswith(_CHAIN_VERSION))
    before = [ChainKey(label.rpartition("/")[2], keys.carried[label]) for label in labels]
    if not labels and Purpose.AUDIT_CHAIN in keys.carried:  # rotated before there were versions
        before = [ChainKey("", keys.carried[Purpose.AUDIT_CHAIN])]
    return ChainKeys((*before, own))


def cursor_keys_of(root_key: RootKey) -> dict[str, bytes]:
    """Return the versions of the key of cursors by their names, the current one first."""
    return {id_of(key): derive_own(key, Purpose.CURSORS) for key in (root_key, *root_key.others)}


def entry_of(root_key: RootKey, current: RootKey, added_at: Timestamp) -> KeyEntry:
    """Return the entry of a root key that is to follow the current one."""
    derived = {label: current.derive(label) for label in CARRIED}
    for number, key in enumerate(chain_keys_of(current).versions):
        derived[f"{_CHAIN_VERSION}{number:04}/{key.version}"] = key.secret
    for_sender = {label: key for label, key in derived.items() if label in SENDER_LABELS}
    return KeyEntry(
        key_id=id_of(root_key),
        added_at=added_at,
        derived=_seal(root_key, derived),
        derived_for_sender=_seal(root_key.sender_key(), for_sender),
    )


@overload
def resolve(given: RootKey, check: bytes | None, keyset: KeySet) -> RootKey: ...


@overload
def resolve(given: Keys, check: bytes | None, keyset: KeySet) -> Keys: ...


def resolve(given: Keys, check: bytes | None, keyset: KeySet) -> Keys:
    """Return the key that the store is sealed under, with the keys that stayed; the others go with it.

    `check` is what the store knows the current key by; None: the store is new, and the first key is it.

    Raises:
        RootKeyRefused: None of the keys given is the current one.
    """
    if isinstance(given, RootKey):
        own = [_with_derived(key, keyset) for key in _in_order((given, *given.others), check, keyset)]
        return replace(own[0], others=tuple(own[1:]))
    senders = [_with_derived(key, keyset) for key in _in_order((given, *given.others), check, keyset)]
    return replace(senders[0], others=tuple(senders[1:]))


def _in_order(every: Sequence[AnyKey], check: bytes | None, keyset: KeySet) -> list[AnyKey]:
    """Return the keys with the current one first."""
    current = [key for key in every if check is None or check_of(key) == check][:1]
    if not current:
        raise RootKeyRefused(_refusal(every, check or b"", keyset))
    return current + [key for key in every if key is not current[0]]


def _refusal(given: Iterable[RootKey | SenderKey], check: bytes, keyset: KeySet) -> str:
    wanted, named = key_id(check), ", ".join(id_of(key) for key in given)
    changed = keyset.rotation is not None and keyset.rotation.after == wanted
    since = f" since {keyset.rotation.started_at:%Y-%m-%d %H:%M} UTC" if changed and keyset.rotation else ""
    return (
        f"the store is sealed under another root key: {wanted}{since}, and this process was given {named}; "
        "give it that key with SERVICE_ROOT_KEY_FILE, or put its root.key back"
    )


def _with_derived(key: AnyKey, keyset: KeySet) -> AnyKey:
    """Return the key with those that stayed; one that derives them itself is returned as it is."""
    entry = keyset.entry(id_of(key))
    sealed = None if entry is None else _sealed_for(key, entry)
    return key if sealed is None else replace(key, carried=_open(key, sealed))


def _sealed_for(key: RootKey | SenderKey, entry: KeyEntry) -> str | None:
    return entry.derived if isinstance(key, RootKey) else entry.derived_for_sender


def _seal(key: RootKey | SenderKey, derived: Mapping[str, bytes]) -> str:
    plain = json.dumps({label: value.hex() for label, value in sorted(derived.items())})
    return base64.b64encode(seal(_cipher(key), plain.encode(), bind(Purpose.DERIVED_KEYS))).decode()


def _open(key: RootKey | SenderKey, sealed: str) -> dict[str, bytes]:
    try:
        plain = unseal(_cipher(key), base64.b64decode(sealed), bind(Purpose.DERIVED_KEYS))
    except (Damaged, ValueError) as error:
        raise RootKeyRefused(
            "the store's derived keys do not open under the root key: restore the store from a backup"
        ) from error
    return {label: bytes.fromhex(value) for label, value in json.loads(plain).items()}


def _cipher(key: RootKey | SenderKey) -> AESGCM:
    return AESGCM(derive_own(key, Purpose.DERIVED_KEYS))
