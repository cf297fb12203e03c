"""What the commands about members do, between the command line and the composition root."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from app.adapters.security.passwords import open_passwords
from app.cli.actions.arguments import EMAIL, NAME, checked
from app.composition.stores import Deployment, known_tenant, open_existing, people_of
from app.process.startup import CannotStart
from app.settings import Settings
from schemas.base import rfc3339
from schemas.people import Role
from schemas.problems import NotFound, Refused
from streams.reviewers.context import People
from streams.reviewers.invitations import NewMember, add_with_password, give_reset_token
from streams.reviewers.member_changes import remove_member
from streams.reviewers.members import find_by_email
from streams.tenants.handler import OPERATOR


async def create_reviewer(
    settings: Settings, tenant: str, *, email: str, name: str | None, role: Role
) -> dict[str, str]:
    """Add a member; the password is shown this once. Without a name it is read from the address.

    Raises:
        CannotStart: No such tenant, the address or name cannot be one, or somebody has the address already.
    """
    email = checked("--email", EMAIL, email)
    name = checked("--name", NAME, name_from(email) if name is None else name)
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
    """Draw a token to set a new password with; it is shown this once.

    Raises:
        CannotStart: No such tenant or member, the member is suspended, or the address cannot be one.
    """
    email = checked("--email", EMAIL, email)
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
            "token": issued.text,
            "expires_at": rfc3339(issued.expires_at),
        }


async def remove_reviewer(settings: Settings, tenant: str, email: str) -> dict[str, str]:
    """Remove a member, whose address is free then.

    Raises:
        CannotStart: No such tenant or member, or the address cannot be one.
    """
    email = checked("--email", EMAIL, email)
    async with _open_people(settings) as (deployment, people):
        tenant_id = await known_tenant(deployment, tenant)
        try:
            removed = await remove_member(people, tenant_id, email, OPERATOR)
        except NotFound as error:
            raise CannotStart(f"tenant {tenant} has no member {email}") from error
        return {"reviewer_id": removed.reviewer_id, "removed": "yes"}


def name_from(email: str) -> str:
    """Return what colleagues see when nobody said a name: the address's first part, its words apart.

    `ada.obi+review@acme.example` is Ada Obi.
    """
    local = email.partition("@")[0]
    words = [word for word in re.split(r"[._-]+", local.partition("+")[0]) if word]
    return " ".join(word[:1].upper() + word[1:] for word in words) or local


@asynccontextmanager
async def _open_people(settings: Settings) -> AsyncIterator[tuple[Deployment, People]]:
    async with open_existing(settings) as deployment, open_passwords() as passwords:
        yield deployment, people_of(deployment, deployment.stores.journal.commit, passwords, settings)
