"""Members of a running service, and what they do at the console."""

import re
from dataclasses import dataclass
from typing import Final

import pyotp
from playwright.async_api import Locator, Page, ViewportSize, expect

from tests.browser.conftest import Show
from tests.browser.shown import Shown, until_scripted
from tests.journeys.service import Service, small_request, veristream_json

QUEUE: Final = "/console/review-cases?livemode=false"
DESK: Final = ViewportSize(width=1280, height=800)
REVIEW: Final = "sim:review:FACE_MATCH_UNCERTAIN"
MOST_TABS: Final = 120


@dataclass(frozen=True, slots=True)
class Invited:
    """A member who never signed in."""

    email: str
    password: str


async def invite(service: Service, email: str, role: str = "REVIEWER", name: str = "Ada Obi") -> Invited:
    """Create a member with a password."""
    options = ("--tenant", service.tenant_id, "--email", email, "--name", name, "--role", role)
    made = await veristream_json(service.data_dir, "reviewer", "create", *options)
    return Invited(email, made["password"])


_FOCUS_IS_SEEN: Final = """() => {
    const style = one => getComputedStyle(one).outlineStyle;
    const outlined = one => one && (style(one) !== "none" || outlined(one.parentElement));
    return document.activeElement === document.body || outlined(document.activeElement);
}"""
"""Whether what has the focus, or what holds it, is outlined; the page itself has it between two rounds."""


async def tab_to(page: Page, target: Locator) -> None:
    """Press Tab until an element has the focus, which is seen wherever it is on its way."""
    passed = []
    for _ in range(MOST_TABS):
        await page.keyboard.press("Tab")
        passed.append(await page.evaluate("document.activeElement.outerHTML.slice(0, 120)"))
        assert await page.evaluate(_FOCUS_IS_SEEN), passed[-1]
        if await target.evaluate("one => one === document.activeElement"):
            return
    raise AssertionError(passed)


async def enter_by_keyboard(page: Page, who: Invited) -> None:
    """Write address and password, and send them."""
    await expect(page.locator("[name=email]")).to_be_focused()
    await until_scripted(page)
    await page.keyboard.type(who.email)
    await page.keyboard.press("Tab")
    await page.keyboard.type(who.password)
    await page.keyboard.press("Enter")


async def enrol_by_keyboard(page: Page) -> pyotp.TOTP:
    """Enrol an authenticator, keep its recovery codes, and go on."""
    begin = page.locator('[data-action="begin"]')
    await expect(begin).to_be_enabled()
    await tab_to(page, begin)
    await page.keyboard.press("Enter")
    field = page.locator('[data-part="scan"] [name=code]')
    await expect(field).to_be_focused()
    device = pyotp.TOTP(re.sub(r"\s", "", await page.locator('[data-slot="secret"]').inner_text()))
    await page.keyboard.type(device.now())
    await page.keyboard.press("Enter")
    await expect(page.locator('[data-part="codes"]')).to_be_visible()
    return device


async def enrolled(shown: Show, service: Service, who: Invited, at: str = QUEUE) -> Shown:
    """A browser in which a new member has signed in and enrolled, at a page whose scripts have begun."""
    page = await shown(service.url + at, viewport=DESK)
    await enter_by_keyboard(page.page, who)
    await enrol_by_keyboard(page.page)
    await page.page.locator("[name=kept]").check()
    await page.page.keyboard.press("Enter")
    await expect(page.page.locator(".bar")).to_be_visible()
    await until_scripted(page.page)
    return page


async def open_cases(service: Service, *subjects: str) -> list[str]:
    """Verifications that need a person; return the ids of their cases, the oldest first."""
    made = []
    for subject in subjects:
        status, answer, _ = await service.post(small_request(f"{REVIEW}@{subject}"))
        assert status == 201, answer
        made.append(str(answer["review_case_id"]))
    return made
