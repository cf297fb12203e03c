"""The capture page and a case in Firefox, with the camera that it makes up."""

import asyncio
from collections.abc import AsyncIterator
from typing import Final

import pytest
import pytest_asyncio
from playwright.async_api import Browser, async_playwright, expect

from tests.browser.conftest import Open
from tests.browser.fixtures import FIREFOX
from tests.browser.office import Office
from tests.browser.shown import WAIT_MS, Shown, until_scripted
from tests.journeys.service import Service

pytestmark = pytest.mark.asyncio(loop_scope="session")

OVER_BIDI: Final = "moz-firefox"
"""The channel by which Playwright drives a Firefox that is not its own build."""

SHOOT: Final = """(() => {
  document.querySelector("[data-action=shoot]").click();
  return document.querySelector("[data-screen=check]:not([hidden])") !== null;
})()"""
"""Takes the picture, unless that has happened by itself; true once it is shown."""

PREFERENCES: Final[dict[str, str | float | bool]] = {
    "media.navigator.streams.fake": True,
    "media.navigator.permission.disabled": True,
}


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def running_firefox() -> AsyncIterator[Browser]:
    """The system's Firefox."""
    async with async_playwright() as playwright:
        browser = await playwright.firefox.launch(
            executable_path=FIREFOX.find(), channel=OVER_BIDI, firefox_user_prefs=PREFERENCES, timeout=WAIT_MS
        )
        try:
            yield browser
        finally:
            await browser.close()


@pytest_asyncio.fixture(loop_scope="session")
async def firefox(service: Service, running_firefox: Browser) -> AsyncIterator[Shown]:
    """A watched page in Firefox."""
    context = await running_firefox.new_context(
        viewport={"width": 360, "height": 640}, reduced_motion="reduce"
    )
    try:
        context.set_default_timeout(WAIT_MS)
        one = Shown(await context.new_page(), context, service.url)
        one.watch()
        yield one
    finally:
        await context.close()
    assert one.faults == []


async def test_firefox_consents_takes_a_picture_and_sends_it(firefox: Shown, open_session: Open) -> None:
    await firefox.page.goto((await open_session("sim:approved@firefox", "DOCUMENT"))["url"])
    await firefox.on_screen("consent")
    wrong = await firefox.violations()
    await firefox.press("agree")
    await expect(
        firefox.page.locator(":is([data-screen=camera], [data-screen=check]):visible")
    ).to_have_count(1)
    wrong += await firefox.violations()
    async with asyncio.timeout(WAIT_MS / 1000):
        while True:
            if await firefox.page.evaluate(SHOOT):
                break
            await asyncio.sleep(0.2)
    await expect(firefox.page.locator('[data-action="use"]:visible')).to_be_visible()
    wrong += await firefox.violations()
    await firefox.press("use")
    await firefox.on_screen("number")

    sent = [one.url for one in firefox.requests if one.method == "PUT"]
    assert (sent, wrong) == ([f"{firefox.origin}/v1/capture/document"], [])


async def test_firefox_shows_a_case_and_concludes_it(firefox: Shown, office: Office) -> None:
    made = await office.verify("sim:review:FACE_MATCH_UNCERTAIN@firefox-case")
    await firefox.context.add_cookies(office.seen_by("REVIEWER")["storage_state"]["cookies"])
    await firefox.page.set_viewport_size({"width": 1280, "height": 900})
    await firefox.page.goto(office.page_of(made))
    await expect(firefox.page.locator("#document img")).to_be_visible()
    await until_scripted(firefox.page)
    wrong = await firefox.violations()
    await firefox.page.keyboard.press("a")
    await expect(firefox.page.locator(".end")).to_contain_text("Approve")
    await firefox.page.locator("#note").fill("It is the same person.")
    wrong += await firefox.violations()
    await firefox.page.keyboard.press("Control+Enter")

    await expect(firefox.page.locator(".said")).to_contain_text("Concluded")
    assert wrong == []
