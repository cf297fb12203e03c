"""The movements of the head on the capture page: skipped, made by a moving head, and by a print."""

import asyncio
from functools import cache
from typing import Any, Final

import pytest
from PIL import Image
from playwright.async_api import Response as ResponseOfPage
from playwright.async_api import expect

from streams.vision_ports import Picture
from tests.browser.adapted import judge_adapted
from tests.browser.conftest import Camera, Open, Show
from tests.browser.scenes import SIZE, black, steady, write_scene
from tests.browser.shown import WAIT_MS, Shown
from tests.browser.test_capture_journeys import document
from tests.specimens.moving_head import Head

pytestmark = pytest.mark.asyncio(loop_scope="session")

ROUND: Final = ((0, 0), (25, 0), (30, 0), (0, 0), (-28, 0), (-32, 0), (0, 0), (0, 11), (0, 14))
"""Where the head looks in turn: left and up, degrees."""
ROUNDS: Final = 3
"""How often the page offers to begin again, on a machine that does not judge the frames in time."""
SHOWN_FRAMES: Final = 18
"""Frames of the camera that it looks each way, well under a second."""
EYES_PX: Final = 108.0
PRINTED: Final = 6
"""Frames of a print that are judged."""
RESULT: Final = '[data-slot="result-title"]'


@cache
def head() -> Head:
    """The person of the specimen passport."""
    return Head("grace hopper", EYES_PX, (SIZE[1], SIZE[1]))


def placed(picture: Picture) -> Image.Image:
    """A picture of a head before a wall, as the camera sees it."""
    wall = Image.new("RGB", SIZE, (150, 145, 140))
    wall.paste(Image.fromarray(picture.pixels), ((SIZE[0] - picture.width) // 2, 0))
    return wall


def turning() -> list[Image.Image]:
    """A head that looks straight, left, right and up, over and over."""
    looks = {pose: steady(placed(head().turned(*pose))) for pose in set(ROUND)}
    return [looks[pose][number % len(looks[pose])] for pose in ROUND for number in range(SHOWN_FRAMES)]


def printed() -> list[Image.Image]:
    """A print of the person that is turned left and right."""
    looks = [steady(placed(head().print(degrees, 28))) for degrees in (35, -35)]
    return [look[number % len(look)] for look in looks for number in range(SHOWN_FRAMES)]


async def to_movements(page: Shown, camera: Camera) -> None:
    """Go through the steps before, with a selfie of the camera."""
    write_scene(camera.scene, black())  # of which no picture is taken by itself
    await page.on_screen("consent")
    await page.press("agree")
    await page.upload(document())
    await page.press("use")
    await page.page.locator("#last4").fill("02C3")
    write_scene(camera.scene, steady(placed(head().picture)))
    await page.page.keyboard.press("Enter")
    await expect(page.page.locator("video.front")).to_be_visible()
    await page.press("shoot")
    await page.press("use")
    await page.on_screen("movements")


async def test_a_person_who_moves_as_asked_is_verified(
    camera: Camera, shown: Show, open_session: Open
) -> None:
    page = await shown((await open_session("person-moving"))["url"])
    await to_movements(page, camera)
    write_scene(camera.scene, turning())
    begin = page.page.locator('[data-action="move-slowly"]:visible')
    for _ in range(ROUNDS):
        await begin.click()
        await expect(begin.or_(page.page.locator(f"{RESULT}:visible"))).to_be_visible(timeout=3 * WAIT_MS)
        if await begin.count() == 0:
            break

    await expect(page.page.locator(RESULT)).to_have_text("Thank you, it is you")


async def test_a_print_is_not_accepted_and_who_cannot_move_goes_to_a_person(
    camera: Camera, shown: Show, open_session: Open
) -> None:
    page = await shown((await open_session("person-printed"))["url"])
    await to_movements(page, camera)
    wrong = await page.judge("movements")
    wrong += await judge_adapted(page, "movements")
    write_scene(camera.scene, printed())
    said = asyncio.Queue[Any]()

    async def note(answer: ResponseOfPage) -> None:
        if "/challenge/1" in answer.url:
            said.put_nowait(await answer.json())

    page.page.on("response", note)
    await page.press("move-slowly")
    await expect(page.page.locator('[data-slot="move-lead"]')).to_have_text("Movement 1 of 3")
    async with asyncio.timeout(WAIT_MS / 1000):
        accepted = [(await said.get())["accepted"] for _ in range(PRINTED)]
    wrong += await page.judge("movements-asked")
    page.expected = ("409 (Conflict)",)  # a frame that was on its way when the person gave up
    await page.press("cannot-move")

    await expect(page.page.locator(RESULT)).to_have_text("A person will look at it")
    assert (accepted, wrong) == ([False] * PRINTED, [])
