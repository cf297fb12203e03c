"""Guessing and its limits: device cookies keep an owner in, refused credentials are counted by address."""

import io
import json
import re
from collections.abc import AsyncIterator
from typing import Any, Final

import pyotp
import pytest

from app.configuration.front import RateLimits
from app.http.rate_limits import WINDOW_S
from app.http.rejections import Rejections
from streams.ports.records import RecordKind
from streams.sign_in import attempt_limits
from streams.sign_in.attempt_limits import Counts, SignInLimits, TooManyAttempts, take
from streams.sign_in.cookies import DEVICE_LIFETIME
from tests.http.conftest import logged  # noqa: F401 - a fixture
from tests.http.reviewers import CHANGE, EMAIL, PASSWORD, RESET, SESSIONS, WRONG, Browser, Office, open_office
from tests.http.support import BASE_URL, PATH, REVOKED, TEST, Response, open_front

_DEVICE: Final = re.compile(r"service_device=([^;]*)")


@pytest.fixture
async def office() -> AsyncIterator[Office]:
    """A served front whose limits are the usual ones."""
    async with open_office(rate_limits=RateLimits()) as opened:
        yield opened


def device_of(response: Response) -> str | None:
    """The device cookie that an answer sets."""
    for header in response.headers.getall("Set-Cookie", []):  # type: ignore[attr-defined]
        found = _DEVICE.match(header)
        if found is not None:
            return found[1]
    return None


async def owner_device(office: Office, email: str = EMAIL) -> tuple[str, Browser, pyotp.TOTP]:
    """The device cookie of a full sign-in, the browser and its authenticator."""
    browser, authenticator = await office.enter_fully(email)
    response = await browser.verify(authenticator)
    device = device_of(response)
    assert device is not None
    return device, browser, authenticator


async def sign_in(office: Office, password: str, device: str | None = None, email: str = EMAIL) -> Response:
    """Sign in, with a device cookie or without."""
    headers = {"Origin": BASE_URL} | ({} if device is None else {"Cookie": f"service_device={device}"})
    body = {"email": email, "password": password}
    return await office.front.ask("POST", SESSIONS, None, json=body, headers=headers)


async def lock_out(office: Office, device: str | None = None) -> None:
    """Guess until the account takes no more."""
    results = [await sign_in(office, WRONG, device) for _ in range(11)]
    assert [one.status for one in results][-1] == 429


async def test_s22_wrong_passwords_lock_no_owner_out_who_has_a_device_cookie(
    office: Office,
) -> None:
    await office.add()
    device, _, _ = await owner_device(office)
    office.clock.wait(minutes=20)
    await lock_out(office)

    owner = await sign_in(office, PASSWORD, device)
    others = await sign_in(office, PASSWORD)

    assert (owner.status, others.status) == (201, 429)


async def test_a_device_cookie_comes_with_both_factors_only_and_is_sent_to_sign_in_alone(
    office: Office,
) -> None:
    await office.add()
    first = await office.browser().sign_in()
    browser = await office.enter()
    begun = await browser.ask("POST", "/v1/control/mfa/totp")
    authenticator = pyotp.TOTP(begun.json["secret"])
    code = {"code": office.code(authenticator)}
    confirmed = await browser.ask("POST", "/v1/control/mfa/totp/confirm", json=code)

    assert device_of(first) is None
    (given,) = [one for one in confirmed.headers.getall("Set-Cookie") if "service_device" in one]  # type: ignore[attr-defined]
    assert given.partition("; ")[2] == (
        f"Max-Age={int(DEVICE_LIFETIME.total_seconds())}; Path={SESSIONS}; HttpOnly; SameSite=Strict; Secure"
    )


async def test_a_device_that_fails_too_often_is_exempt_no_more(office: Office) -> None:
    await office.add()
    device, _, _ = await owner_device(office)
    office.clock.wait(minutes=20)

    guesses = [(await sign_in(office, WRONG, device)).status for _ in range(25)]

    assert guesses.count(401) == 20  # ten of the device, then ten as anybody's
    assert guesses[-1] == 429


@pytest.mark.parametrize("change", ["another", "altered", "old", "password"])
async def test_a_device_cookie_is_good_for_its_owner_alone_and_until_a_new_password(
    office: Office, change: str
) -> None:
    await office.add()
    device, browser, _ = await owner_device(office)
    if change == "another":
        await office.add("eve@acme.example")
        office.clock.wait(minutes=20)
        device, _, _ = await owner_device(office, "eve@acme.example")
    if change == "altered":
        device = device[:-1] + ("0" if device[-1] != "0" else "1")
    if change == "password":
        body = {"current_password": PASSWORD, "new_password": "seven otters cross the bridge"}
        assert (await browser.ask("POST", CHANGE, json=body)).status == 204
    office.clock.wait(days=200 if change == "old" else 1)
    await lock_out(office)

    password = "seven otters cross the bridge" if change == "password" else PASSWORD
    assert (await sign_in(office, password, device)).status == 429


async def test_who_changes_the_password_stays_known_on_that_device(office: Office) -> None:
    await office.add()
    _, browser, _ = await owner_device(office)
    body = {"current_password": PASSWORD, "new_password": "seven otters cross the bridge"}
    device = device_of(await browser.ask("POST", CHANGE, json=body))
    await lock_out(office)

    assert (await sign_in(office, "seven otters cross the bridge", device)).status == 201


async def test_a_device_cookie_opens_nothing_by_itself(office: Office) -> None:
    await office.add()
    device, _, _ = await owner_device(office)

    cookie = {"Cookie": f"service_device={device}"}
    response = await office.front.ask("GET", f"{SESSIONS}/current", None, headers=cookie)

    assert response.status == 401
    assert (await sign_in(office, WRONG, device)).code == "CREDENTIALS_INVALID"


async def test_attempts_of_anybody_leave_a_bounded_number_of_records(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempt_limits, "_BUCKET_DIGITS", 1)
    monkeypatch.setattr(attempt_limits, "MOST_IN_A_BUCKET", 3)
    people, limit = office.front.ports.people, SignInLimits().by_address()
    for number in range(200):
        await take(people, limit, f"192.0.2.{number}")

    stored = [one for (_, kind, _), one in office.front.shelves.records.items() if kind is RecordKind.COUNTER]
    sizes = [len(Counts.from_bytes(one.body).attempts) for one in stored]
    assert (len(stored), max(sizes)) == (16, 3)
    office.clock.wait(minutes=20)
    await take(people, limit, "192.0.2.1")
    assert (
        min(
            len(Counts.from_bytes(one.body).attempts)
            for one in office.front.shelves.records.values()
            if one.kind is RecordKind.COUNTER
        )
        == 1
    )


async def test_counters_of_one_record_count_apart(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempt_limits, "_BUCKET_DIGITS", 0)
    people, limit = office.front.ports.people, SignInLimits(2).by_address()

    for whose in ("a", "b", "a", "b"):
        await take(people, limit, whose)

    for whose in ("a", "b"):
        with pytest.raises(TooManyAttempts):
            await take(people, limit, whose)
    await take(people, limit, "c")


def lines(logged: io.StringIO, event: str) -> list[dict[str, Any]]:  # noqa: F811 - the fixture's value
    """The lines of an event."""
    found = [json.loads(line) for line in logged.getvalue().splitlines()]
    return [line for line in found if line["event"] == event]


async def test_refused_credentials_of_an_address_are_429_over_the_limit_and_good_ones_pass() -> None:
    async with open_front(rate_limits=RateLimits(rejected=3)) as front:
        refused = [await front.ask("GET", PATH, REVOKED) for _ in range(4)]
        cookie = await front.ask("GET", PATH, None, headers={"Cookie": "service_session=nonsense"})
        good = await front.ask("GET", PATH, TEST)

    assert [one.status for one in refused] == [401, 401, 401, 429]
    assert refused[3].code == "RATE_LIMITED"
    assert 1 <= int(refused[3].headers["Retry-After"]) <= WINDOW_S
    assert (cookie.status, good.status) == (429, 200)


async def test_refused_credentials_are_logged_by_address_and_never_themselves(
    logged: io.StringIO,  # noqa: F811 - the fixture
) -> None:
    async with open_front(rate_limits=RateLimits(rejected=3)) as front:
        for _ in range(6):
            await front.ask("GET", PATH, "idv_test_CANARY")

    (rejected,) = lines(logged, "auth.rejected")
    (throttled,) = lines(logged, "auth.throttled")
    assert (rejected["address"], rejected["count"]) == ("127.0.0.1", 1)
    assert (throttled["address"], throttled["limit"]) == ("127.0.0.1", 3)
    assert "CANARY" not in logged.getvalue()


async def test_wrong_tokens_are_counted_and_logged_too(logged: io.StringIO) -> None:  # noqa: F811
    body = {"token": "idt_" + "a" * 43, "new_password": "seven otters cross the bridge"}
    async with open_front(rate_limits=RateLimits(rejected=3)) as front:
        responses = [await front.ask("POST", RESET, None, json=body) for _ in range(4)]

    assert [one.status for one in responses] == [401, 401, 401, 429]
    assert [line["count"] for line in lines(logged, "auth.rejected")] == [1]


async def test_the_rest_of_a_minute_is_logged_in_one_line(logged: io.StringIO) -> None:  # noqa: F811
    rejections = Rejections()
    for second in range(50):
        rejections.count("192.0.2.1", 100, float(second))
    rejections.count("192.0.2.2", 100, WINDOW_S + 1.0)

    assert [(line["address"], line["count"]) for line in lines(logged, "auth.rejected")] == [
        ("192.0.2.1", 1),
        ("192.0.2.1", 49),
        ("192.0.2.2", 1),
    ]


def test_the_addresses_of_an_ipv6_network_count_as_one_and_memory_is_bounded() -> None:
    rejections = Rejections(max_addresses=100)
    counted = [rejections.count(f"2001:db8::{n:x}", 2, 1.0) for n in range(1, 4)]
    for n in range(5_000):
        rejections.count(f"198.51.{n // 250}.{n % 250}", 2, 2.0)

    assert counted == [None, None, 60]
    assert len(rejections._minutes) == 100


async def test_a_trusted_proxys_callers_are_counted_apart() -> None:
    from ipaddress import ip_network  # noqa: PLC0415

    proxies = (ip_network("127.0.0.0/8"),)
    async with open_front(rate_limits=RateLimits(rejected=1), trusted_proxies=proxies) as front:
        responses = [
            await front.ask("GET", PATH, REVOKED, headers={"X-Forwarded-For": f"192.0.2.{n}"})
            for n in (1, 2, 1)
        ]

    assert [one.status for one in responses] == [401, 401, 429]
