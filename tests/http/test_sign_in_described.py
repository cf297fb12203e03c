"""What sign-in, second factor and passwords answer is what the description says."""

import io
from collections.abc import AsyncIterator

import pyotp
import pytest

from app.http.bodies import BodyBudget
from app.http.server import endpoints_of
from schemas.people import Role
from tests.http.reviewers import (
    CHANGE,
    CONFIRM,
    CURRENT,
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
from tests.http.support import Json
from tests.http.test_description import assert_described


@pytest.fixture
async def office(logged: io.StringIO) -> AsyncIterator[Office]:
    """A front with one member."""
    assert logged is not None
    async with open_office() as opened:
        await opened.add()
        yield opened


@pytest.fixture
async def document(office: Office) -> Json:
    """The description as served."""
    found: Json = (await office.front.ask("GET", "/v1/openapi.json", None)).json
    return found


async def test_answers_of_sign_in_are_as_described(office: Office, document: Json) -> None:
    browser = office.browser()
    first = await browser.sign_in(headers={"Idempotency-Key": "k"})
    again = await office.browser().sign_in(headers={"Idempotency-Key": "k"})
    current = await browser.ask("GET", CURRENT)
    failed = await office.browser().sign_in(password=WRONG)

    assert [one.status for one in (first, again, current, failed)] == [201, 200, 200, 401]
    for one in (first, again, failed):
        assert_described(document, "POST", SESSIONS, one)
    assert_described(document, "GET", CURRENT, current)


async def test_answers_about_the_factor_are_as_described(office: Office, document: Json) -> None:
    browser = await office.enter()
    bare = await browser.ask("GET", MFA)
    begun = await browser.ask("POST", TOTP, headers={"Idempotency-Key": "k"})
    repeated = await browser.ask("POST", TOTP, headers={"Idempotency-Key": "k"})
    device = pyotp.TOTP(begun.json["secret"])
    confirmed = await browser.ask("POST", CONFIRM, json={"code": office.code(device)})
    office.clock.wait(seconds=30)
    verified = await browser.verify(device)
    wrong = await browser.verify(device)
    codes = await browser.ask("POST", RECOVERY)
    standing = await browser.ask("GET", MFA)
    listed = await browser.ask("GET", SESSIONS)

    assert [one.status for one in (begun, repeated, confirmed, verified, wrong)] == [
        201,
        200,
        200,
        200,
        401,
    ]
    for method, path, one in (
        ("GET", MFA, bare), ("POST", TOTP, begun), ("POST", TOTP, repeated), ("POST", CONFIRM, confirmed),
        ("POST", VERIFY, verified), ("POST", VERIFY, wrong), ("POST", RECOVERY, codes),
        ("GET", MFA, standing), ("GET", SESSIONS, listed),
    ):  # fmt: skip
        assert_described(document, method, path, one)


async def test_refusals_about_passwords_are_as_described(office: Office, document: Json) -> None:
    browser, _ = await office.enter_fully()
    wrong = await browser.ask(
        "POST", CHANGE, json={"current_password": WRONG, "new_password": "seven brass kettles"}
    )
    common = await browser.ask(
        "POST", CHANGE, json={"current_password": PASSWORD, "new_password": "password1234"}
    )
    token = await browser.ask("POST", RESET, json={"token": "x", "new_password": "seven brass kettles"})

    for path, one in ((CHANGE, wrong), (CHANGE, common), (RESET, token)):
        assert_described(document, "POST", path, one)


async def test_every_write_of_the_family_names_what_it_audits(office: Office) -> None:
    endpoints = endpoints_of(office.front.ports, office.front.settings, BodyBudget(1))
    family = [e for e in endpoints if e.path.startswith((SESSIONS, MFA, CHANGE)) and e.method != "GET"]

    assert len(family) == 10
    assert [e.path for e in family if not e.audits] == [TOTP]  # `confirm` writes the row


async def test_s7_another_role_counts_on_the_next_request(office: Office) -> None:
    member = await office.add("dev@acme.example", role=Role.OWNER)
    browser, _ = await office.enter_fully("dev@acme.example")
    before = await browser.ask("GET", "/v1/verifications")

    await office.change(member, role=Role.DEVELOPER)
    after = await browser.ask("GET", "/v1/verifications")

    assert (before.status, after.status, after.code) == (200, 403, "PERMISSION_DENIED")


@pytest.mark.parametrize("path", [CURRENT, SESSIONS, MFA])
async def test_no_answer_shows_a_hash_or_a_seed(office: Office, path: str) -> None:
    browser, _ = await office.enter_fully()

    response = (await browser.ask("GET", path)).body.decode()

    assert not [
        word for word in ("hash", "argon2", "sealed", "lookup", "token", "secret") if word in response
    ]
