"""Texts as long as fields take, without a place to break, on every page of the console in a browser."""

import pytest

from tests.browser.conftest import Camera
from tests.browser.shown import Shown
from tests.http.hostile import open_hostile, pages_of
from tests.journeys.people import COOKIE

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_no_page_scrolls_sideways_or_runs_what_was_written(camera: Camera) -> None:
    async with open_hostile() as one:
        context = await camera.browser.new_context(reduced_motion="reduce")
        await context.add_cookies(
            [{"name": COOKIE, "value": one.owner.cookie, "domain": "127.0.0.1", "path": "/"}]
        )
        watched = Shown(await context.new_page(), context, one.front.url)
        watched.watch()
        wide = []
        for path in pages_of(one):
            await watched.page.goto(one.front.url + path)
            for width, height in ((320, 568), (1280, 800)):
                await watched.page.set_viewport_size({"width": width, "height": height})
                if await watched.scrolls_sideways():
                    wide.append(f"{path} {width}")
                    await watched.picture(f"wide-{len(wide)}")
            if path == one.paths[2]:
                await watched.picture("case-hostile")
        await context.close()

    assert wide == []
    assert watched.faults == []
