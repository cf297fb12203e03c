"""The console's sign-in, enrolment, account and queue in a browser, by keyboard alone."""

import asyncio
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import urlsplit

import pytest
from playwright.async_api import Page, Route, expect

from tests.browser.conftest import Show
from tests.browser.console import (
    DESK,
    QUEUE,
    Invited,
    enrol_by_keyboard,
    enrolled,
    enter_by_keyboard,
    invite,
    open_cases,
)
from tests.browser.shown import until_scripted
from tests.journeys.service import Service

pytestmark = pytest.mark.asyncio(loop_scope="session")

CANARY: Final = '<img src=x onerror="document.title=1">'
REFUSED: Final = ("401 (Unauthorized)", "422 (Unprocessable", "429 (Too Many")


async def test_a_new_member_signs_in_enrols_and_signs_in_again_by_keyboard(
    shown: Show, service: Service
) -> None:
    who = await invite(service, "new@acme.example", name=CANARY)
    page = await shown(service.url + QUEUE, viewport=DESK)
    page.expected = REFUSED
    wrong = await page.judge("console-sign-in")
    await enter_by_keyboard(page.page, Invited(who.email, "not the password"))
    problem = page.page.locator('[data-slot="problem"]:visible')
    await expect(problem).to_contain_text("is not right")
    wrong += await page.judge("console-sign-in-refused")
    await page.page.locator("[name=password]").fill(who.password)
    await page.page.keyboard.press("Enter")

    begin = page.page.locator('[data-action="begin"]')
    await expect(begin).to_be_visible()
    wrong += await page.judge("console-enrol")
    device = await enrol_by_keyboard(page.page)
    wrong += await page.judge("console-recovery-codes")
    codes = await page.page.locator('[data-slot="codes"] li').all_inner_texts()
    await page.page.locator('[data-form="kept"] button:not([type=button])').click()
    assert "/console/factor" in page.page.url  # not before they are confirmed as kept
    await page.page.locator("[name=kept]").check()
    await page.page.locator('[data-form="kept"] button:not([type=button])').click()
    await expect(page.page).to_have_url(service.url + QUEUE)

    await page.page.locator(".me").click()
    await expect(page.page.locator("h2").first).to_have_text(CANARY)
    wrong += await page.judge("console-account")
    await page.page.locator('main [data-action="sign-out"]').click()
    await enter_by_keyboard(page.page, who)
    await expect(page.page.locator("[name=code]")).to_be_visible()
    await until_scripted(page.page)
    wrong += await page.judge("console-factor")
    await page.page.locator("[name=code]").fill(device.at(0))  # of long ago, on however busy a machine
    await page.page.keyboard.press("Enter")
    await expect(problem).to_contain_text("seconds")
    await page.page.locator('[data-show="recovery"]').click()
    wrong += await page.judge("console-recovery")
    await page.page.locator("[name=recovery_code]").fill(codes[0])
    await send_until_judged(page.page)
    await expect(page.page.locator(".bar")).to_be_visible()
    assert wrong == []


async def send_until_judged(page: Page) -> None:
    """Press Enter in the form of a recovery code; after a wrong code the next one has to wait a moment."""
    button = page.locator('[data-form="recovery"] button:not([type=button])')
    while True:
        async with page.expect_response(lambda one: one.url.endswith("/mfa/verify")) as judged:
            await page.keyboard.press("Enter")
        if (await judged.value).status != HTTPStatus.TOO_MANY_REQUESTS:
            return
        await expect(button).not_to_have_attribute("aria-disabled", "true")


async def test_two_reviewers_take_different_cases_and_see_what_the_other_holds(
    shown: Show, service: Service
) -> None:
    cases = await open_cases(service, "first", "second")
    ada = await enrolled(shown, service, await invite(service, "ada@acme.example", name="Ada Obi"))
    tunde = await enrolled(shown, service, await invite(service, "tunde@acme.example", name="Tunde Bello"))
    wrong = await ada.judge("console-queue")
    await ada.page.set_viewport_size(DESK)
    rows = ada.page.locator("[data-case]")
    shown_cases = [await row.get_attribute("data-case") for row in await rows.all()]
    assert set(cases) <= set(shown_cases)

    await ada.page.keyboard.press("j")
    await expect(rows.first.locator("a")).to_be_focused()
    await ada.page.keyboard.press("j")
    await expect(rows.nth(1).locator("a")).to_be_focused()
    await ada.page.keyboard.press("k")
    await expect(rows.first.locator("a")).to_be_focused()
    await ada.page.keyboard.press("?")
    await expect(ada.page.locator('dialog[data-slot="keys"]')).to_be_visible()
    wrong += await ada.judge("console-keys")
    await ada.page.keyboard.press("Escape")
    await ada.page.keyboard.press("/")
    await expect(ada.page.locator(".find input")).to_be_focused()
    await ada.page.keyboard.type("jt")
    assert ada.page.url == service.url + QUEUE
    await ada.page.locator("h1").click()

    taken = []
    for one in (ada, tunde):
        one.expected = ("404 (Not Found)",)
        await one.page.keyboard.press("t")
        await one.page.wait_for_url("**/console/review-cases/rc_*")
        taken.append(urlsplit(one.page.url).path.rpartition("/")[2])
    assert taken == shown_cases[:2]
    await tunde.page.goto(service.url + QUEUE)
    holders = tunde.page.locator(".held")
    await expect(holders.nth(0)).to_contain_text("Ada Obi")
    await expect(holders.nth(1)).to_contain_text("You")
    wrong += await tunde.judge("console-queue-held")
    assert wrong == []


async def test_a_fresh_look_moves_nothing_that_is_in_use(shown: Show, service: Service) -> None:
    await open_cases(service, "stays")
    page = await enrolled(shown, service, await invite(service, "fresh@acme.example"))
    await page.page.clock.install()
    await page.page.reload()
    rows = page.page.locator("[data-case]")
    before = await rows.count()
    await page.page.keyboard.press("j")
    focused = rows.first.locator("a")
    await expect(focused).to_be_focused()
    await open_cases(service, "arrives")

    async with page.page.expect_response("**/console/review-cases?*"):
        await page.page.clock.fast_forward(31_000)
    await expect(page.page.locator('[data-slot="count"]')).to_contain_text(str(before + 1))
    assert await rows.count() == before
    await expect(focused).to_be_focused()
    await page.page.locator(".me").focus()
    await page.page.clock.run_for(100)
    await expect(rows).to_have_count(before + 1)


async def test_an_idle_session_is_announced_and_can_be_kept(shown: Show, service: Service) -> None:
    page = await enrolled(shown, service, await invite(service, "idle@acme.example"), at="/console/account")
    await page.page.clock.install()
    await page.page.reload()
    warning = page.page.locator('dialog[data-slot="idle"]')
    await page.page.clock.fast_forward(20 * 60_000)
    await expect(warning).to_be_hidden()
    await page.page.clock.fast_forward(8 * 60_000 + 5_000)
    await expect(warning).to_be_visible()
    await expect(warning.locator('[data-action="stay"]')).to_be_focused()
    wrong = await page.judge("console-idle")
    async with page.page.expect_response("**/v1/control/sessions/current"):
        await page.page.keyboard.press("Enter")
    await expect(warning).to_be_hidden()
    await page.page.clock.fast_forward(31 * 60_000)
    await page.page.clock.run_for(2_000)
    await expect(page.page.locator("[name=email], .bar").first).to_be_visible()
    assert wrong == []


async def test_single_keys_can_be_switched_off(shown: Show, service: Service) -> None:
    page = await enrolled(shown, service, await invite(service, "keys@acme.example"), at="/console/account")
    async with page.page.expect_navigation():
        await page.page.locator("[name=single_keys]").uncheck()
    await page.page.goto(service.url + QUEUE)
    await page.page.locator("h1").click()
    await page.page.keyboard.press("?")
    await page.page.keyboard.press("/")

    await expect(page.page.locator('dialog[data-slot="keys"]')).to_be_hidden()
    await expect(page.page.locator(".find input")).not_to_be_focused()


async def test_too_many_tries_are_counted_down(shown: Show, service: Service) -> None:
    page = await shown(service.url + "/console/sign-in", viewport=DESK)
    page.expected = REFUSED

    async def full(route: Route) -> None:
        problem: dict[str, Any] = {"code": "RATE_LIMITED", "detail": "Too many."}
        await route.fulfill(status=429, headers={"Retry-After": "40000"}, json=problem)

    await page.page.route("**/v1/control/sessions", full)
    await enter_by_keyboard(page.page, Invited("a@acme.example", "x"))

    await expect(page.page.locator('[data-slot="problem"]')).to_contain_text("40000 seconds")
    await expect(page.page.locator("form button")).to_contain_text("(39")
    assert await page.judge("console-sign-in-limited") == []


async def test_sign_in_waits_for_its_script(shown: Show, service: Service) -> None:
    page = await shown("about:blank", viewport=DESK)
    asked, released = asyncio.Event(), asyncio.Event()

    async def hold(route: Route) -> None:
        asked.set()
        await released.wait()
        await route.continue_()

    await page.page.route("**/assets/forms.*.js", hold)
    await page.page.goto(service.url + QUEUE, wait_until="commit")
    await asked.wait()
    go = page.page.locator('[data-form="sign-in"] button')
    await expect(go).to_be_disabled()
    released.set()

    await expect(go).to_be_enabled()


async def test_a_reset_link_sets_a_password(shown: Show, service: Service) -> None:
    page = await shown(service.url + "/console/reset#rst_not_a_token", viewport=DESK)
    page.expected = REFUSED
    assert await page.page.evaluate("location.hash") == ""
    await page.page.locator("[name=new_password]").fill("nine green umbrellas")
    await page.page.keyboard.press("Enter")

    await expect(page.page.locator('[data-slot="problem"]')).to_contain_text("used up")
    assert await page.judge("console-reset") == []
