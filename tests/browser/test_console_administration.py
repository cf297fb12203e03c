"""The console's pages of keys, members, settings and account in a browser."""

from collections.abc import AsyncIterator
from typing import Any, Final

import pytest
import pytest_asyncio
from playwright.async_api import Page, expect

from tests.browser.conftest import Show
from tests.browser.console import Invited, enrol_by_keyboard, enter_by_keyboard
from tests.browser.shown import Shown
from tests.journeys.people import COOKIE, Person, sign_in
from tests.journeys.service import Service, veristream_json

pytestmark = pytest.mark.asyncio(loop_scope="session")

CANARY: Final = '<img src=x onerror="document.title=1">'
DESK: Final = {"width": 1280, "height": 800}
PASSWORD: Final = "nine green umbrellas"  # noqa: S105 - a test's own
ANOTHER: Final = "seven otters cross the quiet bridge"


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def owner(service: Service) -> AsyncIterator[Person]:
    """A signed-in owner."""

    async def command(*words: str) -> Any:
        return await veristream_json(service.data_dir, *words)

    yield await sign_in(service.client, service.url, command, service.tenant_id, "OWNER")


@pytest.fixture
def opened(shown: Show, service: Service, owner: Person) -> Show:
    """Open a page of the console as the owner."""
    host = service.url.partition("//")[2].partition(":")[0]
    cookie = {
        "name": COOKIE, "value": owner.cookie, "domain": host, "path": "/",
        "expires": -1, "httpOnly": True, "secure": False, "sameSite": "Lax",
    }  # fmt: skip

    async def open_at(path: str) -> Shown:
        state = {"cookies": [cookie], "origins": []}
        return await shown(service.url + path, viewport=DESK, storage_state=state)

    return open_at


async def secret_of(page: Page) -> str:
    """What is shown this once; then it is stored, and the list is there again."""
    dialog = page.locator('dialog[data-slot="once"]')
    await expect(dialog).to_be_visible()
    await page.keyboard.press("Escape")
    await expect(dialog).to_be_visible()
    secret = await dialog.locator('[data-slot="secret"]').inner_text()
    async with page.expect_navigation():
        await dialog.locator("form button").click()
    return secret


async def test_a_key_is_made_rotated_and_revoked_and_shown_once(opened: Show, service: Service) -> None:
    shown = await opened("/console/api-keys?livemode=false")
    shown.expected = ("422 (Unprocessable",)
    page = shown.page
    wrong = await shown.judge("console-keys-page")
    form = page.locator('form[data-send^="POST"]').first
    await form.locator("[name=name]").fill(CANARY)
    await form.locator("[name=allowed_cidrs]").fill("127.0.0.1/8")
    await page.keyboard.press("Tab")
    await form.locator("button").click()
    await expect(form.locator('[data-slot="problem"]')).to_contain_text("network")
    await expect(form.locator("[name=allowed_cidrs]")).to_be_focused()
    await form.locator("[name=allowed_cidrs]").fill("127.0.0.0/8")
    await form.locator("button").click()
    await expect(page.locator('dialog[data-slot="once"]')).to_be_visible()
    wrong += await shown.judge("console-key-once")
    secret = await secret_of(page)

    await expect(page.locator('[data-slot="said"]')).to_have_text("The key is made.")
    entry = page.locator("[data-key]", has_text=CANARY)
    assert secret not in await page.content()
    assert await works(service, secret)
    await entry.locator('[data-opens="rotate"]').click()
    wrong += await shown.judge("console-key-rotate")
    await page.locator('dialog[data-name="rotate"] button:not([type=button])').click()
    rotated = await secret_of(page)
    assert (await works(service, secret), await works(service, rotated)) == (False, True)
    await entry.locator('[data-opens="revoke"]').click()
    await page.keyboard.press("Escape")
    await expect(entry.locator('[data-opens="revoke"]')).to_be_focused()
    await page.keyboard.press("Enter")
    async with page.expect_navigation():
        await page.locator('dialog[data-name="revoke"] button:not([type=button])').click()
    await expect(entry).to_contain_text("Revoked")
    assert not await works(service, rotated)
    assert wrong == []


async def works(service: Service, key: str) -> bool:
    """Whether a key is let in."""
    headers = {"Authorization": f"Bearer {key}"}
    async with service.client.get(f"{service.url}/v1/verifications", headers=headers) as answer:
        return answer.status == 200


async def test_an_invited_member_sets_a_password_changes_it_and_draws_new_codes(
    opened: Show, shown: Show, service: Service
) -> None:
    managing = await opened("/console/members")
    page = managing.page
    form = page.locator('form[data-send^="POST"]').first
    await form.locator("[name=name]").fill(CANARY)
    await form.locator("[name=email]").fill("invited@acme.example")
    await form.locator("button").click()
    link = await secret_of(page)
    entry = page.locator("[data-member]", has_text="invited@acme.example")
    wrong = await managing.judge("console-members")

    member = await shown(link, viewport=DESK)
    await expect(member.page).to_have_url(f"{service.url}/console/reset")  # the script has begun
    await member.page.locator("[name=new_password]").fill(PASSWORD)
    await member.page.keyboard.press("Enter")
    await member.page.locator('[data-slot="done"] a').click()
    await enter_by_keyboard(member.page, Invited("invited@acme.example", PASSWORD))
    await enrol_by_keyboard(member.page)
    await member.page.locator("[name=kept]").check()
    await member.page.keyboard.press("Enter")
    await member.page.wait_for_url("**/console/review-cases")
    await member.page.goto(f"{service.url}/console/account")
    await change_password(member)
    wrong += await member.judge("console-account-password")
    await member.page.locator('form[data-once="recovery_codes"] button').click()
    codes = (await secret_of(member.page)).split()
    assert len(codes) == 10

    await page.reload()
    await entry.locator('[data-opens="change_role"]').click()
    await page.locator('dialog[data-name="change_role"] select').select_option("AUDITOR")
    wrong += await managing.judge("console-member-role")
    async with page.expect_navigation():
        await page.locator('dialog[data-name="change_role"] button:not([type=button])').click()
    await expect(entry).to_contain_text("auditor")
    await entry.locator('[data-opens="reset_factor"]').click()
    async with page.expect_navigation():
        await page.locator('dialog[data-name="reset_factor"] button:not([type=button])').click()
    await expect(entry).to_contain_text("must confirm it before")
    await entry.locator('[data-opens="suspend"]').click()
    async with page.expect_navigation():
        await page.locator('dialog[data-name="suspend"] button:not([type=button])').click()
    await expect(entry).to_contain_text("Suspended")
    await member.page.reload()
    await expect(member.page.locator("[name=email]")).to_be_visible()
    assert wrong == []


async def change_password(member: Shown) -> None:
    """Change the password, first with a wrong one."""
    member.expected = ("401 (Unauthorized)",)
    form = member.page.locator('form[data-send="POST /v1/control/password"]')
    await form.locator("[name=current_password]").fill("not the password")
    await form.locator("[name=new_password]").fill(ANOTHER)
    await form.locator("button").click()
    await expect(form.locator('[data-slot="problem"]')).to_have_text("The current password is not right.")
    await form.locator("[name=current_password]").fill(PASSWORD)
    async with member.page.expect_navigation():
        await form.locator("button").click()
    await expect(member.page.locator('[data-slot="said"]')).to_contain_text("password is changed")


async def test_settings_send_what_was_changed_and_say_when_somebody_was_first(
    opened: Show, owner: Person
) -> None:
    shown = await opened("/console/settings")
    shown.expected = ("412 (Precondition", "422 (Unprocessable")
    page, save = shown.page, shown.page.locator("form[data-changes] button")
    wrong = await shown.judge("console-settings")
    await page.locator('[name="verification_policy.minimum_age"]').fill("18")
    await page.locator('[name="retention.legal_hold"]').fill("customer-1\nno such subject!")
    await save.click()
    await expect(page.locator('[name="retention.legal_hold"]')).to_be_focused()
    await page.locator('[name="retention.legal_hold"]').fill("customer-1\n")
    async with page.expect_request("**/v1/control/settings") as sent:
        await save.click()
    body = {"verification_policy": {"minimum_age": 18}, "retention": {"legal_hold": ["customer-1"]}}
    assert (await sent.value).post_data_json == body
    await expect(page.locator('[data-slot="said"]')).to_have_text("The settings are saved.")

    await owner.ask("PATCH", "/v1/control/settings", json={"retention": {"legal_hold": []}})
    await page.locator('[name="verification_policy.minimum_age"]').fill("")
    await save.click()
    await expect(page.locator('[data-slot="problem"]')).to_be_visible()
    assert await page.locator('[name="verification_policy.minimum_age"]').input_value() == ""
    wrong += await shown.judge("console-settings-stale")
    _, left = await owner.ask("GET", "/v1/control/settings")
    assert left["verification_policy"]["minimum_age"] == 18
    await owner.ask("PATCH", "/v1/control/settings", json={"verification_policy": {"minimum_age": None}})
    assert wrong == []
