"""Credentials of the demonstration: two tenants with a test key each, and three members.

Stored in a private file of the data folder, so that another start makes nothing again and shows the same.
"""

import base64
import os
import secrets
from contextlib import suppress
from pathlib import Path
from typing import Final

from pydantic import Field, ValidationError

from app.adapters.files.data_dir import PRIVATE_FILE, make_private
from app.adapters.security.crypto import Purpose
from app.adapters.security.passwords import open_passwords
from app.composition.existing_deployment import require_deployment
from app.composition.stores import Deployment, new_id, now, open_existing, people_of
from app.process.startup import CannotStart
from app.settings import Settings
from schemas.base import Frozen
from schemas.enums import Scope
from schemas.ids import EndpointId, FlowId, KeyId, TenantId, UserId
from schemas.people import Role
from schemas.problems import NotFound
from streams.reviewers.context import People
from streams.reviewers.invitations import NewMember, add_with_password
from streams.reviewers.member_changes import remove_member
from streams.reviewers.members import find_by_email
from streams.tenants.handler import OPERATOR, CreateKey, CreateTenant, RevokeKey
from streams.webhooks.endpoints import TenantEndpoints
from streams.webhooks.signing import PREFIX

FOLDER: Final = "demo"
FILE: Final = "access.json"

BANK: Final = "Demo Bank (test data)"
EXCHANGE: Final = "Demo Exchange (test data)"

MEMBERS: Final = (
    (Role.OWNER, "Olu Owner", "owner@demo-bank.example"),
    (Role.COMPLIANCE_LEAD, "Lola Lead", "lead@demo-bank.example"),
    (Role.REVIEWER, "Remi Reviewer", "reviewer@demo-bank.example"),
)
"""Invented people; nobody receives mail at `.example` (RFC 2606)."""


class DemoTenant(Frozen):
    """A tenant of the demonstration and its key, which sees and makes only test data."""

    tenant_id: TenantId
    name: str
    key_id: KeyId
    api_key: str = Field(repr=False)


class DemoMember(Frozen):
    """A member of the first tenant, and what signs in."""

    reviewer_id: UserId
    role: Role
    email: str
    password: str = Field(repr=False)
    totp_secret: str | None = Field(default=None, repr=False)
    """What an authenticator takes; None: the second factor is not enrolled yet."""


class DemoAccess(Frozen):
    """Everything the demonstration created, so that another start does not create it again."""

    bank: DemoTenant
    exchange: DemoTenant
    members: tuple[DemoMember, ...]
    webhook_secret: str = Field(repr=False)
    endpoint_id: EndpointId | None = None
    flow_id: FlowId | None = None


def folder_of(settings: Settings) -> Path:
    """Return the folder of the demonstration's own files."""
    return settings.data_dir / FOLDER


def read_access(settings: Settings) -> DemoAccess | None:
    """Return what an earlier demonstration made, None when there was none. Blocking.

    Raises:
        CannotStart: Its file cannot be read.
    """
    file = folder_of(settings) / FILE
    try:
        return DemoAccess.from_bytes(file.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValidationError) as error:
        raise CannotStart(f"{file} cannot be read; remove it, and the demonstration begins anew") from error


def keep_access(settings: Settings, access: DemoAccess) -> None:
    """Keep it for the next start, readable by its owner alone. Blocking."""
    make_private(folder_of(settings))
    file = folder_of(settings) / FILE
    written = file.with_suffix(".new")
    with suppress(FileNotFoundError):
        written.unlink()
    with os.fdopen(os.open(written, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE_FILE), "wb") as opened:
        opened.write(access.to_bytes())
    written.replace(file)


async def make_access(settings: Settings, deployment: Deployment) -> DemoAccess:
    """Make the tenants, their keys and the members, and keep how to get in."""
    bank, exchange = await _make_tenant(deployment, BANK), await _make_tenant(deployment, EXCHANGE)
    members: list[DemoMember] = []
    async with open_passwords() as passwords:
        people = people_of(deployment, deployment.stores.journal.commit, passwords, settings)
        for role, name, email in MEMBERS:
            await _free(people, email)
            new_member = NewMember(bank.tenant_id, email, name, role)
            made, password = await add_with_password(people, new_member, OPERATOR)
            members.append(
                DemoMember(reviewer_id=made.reviewer_id, role=role, email=email, password=password)
            )
    secret = PREFIX + base64.b64encode(secrets.token_bytes(32)).decode()
    access = DemoAccess(bank=bank, exchange=exchange, members=tuple(members), webhook_secret=secret)
    keep_access(settings, access)
    return access


async def _make_tenant(deployment: Deployment, name: str) -> DemoTenant:
    commit = deployment.stores.journal.commit
    tenant = await CreateTenant(commit, now, new_id)(name)
    create = CreateKey(commit, deployment.root_key.derive(Purpose.API_KEY_PEPPER), now, new_id)
    key, text = await create(
        tenant.tenant_id, name="demo", livemode=False, scopes=tuple(Scope), expires_at=None
    )
    return DemoTenant(tenant_id=tenant.tenant_id, name=name, key_id=key.key_id, api_key=text)


async def _free(people: People, email: str) -> None:
    """Free the address of a member of an earlier demonstration whose file was lost."""
    holder = await find_by_email(people, email)
    if holder is not None:
        await remove_member(people, holder.reviewer.tenant_id, email, OPERATOR)


async def reset(settings: Settings) -> dict[str, int]:
    """End the demonstration's keys, members and endpoint, and remove its files; returns how many ended.

    Its verifications and audit rows stay under tenants nobody can reach any more. The next demonstration
    begins anew. Without a demonstration nothing is ended.

    Raises:
        CannotStart: The folder holds no deployment, the store cannot be opened, or the demonstration's file
            cannot be read.
    """
    require_deployment(settings)
    access = read_access(settings)
    if access is None:
        return {"keys_revoked": 0, "members_removed": 0, "endpoints_deleted": 0}
    async with open_existing(settings) as deployment:
        ended = {
            "keys_revoked": await _revoke(deployment, access),
            "members_removed": await _remove(settings, deployment, access),
            "endpoints_deleted": await _delete(deployment, access),
        }
    folder = folder_of(settings)
    for name in (FILE, "passport.jpg", "selfie.jpg", "request.json"):
        (folder / name).unlink(missing_ok=True)
    with suppress(OSError):  # somebody keeps other files there
        folder.rmdir()
    return ended


async def _revoke(deployment: Deployment, access: DemoAccess) -> int:
    revoke, ended = RevokeKey(deployment.stores.records, deployment.stores.journal.commit, now), 0
    for tenant in (access.bank, access.exchange):
        with suppress(NotFound):
            await revoke(tenant.tenant_id, tenant.key_id)
            ended += 1
    return ended


async def _remove(settings: Settings, deployment: Deployment, access: DemoAccess) -> int:
    ended = 0
    async with open_passwords() as passwords:
        people = people_of(deployment, deployment.stores.journal.commit, passwords, settings)
        for member in access.members:
            with suppress(NotFound):
                await remove_member(people, access.bank.tenant_id, member.email, OPERATOR)
                ended += 1
    return ended


async def _delete(deployment: Deployment, access: DemoAccess) -> int:
    if access.endpoint_id is None:
        return 0
    stores = deployment.stores
    endpoints = TenantEndpoints(stores.records, stores.journal.commit, stores.vault, now, new_id)
    try:
        await endpoints.delete(access.bank.tenant_id, access.endpoint_id, (False,), OPERATOR)
    except NotFound:
        return 0
    return 1
