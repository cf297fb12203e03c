"""Commands of tenants, API keys and the catalogue: `tenant`, `key` and `catalog load`."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer
from pydantic import TypeAdapter, ValidationError

from app.adapters.files.data_dir import ROOT_KEY_FILE
from app.cli.options import AsJson, DataDir, TenantOption, settings_of
from app.composition.existing_deployment import require_root_key
from app.process.output import say_pairs
from app.process.startup import CannotStart
from app.settings import Settings
from schemas.enums import Scope
from schemas.ids import KeyId, TenantId
from schemas.problems import NotFound

if TYPE_CHECKING:
    from app.composition.stores import Deployment
    from streams.tenants.handler import CreateKey

tenants = typer.Typer(no_args_is_help=True, help="Tenants: the companies that integrate this service.")
keys = typer.Typer(no_args_is_help=True, help="API keys of a tenant.")
catalogue = typer.Typer(no_args_is_help=True, help="The documents that can be verified.")


@tenants.command("create")
def tenant_create(name: str, data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """Create a tenant; works while the service runs.

    Try:

      veristream tenant create "Acme Bank" --json
    """
    say_pairs(asyncio.run(create_tenant(settings_of(data_dir), name)), as_json=as_json)


@keys.command("create")
def key_create(
    tenant: TenantOption,
    name: Annotated[str, typer.Option("--name", help="What the key is for.")] = "command line",
    test: Annotated[bool, typer.Option("--test", help="A key that sees and makes only test data.")] = False,
    scopes: Annotated[
        str | None, typer.Option("--scopes", help="Separated by commas \\[default: all].")
    ] = None,
    expires_days: Annotated[
        int | None, typer.Option("--expires-days", min=1, help="\\[default: never]")
    ] = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Create an API key and show it once; works while the service runs.

    Try:

      veristream key create --tenant ten_… --test

      veristream key create --tenant ten_… --scopes verifications:write,verifications:read --json
    """
    chosen = chosen_scopes(scopes) if scopes else tuple(Scope)
    made = create_key(
        settings_of(data_dir), tenant, name=name, livemode=not test, scopes=chosen, expires_days=expires_days
    )
    say_pairs(asyncio.run(made), as_json=as_json)


@keys.command("revoke")
def key_revoke(key_id: str, tenant: TenantOption, data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """Revoke an API key; its next request is refused.

    Try:

      veristream key revoke key_… --tenant ten_…
    """
    say_pairs(asyncio.run(revoke_key(settings_of(data_dir), tenant, key_id)), as_json=as_json)


@catalogue.command("load")
def catalog_load(data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """Install the first catalogue if it was never installed; what stands is never overwritten.

    Try:

      veristream catalog load --json
    """
    say_pairs({"installed": asyncio.run(load_catalogue(settings_of(data_dir)))}, as_json=as_json)


def checked(argument: str, form: Any, text: str) -> str:
    """Return a text in the form the interface keeps it in.

    Raises:
        CannotStart: The interface would refuse it; the argument and the reason are named.
    """
    try:
        return str(TypeAdapter(form).validate_python(text))
    except ValidationError as error:
        raise CannotStart(f"{argument}: {error.errors()[0]['msg']}") from None


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
    from app.composition.stores import new_id, now, open_existing
    from schemas.members import PlainName
    from streams.tenants.handler import CreateTenant

    name = checked("NAME", PlainName, name)
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
    from app.composition.stores import known_tenant, now, open_existing
    from schemas.members import PlainName

    name = checked("--name", PlainName, name)
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
    from app.composition.stores import now, open_existing
    from streams.tenants.handler import RevokeKey

    async with open_existing(settings) as deployment:
        try:
            await RevokeKey(deployment.stores.records, deployment.stores.journal.commit, now)(
                TenantId(tenant), KeyId(key_id)
            )
        except NotFound as error:
            raise CannotStart(f"tenant {tenant} has no key {key_id}") from error
        return {"key_id": key_id, "revoked": "true"}


def _create_key(deployment: "Deployment") -> "CreateKey":
    from app.adapters.security.crypto import Purpose
    from app.composition.stores import new_id, now
    from streams.tenants.handler import CreateKey

    pepper = deployment.root_key.derive(Purpose.API_KEY_PEPPER)
    return CreateKey(deployment.stores.journal.commit, pepper, now, new_id)


async def sender_key(settings: Settings) -> str:
    """Return the sender's key in hexadecimal, derived from the root key; several during a rotation.

    Raises:
        CannotStart: There is no root key, or it cannot be used.
    """
    from app.adapters.security.crypto import RootKeyRefused, load_root_key

    require_root_key(settings)
    key_file = settings.data_dir / ROOT_KEY_FILE
    try:
        root_key = await asyncio.to_thread(load_root_key, settings.root_key, key_file)
    except RootKeyRefused as error:
        raise CannotStart(str(error)) from error
    return ",".join(key.sender_key().secret.hex() for key in (root_key, *root_key.others))


async def load_catalogue(settings: Settings) -> int:
    """Install the first catalogue; returns how many entries, 0 when it was installed before."""
    from app.composition.stores import now, open_existing
    from streams.catalog.handler import Catalogue

    async with open_existing(settings) as deployment:
        return await Catalogue(
            deployment.stores.records, deployment.stores.journal.commit, now
        ).install_first()
