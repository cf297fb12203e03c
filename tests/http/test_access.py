"""Who may ask what: every route with every kind of key, and what a key may not even try."""

from collections.abc import Iterator
from dataclasses import replace
from ipaddress import ip_network
from typing import Any

import aiohttp
import pytest
from aiohttp.test_utils import make_mocked_request
from pydantic import SecretStr

from app.http.auth import Gate
from app.http.bodies import BodyBudget
from app.http.endpoints import ANYONE, Access, Credential, Endpoint
from app.http.headers import address_of, bearer
from app.http.server import endpoints_of
from schemas.enums import Scope
from schemas.problems import StoreUnavailable, Unauthenticated
from tests.http.support import (
    BARE,
    FOREIGN,
    PATH,
    REVOKED,
    TEST,
    UNKNOWN,
    Front,
    build_body,
    build_caller,
    open_front,
)

ROUTES = {
    "submit": ("POST", PATH),
    "list": ("GET", PATH),
    "read": ("GET", f"{PATH}/ver_{'0' * 26}"),
    "audit": ("GET", "/v1/audit"),
    "reasons": ("GET", "/v1/reason-codes"),
    "scenarios": ("GET", "/v1/sandbox/scenarios"),
}
"""Every route that needs a key."""

SCOPE_OF = {
    "submit": Scope.VERIFICATIONS_WRITE,
    "list": Scope.VERIFICATIONS_READ,
    "read": Scope.VERIFICATIONS_READ,
    "audit": Scope.AUDIT_READ,
}


def guarded(front: Front) -> Iterator[Endpoint]:
    """The endpoints that ask who it is."""
    for endpoint in endpoints_of(front.ports, front.settings, BodyBudget(1)):
        if endpoint.access != ANYONE:
            yield endpoint


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("key", [None, UNKNOWN, REVOKED, "", "idv_live_", "x" * 600])
async def test_without_a_good_key_every_route_is_401(front: Front, route: str, key: str | None) -> None:
    method, path = ROUTES[route]
    response = await front.ask(method, path, key, json=build_body() if method == "POST" else None)

    assert (response.status, response.code) == (401, "UNAUTHENTICATED")
    assert response.headers["WWW-Authenticate"].startswith("Bearer")


@pytest.mark.parametrize("route", SCOPE_OF)
async def test_a_missing_scope_is_403_and_named(front: Front, route: str) -> None:
    method, path = ROUTES[route]
    response = await front.ask(method, path, BARE)

    assert (response.status, response.code) == (403, "PERMISSION_DENIED")
    assert SCOPE_OF[route] in response.json["detail"]


@pytest.mark.parametrize("route", SCOPE_OF)
async def test_the_one_scope_suffices(front: Front, route: str) -> None:
    front.keys.known["idv_test_one"] = build_caller(name="one", scopes=frozenset({SCOPE_OF[route]}))
    method, path = ROUTES[route]
    response = await front.ask(method, path, "idv_test_one", json=build_body() if method == "POST" else None)

    assert response.status in {200, 201, 404}


@pytest.mark.parametrize("route", sorted(set(ROUTES) - set(SCOPE_OF)))
async def test_what_needs_no_scope_needs_none(front: Front, route: str) -> None:
    method, path = ROUTES[route]

    assert (await front.ask(method, path, BARE)).status == 200


@pytest.mark.parametrize("route", ROUTES)
async def test_when_nobody_can_tell_who_it_is_the_route_says_so(front: Front, route: str) -> None:
    front.keys.failing = StoreUnavailable()
    method, path = ROUTES[route]
    response = await front.ask(method, path)

    expected = (500, "STORE_FAILED") if route in {"submit", "audit"} else (503, "STORE_UNAVAILABLE")
    assert (response.status, response.code) == expected


async def test_a_foreign_key_sees_nothing_of_it(front: Front) -> None:
    await front.submit(build_body("sim:approved@canary"))
    responses = [await front.ask("GET", path, FOREIGN) for path in (PATH, "/v1/audit")]

    assert all(one.status == 200 and b"canary" not in one.body for one in responses)


async def test_s7_a_revoked_key_ends_within_its_connection(front: Front) -> None:
    connector = aiohttp.TCPConnector(limit=1)
    async with aiohttp.ClientSession(connector=connector) as client:
        headers = {"Authorization": f"Bearer {TEST}"}
        async with client.get(front.url + PATH, headers=headers) as before:
            await before.read()
        del front.keys.known[TEST]
        async with client.get(front.url + PATH, headers=headers) as after:
            await after.read()

    assert (before.status, after.status) == (200, 401)


@pytest.mark.parametrize("name", ["api_key", "access_token", "key", "Authorization"])
async def test_a_key_in_the_query_opens_nothing(front: Front, name: str) -> None:
    assert (await front.ask("GET", f"{PATH}?{name}={TEST}", None)).status == 401


@pytest.mark.parametrize("header", [f"Basic {TEST}", TEST, f"Bearer  {TEST} x", "Bearer", "Bearer kéy"])
async def test_another_scheme_is_401(front: Front, header: str) -> None:
    response = await front.ask("GET", PATH, None, headers={"Authorization": header})

    assert (response.status, response.code) == (401, "UNAUTHENTICATED")


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
async def test_the_scheme_is_read_in_any_case(front: Front, scheme: str) -> None:
    response = await front.ask("GET", PATH, None, headers={"Authorization": f"{scheme} {TEST}"})

    assert response.status == 200


async def test_a_cookie_nobody_gave_is_401(front: Front) -> None:
    response = await front.ask("GET", "/v1/audit", None, headers={"Cookie": "service_session=x"})

    assert response.status == 401


@pytest.mark.parametrize(
    ("accepts", "expected"),
    [(Credential.REVIEWER_SESSION, "API_KEY_NOT_ALLOWED"), (Credential.OPERATOR_TOKEN, None)],
)
async def test_a_key_does_not_pass_for_another_credential(
    front: Front, accepts: Credential, expected: str | None
) -> None:
    gate = Gate(front.ports, replace(front.settings, operator_token=SecretStr("o" * 32)), lambda: 0.0)
    endpoint = replace(next(guarded(front)), access=Access(frozenset({accepts})))
    call: Any = type("Asking", (), {"request": make_mocked_request("GET", PATH), "address": None})()
    call.request = make_mocked_request("GET", PATH, headers={"Authorization": f"Bearer {TEST}"})

    with pytest.raises(Exception) as refused:  # noqa: PT011 - which one is what is asked
        await gate.admit(call, endpoint)

    code = getattr(getattr(refused.value, "refusal", None), "code", None)
    assert code == expected
    assert expected is not None or isinstance(refused.value, Unauthenticated)


def test_only_the_header_is_looked_at_for_a_key() -> None:
    request = make_mocked_request("GET", f"/?Authorization=Bearer%20{TEST}")

    with pytest.raises(Unauthenticated):
        bearer(request)


PROXIES = (ip_network("10.0.0.0/8"), ip_network("::1/128"))


@pytest.mark.parametrize(
    ("peer", "forwarded", "expected"),
    [
        pytest.param("203.0.113.9", "1.2.3.4", "203.0.113.9", id="a stranger is not believed"),
        pytest.param("10.0.0.1", "1.2.3.4", "1.2.3.4", id="a trusted proxy is"),
        pytest.param("10.0.0.1", "9.9.9.9, 1.2.3.4", "1.2.3.4", id="but what came to it is not"),
        pytest.param(
            "10.0.0.1", "1.2.3.4, 10.0.0.2", "1.2.3.4", id="proxies behind proxies are looked through"
        ),
        pytest.param("10.0.0.1", "10.0.0.3", "10.0.0.3", id="a chain of proxies alone ends at the first"),
        pytest.param("10.0.0.1", "nonsense", "10.0.0.1", id="nonsense is not an address"),
        pytest.param("10.0.0.1", None, "10.0.0.1", id="a proxy that says nothing"),
        pytest.param("::1", "2001:db8::7", "2001:db8::7", id="version six"),
    ],
)
def test_a_forwarded_address_counts_as_far_as_it_is_vouched_for(
    peer: str, forwarded: str | None, expected: str
) -> None:
    headers = {"X-Forwarded-For": forwarded} if forwarded else {}
    request = make_mocked_request("GET", "/", headers=headers).clone(remote=peer)

    assert address_of(request, PROXIES) == expected


async def test_a_forwarded_address_reaches_who_knows_the_keys() -> None:
    async with open_front(trusted_proxies=(ip_network("127.0.0.0/8"),)) as front:
        await front.ask("GET", PATH, headers={"X-Forwarded-For": "1.2.3.4"})

    assert front.keys.addresses == ["1.2.3.4"]


async def test_a_forwarded_address_of_an_outsider_does_not(front: Front) -> None:
    await front.ask("GET", PATH, headers={"X-Forwarded-For": "1.2.3.4"})

    assert front.keys.addresses == ["127.0.0.1"]
