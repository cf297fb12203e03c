"""API keys: how one is written, read offline, kept as a hash and judged (G46, S29). Pure."""

import hashlib
import hmac
import re
import zlib
from dataclasses import dataclass, field
from datetime import datetime
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final

from schemas.access import ApiKey, TenantCaller
from schemas.ids import ALPHABET
from schemas.problems import Unauthenticated

SECRET_BYTES: Final = 32
"""Randomness in a key."""

PREFIX_BYTES: Final = 10
"""Randomness for the look-up prefix: the low five bits of each byte make one character."""

BASE62: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

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
    """A key of the right form whose check sum holds; nothing else is known of it."""

    prefix: str
    livemode: bool
    text: str = field(repr=False)


def write_key(*, livemode: bool, prefix_entropy: bytes, secret: bytes) -> PresentedKey:
    """Return a new key from random bytes (`PREFIX_BYTES`, `SECRET_BYTES`)."""
    if len(prefix_entropy) != PREFIX_BYTES or len(secret) != SECRET_BYTES:
        raise ValueError("a key is made of 10 and 32 random bytes")
    prefix = "".join(ALPHABET[byte & 31] for byte in prefix_entropy)
    mode = "live" if livemode else "test"
    body = f"idv_{mode}_{prefix}_{_base62(int.from_bytes(secret, 'big'), _SECRET_LENGTH)}"
    return PresentedKey(prefix=prefix, livemode=livemode, text=body + _check_sum(body))


def read_key(text: str) -> PresentedKey:
    """Return the key presented; a typing error is found without asking the store.

    Raises:
        Unauthenticated: It has another form, or its check sum does not hold.
    """
    match = _FORM.fullmatch(text)
    if match is None or _check_sum(text[:-_CHECK_LENGTH]) != match[3]:
        raise Unauthenticated("not an API key")
    return PresentedKey(prefix=match[2], livemode=_MODE_OF[match[1]], text=text)


def hash_key(presented: PresentedKey, pepper: bytes) -> str:
    """Return what is kept of a key: HMAC-SHA-256 of the whole text, hexadecimal."""
    return hmac.new(pepper, presented.text.encode(), hashlib.sha256).hexdigest()


def admit(key: ApiKey | None, secret_hash: str, address: str | None, now: datetime) -> TenantCaller:
    """Return the caller when the hash is the kept one and the key may be used now, from there.

    A key that is unknown costs the comparison too.

    Raises:
        Unauthenticated: It may not; why is nobody's business.
    """
    kept_hash = "" if key is None else key.secret_hash
    genuine = hmac.compare_digest(kept_hash.encode(), secret_hash.encode())
    if key is None or not genuine or not _is_usable(key, now) or not _is_allowed(key, address):
        raise Unauthenticated("the API key is not accepted")
    return TenantCaller(
        tenant_id=key.tenant_id, key_id=key.key_id, livemode=key.livemode, scopes=frozenset(key.scopes)
    )


def _is_usable(key: ApiKey, now: datetime) -> bool:
    return key.revoked_at is None and (key.expires_at is None or now < key.expires_at)


def _is_allowed(key: ApiKey, address: str | None) -> bool:
    """Tell whether the address is in a network of the key; a key without networks is good anywhere."""
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
