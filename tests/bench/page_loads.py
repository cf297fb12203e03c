"""How soon the capture page can be used, on slow networks and processors: `python -m tests.bench.page_loads`.

Each round opens the link of a new session in a browser without a cache and notes when consent can be
pressed; beside it, over the same network, an empty page. Then pictures are uploaded at full speed: the report
has the bytes sent, the time from the last byte to the verdict, the layout shift (CLS) and the longest task.
"""

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final

from aiohttp import web
from playwright.async_api import Browser, Page, Request, async_playwright

from app.demo.specimens import PassportSpecimen, draw_passport, to_jpeg
from tests.browser.fixtures import FIX, find_chromium
from tests.browser.shown import WAIT_MS
from tests.journeys.people import sign_in
from tests.journeys.service import Service, hopper, running_service, veristream_json
from tests.journeys.test_sessions import publish_flow

WATCH: Final = """
window.seen = {shift: 0, task: 0};
new PerformanceObserver(list => {
  for (const one of list.getEntries()) if (!one.hadRecentInput) window.seen.shift += one.value;
}).observe({type: "layout-shift", buffered: true});
new PerformanceObserver(list => {
  for (const one of list.getEntries()) window.seen.task = Math.max(window.seen.task, one.duration);
}).observe({type: "longtask", buffered: true});
"""
EMPTY: Final = "<!doctype html><html lang=en><title>Empty</title><p>Empty</p></html>"


@dataclass(frozen=True, slots=True)
class Network:
    """A connection and a processor of a person."""

    name: str
    kbit_s: int
    latency_ms: int
    slower: int
    """How many times the processor is slowed down."""
    most_s: float
    """The time within which the page shall be usable."""


NETWORKS: Final = (
    Network("400 kbit/s, 400 ms, processor / 4", 400, 400, 4, 4.0),
    Network("1.6 Mbit/s, 150 ms", 1600, 150, 1, 2.5),
)


@dataclass(frozen=True, slots=True)
class Sent:
    """What came of a picture."""

    nbytes: int
    verdict_s: float
    shift: float
    longest_task_ms: float


async def open_page(browser: Browser, network: Network | None = None) -> Page:
    """Return a page without a cache, on a network."""
    context = await browser.new_context(viewport={"width": 360, "height": 640})
    page = await context.new_page()
    page.set_default_timeout(WAIT_MS)
    await page.add_init_script(WATCH)
    if network is not None:
        wire = await context.new_cdp_session(page)
        rate = network.kbit_s * 125
        conditions = {"offline": False, "latency": network.latency_ms, "uploadThroughput": rate}
        await wire.send("Network.enable")
        await wire.send("Network.emulateNetworkConditions", conditions | {"downloadThroughput": rate})
        await wire.send("Emulation.setCPUThrottlingRate", {"rate": network.slower})
    return page


async def usable_s(page: Page, url: str, selector: str) -> float:
    """Return how long it takes until an element can be pressed."""
    start = time.perf_counter()
    await page.goto(url, wait_until="commit", timeout=WAIT_MS)
    await page.locator(selector).click(trial=True)
    elapsed = time.perf_counter() - start
    await page.context.close()
    return elapsed


async def send_picture(browser: Browser, url: str) -> Sent:
    """Upload the picture of a document and wait for its verdict."""
    page = await open_page(browser)
    ended: list[float] = []
    sending: list[Request] = []

    def note(request: Request) -> None:
        if request.method == "PUT" and request.url.endswith("/v1/capture/document"):
            sending.append(request)
            ended.append(time.perf_counter())  # over the loopback the last byte follows at once

    page.on("request", note)
    await page.goto(url, timeout=WAIT_MS)
    await page.locator('[data-action="agree"]:visible').click()
    chooser = page.locator('section:not([hidden]) [data-slot="file"]')
    picture = to_jpeg(draw_passport(PassportSpecimen(), hopper().portrait))
    await chooser.set_input_files({"name": "picture.jpg", "mimeType": "image/jpeg", "buffer": picture})
    await page.locator('[data-action="use"]:visible').click(trial=True)
    verdict_s = time.perf_counter() - ended[-1]
    seen: dict[str, float] = await page.evaluate("window.seen")
    nbytes = int((await sending[-1].all_headers())["content-length"])
    await page.context.close()
    return Sent(nbytes, verdict_s, seen["shift"], seen["task"])


@asynccontextmanager
async def serving_empty_page() -> AsyncIterator[str]:
    """Serve the page that the others are compared with; yield its address."""

    async def answer(_: web.Request) -> web.Response:
        return web.Response(text=EMPTY, content_type="text/html")

    application = web.Application()
    application.router.add_get("/", answer)
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/"
    finally:
        await runner.cleanup()


async def open_session(service: Service, flow_id: str, subject_id: str) -> str:
    """Open a session; return its link."""
    headers = {"Authorization": f"Bearer {service.test_key}"}
    body = {"flow_id": flow_id, "subject_id": subject_id}
    url = f"{service.url}/v1/verification-sessions"
    async with service.client.post(url, json=body, headers=headers) as answer:
        opened: dict[str, Any] = await answer.json()
        return str(opened["url"])


async def measure(rounds: int) -> None:
    """Print every row."""
    with tempfile.TemporaryDirectory() as folder:
        data_dir = Path(folder)

        async def command(*words: str) -> Any:
            return await veristream_json(data_dir, *words)

        async with running_service(data_dir) as service, serving_empty_page() as empty:
            admin = await sign_in(service.client, service.url, command, service.tenant_id, "ADMIN")
            flow_id = await publish_flow(admin, "DOCUMENT")
            async with async_playwright() as playwright:
                browser = await playwright.chromium.launch(
                    executable_path=find_chromium(), args=["--no-sandbox"], timeout=WAIT_MS
                )
                for network in NETWORKS:
                    await _loads(browser, service, flow_id, empty, network, rounds)
                await _pictures(browser, service, flow_id, rounds)
                await browser.close()


async def _loads(
    browser: Browser, service: Service, flow_id: str, empty: str, network: Network, rounds: int
) -> None:
    ours, bare = [], []
    for number in range(rounds):
        url = await open_session(service, flow_id, f"sim:approved@{network.kbit_s}-{number}")
        ours.append(await usable_s(await open_page(browser, network), url, '[data-action="agree"]'))
        bare.append(await usable_s(await open_page(browser, network), empty, "p"))
    page_s, bare_s = median(ours), median(bare)
    out(
        f"{network.name}: usable after {page_s:.2f} s (asked {network.most_s}), an empty page "
        f"{bare_s:.2f} s, {page_s / bare_s:.2f} times as long"
    )


async def _pictures(browser: Browser, service: Service, flow_id: str, rounds: int) -> None:
    sent = []
    for number in range(rounds):
        url = await open_session(service, flow_id, f"person-{number}")
        sent.append(await send_picture(browser, url))
    out(
        f"picture of {max(one.nbytes for one in sent) / 1000:.0f} kB at most (asked 900), its verdict after "
        f"{median(one.verdict_s for one in sent):.2f} s (asked 1), layout shift "
        f"{max(one.shift for one in sent):.3f} (asked 0.05), longest task "
        f"{median(one.longest_task_ms for one in sent):.0f} ms (asked 200)"
    )


def out(line: str) -> None:
    """Print a line of the report."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(
        description="How soon the capture page can be used.",
        epilog="Example: python -m tests.bench.page_loads --rounds 3",
    )
    parser.add_argument("--rounds", type=int, default=5, help="pages opened on each network")
    given = parser.parse_args(arguments)
    if find_chromium() is None:
        sys.stderr.write(f"There is no Chromium. Try: {FIX}\n")
        return 1
    asyncio.run(measure(given.rounds))
    return 0


if __name__ == "__main__":
    sys.exit(main())
