"""What the commands about tenants, keys and the catalogue do; they need the stores alone."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta

from app.adapters.files.data_dir import ROOT_KEY_FILE
from app.adapters.security.crypto import Purpose, RootKeyRefused, load_root_key
from app.cli.actions.arguments import NAME, checked
from app.composition.existing_deployment import require_root_key
from app.composition.stores import Deployment, new_id, now, open_existing
from app.composition.tenants import known_tenant
from app.process.startup import CannotStart
from app.settings import Settings
from schemas.enums import Scope
from schemas.ids import KeyId, TenantId
from schemas.problems import NotFound
from streams.catalog.handler import Catalogue
from streams.tenants.handler import CreateKey, CreateTenant, RevokeKey


def chosen_scopes(text: str) -> tuple[Scope, ...]:
    """Return the scopes named.

    Raises:
        CannotStart: One is unknown.
    """
    named = [part.strip() for part in text.split(",")]
    unknown = sorted(set(named) - set(Scope))
    if unknown:
        raise CannotStart(f"no such scope: {', '.join(unknown)}; there are: {', '.join(Scope)}")
    return tuple(map(Scope, named))


async def create_tenant(settings: Settings, name: str) -> dict[str, str]:
    """Create a tenant and return its id.

    Raises:
        CannotStart: The interface would refuse the name.
    """
    name = checked("NAME", NAME, name)
    async with open_existing(settings) as deployment:
        tenant = await CreateTenant(deployment.stores.journal.commit, now, new_id)(name)
        return {"tenant_id": tenant.tenant_id}


async def create_key(
    settings: Settings,
    tenant: str,
    *,
    name: str,
    livemode: bool,
    scopes: Sequence[Scope],
    expires_days: int | None,
) -> dict[str, str]:
    """Create a key of a tenant; the key itself is shown this once.

    Raises:
        CannotStart: No such tenant, or the interface would refuse the name.
    """
    name = checked("--name", NAME, name)
    async with open_existing(settings) as deployment:
        expires_at = None if expires_days is None else now() + timedelta(days=expires_days)
        made, shown = await _create_key(deployment)(
            await known_tenant(deployment, tenant),
            name=name,
            livemode=livemode,
            scopes=tuple(scopes),
            expires_at=expires_at,
        )
        return {"key_id": made.key_id, "api_key": shown}


async def revoke_key(settings: Settings, tenant: str, key_id: str) -> dict[str, str]:
    """Revoke a key; revoking it again changes nothing.

    Raises:
        CannotStart: The tenant has no such key.
    """
    async with open_existing(settings) as deployment:
        try:
            await RevokeKey(deployment.stores.records, deployment.stores.journal.commit, now)(
                TenantId(tenant), KeyId(key_id)
            )
        except NotFound as error:
            raise CannotStart(f"tenant {tenant} has no key {key_id}") from error
        return {"key_id": key_id, "revoked": "true"}


def _create_key(deployment: Deployment) -> CreateKey:
    pepper = deployment.root_key.derive(Purpose.API_KEY_PEPPER)
    return CreateKey(deployment.stores.journal.commit, pepper, now, new_id)


async def sender_key(settings: Settings) -> str:
    """Return the sender's key in hexadecimal, from the root key that is there; several while it is rotated.

    Raises:
        CannotStart: There is no root key, or it cannot be used.
    """
    require_root_key(settings)
    key_file = settings.data_dir / ROOT_KEY_FILE
    try:
        root_key = await asyncio.to_thread(load_root_key, settings.root_key, key_file)
    except RootKeyRefused as error:
        raise CannotStart(str(error)) from error
    return ",".join(key.sender_key().secret.hex() for key in (root_key, *root_key.others))


async def load_catalogue(settings: Settings) -> int:
    """Install the first catalogue; returns how many entries, 0 when it was installed before."""
    async with open_existing(settings) as deployment:
        return await Catalogue(
            deployment.stores.records, deployment.stores.journal.commit, now
        ).install_first()
