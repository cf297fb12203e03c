"""Sign deliveries as Standard Webhooks specify, scheme `v1` (G54). Pure."""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Sequence
from datetime import datetime
from typing import Final

PREFIX: Final = "whsec_"
"""Prefix of a base64 secret."""

SHORTEST_BYTES: Final = 24
LONGEST_BYTES: Final = 64
"""Length in bytes that Standard Webhooks require of a secret (S39)."""


def secret_bytes(text: str) -> bytes:
    """Return the bytes a secret signs with: `whsec_` opens base64, anything else is its UTF-8 bytes.

    Raises:
        ValueError: It is not 24 to 64 bytes, or what follows `whsec_` is no base64.
    """
    try:
        secret = _decoded(text.removeprefix(PREFIX)) if text.startswith(PREFIX) else text.encode()
    except (binascii.Error, UnicodeEncodeError):
        raise ValueError("the secret is not base64, or is no text") from None
    if not SHORTEST_BYTES <= len(secret) <= LONGEST_BYTES:
        raise ValueError(f"the secret is not {SHORTEST_BYTES} to {LONGEST_BYTES} bytes")
    return secret


def _decoded(text: str) -> bytes:
    return base64.b64decode(text.encode("ascii"), validate=True)


def timestamp(at: datetime) -> str:
    """Return a time as it is signed and sent: whole seconds since 1970."""
    return str(int(at.timestamp()))


def signatures(event_id: str, at: datetime, body: bytes, secrets: Sequence[bytes]) -> str:
    """Return the value of `webhook-signature`: one signature per secret, in their order."""
    signed = f"{event_id}.{timestamp(at)}.".encode() + body
    return " ".join("v1," + _signature(secret, signed) for secret in secrets)


def _signature(secret: bytes, signed: bytes) -> str:
    return base64.b64encode(hmac.digest(secret, signed, hashlib.sha256)).decode()
