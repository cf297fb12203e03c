"""Sign-in, the cookie and the sessions behind it, over a real socket (G49, S8-S18, S27)."""

import asyncio
import io
import re
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta

import pytest

from app.adapters.security.passwords import Argon2Passwords
from app.configuration.front import RateLimits, is_secure
from schemas.ids import PLATFORM
from schemas.people import Role
from schemas.problems import StoreUnavailable
from tests.builders import GLOBEX
from tests.http.reviewers import (
    CHANGE,
    CONFIRM,
    CURRENT,
    EMAIL,
    MFA,
    PASSWORD,
    RECOVERY,
    RESET,
    SESSIONS,
    TOTP,
    VERIFY,
    WRONG,
    Office,
    open_office,
)
from tests.http.support import BASE_URL, CHEAP, TEST, Response

GOOD = {"email": EMAIL, "password": PASSWORD}


@pytest.fixture
async def office(logged: io.StringIO) -> AsyncIterator[Office]:
    """A front with one member."""
    assert logged is not None
    async with open_office() as opened:
        await opened.add()
        yield opened


def same(one: Response, other: Response) -> bool:
    """Return whether two problems differ in nothing but the request's id."""
    first, second = dict(one.json), dict(other.json)
    first.pop("request_id")
    second.pop("request_id")
    return (one.status, first) == (other.status, second)


async def test_signing_in_answers_the_session(office: Office) -> None:
    member = await office.add("grace@acme.example", role=Role.ADMIN)

    response = await office.browser().sign_in("Grace@ACME.example ")

    assert response.status == 201
    assert re.fullmatch(r"rs_[0-9a-hjkmnp-tv-z]{26}", response.json["session_id"])
    assert response.json["reviewer"] == {
        "id": member.reviewer_id,
        "email": "grace@acme.example",
        "name": "Ada",
        "role": "ADMIN",
        "tenant_id": member.tenant_id,
    }
    assert response.json["mfa"] == {"enrolled": False, "satisfied": False}
    assert set(response.json) == {"session_id", "reviewer", "mfa", "idle_expires_at", "expires_at"}


async def test_s8_the_cookie_has_every_attribute_and_no_domain(office: Office) -> None:
    response = await office.browser().sign_in()
    value, *attributes = response.headers["Set-Cookie"].split("; ")

    assert sorted(attributes) == ["HttpOnly", "Path=/", "SameSite=Lax", "Secure"]
    assert value.startswith("service_session=")
    assert len(response.headers["Set-Cookie"]) < 4096


@pytest.mark.parametrize(
    ("base_url", "secure"),
    [
        ("https://id.example", True), ("http://id.example", True), ("http://192.0.2.1:8080", True),
        ("http://127.0.0.1:8080", False), ("http://localhost:8080", False), ("http://[::1]:8080", False),
        ("https://127.0.0.1", True), ("http://localhost.example", True),
    ],
)  # fmt: skip
def test_s8_the_cookie_is_secure_but_on_loopback_without_tls(base_url: str, *, secure: bool) -> None:
    assert is_secure(base_url) is secure


async def test_s9_the_cookie_is_in_no_body_no_log_and_no_store(office: Office, logged: io.StringIO) -> None:
    browser = office.browser()
    response = await browser.sign_in()
    secret = (browser.cookie or "").partition(".")[2]
    seen = await browser.ask("GET", CURRENT)

    assert len(secret) == 43
    assert all(secret not in text for text in (response.body.decode(), seen.body.decode(), logged.getvalue()))
    assert secret not in office.stored_text()


async def test_the_password_is_in_no_log_and_no_store(office: Office, logged: io.StringIO) -> None:
    await office.browser().sign_in()
    await office.browser().sign_in(password=WRONG)

    assert all(word not in logged.getvalue() for word in (PASSWORD, WRONG, EMAIL))
    assert PASSWORD not in office.stored_text()


async def test_s11_a_planted_cookie_is_never_adopted(office: Office) -> None:
    planted = "0" * 26 + "." + "A" * 43
    browser = office.browser(planted)

    response = await browser.sign_in()

    assert response.status == 201
    assert browser.cookie not in {None, planted}
    assert (await office.browser(planted).ask("GET", CURRENT)).status == 401


async def test_s12_before_the_factor_only_what_leads_to_it_is_open(office: Office) -> None:
    document = (await office.front.ask("GET", "/v1/openapi.json", None)).json
    routes = {
        (method.upper(), re.sub(r"{[a-z_]+}", "rs_" + "0" * 26, path))
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
        if path.startswith("/v1/control/") and {"reviewerSession": []} in operation["security"]
    }
    browser = await office.enter()
    opened = set()
    for method, path in sorted(routes - {("DELETE", CURRENT)}):
        response = await browser.ask(method, path, json={})
        if response.status != 404 and (response.status, response.code if response.status >= 400 else "") != (
            403,
            "MFA_REQUIRED",
        ):
            opened.add((method, path))

    assert opened == {("GET", CURRENT), ("GET", MFA), ("POST", VERIFY), ("POST", TOTP), ("POST", CONFIRM)}
    assert (await browser.ask("DELETE", CURRENT)).status == 204


async def test_s12_an_enrolled_factor_must_be_met_before_another_is_drawn(office: Office) -> None:
    await office.enter_fully()
    thief = await office.enter()

    response = await thief.ask("POST", TOTP)

    assert (response.status, response.code) == (403, "MFA_REQUIRED")


async def test_s13_an_idle_session_and_an_old_one_are_over(office: Office) -> None:
    idle = await office.enter()
    office.clock.wait(minutes=30)
    assert (await idle.ask("GET", CURRENT)).status == 401

    old = await office.enter()
    for _ in range(12 * 3):
        office.clock.wait(minutes=20)
        last = await old.ask("GET", CURRENT)
    assert last.status == 401


async def test_the_answer_says_when_the_session_ends(office: Office) -> None:
    response = await office.browser().sign_in()

    seen = office.clock()
    ends = [response.json[name] for name in ("idle_expires_at", "expires_at")]
    expected = [seen + timedelta(minutes=30), seen + timedelta(hours=12)]
    assert [end[:15] for end in ends] == [at.isoformat()[:15] for at in expected]


async def test_s14_sign_out_ends_the_session_at_once(office: Office) -> None:
    browser = await office.enter()
    cookie = browser.cookie

    response = await browser.ask("DELETE", CURRENT)

    assert (response.status, response.body) == (204, b"")
    assert "Max-Age=0" in response.headers["Set-Cookie"]
    assert response.headers["Clear-Site-Data"] == '"cache", "storage"'
    assert (await office.browser(cookie).ask("GET", CURRENT)).status == 401
    assert office.audited() == ["reviewer.signed_in", "reviewer.signed_out"]


async def test_s14_a_suspended_member_is_out_at_once(office: Office) -> None:
    member = await office.add("gone@acme.example")
    browser = await office.enter("gone@acme.example")

    await office.change(member, active=False)

    assert (await browser.ask("GET", CURRENT)).status == 401
    assert (await office.browser().sign_in("gone@acme.example")).code == "CREDENTIALS_INVALID"


async def test_s15_ones_own_sessions_are_listed_and_ended(office: Office) -> None:
    browser, device = await office.enter_fully()
    other = await office.enter()

    listed = (await browser.ask("GET", SESSIONS)).json
    rows = listed["sessions"]
    response = await browser.ask("DELETE", f"{SESSIONS}/{rows[0]['session_id']}")

    assert device.digits == 6
    assert [row["current"] for row in rows] == [False, True]
    assert [row["mfa"]["satisfied"] for row in rows] == [False, True]
    assert listed["next_cursor"] is None
    assert response.status == 204
    assert (await other.ask("GET", CURRENT)).status == 401
    assert (await browser.ask("GET", CURRENT)).status == 200


async def test_s15_an_admin_ends_a_colleagues_session(office: Office) -> None:
    await office.add("boss@acme.example", role=Role.ADMIN)
    boss, _ = await office.enter_fully("boss@acme.example")
    colleague = office.browser()
    session_id = (await colleague.sign_in()).json["session_id"]

    assert (await boss.ask("DELETE", f"{SESSIONS}/{session_id}")).status == 204
    assert (await colleague.ask("GET", CURRENT)).status == 401
    assert (await boss.ask("DELETE", f"{SESSIONS}/{session_id}")).status == 404


async def test_s15_without_the_permission_a_colleagues_session_stays(office: Office) -> None:
    await office.add("peer@acme.example")
    peer, _ = await office.enter_fully("peer@acme.example")
    colleague = office.browser()
    session_id = (await colleague.sign_in()).json["session_id"]

    response = await peer.ask("DELETE", f"{SESSIONS}/{session_id}")

    assert (response.status, response.code) == (403, "PERMISSION_DENIED")
    assert "MEMBERS_MANAGE" in response.json["detail"]
    assert (await colleague.ask("GET", CURRENT)).status == 200


async def test_s1_another_tenants_session_is_not_found(office: Office) -> None:
    await office.add("boss@globex.example", role=Role.OWNER, tenant_id=GLOBEX)
    boss, _ = await office.enter_fully("boss@globex.example")
    victim = office.browser()
    session_id = (await victim.sign_in()).json["session_id"]

    response = await boss.ask("DELETE", f"{SESSIONS}/{session_id}")

    assert (response.status, response.code) == (404, "NOT_FOUND")
    assert (await victim.ask("GET", CURRENT)).status == 200


FOREIGN_ORIGINS = [
    {"Origin": None}, {"Origin": "null"}, {"Origin": "https://evil.example"},
    {"Origin": BASE_URL + ".evil.example"},
    {"Origin": None, "Sec-Fetch-Site": "cross-site"}, {"Origin": None, "Sec-Fetch-Site": "same-site"},
    {"Origin": None, "Sec-Fetch-Site": "none"},
    {"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"},
]  # fmt: skip


@pytest.mark.parametrize("headers", FOREIGN_ORIGINS)
async def test_s16_a_write_another_site_may_have_caused_is_refused(
    office: Office, headers: dict[str, str | None]
) -> None:
    browser = await office.enter()

    response = await browser.ask("DELETE", CURRENT, headers=headers)

    assert (response.status, response.code) == (403, "ORIGIN_REFUSED")
    assert (await browser.ask("GET", CURRENT)).status == 200


async def test_s16_a_write_from_the_same_origin_passes(office: Office) -> None:
    browser = await office.enter()

    response = await browser.ask("DELETE", CURRENT, headers={"Origin": None, "Sec-Fetch-Site": "same-origin"})

    assert response.status == 204


@pytest.mark.parametrize("origin", ["https://evil.example", "null"])
async def test_s16_another_site_signs_nobody_in(office: Office, origin: str) -> None:
    response = await office.browser().sign_in(headers={"Origin": origin})

    assert (response.status, response.code) == (403, "ORIGIN_REFUSED")
    assert "Set-Cookie" not in response.headers


async def test_a_program_without_an_origin_signs_in(office: Office) -> None:
    assert (await office.browser().sign_in(headers={"Origin": None})).status == 201


@pytest.mark.parametrize("kind", ["application/x-www-form-urlencoded", "text/plain", "multipart/form-data"])
async def test_s16_only_json_signs_in(office: Office, kind: str) -> None:
    response = await office.browser().ask("POST", SESSIONS, data=b"email=a", headers={"Content-Type": kind})

    assert (response.status, response.code) == (415, "UNSUPPORTED_MEDIA_TYPE")


async def test_s16_the_method_cannot_be_overridden(office: Office) -> None:
    browser = await office.enter()

    await browser.ask("GET", CURRENT, headers={"X-HTTP-Method-Override": "DELETE"})

    assert (await browser.ask("GET", CURRENT)).status == 200


async def test_s17_reading_changes_nothing(office: Office) -> None:
    browser, _ = await office.enter_fully()
    before = office.stored_text()
    for path in (CURRENT, SESSIONS, MFA):
        for method in ("GET", "HEAD"):
            assert (await browser.ask(method, path)).status == 200

    assert re.sub(r"seen_at[^,]*", "", office.stored_text()) == re.sub(r"seen_at[^,]*", "", before)


@pytest.mark.parametrize("path", [SESSIONS, CURRENT, VERIFY, CHANGE, RESET])
async def test_s18_no_other_origin_may_read_an_answer(office: Office, path: str) -> None:
    asked = {"Origin": "https://evil.example", "Access-Control-Request-Method": "POST"}
    for method in ("OPTIONS", "POST", "GET"):
        response = await office.browser().ask(method, path, headers=asked)
        assert not [name for name in response.headers if name.lower().startswith("access-control-")]


async def test_s27_every_failure_is_the_same_answer(office: Office) -> None:
    await office.add("invited@acme.example", None)
    await office.change(await office.add("gone@acme.example"), active=False)
    browser = office.browser()

    responses = [
        await browser.sign_in(password=WRONG),
        await browser.sign_in("nobody@acme.example"),
        await browser.sign_in("gone@acme.example"),
        await browser.sign_in("invited@acme.example"),
        await browser.sign_in("not an address"),
        await browser.sign_in(password="x" * 1000),
    ]

    assert (responses[0].status, responses[0].code) == (401, "CREDENTIALS_INVALID")
    assert all(same(responses[0], one) for one in responses)
    assert all({*responses[0].headers} == {*one.headers} for one in responses)
    assert all("Set-Cookie" not in one.headers for one in responses)


async def test_a_failure_of_nobody_is_asked_to_the_platform(office: Office) -> None:
    await office.browser().sign_in("nobody@acme.example")
    await office.browser().sign_in(password=WRONG)

    assert office.audited(PLATFORM) == ["reviewer.sign_in_failed"]
    assert office.audited() == ["reviewer.sign_in_failed"]


@pytest.mark.parametrize(
    ("body", "pointers"),
    [
        ({}, {"/email", "/password"}), ({"email": EMAIL}, {"/password"}),
        (GOOD | {"role": "OWNER"}, {"/role"}),
        (GOOD | {"tenant_id": "x"}, {"/tenant_id"}), (GOOD | {"email": None}, {"/email"}),
        (GOOD | {"email": ["x"]}, {"/email"}), (GOOD | {"email": "x" * 255}, {"/email"}),
        (GOOD | {"password": 12}, {"/password"}), (GOOD | {"password": ""}, {"/password"}),
        (GOOD | {"password": "x" * 1025}, {"/password"}), ([], {""}), ("x", {""}),
    ],
)  # fmt: skip
async def test_a_body_of_another_form_is_refused_place_by_place(
    office: Office, body: object, pointers: set[str]
) -> None:
    response = await office.browser().ask("POST", SESSIONS, json=body)

    assert (response.status, response.code) == (422, "VALIDATION_FAILED")
    assert set(response.pointers) == pointers
    assert office.audited() == []


@pytest.mark.parametrize(
    "raw",
    [b"", b"{", b'{"email":"a","email":"b","password":"c"}', b'{"email":"\\ud800","password":"c"}', b"\xff"],
)
async def test_what_is_no_json_is_refused(office: Office, raw: bytes) -> None:
    response = await office.browser().ask(
        "POST", SESSIONS, data=raw, headers={"Content-Type": "application/json"}
    )

    assert (response.status, response.code) == (400, "MALFORMED_JSON")


async def test_a_repeated_key_answers_the_first_session_without_its_cookie(office: Office) -> None:
    browser, again = office.browser(), office.browser()
    first = await browser.sign_in(headers={"Idempotency-Key": "k"})
    second = await again.sign_in(headers={"Idempotency-Key": "k"})

    assert (first.status, second.status) == (201, 200)
    assert first.json == second.json
    assert second.headers["Idempotent-Replayed"] == "true"
    assert again.cookie is None


async def test_a_key_never_opens_a_session_without_the_password(office: Office) -> None:
    await office.browser().sign_in(headers={"Idempotency-Key": "k"})

    response = await office.browser().sign_in(password=WRONG, headers={"Idempotency-Key": "k"})

    assert (response.status, response.code) == (401, "CREDENTIALS_INVALID")


async def test_a_sixth_session_ends_the_oldest(office: Office) -> None:
    browsers = [await office.enter() for _ in range(6)]

    assert [(await browser.ask("GET", CURRENT)).status for browser in browsers] == [401, *[200] * 5]


async def test_ten_attempts_from_an_address_are_looked_at() -> None:
    async with open_office(rate_limits=RateLimits()) as office:
        await office.add()
        responses = [await office.browser().sign_in(f"{number}@x.example") for number in range(10)]

        full = await office.browser().sign_in()

        assert {one.status for one in responses} == {401}
        assert (full.status, full.code) == (429, "RATE_LIMITED")
        assert 880 <= int(full.headers["Retry-After"]) <= 900
        office.clock.wait(minutes=15)
        assert (await office.browser().sign_in()).status == 201


async def test_a_set_limit_counts() -> None:
    async with open_office(rate_limits=RateLimits(sign_in=2)) as office:
        await office.add()
        statuses = [(await office.browser().sign_in()).status for _ in range(3)]

        assert statuses == [201, 201, 429]


async def test_a_key_is_no_reviewer(office: Office) -> None:
    for method, path in (("GET", SESSIONS), ("GET", CURRENT), ("POST", VERIFY), ("POST", CHANGE)):
        response = await office.front.ask(method, path, TEST)
        assert (response.status, response.code) == (403, "API_KEY_NOT_ALLOWED")


async def test_over_the_bound_of_the_pool_it_is_503_overloaded() -> None:
    costly = Argon2Passwords(replace(CHEAP, memory_cost=32_768, time_cost=6), workers=1, waiting=0)
    async with open_office(costly) as office:
        await office.add()
        responses = await asyncio.gather(*(office.browser().sign_in() for _ in range(4)))

        statuses = sorted(one.status for one in responses)
        assert statuses[0] == 201
        assert statuses[-1] == 503
        busy = next(one for one in responses if one.status == 503)
        assert (busy.code, busy.headers["Retry-After"]) == ("OVERLOADED", "1")


async def test_a_store_that_is_away_is_503(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    async def away(*_: object) -> None:
        raise StoreUnavailable

    monkeypatch.setattr(office.front.stores.records, "get", away)

    response = await office.browser().sign_in()

    assert (response.status, response.code) == (503, "STORE_UNAVAILABLE")


async def test_s28_there_is_no_member_at_first() -> None:
    async with open_office() as office:
        guesses = [("admin", "admin"), ("admin@localhost", "password"), ("root", "root"), ("", "")]
        for email, password in guesses:
            response = await office.browser().sign_in(email or "x", password or "x")
            assert response.status == 401
        assert "reviewer" not in {str(kind) for _, kind, _ in office.front.shelves.records}


async def test_recovery_codes_and_changes_want_the_factor(office: Office) -> None:
    browser = await office.enter()
    for method, path in (("POST", RECOVERY), ("DELETE", TOTP), ("POST", CHANGE), ("GET", SESSIONS)):
        response = await browser.ask(method, path, json={})
        assert (response.status, response.code) == (403, "MFA_REQUIRED")
