"""Point 12, S1, S59: refused acts are audited, one row a minute for each caller, address and reason."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from ipaddress import ip_network
from typing import Any

import pytest
from pydantic import SecretStr

from app.adapters.memory.stores import open_memory_stores
from app.adapters.security.crypto import RootKey
from app.http.denials import DENIALS, MOST_OF_A_TENANT
from schemas.audit import AuditEvent, AuditFilter
from schemas.enums import Scope
from schemas.ids import PLATFORM, KeyId, TenantId
from schemas.people import Role
from schemas.problems import StoreUnavailable
from streams.ports.records import Change, Committed
from streams.tenants.handler import Authenticate, RevokeKey
from tests.builders import ACME, GLOBEX
from tests.http.furnished import TENANTS, has_id, open_furnished
from tests.http.support import BARE, FOREIGN, LIVE, PATH, REVOKED, TEST, UNKNOWN, Front, open_front
from tests.http.test_permissions import TOKEN
from tests.http.test_real_keys import PEPPER, Clock, Deployment
from tests.http.test_tenants_apart import ask_as_foreigner

AUDIT = "/v1/audit"
SOMEBODYS = f"{PATH}/ver_{'0' * 26}"


@pytest.fixture
async def front() -> AsyncIterator[Front]:
    """A front behind a proxy that names its callers."""
    proxies = (ip_network("127.0.0.1/32"),)
    async with open_front(trusted_proxies=proxies, operator_token=SecretStr(TOKEN)) as opened:
        yield opened


async def denied(front: Front, tenant_id: TenantId = ACME) -> list[AuditEvent]:
    """Write what was counted; return a tenant's rows of it, oldest first."""
    await front.app[DENIALS].flush()
    chosen = AuditFilter(action="access.denied")
    return list(await front.stores.audit_log.page(tenant_id, chosen, limit=200))[::-1]


def counts(rows: list[AuditEvent]) -> list[tuple[str, int]]:
    """Code and count of each row."""
    return sorted((row.context["changes"]["code"], row.context["changes"]["count"]) for row in rows)


async def test_s1_a_flood_of_refusals_is_one_row(front: Front) -> None:
    first = await front.ask("GET", PATH, BARE, headers={"X-Forwarded-For": "203.0.113.7"})
    await asyncio.gather(
        *(front.ask("GET", AUDIT, BARE, headers={"X-Forwarded-For": "203.0.113.7"}) for _ in range(49))
    )

    (row,) = await denied(front)

    key_id = front.keys.known[BARE].key_id
    assert (first.status, first.code) == (403, "PERMISSION_DENIED")
    assert (row.action.value, row.actor_type.value, row.actor_id) == ("access.denied", "API_KEY", key_id)
    assert (row.subject_id, row.livemode) == (key_id, False)
    assert row.correlation_id == first.headers["X-Request-Id"]
    assert row.context["ip"] == "203.0.113.7"
    changes = row.context["changes"]
    assert (changes["code"], changes["count"]) == ("PERMISSION_DENIED", 50)
    assert changes["routes"] == [f"GET {AUDIT}", f"GET {PATH}"]
    assert changes["from"] <= changes["to"]
    assert row.detail == "Requests with PERMISSION_DENIED were refused: 50."
    assert await denied(front) == [row]


async def test_s59_every_kind_of_refusal_is_distinguished(front: Front) -> None:
    person, half = await front.sign_in(Role.AUDITOR), await front.sign_in(satisfied=False)
    member = f"/v1/control/members/usr_{'0' * 26}"

    responses = [
        await person.ask("PATCH", member, json={"active": False}),
        await half.ask("GET", AUDIT),
        await front.ask("GET", "/v1/control/members", TEST),
        await person.ask("PATCH", member, json={}, headers={"Origin": "https://evil.example"}),
        await front.ask("GET", SOMEBODYS, LIVE),
    ]

    rows = await denied(front)
    assert counts(rows) == sorted((one.code, 1) for one in responses)
    assert {one.code for one in responses} == {
        "PERMISSION_DENIED", "MFA_REQUIRED", "API_KEY_NOT_ALLOWED", "ORIGIN_REFUSED", "NOT_FOUND",
    }  # fmt: skip
    assert {row.actor_id for row in rows} == {
        person.member.reviewer_id, half.member.reviewer_id,
        front.keys.known[TEST].key_id, front.keys.known[LIVE].key_id,
    }  # fmt: skip


async def test_s1_whatever_was_asked_of_another_tenant_stands_in_the_askers_log() -> None:
    async with open_furnished() as furnished:
        results = [await ask_as_foreigner(furnished, row) for row in TENANTS if has_id(row)]
        answers = [answer for one in results for answer in one]
        rows = await denied(furnished.front, GLOBEX)
        others = await denied(furnished.front, ACME)

    assert {answer.code for answer in answers} == {"NOT_FOUND"}
    assert sum(row.context["changes"]["count"] for row in rows) == len(answers) > 25
    assert {row.actor_type.value for row in rows} == {"API_KEY", "REVIEWER"}
    assert others == []


async def test_s1_what_is_allowed_or_merely_wrong_is_no_refused_act(front: Front) -> None:
    submitted = await front.submit()
    responses = [
        await front.ask("GET", f"{PATH}/{submitted.json['verification_id']}"),
        await front.ask("GET", f"{PATH}?limit=nonsense"),
        await front.ask("GET", "/v1/nowhere"),
        await front.ask("PUT", PATH),
        await front.ask("GET", PATH, UNKNOWN),
        await front.ask("GET", PATH, REVOKED),
        await front.ask("GET", "/v1/platform/tenants", None),
    ]

    assert [one.status for one in responses] == [200, 422, 404, 405, 401, 401, 401]
    assert [await denied(front, tenant_id) for tenant_id in (ACME, GLOBEX, PLATFORM)] == [[], [], []]


@pytest.fixture
async def deployment() -> AsyncIterator[Deployment]:
    """A front over real keys."""
    clock = Clock()
    async with open_front(knowing=lambda stores: Authenticate(stores.records, PEPPER, clock)) as opened:
        yield Deployment(opened, clock)


async def revoked(deployment: Deployment) -> tuple[KeyId, str]:
    """A key that was revoked."""
    made, shown = await deployment.make()
    stores = deployment.front.stores
    await RevokeKey(stores.records, stores.journal.commit, deployment.clock)(ACME, made.key_id)
    return made.key_id, shown


async def expired(deployment: Deployment) -> tuple[KeyId, str]:
    """A key that ended."""
    made, shown = await deployment.make(expires_at=deployment.clock() + timedelta(minutes=1))
    deployment.clock.ahead = timedelta(minutes=2)
    return made.key_id, shown


async def from_elsewhere(deployment: Deployment) -> tuple[KeyId, str]:
    """A key that is good in another network alone."""
    made, shown = await deployment.make(allowed_cidrs=(ip_network("192.0.2.0/24"),))
    return made.key_id, shown


@pytest.mark.parametrize("ended", [revoked, expired, from_elsewhere])
async def test_s59_a_key_that_is_good_no_more_or_not_from_here_is_noted(
    deployment: Deployment, ended: Any
) -> None:
    key_id, shown = await ended(deployment)

    response = await deployment.front.ask("GET", PATH, shown)

    rows = await denied(deployment.front)
    assert (response.status, response.code) == (401, "UNAUTHENTICATED")
    assert [(row.actor_id, row.livemode) for row in rows] == [(key_id, False)]
    assert counts(rows) == [("UNAUTHENTICATED", 1)]


async def test_s59_a_guessed_secret_writes_nothing_into_the_keys_log(deployment: Deployment) -> None:
    """Who knows the public part of a key alone must not be able to fill its tenant's log."""
    _, mine = await revoked(deployment)
    _, other = await deployment.make(GLOBEX)

    forged = mine[: len("idv_test_") + 10] + other[len("idv_test_") + 10 :]
    assert await deployment.status(forged) == 401
    assert await denied(deployment.front) == []


async def test_s59_a_wrong_operator_token_stands_in_the_platforms_log(front: Front) -> None:
    responses = [await front.ask("GET", "/v1/platform/tenants", "x" * 40) for _ in range(3)]

    (row,) = await denied(front, PLATFORM)
    assert {one.status for one in responses} == {401}
    assert (row.actor_type.value, row.actor_id, row.context["changes"]["count"]) == ("SYSTEM", None, 3)


async def test_s1_callers_beyond_what_is_distinguished_share_a_row(front: Front) -> None:
    most = MOST_OF_A_TENANT
    for n in range(most + 20):
        await front.ask("GET", PATH, BARE, headers={"X-Forwarded-For": f"198.51.{n // 250}.{n % 250}"})
    addresses = [f"2001:db8::{n:x}" for n in range(5)]
    for address in addresses:
        await front.ask("GET", PATH, FOREIGN, headers={"X-Forwarded-For": address})
        await front.ask("GET", SOMEBODYS, FOREIGN, headers={"X-Forwarded-For": address})

    rows, foreign = await denied(front), await denied(front, GLOBEX)

    assert len(rows) == most + 1
    assert sum(row.context["changes"]["count"] for row in rows) == most + 20
    assert [row.context["changes"]["count"] for row in rows if row.actor_type.value == "SYSTEM"] == [20]
    assert [(row.context["ip"], row.context["changes"]["count"]) for row in foreign] == [("2001:db8::/64", 5)]


async def test_s1_a_store_that_is_away_delays_rows_and_no_request(front: Front) -> None:
    denials, commit = front.app[DENIALS], front.app[DENIALS].commit

    async def away(_: Change) -> Committed:
        raise StoreUnavailable("away")

    denials.commit = away
    for _ in range(3):
        assert (await front.ask("GET", PATH, BARE)).status == 403
        await denials.flush()
    denials.commit = commit

    assert counts(await denied(front)) == [("PERMISSION_DENIED", 1)] * 3


async def test_s1_rows_that_wait_for_too_long_are_dropped_and_counted() -> None:
    async def away(_: Change) -> Committed:
        raise StoreUnavailable("away")

    async with open_front() as front:
        denials, lost = front.app[DENIALS], front.ports.metrics.denials_lost
        denials.commit, denials.most_waiting = away, 3
        for _ in range(5):
            await front.ask("GET", PATH, BARE)
            await denials.flush()
        while_away = lost._value.get()
    at_the_end = lost._value.get()

    assert (while_away, at_the_end) == (2, 5)


async def test_s1_rows_are_written_within_the_minute_and_at_the_end() -> None:
    stores = open_memory_stores(RootKey(b"r" * 32))

    async with open_front(stores=stores) as front:
        await front.ask("GET", PATH, BARE)
        before = await stores.audit_log.page(ACME, AuditFilter(action="access.denied"), limit=9)
    after = await stores.audit_log.page(ACME, AuditFilter(action="access.denied"), limit=9)

    assert (len(before), len(after)) == (0, 1)
    assert Scope.VERIFICATIONS_READ not in front.keys.known[BARE].scopes
