"""The second factor over a real socket (interface section 4.3, G28, G29, G95, S10, S19-S25)."""

import asyncio
import io
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Final
from xml.etree import ElementTree as ET

import pyotp
import pytest

from app.configuration.front import RateLimits
from tests.http.reviewers import (
    CONFIRM,
    CURRENT,
    MFA,
    RECOVERY,
    SESSIONS,
    TOTP,
    VERIFY,
    WRONG,
    Browser,
    Office,
    open_office,
)
from tests.http.support import Response

CHANGES_OF_THE_FACTOR: Final = (("POST", RECOVERY), ("DELETE", TOTP), ("POST", TOTP))


@pytest.fixture
async def office(logged: io.StringIO) -> AsyncIterator[Office]:
    """A front with one member."""
    assert logged is not None
    async with open_office() as opened:
        await opened.add()
        yield opened


def wrong_code(office: Office, device: pyotp.TOTP) -> str:
    """Six digits that are no code of these minutes."""
    good = {device.at(office.clock() + timedelta(seconds=30 * number)) for number in range(-3, 34)}
    return next(text for text in ("000000", "111111", "222222", "333333", "444444") if text not in good)


async def guess(office: Office, browser: Browser, text: str, times: int) -> list[Response]:
    """Post a wrong code so many times, each pause waited for."""
    collected = []
    for _ in range(times):
        collected.append(await browser.ask("POST", VERIFY, json={"code": text}))
        office.clock.wait(seconds=8)
    return collected


async def recovery_code(browser: Browser) -> str:
    """A new recovery code of a browser whose factor is fresh."""
    return str((await browser.ask("POST", RECOVERY)).json["recovery_codes"][0])


async def test_enrolment_shows_the_secret_once(office: Office) -> None:
    browser = await office.enter()

    response = await browser.ask("POST", TOTP)

    read = pyotp.parse_uri(response.json["otpauth_uri"])
    assert response.status == 201
    assert read.secret == response.json["secret"]
    assert ET.fromstring(response.json["qr_svg"]).tag.endswith("svg")  # noqa: S314 - drawn by ourselves


async def test_s24_the_secret_is_shown_nowhere_else(office: Office, logged: io.StringIO) -> None:
    browser = await office.enter()
    secret = (await browser.ask("POST", TOTP)).json["secret"]
    device = pyotp.TOTP(secret)
    seen = [await browser.ask("POST", CONFIRM, json={"code": office.code(device)})]
    seen += [await browser.ask("GET", path) for path in (MFA, CURRENT, SESSIONS)]

    assert [one.status for one in seen] == [200] * 4
    assert all(secret not in one.body.decode() for one in seen)
    assert secret not in logged.getvalue() + office.stored_text()


async def test_g82_a_repeated_key_answers_null(office: Office) -> None:
    browser = await office.enter()
    first = await browser.ask("POST", TOTP, headers={"Idempotency-Key": "k"})
    again = await browser.ask("POST", TOTP, headers={"Idempotency-Key": "k"})

    assert (first.status, again.status) == (201, 200)
    assert again.json == {"otpauth_uri": None, "secret": None, "qr_svg": None}
    assert again.headers["Idempotent-Replayed"] == "true"


async def test_confirming_meets_the_factor_and_shows_ten_recovery_codes(office: Office) -> None:
    browser = await office.enter()
    device = pyotp.TOTP((await browser.ask("POST", TOTP)).json["secret"])
    before = browser.cookie

    response = await browser.ask("POST", CONFIRM, json={"code": office.code(device)})

    assert response.status == 200
    assert len(set(response.json["recovery_codes"])) == 10
    assert response.json["session"]["mfa"] == {"enrolled": True, "satisfied": True}
    assert browser.cookie != before
    assert (await browser.ask("GET", SESSIONS)).status == 200
    assert office.audited() == ["reviewer.signed_in", "mfa.enrolled"]


async def test_the_standing_tells_what_there_is(office: Office) -> None:
    browser = await office.enter()
    bare = (await browser.ask("GET", MFA)).json
    await browser.ask("POST", TOTP)
    pending = (await browser.ask("GET", MFA)).json
    await browser.enrol()
    enrolled = (await browser.ask("GET", MFA)).json

    assert bare == {"enrolled": False, "satisfied": False, "pending": False, "recovery_codes_remaining": 0}
    assert pending == bare | {"pending": True}
    assert enrolled.pop("confirmed_at").endswith("Z")
    assert enrolled == {
        "enrolled": True, "satisfied": True, "pending": False, "method": "TOTP",
        "recovery_codes_remaining": 10,
    }  # fmt: skip


async def test_verifying_answers_as_the_interface_says(office: Office) -> None:
    _, device = await office.enter_fully()
    browser = await office.enter()

    response = await browser.verify(device)

    assert response.status == 200
    assert set(response.json) == {"session", "method", "recovery_codes_remaining"}
    assert (response.json["method"], response.json["recovery_codes_remaining"]) == ("TOTP", 10)
    assert response.json["session"]["mfa"] == {"enrolled": True, "satisfied": True}


async def test_s10_the_cookie_changes_at_the_factor_and_the_old_one_is_dead(office: Office) -> None:
    _, device = await office.enter_fully()
    browser = await office.enter()
    first, session = browser.cookie, (await browser.ask("GET", CURRENT)).json["session_id"]

    response = await browser.verify(device)

    assert browser.cookie != first
    assert response.json["session"]["session_id"] == session
    assert (await browser.ask("GET", SESSIONS)).status == 200
    assert (await office.browser(first).ask("GET", CURRENT)).status == 401


async def test_s19_a_totp_code_is_accepted_once(office: Office) -> None:
    _, device = await office.enter_fully()
    code = office.code(device)
    one, other = await office.enter(), await office.enter()

    assert (await one.ask("POST", VERIFY, json={"code": code})).status == 200
    response = await other.ask("POST", VERIFY, json={"code": code})

    assert (response.status, response.code) == (401, "MFA_CODE_INVALID")
    assert (await other.ask("GET", SESSIONS)).status == 403


async def test_s19_of_twenty_posts_of_one_code_at_once_one_is_accepted(office: Office) -> None:
    _, device = await office.enter_fully()
    browsers = [await office.enter() for _ in range(4)]
    code = office.code(device)

    responses = await asyncio.gather(
        *(browsers[number % 4].ask("POST", VERIFY, json={"code": code}) for number in range(20))
    )

    assert [one.status for one in responses].count(200) == 1
    assert {one.status for one in responses} <= {200, 401, 429}


async def test_s21_the_sixth_failure_is_429_until_the_window_has_passed(office: Office) -> None:
    _, device = await office.enter_fully()
    browser, text = await office.enter(), wrong_code(office, device)
    result = await guess(office, browser, text, 5)

    full = await browser.verify(device)

    assert {(one.status, one.code) for one in result} == {(401, "MFA_CODE_INVALID")}
    assert (full.status, full.code) == (429, "RATE_LIMITED")
    assert 840 <= int(full.headers["Retry-After"]) <= 860
    assert office.audited().count("mfa.failed") == 6
    office.clock.wait(minutes=15)
    assert (await browser.verify(device)).status == 200


async def test_s21_the_limit_stands_when_rate_limits_are_off(office: Office) -> None:
    assert office.front.settings.rate_limits is None
    _, device = await office.enter_fully()
    browser, text = await office.enter(), wrong_code(office, device)

    statuses = [one.status for one in await guess(office, browser, text, 7)]

    assert statuses == [401] * 5 + [429] * 2


async def test_s21_after_a_failure_the_next_code_waits_for_its_second(office: Office) -> None:
    _, device = await office.enter_fully()
    browser, text = await office.enter(), wrong_code(office, device)
    await browser.ask("POST", VERIFY, json={"code": text})

    early = await browser.verify(device)
    office.clock.wait(seconds=1)

    assert (early.status, early.code, early.headers["Retry-After"]) == (429, "RATE_LIMITED", "1")
    assert (await browser.verify(device)).status == 200


async def test_s22_who_lacks_the_password_locks_nobody_out_of_the_factor() -> None:
    async with open_office(rate_limits=RateLimits(sign_in=1000)) as office:
        await office.add()
        _, device = await office.enter_fully()
        for _ in range(12):
            assert (await office.browser().sign_in(password=WRONG)).status == 401

        assert (await (await office.enter()).verify(device)).status == 200


async def test_s23_a_recovery_code_meets_the_factor_once_and_ends_other_sessions(office: Office) -> None:
    first, _ = await office.enter_fully()
    code = await recovery_code(first)
    browser = await office.enter()

    response = await browser.ask("POST", VERIFY, json={"recovery_code": code})
    again = await browser.ask("POST", VERIFY, json={"recovery_code": code})

    assert (response.status, response.json["method"], response.json["recovery_codes_remaining"]) == (
        200,
        "RECOVERY_CODE",
        9,
    )
    assert (again.status, again.code) == (401, "MFA_CODE_INVALID")
    assert (await first.ask("GET", CURRENT)).status == 401


async def test_s23_recovery_codes_are_kept_hashed(office: Office, logged: io.StringIO) -> None:
    browser, _ = await office.enter_fully()
    code = await recovery_code(browser)

    everywhere = office.stored_text() + logged.getvalue()
    assert code not in everywhere
    assert code.replace("-", "") not in everywhere


@pytest.mark.parametrize(
    ("body", "pointers"),
    [
        ({}, {""}), ({"code": "123456", "recovery_code": "x"}, {""}),
        ({"code": None, "recovery_code": None}, {""}),
        ({"code": "12345"}, {"/code"}), ({"code": "1234567"}, {"/code"}), ({"code": "12345a"}, {"/code"}),
        ({"code": "123456\n"}, {"/code"}), ({"code": "١٢٣٤٥٦"}, {"/code"}), ({"code": 123456}, {"/code"}),
        ({"recovery_code": ""}, {"/recovery_code"}), ({"recovery_code": "x" * 65}, {"/recovery_code"}),
        ({"code": "123456", "x": 1}, {"/x"}), ([], {""}),
    ],
)  # fmt: skip
async def test_a_verification_of_another_form_is_refused(
    office: Office, body: object, pointers: set[str]
) -> None:
    browser = await office.enter()
    before = office.stored_text()

    response = await browser.ask("POST", VERIFY, json=body)

    assert (response.status, response.code) == (422, "VALIDATION_FAILED")
    assert set(response.pointers) == pointers
    assert office.stored_text() == before


async def test_confirming_nothing_is_not_found(office: Office) -> None:
    response = await (await office.enter()).ask("POST", CONFIRM, json={"code": "123456"})

    assert (response.status, response.code) == (404, "NOT_FOUND")


async def test_s25_what_changes_the_factor_wants_password_and_factor_anew(office: Office) -> None:
    old, device = await office.enter_fully()
    office.clock.wait(minutes=10)
    assert (await old.verify(device)).status == 200
    for method, path in CHANGES_OF_THE_FACTOR:
        response = await old.ask(method, path)
        assert (response.status, response.code) == (401, "UNAUTHENTICATED")

    new = await office.enter()
    for method, path in CHANGES_OF_THE_FACTOR:
        response = await new.ask(method, path)
        assert (response.status, response.code) == (403, "MFA_REQUIRED")

    office.clock.wait(seconds=30)
    assert (await new.verify(device)).status == 200
    assert (await new.ask("POST", RECOVERY)).status == 200


async def test_s25_the_first_factor_wants_the_password_given_within_ten_minutes(office: Office) -> None:
    browser = await office.enter()
    office.clock.wait(minutes=10)

    response = await browser.ask("POST", TOTP)

    assert (response.status, response.code) == (401, "UNAUTHENTICATED")
    assert (await (await office.enter()).ask("POST", TOTP)).status == 201


async def test_s25_a_first_factor_begun_in_time_may_be_confirmed_later(office: Office) -> None:
    browser = await office.enter()
    device = pyotp.TOTP((await browser.ask("POST", TOTP)).json["secret"])
    office.clock.wait(minutes=14)

    assert (await browser.ask("POST", CONFIRM, json={"code": office.code(device)})).status == 200


async def test_removing_the_factor_asks_for_a_new_one(office: Office) -> None:
    browser, device = await office.enter_fully()

    response = await browser.ask("DELETE", TOTP)

    assert (response.status, response.body) == (204, b"")
    assert (await browser.ask("GET", SESSIONS)).code == "MFA_REQUIRED"
    assert (await browser.verify(device)).code == "MFA_CODE_INVALID"
    assert office.audited()[-2] == "mfa.reset"
    office.clock.wait(seconds=1)
    assert (await browser.enrol()).secret != device.secret


async def test_another_site_meets_nothing(office: Office) -> None:
    _, device = await office.enter_fully()
    browser = await office.enter()

    response = await browser.ask(
        "POST", VERIFY, json={"code": office.code(device)}, headers={"Origin": "https://evil.example"}
    )

    assert (response.status, response.code) == (403, "ORIGIN_REFUSED")
