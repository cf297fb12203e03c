"""Commands that list: `tenant list`, `key list` and `reviewer list`."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from app.cli.options import AsJson, DataDir, settings_of
from app.process.output import out, say_json, say_rows
from app.settings import Settings
from schemas.ids import PLATFORM, TenantId
from schemas.people import Reviewer

if TYPE_CHECKING:
    from app.composition.stores import Deployment
    from schemas.access import ApiKey
    from streams.ports.records import Record

AnyTenant = Annotated[str | None, typer.Option("--tenant", help="Tenant id \\[default: every tenant].")]


def tenant_list(data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """List the tenants, newest first; works while the service runs.

    Try:

      veristream tenant list

      veristream tenant list --json
    """
    asyncio.run(TENANTS.say(settings_of(data_dir), as_json=as_json))


def key_list(
    tenant: AnyTenant = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """List API keys with their state, revoked ones too; a key itself is shown only when it is made.

    `--json` has their scopes, networks and times as well.

    Try:

      veristream key list

      veristream key list --tenant ten_… --json
    """
    asyncio.run(KEYS.say(settings_of(data_dir), tenant, as_json=as_json))


def reviewer_list(
    tenant: AnyTenant = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """List members with role and state: active, suspended, or invited and without a password yet.

    Try:

      veristream reviewer list

      veristream reviewer list --tenant ten_… --json
    """
    asyncio.run(REVIEWERS.say(settings_of(data_dir), tenant, as_json=as_json))


Row = dict[str, Any]


async def list_tenants(settings: Settings) -> list[Row]:
    """Return all tenants, newest first."""
    from app.composition.stores import every_record, open_existing
    from schemas.access import Tenant
    from streams.ports.records import RecordKind
    from streams.tenants.handler import TENANTS_INDEX

    async with open_existing(settings) as deployment:
        tenants = every_record(deployment, PLATFORM, RecordKind.TENANT, TENANTS_INDEX)
        return [Tenant.from_bytes(record.body).model_dump(mode="json") async for record in tenants]


async def list_keys(settings: Settings, tenant: str | None) -> list[Row]:
    """Return the keys of one tenant or of all, newest first within a tenant.

    Raises:
        CannotStart: No such tenant.
    """
    from app.composition.stores import Deployment, every_record, now
    from schemas.access import ApiKey
    from streams.ports.records import Record, RecordKind
    from streams.tenants.handler import TENANT_INDEX

    def keys(deployment: Deployment, tenant_id: TenantId) -> AsyncIterator[Record]:
        return every_record(deployment, PLATFORM, RecordKind.API_KEY, (TENANT_INDEX, tenant_id))

    return [key_row(ApiKey.from_bytes(body), now()) for body in await _bodies(settings, tenant, keys)]


async def list_reviewers(settings: Settings, tenant: str | None) -> list[Row]:
    """Return the members of one tenant or of all; the rest as `list_keys`."""
    from app.composition.stores import Deployment, every_record, now
    from streams.ports.records import Record, RecordKind
    from streams.reviewers.members import MEMBERS_INDEX

    def members(deployment: Deployment, tenant_id: TenantId) -> AsyncIterator[Record]:
        return every_record(deployment, tenant_id, RecordKind.REVIEWER, MEMBERS_INDEX)

    found = await _bodies(settings, tenant, members)
    return [reviewer_row(Reviewer.from_bytes(body), now()) for body in found]


async def _bodies(
    settings: Settings, tenant: str | None, records: "Callable[[Deployment, TenantId], AsyncIterator[Record]]"
) -> list[bytes]:
    """Return what is stored of one tenant or of all, tenant after tenant."""
    from app.composition.stores import open_existing

    async with open_existing(settings) as deployment:
        return [
            record.body
            for tenant_id in await _tenants(deployment, tenant)
            async for record in records(deployment, tenant_id)
        ]


async def _tenants(deployment: "Deployment", tenant: str | None) -> Sequence[TenantId]:
    from app.composition.stores import every_tenant, known_tenant

    return await every_tenant(deployment) if tenant is None else [await known_tenant(deployment, tenant)]


def key_row(key: "ApiKey", moment: datetime) -> Row:
    """Return the operator's view of a key: the tenant's view, the tenant, and the state."""
    from streams.tenants.api_keys import show_key
    from streams.tenants.rules import is_usable

    ended = "revoked" if key.revoked_at is not None else "expired"
    return {
        "tenant_id": key.tenant_id,
        **show_key(key, moment).model_dump(mode="json"),
        "mode": "live" if key.livemode else "test",
        "state": "active" if is_usable(key, moment) else ended,
    }


def reviewer_row(reviewer: Reviewer, moment: datetime) -> Row:
    """Return what the operator sees of a member: what colleagues see, the tenant, and the state."""
    from streams.reviewers.member_changes import show_member

    member = show_member(reviewer, moment)
    state = "suspended" if not member.active else "active" if member.password_set else "invited"
    return {"tenant_id": reviewer.tenant_id, **member.model_dump(mode="json"), "state": state}


@dataclass(frozen=True, slots=True)
class Listing:
    """One kind of things that can be listed."""

    rows: Callable[[Settings, str | None], Awaitable[Sequence[Row]]]
    """Those of one tenant, or all."""
    columns: Sequence[str]
    none: str
    """Said where there is nothing to list."""

    async def say(self, settings: Settings, tenant: str | None = None, *, as_json: bool) -> None:
        """Print the rows, or that there are none."""
        rows = await self.rows(settings, tenant)
        if as_json:
            say_json(rows)
        elif rows:
            say_rows(self.columns, [[row[column] for column in self.columns] for row in rows])
        else:
            out.print(self.none, markup=False, highlight=False, soft_wrap=True)


TENANTS: Final = Listing(
    lambda settings, _: list_tenants(settings),
    ("tenant_id", "name", "created_at"),
    "No tenants. Make one with: veristream tenant create NAME",
)
KEYS: Final = Listing(
    list_keys,
    ("key_id", "tenant_id", "mode", "state", "created_at", "last_used_at", "name"),
    "No keys. Make one with: veristream key create --tenant ten_…",
)
REVIEWERS: Final = Listing(
    list_reviewers,
    ("reviewer_id", "tenant_id", "role", "state", "created_at", "email", "name"),
    "No members. Add one with: veristream reviewer create --tenant ten_… --email …",
)
"""What a person is shown; names stand last, for they are as long as people make them."""
