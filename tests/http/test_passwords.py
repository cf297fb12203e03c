"""Passwords changed and reset over a real socket (G50, G87, S14, S26)."""

import io
from collections.abc import AsyncIterator

import pytest

from schemas.people import TokenPurpose
from tests.http.reviewers import CHANGE, CURRENT, EMAIL, PASSWORD, RESET, SESSIONS, WRONG, Office, open_office

NEW = "seven brass kettles"


@pytest.fixture
async def office(logged: io.StringIO) -> AsyncIterator[Office]:
    """A front with one member."""
    assert logged is not None
    async with open_office() as opened:
        await opened.add()
        yield opened


def changed(current: str = PASSWORD, new: str = NEW) -> dict[str, str]:
    """The body of a change."""
    return {"current_password": current, "new_password": new}


async def test_s14_a_changed_password_leaves_one_session_with_another_cookie(office: Office) -> None:
    browser, device = await office.enter_fully()
    other, before = await office.enter(), browser.cookie

    response = await browser.ask("POST", CHANGE, json=changed())

    assert (response.status, response.body) == (204, b"")
    assert browser.cookie != before
    assert (await browser.ask("GET", SESSIONS)).status == 200
    assert (await other.ask("GET", CURRENT)).status == 401
    assert (await office.browser().sign_in()).status == 401
    fresh = office.browser()
    assert (await fresh.sign_in(password=NEW)).status == 201
    assert (await fresh.verify(device)).status == 200


async def test_a_wrong_old_password_changes_nothing(office: Office) -> None:
    browser, _ = await office.enter_fully()

    response = await browser.ask("POST", CHANGE, json=changed(WRONG))

    assert (response.status, response.code) == (401, "CREDENTIALS_INVALID")
    assert (await office.browser().sign_in()).status == 201


@pytest.mark.parametrize(
    "new",
    ["eleven chrs", "x" * 129, "password1234", "1Q2W3E4R5T6Y", "my ada@acme.example", "veristream rocks!"],
)
async def test_s26_a_new_password_must_be_allowed(office: Office, new: str) -> None:
    browser, _ = await office.enter_fully()

    response = await browser.ask("POST", CHANGE, json=changed(new=new))

    assert (response.status, response.code) == (422, "VALIDATION_FAILED")
    assert set(response.pointers) == {"/new_password"}
    assert (await office.browser().sign_in()).status == 201


async def test_s26_a_password_of_128_characters_counts_whole(office: Office) -> None:
    browser, _ = await office.enter_fully()
    longest = ("zwölf Boxkämpfer jagen Viktor " * 5)[:128]

    assert (await browser.ask("POST", CHANGE, json=changed(new=longest))).status == 204
    assert (await office.browser().sign_in(password=longest[:127])).status == 401
    assert (await office.browser().sign_in(password=longest)).status == 201


@pytest.mark.parametrize(
    ("body", "pointers"),
    [
        ({}, {"/current_password", "/new_password"}), (changed() | {"x": 1}, {"/x"}),
        (changed(new="x" * 1025), {"/new_password"}),
        ({"current_password": 1, "new_password": NEW}, {"/current_password"}),
    ],
)  # fmt: skip
async def test_a_change_of_another_form_is_refused(office: Office, body: object, pointers: set[str]) -> None:
    browser, _ = await office.enter_fully()

    response = await browser.ask("POST", CHANGE, json=body)

    assert (response.status, set(response.pointers)) == (422, pointers)


async def test_an_invitation_sets_the_first_password_and_the_factor_is_next(office: Office) -> None:
    member = await office.add("new@acme.example", None)
    token = await office.issue(member, TokenPurpose.INVITATION)

    response = await office.browser().ask("POST", RESET, json={"token": token, "new_password": NEW})

    browser = office.browser()
    assert (response.status, response.body) == (204, b"")
    assert "Set-Cookie" not in response.headers
    assert (await browser.sign_in("new@acme.example", NEW)).status == 201
    assert (await browser.ask("GET", SESSIONS)).code == "MFA_REQUIRED"


async def test_a_token_is_good_once(office: Office) -> None:
    token = await office.issue(await office.add("new@acme.example"))
    body = {"token": token, "new_password": NEW}
    responses = [await office.browser().ask("POST", RESET, json=body) for _ in range(2)]

    assert [one.status for one in responses] == [204, 401]
    assert responses[1].code == "CREDENTIALS_INVALID"


async def test_a_reset_ends_every_session_and_bypasses_no_factor(office: Office) -> None:
    member = await office.add("new@acme.example")
    browser, device = await office.enter_fully("new@acme.example")

    await office.browser().ask("POST", RESET, json={"token": await office.issue(member), "new_password": NEW})

    fresh = office.browser()
    assert (await browser.ask("GET", CURRENT)).status == 401
    assert (await fresh.sign_in("new@acme.example", NEW)).json["mfa"] == {
        "enrolled": True,
        "satisfied": False,
    }
    assert (await fresh.ask("GET", SESSIONS)).code == "MFA_REQUIRED"
    assert (await fresh.verify(device)).status == 200


@pytest.mark.parametrize("token", ["x", "idt_" + "A" * 43, "idt_" + "A" * 190, "../../etc/passwd"])
async def test_a_token_that_is_none_is_refused(office: Office, token: str) -> None:
    response = await office.browser().ask("POST", RESET, json={"token": token, "new_password": NEW})

    assert (response.status, response.code) == (401, "CREDENTIALS_INVALID")


async def test_a_refused_password_leaves_the_token_good(office: Office) -> None:
    token = await office.issue(await office.add("new@acme.example"))
    refused = await office.browser().ask("POST", RESET, json={"token": token, "new_password": "password1234"})

    assert (refused.status, set(refused.pointers)) == (422, {"/new_password"})
    response = await office.browser().ask("POST", RESET, json={"token": token, "new_password": NEW})
    assert response.status == 204


async def test_an_expired_token_is_refused(office: Office) -> None:
    token = await office.issue(await office.add("new@acme.example"))
    office.clock.wait(hours=1)

    response = await office.browser().ask("POST", RESET, json={"token": token, "new_password": NEW})

    assert (response.status, response.code) == (401, "CREDENTIALS_INVALID")


async def test_another_site_resets_nothing(office: Office) -> None:
    token = await office.issue(await office.add("new@acme.example"))
    body = {"token": token, "new_password": NEW}

    response = await office.browser().ask(
        "POST", RESET, json=body, headers={"Origin": "https://evil.example"}
    )

    assert (response.status, response.code) == (403, "ORIGIN_REFUSED")


async def test_no_password_and_no_token_is_in_a_log_or_the_store(office: Office, logged: io.StringIO) -> None:
    token = await office.issue(await office.add("new@acme.example"))
    await office.browser().ask("POST", RESET, json={"token": token, "new_password": NEW})
    browser, _ = await office.enter_fully(EMAIL)
    await browser.ask("POST", CHANGE, json=changed(new="eleven copper pans"))

    everywhere = logged.getvalue() + office.stored_text()
    assert all(secret not in everywhere for secret in (token, NEW, PASSWORD, "eleven copper pans"))
