"""Sign deliveries as Standard Webhooks specify, scheme `v1`, and seal the signing secrets (G54, S39)."""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Sequence
from datetime import datetime
from typing import Final

from schemas.ids import EndpointId, SubjectId, TenantId
from schemas.webhooks import StoredEndpoint
from streams.ports.evidence import Vault

PREFIX: Final = "whsec_"
"""Prefix of a base64 secret."""

SHORTEST_BYTES: Final = 24
LONGEST_BYTES: Final = 64
"""Length in bytes that Standard Webhooks require of a secret (S39)."""
ENDPOINT_HOLDER: Final = "webhook/"
"""Prefix of the vault subject of an endpoint's secrets; no subject's id has a slash. These subjects
have their keys wrapped separately, so that the sender can open their secrets and no evidence."""

_LABEL: Final = "webhook-secret"


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


def _holder(endpoint_id: EndpointId) -> SubjectId:
    """Return the vault subject of an endpoint's secrets; destroying its key erases them."""
    return SubjectId(f"{ENDPOINT_HOLDER}{endpoint_id}")


async def seal_secret(vault: Vault, tenant_id: TenantId, endpoint_id: EndpointId, text: str) -> str:
    """Return the sealed secret; `secret_bytes` must have accepted it."""
    return await vault.seal(tenant_id, _holder(endpoint_id), _LABEL, text.encode())


async def forget_secrets(vault: Vault, tenant_id: TenantId, endpoint_id: EndpointId) -> None:
    """Destroy the key of an endpoint's secrets, which makes every sealed copy unreadable."""
    await vault.destroy(tenant_id, _holder(endpoint_id))


async def open_secrets(vault: Vault, stored: StoredEndpoint, now: datetime) -> list[bytes]:
    """Return the secrets that sign at a moment, the one in force first.

    Raises:
        Erased: The endpoint's key was destroyed.
        Damaged: A secret was altered, or sealed for another endpoint.
    """
    holder = _holder(stored.endpoint.endpoint_id)
    return [
        secret_bytes((await vault.open(stored.tenant_id, holder, _LABEL, secret.sealed)).decode())
        for secret in stored.secrets
        if secret.ends_at is None or secret.ends_at > now
    ]
