"""Create, parse, hash and check API keys (G46, S29). Pure."""

import hashlib
import hmac
import re
import zlib
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final

from schemas.access import ApiKey, RetiredSecret, TenantCaller
from schemas.ids import ALPHABET
from schemas.problems import KeyRefused, Unauthenticated

SECRET_BYTES: Final = 32
"""Randomness in a key."""

PREFIX_BYTES: Final = 10
"""Randomness for the look-up prefix: the low five bits of each byte make one character."""

BASE62: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

MOST_RETIRED: Final = 4
"""Old secrets valid beside the new one; the oldest ends early when there would be more."""

_SECRET_LENGTH: Final = 43
"""Base62 digits of 32 bytes."""

_CHECK_LENGTH: Final = 6
"""Base62 digits of a CRC-32."""

_MODE_OF: Final = {"live": True, "test": False}
_FORM: Final = re.compile(
    rf"idv_(live|test)_([{ALPHABET}]{{10}})_[0-9A-Za-z]{{{_SECRET_LENGTH}}}([0-9A-Za-z]{{{_CHECK_LENGTH}}})"
)


@dataclass(frozen=True, slots=True)
class PresentedKey:
    """A key with a valid form and checksum; nothing else is verified."""

    prefix: str
    livemode: bool
    text: str = field(repr=False)


def write_key(*, livemode: bool, prefix_entropy: bytes, secret: bytes) -> PresentedKey:
    """Return a new key from random bytes (`PREFIX_BYTES`, `SECRET_BYTES`)."""
    if len(prefix_entropy) != PREFIX_BYTES or len(secret) != SECRET_BYTES:
        raise ValueError("a key is made of 10 and 32 random bytes")
    prefix = "".join(ALPHABET[byte & 31] for byte in prefix_entropy)
    return write_key_under(prefix, livemode=livemode, secret=secret)


def write_key_under(prefix: str, *, livemode: bool, secret: bytes) -> PresentedKey:
    """Return a new key that is looked up under a known prefix."""
    mode = "live" if livemode else "test"
    body = f"idv_{mode}_{prefix}_{_base62(int.from_bytes(secret, 'big'), _SECRET_LENGTH)}"
    return PresentedKey(prefix=prefix, livemode=livemode, text=body + _check_sum(body))


def read_key(text: str) -> PresentedKey:
    """Parse a presented key; typing errors are found without reading the store.

    Raises:
        Unauthenticated: It has another form, or its check sum does not hold.
    """
    match = _FORM.fullmatch(text)
    if match is None or _check_sum(text[:-_CHECK_LENGTH]) != match[3]:
        raise Unauthenticated("not an API key")
    return PresentedKey(prefix=match[2], livemode=_MODE_OF[match[1]], text=text)


def hash_key(presented: PresentedKey, pepper: bytes) -> str:
    """Return the hash that is stored of a key: HMAC-SHA-256 of the whole text, hexadecimal."""
    return hmac.new(pepper, presented.text.encode(), hashlib.sha256).hexdigest()


def rotate_key(key: ApiKey, secret_hash: str, overlap: timedelta, now: datetime) -> ApiKey:
    """Return the key with a new secret; every older one ends with this overlap at the latest."""
    ends_at = now + overlap
    older = [RetiredSecret(secret_hash=key.secret_hash, ends_at=ends_at)]
    older += [one.model_copy(update={"ends_at": min(one.ends_at, ends_at)}) for one in key.retired]
    good = tuple(one for one in older if now < one.ends_at)[:MOST_RETIRED]
    return key.model_copy(update={"secret_hash": secret_hash, "retired": good, "rotated_at": now})


def admit(key: ApiKey | None, secret_hash: str, address: str | None, now: datetime) -> TenantCaller:
    """Return the caller if the hash matches and the key is valid now and from this address.

    An unknown key costs the comparison too; a rotated one is valid with its old secrets for a while.

    Raises:
        Unauthenticated: It is not valid; no reason is given. `KeyRefused` for a key with the right secret.
    """
    stored_hashes = ("",) if key is None else (key.secret_hash, *_retired_hashes(key, now))
    genuine = sum(hmac.compare_digest(stored.encode(), secret_hash.encode()) for stored in stored_hashes) > 0
    if key is None or not genuine:
        raise Unauthenticated("the API key is not accepted")
    if not is_usable(key, now) or not _is_allowed(key, address):
        raise KeyRefused(key.tenant_id, key.key_id, livemode=key.livemode)
    return TenantCaller(
        tenant_id=key.tenant_id, key_id=key.key_id, livemode=key.livemode, scopes=frozenset(key.scopes)
    )


def _retired_hashes(key: ApiKey, now: datetime) -> tuple[str, ...]:
    return tuple(one.secret_hash for one in key.retired if now < one.ends_at)


def is_usable(key: ApiKey, now: datetime) -> bool:
    """Return whether the key is neither revoked nor expired."""
    return key.revoked_at is None and (key.expires_at is None or now < key.expires_at)


def _is_allowed(key: ApiKey, address: str | None) -> bool:
    """Return whether the address is in a network of the key; a key without networks is valid everywhere."""
    if not key.allowed_cidrs:
        return True
    known = _parse_address(address)
    return known is not None and any(known in network for network in key.allowed_cidrs)


def _parse_address(text: str | None) -> IPv4Address | IPv6Address | None:
    """Read an address; an IPv4 one that arrived over IPv6 is the IPv4 one."""
    try:
        address = ip_address(text or "")
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def _check_sum(body: str) -> str:
    return _base62(zlib.crc32(body.encode()), _CHECK_LENGTH)


def _base62(number: int, length: int) -> str:
    digits = []
    for _ in range(length):
        number, digit = divmod(number, len(BASE62))
        digits.append(BASE62[digit])
    return "".join(reversed(digits))
