"""What the capture page weighs, what its policy forbids, its languages, and what it says without scripts."""

import asyncio
from typing import Any

import pytest
from playwright.async_api import Error, Route, expect

from app.web.site import CODES, languages
from streams.sessions.notices import LOCALE as NOTICE_LOCALE
from tests.browser.conftest import Open, Show
from tests.browser.test_capture_journeys import document
from tests.journeys.service import Service

pytestmark = pytest.mark.asyncio(loop_scope="session")

FIRST_VIEW_BYTES = 45_000
FIRST_VIEW_REQUESTS = 8


async def test_the_first_view_is_small(shown: Show, open_session: Open) -> None:
    opened = await open_session("sim:approved@bytes")
    page = await shown("about:blank")

    requests, size = await page.weigh(opened["url"])
    await page.on_screen("consent")

    assert requests <= FIRST_VIEW_REQUESTS
    assert size <= FIRST_VIEW_BYTES


async def test_the_policy_holds(shown: Show, open_session: Open) -> None:
    page = await shown((await open_session("sim:approved@policy"))["url"])
    page.expected = ("Content Security Policy", "TrustedHTML")
    await page.on_screen("consent")

    with pytest.raises(Error, match="TrustedHTML"):
        await page.page.evaluate("document.body.innerHTML = '<p>'")
    script = "document.body.append(Object.assign(document.createElement('img'), {src: 'http://127.0.0.2/x'}))"
    async with page.page.expect_event("console", lambda message: "Content Security" in message.text):
        await page.page.evaluate(script)
    page.faults.remove("foreign request: 127.0.0.2")  # asked for, and blocked


@pytest.mark.parametrize("code", CODES)
async def test_a_language_fits_and_is_said_to_be_it(shown: Show, open_session: Open, code: str) -> None:
    opened = await open_session(f"sim:approved@{code}", "DOCUMENT", locale=code)
    page = await shown(opened["url"], allowed=False, viewport={"width": 320, "height": 568})
    texts, wide = languages()[code].texts, []

    async def check() -> None:
        if await page.scrolls_sideways():
            wide.append(await page.page.title())

    await page.on_screen("consent")
    await expect(page.page.locator('[data-screen="consent"] h1')).to_have_text(texts["consent.title"])
    await expect(page.page.locator('[data-slot="notice"]')).to_have_attribute("lang", NOTICE_LOCALE)
    assert await page.page.locator(".foreign").is_visible() == (code != NOTICE_LOCALE)
    await page.picture(f"consent-{code}")
    await check()
    await page.press("agree")
    await page.on_screen("blocked")
    await check()
    await page.upload(document())
    await page.press("use")
    await check()
    await page.page.locator("#last4").fill("02C3")
    await page.page.keyboard.press("Enter")
    await expect(page.page.locator('[data-slot="result-title"]')).to_have_text(texts["result.verified"])
    await check()

    shown_as: dict[str, Any] = await page.page.evaluate(
        "({lang: document.documentElement.lang, dir: document.documentElement.dir})"
    )
    assert shown_as == {"lang": code, "dir": languages()[code].dir}
    assert wide == []


async def test_the_language_can_be_changed_on_the_page(shown: Show, open_session: Open) -> None:
    page = await shown((await open_session("sim:approved@choice"))["url"], locale="de-DE")
    headline = page.page.locator('[data-screen="consent"] h1')
    await expect(headline).to_have_text(languages()["de"].texts["consent.title"])

    await page.page.locator("#language").select_option("fr")
    await expect(headline).to_have_text(languages()["fr"].texts["consent.title"])
    await page.page.reload()

    await expect(headline).to_have_text(languages()["fr"].texts["consent.title"])
    await expect(page.page.locator('[data-slot="notice"]')).to_have_attribute("lang", "en")
    await expect(page.page.locator(".foreign")).to_be_visible()


async def test_without_scripts_the_page_says_what_it_needs(shown: Show, service: Service) -> None:
    page = await shown(f"{service.url}/verify#x", java_script_enabled=False)

    await expect(page.page.locator("noscript p")).to_contain_text("This page needs JavaScript")


async def test_a_browser_too_old_for_the_scripts_is_said_to_be(shown: Show, service: Service) -> None:
    page = await shown("about:blank")

    async def unreadable(route: Route) -> None:
        await route.fulfill(content_type="text/javascript", body="class Old { #words of the future }")

    await page.page.route("**/assets/capture.*.js", unreadable)
    await page.page.goto(f"{service.url}/verify#x")

    await expect(page.page.locator(".late")).to_be_visible()
    assert [fault.split(":")[0] for fault in page.faults] == ["script"]
    page.faults.clear()


async def test_screens_that_pass_by_have_no_violation_either(shown: Show, open_session: Open) -> None:
    page = await shown("about:blank", allowed=False)
    goes_on = asyncio.Event()

    async def hold(route: Route) -> None:
        await goes_on.wait()
        await route.continue_()

    await page.page.clock.install()
    await page.page.route("**/v1/capture", hold)
    await page.page.goto((await open_session("sim:approved@passing", "DOCUMENT"))["url"])
    await page.on_screen("start")
    wrong = await page.judge("start", widths=(320,))
    goes_on.set()
    await page.on_screen("consent")
    await page.press("agree")
    await page.on_screen("blocked")
    await page.upload(document())
    await expect(page.page.locator('[data-action="use"]:visible')).to_be_visible()
    await page.page.clock.fast_forward(11 * 60_000)
    await page.on_screen("idle")
    wrong += await page.judge("idle", widths=(320,))
    await page.press("retry")
    await page.on_screen("number")
    goes_on.clear()
    await page.page.route("**/v1/capture/submit", hold)
    await page.page.locator("#last4").fill("02C3")
    await page.page.keyboard.press("Enter")
    await page.on_screen("waiting")
    wrong += await page.judge("waiting", widths=(320,))
    goes_on.set()
    await page.on_screen("result")
    assert wrong == []


async def test_a_problem_is_a_page_for_people(shown: Show, service: Service) -> None:
    page = await shown("about:blank")
    page.expected = ("404",)
    await page.page.goto(f"{service.url}/nowhere")

    await expect(page.page.locator("h1")).to_have_text("Not found")
    assert await page.judge("problem", widths=(320,)) == []
