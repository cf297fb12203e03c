"""The console's webhooks and audit log in a browser."""

from typing import Final

import pytest
from playwright.async_api import expect

from tests.browser.conftest import Show
from tests.browser.console import enrolled, invite
from tests.journeys.service import Service

pytestmark = pytest.mark.asyncio(loop_scope="session")

SECRET: Final = "a secret nobody else may know, ever"  # noqa: S105 - of nobody


async def test_an_endpoint_is_registered_tried_changed_and_deleted(shown: Show, service: Service) -> None:
    one = await enrolled(
        shown,
        service,
        await invite(service, "hooks@acme.example", "DEVELOPER"),
        "/console/webhooks?livemode=false",
    )
    one.expected = ("422 (Unprocessable",)
    page, said = one.page, one.page.locator('[data-slot="said"]')
    await page.locator("[name=url]").fill("https://localhost/hooks")
    await page.locator("[name=secret]").fill(SECRET)
    await page.locator("[data-send] .main").click()
    await expect(page.locator('[data-slot="problem"]')).to_be_visible()
    wrong = await one.judge("console-webhooks-refused")
    await page.locator("[name=url]").fill("https://receiver.invalid/hooks")
    await page.locator("[data-send] .main").click()
    await expect(said).to_have_text("The endpoint is registered.")
    wrong += await one.judge("console-webhooks")
    await page.locator("[data-row] a").first.click()

    await page.locator('[data-send$="/test"] button').click()
    await expect(said).to_have_text("A ping is on its way.")
    await expect(page.locator("[data-row]")).to_have_count(1)
    await page.locator("[name=description]").fill("the first")
    await page.locator('[data-send^="PATCH"] .main').click()
    await expect(said).to_have_text("The endpoint is changed.")
    await expect(page.locator("[name=description]")).to_have_value("the first")
    await page.locator('[data-send$="/rotate-secret"] [name=secret]').fill(SECRET + "!")
    await page.locator('[data-send$="/rotate-secret"] button').click()
    await expect(said).to_have_text("The secret is rotated.")
    await page.locator("[name=from]").fill("2026-01-01T00:00")
    await page.locator("[name=to]").fill("2026-01-01T01:00")
    await page.locator('[data-send$="/replay"] button').click()
    await expect(page.locator('[data-send$="/replay"] [data-slot="problem"]')).to_be_visible()
    wrong += await one.judge("console-webhook")

    async with page.expect_navigation():
        await page.locator("[data-row] a").click()
    await expect(page.locator('[data-slot="body"]')).to_contain_text('"type":"ping"')
    wrong += await one.judge("console-delivery")
    await page.locator('[data-send$="/replay"] button').click()
    await expect(said).to_have_text("It is being delivered again.")
    await page.locator(".crumb a").click()
    await page.locator('[data-send^="DELETE"] [type=checkbox]').check()
    await page.locator('[data-send^="DELETE"] button').click()
    await expect(said).to_have_text("The endpoint is deleted.")
    await expect(page.locator("[data-row]")).to_have_count(0)
    assert wrong == []


async def test_the_audit_log_is_narrowed_saved_and_checked(shown: Show, service: Service) -> None:
    one = await enrolled(
        shown, service, await invite(service, "audit@acme.example", "AUDITOR"), "/console/audit"
    )
    page = one.page
    await page.locator("[name=action]").select_option("mfa.")
    await page.locator(".filters button").click()
    await expect(page.locator("[data-row] .mono").first).to_contain_text("mfa.")
    await page.locator("[data-row] summary").first.click()
    wrong = await one.judge("console-audit")
    async with page.expect_download() as download:
        await page.locator("a[download]").click()
    assert (await download.value).suggested_filename == "audit.csv"

    await page.locator('a[href*="/audit/chain"]').click()
    await expect(page.locator('[data-intact="true"]')).to_be_visible()
    wrong += await one.judge("console-audit-chain")
    assert wrong == []
