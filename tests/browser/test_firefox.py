"""The capture page in Firefox, with the camera that it makes up."""

import asyncio
from collections.abc import AsyncIterator
from typing import Final

import pytest
import pytest_asyncio
from playwright.async_api import async_playwright, expect

from tests.browser.conftest import Open
from tests.browser.fixtures import FIREFOX
from tests.browser.shown import WAIT_MS, Shown
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


@pytest_asyncio.fixture(loop_scope="session")
async def firefox(service: Service) -> AsyncIterator[Shown]:
    """A watched page in the system's Firefox."""
    async with async_playwright() as playwright:
        browser = await playwright.firefox.launch(
            executable_path=FIREFOX.find(), channel=OVER_BIDI, firefox_user_prefs=PREFERENCES, timeout=WAIT_MS
        )
        try:
            context = await browser.new_context(
                viewport={"width": 360, "height": 640}, reduced_motion="reduce"
            )
            context.set_default_timeout(WAIT_MS)
            one = Shown(await context.new_page(), context, service.url)
            one.watch()
            yield one
        finally:
            await browser.close()
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
