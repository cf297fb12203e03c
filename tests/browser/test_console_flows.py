"""A flow made, published, changed, copied and archived at the console, and a session looked at."""

import re
from typing import Final

import pytest
from playwright.async_api import expect

from tests.browser.conftest import Open, Show
from tests.browser.console import DESK, enrolled, invite
from tests.browser.shown import until_scripted
from tests.journeys.service import Service

pytestmark = pytest.mark.asyncio(loop_scope="session")

CANARY: Final = '<img src=x onerror="document.title=1">'


async def test_a_flow_is_made_published_changed_copied_and_archived(shown: Show, service: Service) -> None:
    who = await invite(service, "flows@acme.example", role="ADMIN")
    watched = await enrolled(shown, service, who, at="/console/flows/new")
    watched.expected = ("422 (Unprocessable",)
    page = watched.page
    problem, said = page.locator('[data-slot="problem"]'), page.locator('[data-slot="said"]')
    await page.locator("[name=name]").fill(CANARY)
    await page.locator("[name=return_url]").fill("http://shop.example/done")
    await page.locator('[data-slot="country"]').fill("nigeria")
    await page.locator('[data-country="NG"] summary').click()
    await page.locator("[value=NG_NIN_SLIP]").check()
    wrong = await watched.judge("console-flow-new")
    await page.set_viewport_size(DESK)
    await page.get_by_role("button", name="Create the draft").click()
    await expect(problem).to_contain_text("https")
    await expect(page.locator("[name=return_url]")).to_be_focused()
    await page.locator("[name=return_url]").fill("https://shop.example/done")
    await page.keyboard.press("Enter")

    await expect(page).to_have_url(re.compile(r"/console/flows/vf_\w+$"))
    await expect(page.locator("h1")).to_have_text(CANARY)
    await expect(said).to_have_text("The draft was saved.")
    await page.get_by_role("button", name="Publish").click()
    await expect(said).to_have_text("The flow was published.")
    await page.get_by_role("button", name="Preview the draft").click()
    walk = page.get_by_role("link", name="Open its capture page")
    await expect(walk).to_have_attribute("href", re.compile(r"/verify#\w"))
    await expect(walk).to_be_focused()
    await page.locator("[name=flow_type]").select_option("BIOMETRIC")
    await expect(page.locator('[data-slot="documents"]')).to_be_hidden()
    await page.get_by_role("button", name="Save the draft").click()
    await expect(page.locator("tr.differs")).to_have_count(3)
    wrong += await watched.judge("console-flow-differs")
    await page.set_viewport_size(DESK)

    first = page.url
    await page.get_by_role("button", name="Duplicate").click()
    await expect(said).to_have_text("This is the copy.")
    assert page.url != first
    await page.get_by_role("button", name="Archive").click()
    await expect(page.get_by_role("dialog")).to_be_visible()
    wrong += await watched.judge("console-flow-archive")
    await page.set_viewport_size(DESK)
    await page.get_by_role("dialog").get_by_role("button", name="Archive").click()
    await expect(said).to_have_text("The flow was archived.")
    await expect(page.get_by_role("button", name="Publish")).to_have_count(0)
    await page.goto(f"{service.url}/console/flows")
    wrong += await watched.judge("console-flows")
    assert wrong == []


async def test_what_somebody_else_changed_is_not_overwritten(shown: Show, service: Service) -> None:
    who = await invite(service, "stale@acme.example", role="ADMIN")
    watched = await enrolled(shown, service, who, at="/console/flows/new")
    watched.expected = ("412 (Precondition",)
    page = watched.page
    await page.locator("[name=flow_type]").select_option("BIOMETRIC")
    await page.locator("[name=name]").fill("One")
    await page.keyboard.press("Enter")
    await expect(page.locator("h1")).to_have_text("One")
    await until_scripted(page)
    other = await watched.context.new_page()
    await other.goto(page.url)
    for one, name in ((other, "Two"), (page, "Three")):
        await one.locator("[name=name]").fill(name)
        await one.keyboard.press("Enter")
        if one is other:
            await expect(other.locator("h1")).to_have_text("Two")

    await expect(page.locator('[data-slot="problem"]')).to_contain_text("changed meanwhile")
    await expect(page.locator("[name=name]")).to_have_value("Three")


async def test_sessions_are_found_and_looked_at(shown: Show, service: Service, open_session: Open) -> None:
    opened = await open_session("sim:approved@seen", metadata={"order": CANARY}, locale="fr")
    who = await invite(service, "sessions@acme.example", role="REVIEWER")
    watched = await enrolled(shown, service, who, at="/console/sessions?livemode=false")
    page = watched.page
    wrong = await watched.judge("console-sessions")
    await page.set_viewport_size(DESK)
    await page.locator("[name=subject]").fill("@seen")
    await page.keyboard.press("Enter")
    rows = page.locator("tr[data-session]")
    await expect(rows).to_have_count(1)
    await rows.locator("a").click()

    await expect(page.locator("main")).to_contain_text(str(opened["session_id"]))
    await expect(page.locator("main")).to_contain_text(CANARY)
    wrong += await watched.judge("console-session")
    assert wrong == []
