"""Limits a tenant chose for itself: at most the deployment's, and obeyed at once (R14)."""

import asyncio
from dataclasses import replace

import pytest

from app.adapters.memory.stores import Shelves, open_memory_stores
from app.adapters.security.crypto import RootKey
from app.configuration.front import RateLimits
from app.http.rate_limits import RateLimiter
from app.http.tenant_limits import FRESH_S, TenantLimits
from schemas.ids import TenantId
from schemas.people import Role
from schemas.problems import StoreUnavailable
from schemas.tenant_settings import TenantRateLimits, TenantSettings
from streams.ports.records import Change, Record, RecordKind
from streams.ports.stores import Stores
from streams.tenants.settings import SETTINGS
from tests.builders import ACME, GLOBEX, NOW
from tests.http.session_steps import open_page, publish_flow
from tests.http.support import FOREIGN, LIVE, TEST, Response, SignedIn, open_front

SETTINGS_PATH = "/v1/control/settings"
CATALOG = "/v1/catalog"
DEPLOYMENT = RateLimits(key=50, verifications=20, tenant=100, tenant_verifications=40, capture=30)


async def limit(owner: SignedIn, **limits: int | None) -> Response:
    """Choose limits."""
    return await owner.ask("PATCH", SETTINGS_PATH, json={"rate_limits": limits})


async def test_the_deployments_limits_are_shown_until_a_tenant_chooses() -> None:
    async with open_front(rate_limits=DEPLOYMENT) as front:
        owner = await front.sign_in()
        before = (await owner.ask("GET", SETTINGS_PATH)).json["rate_limits"]
        chosen = (await limit(owner, key=5)).json["rate_limits"]
        back = (await limit(owner, key=None)).json["rate_limits"]

    assert before == {
        "key": 50, "verifications": 20, "tenant": 100, "tenant_verifications": 40, "capture": 30,
    }  # fmt: skip
    assert (chosen, back) == (before | {"key": 5}, before)


@pytest.mark.parametrize("key", [TEST, LIVE])
async def test_a_chosen_limit_bites_at_the_next_request(key: str) -> None:
    async with open_front(rate_limits=DEPLOYMENT) as front:
        owner = await front.sign_in()
        before = [(await front.ask("GET", CATALOG, key)).status for _ in range(6)]
        await limit(owner, key=4)
        after = await front.ask("GET", CATALOG, key)
        await limit(owner, key=None)
        again = (await front.ask("GET", CATALOG, key)).status

    assert before == [200] * 6
    assert (after.status, after.code) == (429, "RATE_LIMITED")
    assert '"key";q=4;w=60' in after.headers["RateLimit-Policy"]
    assert int(after.headers["Retry-After"]) <= 60
    assert again == 200


async def test_a_chosen_limit_is_neither_another_tenants_nor_a_members() -> None:
    async with open_front(rate_limits=DEPLOYMENT) as front:
        owner = await front.sign_in()
        await limit(owner, key=1, tenant=1)
        own = [(await front.ask("GET", CATALOG, TEST)).status for _ in range(2)]
        foreign = [(await front.ask("GET", CATALOG, FOREIGN)).status for _ in range(3)]
        members = [(await owner.ask("GET", SETTINGS_PATH)).status for _ in range(3)]

    assert (own, foreign, members) == ([200, 429], [200] * 3, [200] * 3)


async def test_a_chosen_limit_of_client_tokens_is_about_them_alone() -> None:
    async with open_front(rate_limits=DEPLOYMENT) as front:
        owner = await front.sign_in()
        page = await open_page(front, await publish_flow(owner))
        await limit(owner, capture=2, key=1)
        responses = [await page.ask("GET") for _ in range(3)]

    assert [one.status for one in responses] == [200, 200, 429]


@pytest.mark.parametrize(
    ("name", "most"),
    list(DEPLOYMENT.model_dump(exclude={"sign_in", "rejected", "capture_frames", "reveal_number"}).items()),
)
async def test_a_limit_above_the_deployments_is_refused(name: str, most: int) -> None:
    async with open_front(rate_limits=DEPLOYMENT) as front:
        owner = await front.sign_in()
        responses = [await limit(owner, **{name: requested}) for requested in (most + 1, most)]

    assert (responses[0].status, list(responses[0].pointers)) == (422, [f"/rate_limits/{name}"])
    assert str(most) in responses[0].json["detail"]
    assert responses[1].status == 200


async def test_who_manages_no_settings_chooses_no_limits() -> None:
    async with open_front(rate_limits=DEPLOYMENT) as front:
        response = await limit(await front.sign_in(Role.DEVELOPER), key=5)

    assert (response.status, response.code) == (403, "PERMISSION_DENIED")


class Clock:
    """Seconds, set by hand."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        """Return them."""
        return self.now


def build_stores() -> Stores:
    """Empty stores in memory."""
    return open_memory_stores(RootKey(b"r" * 32), Shelves())


async def choose(stores: Stores, tenant_id: TenantId, key: int, version: int = 1) -> None:
    """Let a tenant choose at another front."""
    body = TenantSettings(rate_limits=TenantRateLimits(key=key)).to_bytes()
    record = Record(tenant_id, RecordKind.SETTINGS, SETTINGS, body, NOW, version=version)
    await stores.journal.commit(Change(tenant_id, (record,)))


async def test_another_front_obeys_within_a_second() -> None:
    stores, clock = build_stores(), Clock()
    limits = TenantLimits(stores.records, DEPLOYMENT, clock)
    results = [dict(await limits.of(ACME))]
    await choose(stores, ACME, 7)
    results.append(dict(await limits.of(ACME)))
    clock.now += FRESH_S
    results.append(dict(await limits.of(ACME)))

    assert results == [{}, {}, {"key": 7}]
    assert await limits.of(GLOBEX) == {}


async def test_without_the_store_the_limits_read_last_hold() -> None:
    stores, clock = build_stores(), Clock()
    await choose(stores, ACME, 7)
    limits = TenantLimits(stores.records, DEPLOYMENT, clock)
    await limits.of(ACME)

    class Away:
        async def get(self, *_: object) -> Record:
            raise StoreUnavailable

    limits.records = Away()  # type: ignore[assignment]  # only `get` is asked
    clock.now += FRESH_S

    assert await limits.of(ACME) == {"key": 7}
    assert await limits.of(GLOBEX) == {}


async def test_what_was_published_while_the_store_was_read_is_newer() -> None:
    stores, read, go_on = build_stores(), asyncio.Event(), asyncio.Event()
    inner = stores.records

    class Slow:
        async def get(self, tenant_id: TenantId, kind: RecordKind, record_id: str) -> Record:
            try:
                return await inner.get(tenant_id, kind, record_id)
            finally:
                read.set()
                await go_on.wait()

    slow: Stores = replace(stores, records=Slow())  # type: ignore[arg-type]  # only `get` is asked
    limits = TenantLimits(slow.records, DEPLOYMENT, Clock())
    reading = asyncio.create_task(limits.of(ACME))
    await read.wait()
    limits.remember(ACME, TenantRateLimits(key=3))
    go_on.set()

    assert await reading == {"key": 3}
    assert await limits.of(ACME) == {"key": 3}


async def test_a_limit_the_deployment_lowered_since_is_the_deployments() -> None:
    stores = build_stores()
    await choose(stores, ACME, 45)

    assert await TenantLimits(stores.records, RateLimits(key=10)).of(ACME) == {"key": 10}


def test_a_lowered_quota_uses_up_one_window_and_no_more() -> None:
    limiter = RateLimiter(RateLimits(key=100))
    for _ in range(90):
        limiter.count([("key", "a")], 0.0)
    (lowered,) = limiter.count([("key", "a")], 1.0, {"key": 2})
    (later,) = limiter.count([("key", "a")], 60.0, {"key": 2})

    assert (lowered.exceeded, lowered.resets_in_s) == (True, 59)
    assert (later.exceeded, later.remaining) == (False, 1)
