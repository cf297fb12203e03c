"""With keys as tenants really hold them: good, mistyped, revoked, expired, foreign, from elsewhere."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from ipaddress import ip_network
from typing import Any

import pytest
from uuid_utils.compat import uuid7

from schemas.access import ApiKey
from schemas.ids import TenantId, encode_id
from streams.tenants.handler import Authenticate, CreateKey, RevokeKey
from tests.builders import ACME, GLOBEX
from tests.http.support import PATH, Front, now, open_front

PEPPER = b"p" * 32


@dataclass(slots=True)
class Clock:
    """A clock that can be moved."""

    ahead: timedelta = timedelta()

    def __call__(self) -> datetime:
        """The moment, moved."""
        return now() + self.ahead


@dataclass(slots=True)
class Deployment:
    """A front that knows real keys, and the means to make and end them."""

    front: Front
    clock: Clock

    async def make(self, tenant_id: TenantId = ACME, **changes: Any) -> tuple[ApiKey, str]:
        """A new test key."""
        create = CreateKey(
            self.front.stores.journal.commit, PEPPER, self.clock, lambda prefix: encode_id(prefix, uuid7())
        )
        values: dict[str, Any] = {"name": "k", "livemode": False, "expires_at": None}
        return await create(tenant_id, **values | changes)

    async def status(self, key: str) -> int:
        """What the list answers to the key."""
        return (await self.front.ask("GET", PATH, key)).status


@pytest.fixture
async def deployment() -> AsyncIterator[Deployment]:
    """A front over real keys."""
    clock = Clock()
    async with open_front(knowing=lambda stores: Authenticate(stores.records, PEPPER, clock)) as front:
        yield Deployment(front, clock)


async def test_a_new_key_opens_its_tenants_routes(deployment: Deployment) -> None:
    _, key = await deployment.make()

    assert await deployment.status(key) == 200


async def test_a_mistyped_key_opens_nothing(deployment: Deployment) -> None:
    _, key = await deployment.make()

    assert await deployment.status(key[:-1] + ("a" if key[-1] != "a" else "b")) == 401


async def test_a_revoked_key_is_refused_at_the_next_request(deployment: Deployment) -> None:
    stored, key = await deployment.make()
    before = await deployment.status(key)
    await RevokeKey(
        deployment.front.stores.records, deployment.front.stores.journal.commit, deployment.clock
    )(ACME, stored.key_id)

    assert (before, await deployment.status(key)) == (200, 401)


async def test_a_key_ends_when_it_expires(deployment: Deployment) -> None:
    _, key = await deployment.make(expires_at=deployment.clock() + timedelta(hours=1))
    before = await deployment.status(key)
    deployment.clock.ahead = timedelta(hours=2)

    assert (before, await deployment.status(key)) == (200, 401)


async def test_a_key_from_elsewhere_is_refused(deployment: Deployment) -> None:
    _, key = await deployment.make(allowed_cidrs=[ip_network("192.0.2.0/24")])

    assert await deployment.status(key) == 401


async def test_a_key_of_another_tenant_sees_none_of_it(deployment: Deployment) -> None:
    (_, own), (_, foreign) = await deployment.make(), await deployment.make(GLOBEX)
    submitted = await deployment.front.submit(key=own)
    path = f"{PATH}/{submitted.json['verification_id']}"

    assert (await deployment.front.ask("GET", path, own)).status == 200
    assert (await deployment.front.ask("GET", path, foreign)).status == 404
