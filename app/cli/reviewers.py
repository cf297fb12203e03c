"""Commands of members: `reviewer create`, `reset` and `remove`."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from app.cli.options import AsJson, DataDir, TenantOption, service_url, settings_of
from app.cli.tenants import checked
from app.process.output import say_pairs
from app.process.startup import CannotStart
from app.settings import Settings
from schemas.base import rfc3339
from schemas.people import Role
from schemas.problems import NotFound, Refused

if TYPE_CHECKING:
    from app.composition.stores import Deployment
    from streams.reviewers.context import People

reviewers = typer.Typer(no_args_is_help=True, help="Members of a tenant, who sign in and review.")

Email = Annotated[str, typer.Option("--email", help="E-mail address, which signs in.")]


@reviewers.command("create")
def reviewer_create(
    tenant: TenantOption,
    email: Email,
    role: Annotated[
        Role, typer.Option("--role", case_sensitive=False, help="What the member may do.")
    ] = Role.REVIEWER,
    name: Annotated[
        str | None,
        typer.Option("--name", help="Name that colleagues see \\[default: from the e-mail address]."),
    ] = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Add a member and show the password drawn for it once; works while the service runs.

    Try:

      veristream reviewer create --tenant ten_… --email ada.obi@acme.example --role OWNER

      veristream reviewer create --tenant ten_… --email ada@acme.example --name "Ada Obi" --json
    """
    made = create_reviewer(settings_of(data_dir), tenant, email=email, name=name, role=role)
    say_pairs(asyncio.run(made), as_json=as_json)


@reviewers.command("reset")
def reviewer_reset(
    tenant: TenantOption,
    email: Email,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Show a one-time link to set a new password with; the second factor stays.

    Works while the service runs. The link is good for an hour; hand it to the member alone. It leads to the
    console under SERVICE_BASE_URL, or on this machine. Programs send the token themselves:
    POST /v1/control/password/reset {"token": …, "new_password": …}

    Try:

      veristream reviewer reset --tenant ten_… --email ada@acme.example --json
    """
    given = reset_reviewer(settings_of(data_dir), tenant, email)
    say_pairs(asyncio.run(given), as_json=as_json)


@reviewers.command("remove")
def reviewer_remove(
    tenant: TenantOption,
    email: Email,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Remove a member of a tenant and free the e-mail address, for whichever tenant invites it next.

    Works while the service runs; every session of the member ends. What the member did stays in the
    audit log.

    Try:

      veristream reviewer remove --tenant ten_… --email ada@acme.example
    """
    removed = remove_reviewer(settings_of(data_dir), tenant, email)
    say_pairs(asyncio.run(removed), as_json=as_json)


async def create_reviewer(
    settings: Settings, tenant: str, *, email: str, name: str | None, role: Role
) -> dict[str, str]:
    """Add a member; the password is shown this once. Without a name it is read from the address.

    Raises:
        CannotStart: No such tenant, the address or name cannot be one, or somebody has the address already.
    """
    from app.composition.stores import known_tenant
    from schemas.members import EmailAddress, PlainName
    from streams.reviewers.invitations import NewMember, add_with_password
    from streams.reviewers.members import find_by_email
    from streams.tenants.handler import OPERATOR

    email = checked("--email", EmailAddress, email)
    name = checked("--name", PlainName, name_from(email) if name is None else name)
    async with _open_people(settings) as (deployment, people):
        new_member = NewMember(await known_tenant(deployment, tenant), email, name, role)
        try:
            reviewer, password = await add_with_password(people, new_member, OPERATOR)
        except Refused as error:
            holder = await find_by_email(people, email)
            whose = new_member.tenant_id if holder is None else holder.reviewer.tenant_id
            raise CannotStart(
                f"{error.refusal.detail} It is of tenant {whose}. To set a new password: veristream reviewer "
                "reset; to free the address: veristream reviewer remove"
            ) from error
        return {"reviewer_id": reviewer.reviewer_id, "password": password}


async def reset_reviewer(settings: Settings, tenant: str, email: str) -> dict[str, str]:
    """Draw a token to set a new password with, and its link; they are shown this once.

    Raises:
        CannotStart: No such tenant or member, the member is suspended, or the address cannot be one.
    """
    from app.composition.stores import known_tenant
    from schemas.members import EmailAddress
    from streams.reviewers.invitations import give_reset_token
    from streams.tenants.handler import OPERATOR

    email = checked("--email", EmailAddress, email)
    async with _open_people(settings) as (deployment, people):
        tenant_id = await known_tenant(deployment, tenant)
        try:
            issued = await give_reset_token(people, tenant_id, email, OPERATOR)
        except NotFound as error:
            raise CannotStart(
                f"tenant {tenant} has no member {email}; add one with: veristream reviewer create"
            ) from error
        except Refused as error:
            raise CannotStart(f"{error.refusal.detail} A colleague may let the member in again.") from error
        return {
            "reviewer_id": issued.reviewer.reviewer_id,
            "link": reset_link(settings, issued.text),
            "token": issued.text,
            "expires_at": rfc3339(issued.expires_at),
        }


def reset_link(settings: Settings, token: str) -> str:
    """Return where the token sets a password; it is in the fragment, which no browser sends."""
    return f"{service_url(settings)}/console/reset#{token}"


async def remove_reviewer(settings: Settings, tenant: str, email: str) -> dict[str, str]:
    """Remove a member and free its e-mail address.

    Raises:
        CannotStart: No such tenant or member, or the address cannot be one.
    """
    from app.composition.stores import known_tenant
    from schemas.members import EmailAddress
    from streams.reviewers.member_changes import remove_member
    from streams.tenants.handler import OPERATOR

    email = checked("--email", EmailAddress, email)
    async with _open_people(settings) as (deployment, people):
        tenant_id = await known_tenant(deployment, tenant)
        try:
            removed = await remove_member(people, tenant_id, email, OPERATOR)
        except NotFound as error:
            raise CannotStart(f"tenant {tenant} has no member {email}") from error
        return {"reviewer_id": removed.reviewer_id, "removed": "yes"}


def name_from(email: str) -> str:
    """Return the default name of a member, from the e-mail address.

    `ada.obi+review@acme.example` is Ada Obi.
    """
    local = email.partition("@")[0]
    words = [word for word in re.split(r"[._-]+", local.partition("+")[0]) if word]
    return " ".join(word[:1].upper() + word[1:] for word in words) or local


@asynccontextmanager
async def _open_people(settings: Settings) -> "AsyncIterator[tuple[Deployment, People]]":
    from app.adapters.security.passwords import open_passwords
    from app.composition.stores import open_existing, people_of

    async with open_existing(settings) as deployment, open_passwords() as passwords:
        yield deployment, people_of(deployment, deployment.stores.journal.commit, passwords, settings)
