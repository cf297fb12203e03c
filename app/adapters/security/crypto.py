"""The root key, the keys derived from it, and AES-256-GCM sealing in a versioned envelope."""

import base64
import binascii
import os
import re
import stat
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, TypeAlias
from uuid import uuid4

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from pydantic import SecretStr

from app.adapters.files.data_dir import SEALED_UNDER_ROOT_KEY, make_private
from app.configuration.placeholders import fault_of_bytes
from schemas.enums import TextEnum
from schemas.problems import VeristreamError
from schemas.topics import Topic
from streams.ports.errors import Damaged, KeyUnavailable

KEY_BYTES: Final = 32
"""AES-256 (NIST FIPS 197)."""

NONCE_BYTES: Final = 12
"""96 random bits per sealing, as NIST SP 800-38D 8.2.2 asks; a key seals far less than 2^32 values."""

ENVELOPE: Final = b"\x01"
"""Version 1: this byte, the nonce, then ciphertext and 128-bit tag."""

_HEX_FORM = re.compile(r"[0-9A-Fa-f]{64}")
_GROUP_AND_OTHERS = stat.S_IRWXG | stat.S_IRWXO


class RootKeyRefused(VeristreamError):
    """The root key is malformed, open to others, lost, or not the one the data was sealed under."""


class Purpose(TextEnum):
    """The purposes of derived keys; each has its own key."""

    KEY_WRAPPING = "key-wrapping"
    API_KEY_PEPPER = "api-key-pepper"
    SESSION_PEPPER = "session-pepper"
    CAPTURE_TOKENS = "capture-tokens"
    PEOPLE = "people"
    """Keyed hashes about reviewers: e-mail look-up, one-time tokens, recovery codes, counters."""
    CURSORS = "cursors"
    AUDIT_CHAIN = "audit-chain"
    AUDIT_CHECKPOINTS = "audit-checkpoints"
    """The seed of the Ed25519 key that signs checkpoints (S57)."""
    SEALED_PEOPLE = "at-rest/people"
    """Members' records in the store (`at_rest`)."""
    SEALED_ENDPOINTS = "at-rest/endpoints"
    """Webhook endpoints' records in the store."""
    SEALED_PICTURES = "at-rest/pictures"
    """For whom a picture was stored first, and keyed hashes of pictures' digests."""
    SEALED_ADDRESSES = "at-rest/addresses"
    """Network addresses in audit rows."""
    SUBJECT_INDEXES = "at-rest/subject-indexes"
    """Keyed hashes of subject ids under which records are listed."""
    WALLET_LEDGER = "wallet-ledger"
    """Keyed hashes of the wallets and subjects between which money moved."""
    TRANSACTION_HASHES = "transaction-hashes"
    """Keyed hashes of subjects, accounts, devices and wallets in topics and velocity rows."""
    KEY_CHECK = "key-check"
    """Stored beside the data in the clear, so that a wrong root key is refused at start."""
    SENDER = "sender"
    """What the sender of webhooks is given instead of the root key; see `SenderKey`."""
    SETTING_MARKS = "setting-marks"
    """Keyed hashes of settings in the row of a start, to compare them without showing one."""
    BACKUPS = "backups"
    """Signs the manifests of backups."""
    WEBHOOK_SECRETS = "webhook-secrets"
    """Wraps the keys under which endpoints' signing secrets are sealed."""
    DERIVED_KEYS = "derived-keys"
    """Seals the keys that outlive the root key they were derived from (`derived_keys`)."""


RECORDS: Final = "records/"
"""Begins the label of a key that authenticates a topic's records, or a table's entries."""

SENDER_LABELS: Final = frozenset({
    Purpose.KEY_CHECK, Purpose.WEBHOOK_SECRETS, Purpose.SEALED_ENDPOINTS, "records/table.deliveries",
    *(RECORDS + topic for topic in (
        Topic.DECISIONS, Topic.WEBHOOK_DELIVERIES, Topic.AUDIT, Topic.DEAD_LETTERS
    )),
})  # fmt: skip
"""Keys the sender derives: it opens endpoints' secrets, reads events and delivery commands, writes delivery
commands, events about endpoints, commands to seal their rows, and dead letters. Nothing else."""


@dataclass(frozen=True, slots=True)
class RootKey:
    """The one secret of an installation; it is never used itself, only derived from."""

    secret: bytes = field(repr=False)
    carried: Mapping[str, bytes] = field(default_factory=dict, repr=False, compare=False)
    """Keys by label that an earlier root key derived, and that stayed when it was rotated."""
    others: "tuple[RootKey, ...]" = field(default=(), repr=False, compare=False)
    """Further root keys that this process was given: the next one, or the one before."""
    file: Path | None = field(default=None, repr=False, compare=False)
    """Where it was read from, to be read again after a rotation; None: it was configured."""

    def __post_init__(self) -> None:
        if len(self.secret) != KEY_BYTES:
            raise RootKeyRefused(f"a root key has {KEY_BYTES} bytes, not {len(self.secret)}")

    def derive(self, label: str) -> bytes:
        """Return the 32-byte key for a purpose (HKDF-SHA256, RFC 5869); the same label, the same key."""
        if label in SENDER_LABELS:
            return self.sender_key().derive(label)
        return self.carried.get(label) or _derived(self.secret, label)

    def sender_key(self) -> "SenderKey":
        """Return the key that the sender of webhooks is given instead of this one."""
        others = tuple(other.sender_key() for other in self.others)
        return SenderKey(_derived(self.secret, Purpose.SENDER), self.carried, others)


@dataclass(frozen=True, slots=True)
class SenderKey:
    """The key of a process that only sends webhooks: derives its own keys, and leads to no other."""

    secret: bytes = field(repr=False)
    carried: Mapping[str, bytes] = field(default_factory=dict, repr=False, compare=False)
    others: "tuple[SenderKey, ...]" = field(default=(), repr=False, compare=False)

    def derive(self, label: str) -> bytes:
        """Return the 32-byte key for a purpose of the sender.

        Raises:
            KeyUnavailable: It is a purpose of other processes.
        """
        if label not in SENDER_LABELS:
            raise KeyUnavailable(f"a sender holds no key for {label}")
        return self.carried.get(label) or _derived(self.secret, label)


Keys: TypeAlias = RootKey | SenderKey
"""What a process derives its keys from."""


def derive_own(keys: Keys, label: str) -> bytes:
    """Return the key that this very key derives, whatever was carried over from an earlier one."""
    return _derived(keys.secret, label)


def _derived(secret: bytes, label: str) -> bytes:
    info = b"veristream/1/" + label.encode()
    return HKDF(algorithm=SHA256(), length=KEY_BYTES, salt=None, info=info).derive(secret)


def load_sender_key(configured: SecretStr) -> SenderKey:
    """Return the configured sender's key (64 hexadecimal digits or base64), and others given with it.

    Raises:
        RootKeyRefused: One is malformed.
    """
    first, *others = _parse_all(configured.get_secret_value(), "SERVICE_SENDER_KEY")
    return SenderKey(first.secret, others=tuple(SenderKey(other.secret) for other in others))


def load_root_key(
    configured: SecretStr | None, path: Path, draw: Callable[[int], bytes] = os.urandom
) -> RootKey:
    """Return the configured key (64 hexadecimal digits or base64), else the one in the file.

    While the key is rotated there are two, one a line or with commas between them: the others come with the
    first. The file is made on first use, readable by its owner alone; when several processes start at
    once they agree on one. Blocking.

    Raises:
        RootKeyRefused: The key is malformed or was not drawn at random, the file cannot be read or is open
            to others, or it is gone although the folder holds data that only the lost key can open.
    """
    if configured is not None:
        return _with_others(_parse_all(configured.get_secret_value(), "SERVICE_ROOT_KEY"))
    try:
        if not path.exists():
            _refuse_new_key_beside_data(path)
            _create(path, draw(KEY_BYTES))
        return _read(path)
    except OSError as error:
        raise RootKeyRefused(f"{path} cannot be used: {error.strerror}") from error


def parse_root_key(text: str, source: str) -> RootKey:
    """Return the key that one line of a file, or of a setting, is.

    Raises:
        RootKeyRefused: It is malformed, or anybody could name it.
    """
    text = text.strip()
    if _HEX_FORM.fullmatch(text):
        return _drawn(bytes.fromhex(text), source)
    padded = text.rstrip("=") + "=" * (-len(text.rstrip("=")) % 4)
    try:
        secret = base64.b64decode(padded.replace("-", "+").replace("_", "/"), validate=True)
    except (binascii.Error, ValueError):
        secret = b""
    if len(secret) != KEY_BYTES:
        raise RootKeyRefused(f"{source} is not 32 bytes in base64 or 64 hexadecimal digits")
    return _drawn(secret, source)


def _parse_all(text: str, source: str) -> list[RootKey]:
    lines = [part for part in re.split(r"[,\s]+", text.strip()) if part] or [""]
    return list(dict.fromkeys(parse_root_key(line, source) for line in lines))


def _with_others(keys: Sequence[RootKey], file: Path | None = None) -> RootKey:
    own = [replace(key, file=file) for key in keys]
    return replace(own[0], others=tuple(own[1:]))


def _drawn(secret: bytes, source: str) -> RootKey:
    """Return the key unless it is guessable: zeros, a repeated pattern, a counter, a placeholder."""
    fault = fault_of_bytes(secret)
    if fault is not None:
        make = "make one with: openssl rand -base64 32"
        raise RootKeyRefused(f"{source} {fault} and would protect nothing; {make}")
    return RootKey(secret)


def _refuse_new_key_beside_data(path: Path) -> None:
    sealed = [name for name in SEALED_UNDER_ROOT_KEY if (path.parent / name).exists()]
    if sealed and not path.exists():  # a process that starts just now makes the key before the data
        raise RootKeyRefused(
            f"{path} is missing, but {path.parent} holds {' and '.join(sealed)} sealed under it: "
            "put the key back or configure SERVICE_ROOT_KEY"
        )


def _create(path: Path, secret: bytes) -> None:
    """Write the key atomically; an existing file stays."""
    make_private(path.parent)
    draft = path.with_name(f"{path.name}.{uuid4().hex}.new")
    try:
        _write(draft, [secret])
        try:
            os.link(draft, path)
        except FileExistsError:
            return
    finally:
        draft.unlink()
    sync_folder(path.parent)


def replace_key_file(path: Path, keys: Sequence[RootKey]) -> None:
    """Let the file hold these keys, in this order; a reader sees the old file or the new. Blocking.

    Drafts of runs that were killed hold keys too and are removed.
    """
    draft = path.with_name(f"{path.name}.{uuid4().hex}.new")
    try:
        _write(draft, [key.secret for key in keys])
        draft.replace(path)
    finally:
        for leftover in path.parent.glob(f"{path.name}.*.new"):
            leftover.unlink(missing_ok=True)
    sync_folder(path.parent)


def _write(draft: Path, secrets: Sequence[bytes]) -> None:
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.writelines(base64.b64encode(secret) + b"\n" for secret in secrets)
        file.flush()
        os.fsync(file.fileno())


def _read(path: Path) -> RootKey:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    with os.fdopen(descriptor, "rb") as file:
        mode = os.fstat(file.fileno()).st_mode
        if not stat.S_ISREG(mode) or mode & _GROUP_AND_OTHERS:
            raise RootKeyRefused(f"{path} is open to others: run chmod 600 {path}")
        return _with_others(_parse_all(file.read(1024).decode("ascii", "replace"), str(path)), path)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable. Blocking."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def bind(*parts: str) -> bytes:
    """Return the parts length-prefixed, so that no two lists of parts are the same additional data."""
    return b"".join([len(part).to_bytes(4, "big") + part for part in map(str.encode, parts)])


def seal(cipher: AESGCM, plain: bytes, bound: bytes) -> bytes:
    """Return the value sealed under a fresh random nonce; `bound` must be given again to open it."""
    nonce = os.urandom(NONCE_BYTES)
    return ENVELOPE + nonce + cipher.encrypt(nonce, plain, ENVELOPE + bound)


def unseal(cipher: AESGCM, sealed: bytes, bound: bytes) -> bytes:
    """Return the value.

    Raises:
        Damaged: It was altered, or sealed under another key or for something else.
    """
    if sealed[:1] != ENVELOPE:
        raise Damaged("no sealed value of a known version")
    nonce, body = sealed[1 : 1 + NONCE_BYTES], sealed[1 + NONCE_BYTES :]
    try:
        return cipher.decrypt(nonce, body, ENVELOPE + bound)
    except (InvalidTag, ValueError) as error:
        raise Damaged("a sealed value does not open") from error
