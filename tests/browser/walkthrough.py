"""Walks as a first visitor with a phone and as a colleague at a desk, who have only the words on the pages.

`python -m tests.browser.walkthrough`; it needs Chromium and some minutes, and is no part of the suite. It
starts at what `veristream demo` prints: the link of a test session, and the sign-in of a member.
"""

import asyncio
import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Final

import pyotp
from playwright.async_api import Browser, Page, Playwright, async_playwright, expect

from tests.browser.conftest import Camera
from tests.browser.fixtures import chromium_arguments, find_chromium
from tests.browser.scenes import black, passport, steady, write_scene
from tests.browser.shown import WAIT_MS
from tests.browser.test_movements import ROUNDS, head, placed, turning

PHONE: Final = "Pixel 7"
LAST_LINE: Final = "To begin anew"
LINK: Final = re.compile(r"^(\S+/verify#\S+)", re.MULTILINE)
SIGN_IN: Final = re.compile(r"^(\S+/console/sign-in\S*)", re.MULTILINE)
MEMBER: Final = re.compile(r"(lead@demo-bank\.example)\W+(\S+)\W+(\w+)")
NUMBER_END: Final = "02C3"
"""What stands at the end of the number on the document in the visitor's hand."""


def say(line: str) -> None:
    """Print a line at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


async def reads(page: Page, headline: str, *, within_ms: float = WAIT_MS) -> None:
    """Wait for a headline, and print it with the words below it that are seen at a glance."""
    shown = page.get_by_role("heading", level=1, name=headline)
    await expect(shown).to_be_visible(timeout=within_ms)
    below = await page.locator("main :is(.lead, .note, .guide):visible").all_inner_texts()
    say(f"  reads “{await shown.inner_text()}”: {' / '.join(filter(None, map(str.strip, below)))[:160]}")


async def presses(page: Page, name: str) -> None:
    """Press the button with a name."""
    say(f"  presses “{name}”")
    await page.get_by_role("button", name=name, exact=True).click()


async def verify(browser: Browser, scene: Path, phone: dict[str, object], link: str) -> str:
    """Be verified by the link; return the last headline."""
    say("the visitor opens the link on a phone")
    context = await browser.new_context(**phone, permissions=["camera"])  # type: ignore[arg-type]  # a device
    page = await context.new_page()
    camera = Camera(browser, scene)
    write_scene(camera.scene, steady(passport()))
    await page.goto(link)
    await reads(page, "Confirm who you are")
    await presses(page, "I agree")
    await reads(page, "Can you read it well?")
    write_scene(scene, black())
    await presses(page, "Continue")
    await reads(page, "The end of the number")
    await page.get_by_label("Last four characters").fill(NUMBER_END)
    write_scene(scene, steady(placed(head().picture)))
    await presses(page, "Continue")
    await reads(page, "Take a selfie")
    await presses(page, "Take the picture")
    await reads(page, "Can you read it well?")
    await presses(page, "Continue")
    write_scene(scene, turning())
    result = page.get_by_role("heading", level=1, name=re.compile("Thank you|A person|You could not"))
    begin = page.get_by_role("button", name="Start with twice the time")
    for _ in range(ROUNDS):
        await reads(page, "Move your head")
        await presses(page, "Start with twice the time")
        await expect(begin.or_(result)).to_be_visible(timeout=3 * WAIT_MS)
        if await result.count():
            break
    last = await result.inner_text()
    await reads(page, last)
    await context.close()
    return last


async def enters_code(page: Page, authenticator: pyotp.TOTP) -> None:
    """Type the code that is shown; one that was used already, by the demonstration, is waited out."""
    used = page.get_by_role("alert").filter(has_text="Try the next one")
    queue = page.get_by_role("heading", name="Review queue", level=1)
    while not await queue.is_visible():
        await page.get_by_label("Six digits").fill(authenticator.now())
        await presses(page, "Continue")
        await expect(queue.or_(used).first).to_be_visible()
        if await used.is_visible():
            say("  waits for the next code")
            await asyncio.sleep(authenticator.interval)


async def conclude(browser: Browser, address: str, email: str, password: str, secret: str) -> str:
    """Conclude the most urgent doubtful case; return what the page says of it."""
    say("a colleague signs in at a desk")
    page = await browser.new_page(viewport={"width": 1280, "height": 800})
    await page.goto(address)
    await page.get_by_label("E-mail address").fill(email)
    await page.get_by_label("Password").fill(password)
    await presses(page, "Sign in")
    await reads(page, "Your code")
    await enters_code(page, pyotp.TOTP(secret))
    await reads(page, "Review queue")
    await presses(page, "Take the most urgent")
    await expect(page.get_by_role("heading", name="Why you see it")).to_be_visible()
    say(f"  reads “{await page.get_by_role('heading', level=1).inner_text()}”")
    for name in ("Evidence", "What was read", "Why you see it", "Your decision"):
        await expect(page.get_by_role("heading", name=name)).to_be_visible()
    say(f"  reads “{(await page.get_by_role('region', name='Why you see it').inner_text())[:160]!r}”")
    await page.get_by_role("radio", name="Approve").check(force=True)  # its label is what is seen
    await page.get_by_label("Note, for colleagues only").fill("It is the same person.")
    button = page.get_by_role("button", name=re.compile(r"^Approve \S+"))
    say(f"  presses “{await button.inner_text()}”")
    await button.click()
    said = page.get_by_role("status").filter(has_text=re.compile(r"Concluded|Another person"))
    await expect(said).to_be_visible()
    return await said.inner_text()


async def demonstrated(process: asyncio.subprocess.Process) -> str:
    """Return what the demonstration prints until it serves."""
    assert process.stdout is not None
    printed = ""
    async with asyncio.timeout(WAIT_MS / 1000):
        while LAST_LINE not in printed:
            printed += (await process.stdout.readline()).decode()
    return printed


def found(pattern: re.Pattern[str], printed: str) -> tuple[str, ...]:
    """Return the groups of a pattern in what was printed."""
    match = pattern.search(printed)
    if match is None:
        raise RuntimeError(printed)
    return match.groups()


async def walk(playwright: Playwright, folder: Path, printed: str) -> bool:
    """Return whether both came to their end."""
    scene = folder / "scene.mjpeg"
    write_scene(scene, black())
    browser = await playwright.chromium.launch(
        executable_path=find_chromium(), args=chromium_arguments(scene), timeout=WAIT_MS
    )
    verified = await verify(browser, scene, playwright.devices[PHONE], *found(LINK, printed))
    concluded = await conclude(browser, *found(SIGN_IN, printed), *found(MEMBER, printed))
    say(f"the visitor: {verified}; the colleague: {concluded}")
    await browser.close()
    return verified.startswith("Thank you") and concluded.startswith("Concluded")


async def main() -> int:
    """Start the demonstration, walk, and stop it."""
    with tempfile.TemporaryDirectory() as made:
        command = (sys.executable, "-m", "app", "demo", "--port", "0", "--data-dir", f"{made}/data")
        environment = {**os.environ, "COLUMNS": "300"}
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(*command, stdout=pipe, env=environment)
        try:
            printed = await demonstrated(process)
            async with async_playwright() as playwright:
                good = await walk(playwright, Path(made), printed)
        finally:
            process.terminate()
            await process.wait()
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
