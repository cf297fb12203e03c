"""A page in a browser: what it asked for, what went wrong, and how it looks."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

from axe_playwright_python.base import AXE_FILE_PATH
from playwright.async_api import BrowserContext, ConsoleMessage, Page, Request, expect

from tests.browser.fixtures import screenshots

WAIT_MS: Final = 120_000
"""A bound for what hangs; on a busy machine a step may take long."""

expect.set_options(timeout=WAIT_MS)

DRAWN: Final = "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
"""Resolves once the page was drawn with what was changed before."""

NO_CLICK_BEFORE_LOAD: Final = """
const style = new CSSStyleSheet();
style.replaceSync("html { pointer-events: none }");
document.adoptedStyleSheets = [style];
addEventListener("load", () => (document.adoptedStyleSheets = []), { once: true });
"""
"""Makes every click wait until the page's scripts listen; before keys a test awaits `until_scripted`."""

ONE_AT_A_TIME: Final = "429 (Too Many Requests)"
"""A picture chosen while the last one is still being judged is sent again by itself (P10)."""

OF_COLOURS: Final = ("color-contrast", "link-in-text-block")
"""The rules whose result can differ in the dark: only colours do, which `test_states` holds."""

RULES: Final = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice")


async def until_scripted(page: Page) -> None:
    """Return once the scripts of a page listen, and what they hold back until then is enabled."""
    await page.wait_for_load_state()
    await expect(page.locator("[data-scripted]:disabled")).to_have_count(0)


@dataclass
class Shown:
    """A page, watched: nothing foreign, nothing on the console, no violation of its policy."""

    page: Page
    context: BrowserContext
    origin: str
    requests: list[Request] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    expected: tuple[str, ...] = ()
    """Parts of console errors that the test itself causes."""

    def watch(self) -> None:
        """Note what the page asks for, and everything that goes wrong."""
        self.page.set_default_timeout(WAIT_MS)
        self.page.on("request", self._asked)
        self.page.on("console", self._said)
        self.page.on("pageerror", lambda error: self.faults.append(f"script: {error}"))

    def _asked(self, request: Request) -> None:
        self.requests.append(request)
        if not request.url.startswith((self.origin, "blob:")):
            self.faults.append(f"foreign request: {urlsplit(request.url).netloc}")

    def _said(self, message: ConsoleMessage) -> None:
        expected = (*self.expected, ONE_AT_A_TIME)
        if message.type == "error" and not any(one in message.text for one in expected):
            self.faults.append(f"console: {message.text}")

    async def weigh(self, address: str) -> tuple[int, int]:
        """Open a page; its requests and the bytes on the wire, without pictures of evidence."""
        wire = await self.context.new_cdp_session(self.page)
        asked: dict[str, str] = {}
        sizes: dict[str, int] = {}

        def ask(event: dict[str, Any]) -> None:
            asked[event["requestId"]] = event["request"]["url"]

        def finish(event: dict[str, Any]) -> None:
            sizes[event["requestId"]] = int(event["encodedDataLength"])

        wire.on("Network.requestWillBeSent", ask)
        wire.on("Network.loadingFinished", finish)
        await wire.send("Network.enable")
        await self.page.goto(address, wait_until="networkidle")
        own = {one for one, url in asked.items() if url.startswith("http") and "/evidence/" not in url}
        sent = [sizes[one] for one in own if sizes[one] > 0]  # nothing: out of the browser's cache
        return len(sent), sum(sent)

    async def on_screen(self, name: str) -> None:
        """Wait until a screen of the capture page is shown."""
        await expect(self.page.locator(f'[data-screen="{name}"]')).to_be_visible()

    async def press(self, action: str) -> None:
        """Press the visible button of an action."""
        await self.page.locator(f'[data-action="{action}"]:visible').click()

    async def upload(self, picture: bytes, name: str = "picture.jpg") -> None:
        """Choose a file on the screen that is shown."""
        chooser = self.page.locator('section:not([hidden]) [data-slot="file"]')
        await chooser.set_input_files({"name": name, "mimeType": "image/jpeg", "buffer": picture})

    async def violations(self, run_only: tuple[str, tuple[str, ...]] = ("tag", RULES)) -> list[str]:
        """Return what axe-core finds wrong; it is evaluated beside the page, not by it."""
        if not await self.page.evaluate("typeof axe !== 'undefined'"):
            await self.page.evaluate(AXE_FILE_PATH.read_text(encoding="utf-8"))
        kind, names = run_only
        options: dict[str, Any] = {"runOnly": {"type": kind, "values": names}, "resultTypes": ["violations"]}
        found = await self.page.evaluate("options => axe.run(options)", options)
        return [
            f"{one['id']}: {node['html'][:120]} {node['failureSummary'][:200]}"
            for one in found["violations"]
            for node in one["nodes"]
        ]

    async def scrolls_sideways(self) -> bool:
        """Whether the page is wider than its window."""
        script = "document.documentElement.scrollWidth > document.documentElement.clientWidth"
        return bool(await self.page.evaluate(script))

    async def picture(self, name: str) -> None:
        """Keep how the page looks."""
        path = screenshots() / f"{name}.jpeg"  # made in half the time of a PNG
        path.parent.mkdir(parents=True, exist_ok=True)
        await self.page.screenshot(path=path, type="jpeg", full_page=True, animations="disabled")

    async def judge(self, state: str, widths: Sequence[int] = (320, 1280)) -> list[str]:
        """Return what is wrong with a state in light and dark, narrow and wide, and keep its pictures."""
        wrong = []
        for width in widths:
            for scheme in ("light", "dark"):
                await self.page.set_viewport_size({"width": width, "height": 568 if width == 320 else 800})
                await self.page.emulate_media(color_scheme="light" if scheme == "light" else "dark")
                await self.page.evaluate(DRAWN)
                place = f"{state} {width} {scheme}"
                rules = ("tag", RULES) if scheme == "light" else ("rule", OF_COLOURS)
                wrong += [f"{place}: {one}" for one in await self.violations(rules)]
                if await self.scrolls_sideways():
                    wrong.append(f"{place}: scrolls sideways")
                await self.picture(f"{state}-{width}-{scheme}")
        return wrong
