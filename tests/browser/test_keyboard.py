"""The console by keyboard alone: sign-in, a case concluded, a flow published; the mouse is never used."""

import re

import pytest
from playwright.async_api import Page, expect

from tests.browser.conftest import Show
from tests.browser.console import (
    DESK,
    QUEUE,
    enrol_by_keyboard,
    enter_by_keyboard,
    invite,
    open_cases,
    tab_to,
)
from tests.browser.shown import until_scripted
from tests.journeys.service import Service

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_signed_in_a_case_is_concluded_and_a_flow_published_by_keyboard_alone(
    shown: Show, service: Service
) -> None:
    (case,) = await open_cases(service, "by-keys")
    who = await invite(service, "keyboard@acme.example", role="OWNER", name="Ngozi Eze")
    watched = await shown(service.url + QUEUE, viewport=DESK)
    page, keys = watched.page, watched.page.keyboard
    await enter_by_keyboard(page, who)
    await enrol_by_keyboard(page)
    await tab_to(page, page.locator("[name=kept]"))
    await keys.press("Space")
    await tab_to(page, page.locator('[data-form="kept"] button:not([type=button])'))
    await keys.press("Enter")

    await expect(page.locator("h1")).to_have_text("Review queue")
    await until_scripted(page)
    await keys.press("/")
    await expect(page.locator(".find input")).to_be_focused()
    await keys.type(case)
    await keys.press("Enter")
    await expect(page.locator("#conclude")).to_be_visible()
    await until_scripted(page)
    await keys.press("t")
    await expect(page.locator(".title")).to_contain_text("Yours until")
    await keys.press("a")
    await keys.press("n")
    await expect(page.locator("#note")).to_be_focused()
    await keys.type("It is the same person.")
    await tab_to(page, page.locator(".end"))
    await keys.press("Enter")
    await expect(page.locator(".said")).to_contain_text("Concluded")
    await until_scripted(page)
    await publish_by_keyboard(page)


async def publish_by_keyboard(page: Page) -> None:
    """Go to the flows, make one of Nigerian passports, and publish it."""
    keys = page.keyboard
    await tab_to(page, page.locator('.rail a[href^="/console/flows"]'))
    await keys.press("Enter")
    await expect(page.locator("h1")).to_have_text("Verification flows")
    await tab_to(page, page.locator('main a[href^="/console/flows/new"]'))
    await keys.press("Enter")
    await expect(page.locator('[data-form="flow"]')).to_be_visible()
    await until_scripted(page)
    await tab_to(page, page.locator("[name=name]"))
    await keys.type("By keyboard")
    await tab_to(page, page.locator('[data-slot="country"]'))
    await keys.type("nigeria")
    await tab_to(page, page.locator('[data-country="NG"] summary'))
    await keys.press("Enter")
    await tab_to(page, page.locator("[value=NG_PASSPORT]"))
    await keys.press("Space")
    await tab_to(page, page.get_by_role("button", name="Create the draft"))
    await keys.press("Enter")
    await expect(page).to_have_url(re.compile(r"/console/flows/vf_\w+"))
    await expect(page.get_by_role("button", name="Publish")).to_be_visible()
    await until_scripted(page)
    await tab_to(page, page.get_by_role("button", name="Publish"))
    await keys.press("Enter")

    await expect(page.locator('[data-slot="said"]')).to_have_text("The flow was published.")
    await expect(page.locator(".titled .chip")).to_have_text("Active")
