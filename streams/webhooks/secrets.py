"""Keeps signing secrets sealed: what an endpoint was given is opened only to sign (S39)."""

from datetime import datetime
from typing import Final

from schemas.ids import EndpointId, SubjectId, TenantId
from schemas.webhooks import StoredEndpoint
from streams.ports.evidence import Vault
from streams.webhooks.signing import secret_bytes

ENDPOINT_HOLDER: Final = "webhook/"
"""Begins the name of the holder of an endpoint's secrets; no subject's id has a slash. Holders of this kind
have their keys wrapped apart, so that the sender can open their secrets and nobody's evidence."""

_LABEL: Final = "webhook-secret"


def _holder(endpoint_id: EndpointId) -> SubjectId:
    """Return under whose key an endpoint's secrets are sealed; destroying it forgets them."""
    return SubjectId(f"{ENDPOINT_HOLDER}{endpoint_id}")


async def seal_secret(vault: Vault, tenant_id: TenantId, endpoint_id: EndpointId, text: str) -> str:
    """Return a secret sealed, as the tenant wrote it; `secret_bytes` must have accepted it."""
    return await vault.seal(tenant_id, _holder(endpoint_id), _LABEL, text.encode())


async def forget_secrets(vault: Vault, tenant_id: TenantId, endpoint_id: EndpointId) -> None:
    """Destroy the key of an endpoint's secrets, wherever a sealed one may still lie."""
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
