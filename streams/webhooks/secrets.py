"""Seal and open the signing secrets of endpoints (S39)."""

from datetime import datetime
from typing import Final

from schemas.ids import EndpointId, SubjectId, TenantId
from schemas.webhooks import StoredEndpoint
from streams.ports.evidence import Vault
from streams.webhooks.signing import secret_bytes

ENDPOINT_HOLDER: Final = "webhook/"
"""Prefix of the vault subject of an endpoint's secrets; no subject's id has a slash. These subjects
have their keys wrapped separately, so that the sender can open their secrets and no evidence."""

_LABEL: Final = "webhook-secret"


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
