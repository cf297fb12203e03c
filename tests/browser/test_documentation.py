"""The documentation in a browser: found by searching, tried with a test key, readable for everybody."""

import json

import pytest
from playwright.async_api import expect

from app.web.documentation.pages import DRAWN, address_of, names
from tests.browser.adapted import judge_adapted
from tests.browser.conftest import Show
from tests.journeys.service import Service

pytestmark = pytest.mark.asyncio(loop_scope="session")

FAMILY = "/docs/reference/wallets"
KINDS = ("/docs/concepts", "/docs/reasons", FAMILY)


@pytest.mark.parametrize("address", KINDS)
async def test_a_kind_of_page_has_no_violation_and_fits(shown: Show, service: Service, address: str) -> None:
    page = await shown(service.url + address)

    assert await page.judge(address.removeprefix("/").replace("/", "-")) == []


async def test_no_page_has_a_violation_or_scrolls_sideways(shown: Show, service: Service) -> None:
    page = await shown(f"{service.url}/docs", viewport={"width": 320, "height": 568})
    wrong, addresses = {}, {*map(address_of, (*names(), *DRAWN)), "/problems/rate-limited"}
    for address in sorted(addresses - set(KINDS)):  # those are judged above, at this width too
        await page.page.goto(service.url + address)
        wide = ["scrolls sideways"] if await page.scrolls_sideways() else []
        wrong[address] = await page.violations() + wide
    await page.picture("problem-code")

    assert {address: found for address, found in wrong.items() if found} == {}


async def test_a_section_is_found_by_keyboard_with_one_request(shown: Show, service: Service) -> None:
    page = await shown(f"{service.url}/docs")
    field = page.page.get_by_role("searchbox", name="Search the documentation")
    await expect(field).to_be_enabled()
    assert await judge_adapted(page, "docs") == []

    await page.page.keyboard.press("/")
    await page.page.keyboard.type("restore activate")
    await expect(page.page.locator('[data-slot="count"]')).to_contain_text("found")
    assert await page.violations() == []
    await page.page.keyboard.press("Enter")

    await expect(page.page).to_have_url(f"{service.url}/docs/operations#restore-and-activate")
    fetched = [one.url for one in page.requests if "docs-index" in one.url]
    assert len(fetched) == 1

    await field.fill("<img src=x onerror=alert(1)>")
    await expect(page.page.locator('[data-slot="count"]')).to_contain_text("Nothing is found for “<img")


async def test_an_operation_is_tried_with_a_test_key_and_only_with_one(shown: Show, service: Service) -> None:
    page = await shown(f"{service.url}/docs/reference/wallets")
    tried = page.page.locator('.try:has(form[data-method="POST"][data-path="/v1/wallet-assessments"])')
    status, key = tried.locator('[data-slot="status"]'), page.page.get_by_label("Test key")
    await tried.locator("summary").click()

    await key.fill(service.test_key.replace("idv_test_", "idv_live_"))
    await tried.get_by_role("button").click()
    await expect(status).to_contain_text("Only test keys")
    assert [one for one in page.requests if one.method == "POST"] == []

    await key.fill(service.test_key)
    await tried.locator("textarea").fill('{"address": "0x52908400098527886E0F7030069857D2E4169EE7"}')
    await tried.get_by_role("button").click()
    await expect(status).to_contain_text("request req_")
    answered = json.loads(await tried.locator('[data-slot="answer"]').inner_text())

    assert answered["address"] == "0x52908400098527886E0F7030069857D2E4169EE7", answered
    assert await page.page.evaluate("localStorage.length + sessionStorage.length") == 0
    assert await page.violations() == []


async def test_without_scripts_the_pages_can_be_read(shown: Show, service: Service) -> None:
    page = await shown(f"{service.url}/docs/reference/wallets", java_script_enabled=False)

    await expect(page.page.get_by_role("heading", level=1)).to_have_text("Wallets")
    await expect(page.page.locator(".try").first).to_be_hidden()
    await expect(page.page.get_by_role("navigation", name="Pages")).to_be_visible()
