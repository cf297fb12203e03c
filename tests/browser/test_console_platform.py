"""The operator's page in a browser: the token, the tenants, the catalogue."""

from typing import Any, Final

import pytest
from playwright.async_api import expect

from tests.browser.conftest import Show
from tests.browser.console import DESK
from tests.browser.shown import until_scripted
from tests.journeys.service import OPERATOR_TOKEN, Service

pytestmark = pytest.mark.asyncio(loop_scope="session")

CANARY: Final = '<img src=x onerror="document.title=1">'
ENTRY: Final = {
    "code": "GH_PASSPORT_OLD", "country": "GH", "country_name": "Ghana", "display_name": CANARY,
}  # fmt: skip
OPERATOR: Final = {"Authorization": f"Bearer {OPERATOR_TOKEN}"}


async def read(service: Service, path: str) -> Any:
    """What a route of the operator answers."""
    async with service.client.get(f"{service.url}/v1/platform/{path}", headers=OPERATOR) as answer:
        assert answer.status == 200
        return await answer.json()


async def test_the_operator_makes_a_tenant_and_changes_the_catalogue(shown: Show, service: Service) -> None:
    watched = await shown(f"{service.url}/console/platform", viewport=DESK)
    watched.expected = ("401 (Unauthorized)",)
    page, keys = watched.page, watched.page.keyboard
    await until_scripted(page)
    await keys.type("not the token")
    await keys.press("Enter")
    await expect(page.locator('[data-form="token"] [role=alert]')).to_have_text("The token is not right.")
    wrong = await watched.judge("console-platform-token")
    await page.locator("[name=token]").fill(OPERATOR_TOKEN)
    await keys.press("Enter")
    await expect(page.locator("h1")).to_be_focused()
    await expect(page.locator('[data-slot="tenants"]')).to_contain_text("Acme")

    await page.get_by_role("button", name="New tenant").click()
    await page.locator("dialog[open] [name=name]").fill(CANARY)
    await keys.press("Enter")
    await expect(page.locator('[data-slot="said"]')).to_contain_text("was created")
    made = page.locator('[data-slot="tenants"] tr').first
    await expect(made).to_contain_text(CANARY)
    await made.get_by_role("button", name="Invite an owner").click()
    await page.locator("dialog[open] [name=name]").fill("Ngozi Eze")
    await page.locator("dialog[open] [name=email]").fill("ngozi@shop.example")
    await keys.press("Enter")
    await expect(page.locator('[data-slot="secret"]')).to_contain_text("/console/reset#")
    await page.locator('dialog[data-slot="once"] form button').click()
    await expect(page.locator('[data-slot="said"]')).to_have_text("The owner is invited.")

    await page.get_by_role("button", name="New entry").click()
    for name, value in ENTRY.items():
        await page.locator(f"dialog[open] [name={name}]").fill(value)
    await page.locator("dialog[open] [name=extraction_support]").select_option("MANUAL")
    await page.locator("dialog[open] .main").click()
    await expect(page.locator('[data-slot="said"]')).to_contain_text("is saved")
    wrong += await watched.judge("console-platform")
    await page.locator('[data-slot="narrow"]').fill(ENTRY["code"].lower())
    entry = page.locator('[data-slot="entries"] tr')
    await expect(entry).to_have_count(1)
    await entry.get_by_role("button", name="Disable").click()
    await expect(entry).to_contain_text("Disabled")
    await entry.get_by_role("button", name="Enable").click()
    await expect(entry).to_contain_text("Enabled")
    await entry.get_by_role("button", name="Change").click()
    wrong += await watched.judge("console-platform-entry")
    await page.locator("dialog[open] [name=country_name]").fill("Republic of Ghana")
    await keys.press("Enter")
    await expect(entry).to_contain_text("Republic of Ghana")

    listed = {one["code"]: one for one in (await read(service, "catalog"))["capabilities"]}
    found = listed[ENTRY["code"]]
    assert (found["country_name"], found["revision"]) == ("Republic of Ghana", 4)
    assert (found["enabled"], found["extraction_support"]) == (True, "MANUAL")
    assert CANARY in {one["name"] for one in (await read(service, "tenants"))["tenants"]}
    assert await page.evaluate("JSON.stringify([...Object.entries(sessionStorage)])") == "[]"
    assert wrong == []
