"""The capture page from its link to its result, in a browser with a camera, against a running service."""

import asyncio
from contextlib import suppress
from typing import Any, Final

import pytest
from playwright.async_api import FileChooser, Route, expect

from app.demo.specimens import PassportSpecimen, draw_passport, to_jpeg
from tests.browser.conftest import Camera, Open, Show
from tests.browser.scenes import black, face, passport, steady, write_scene
from tests.browser.shown import Shown
from tests.journeys.service import Service, blurred, hopper

pytestmark = pytest.mark.asyncio(loop_scope="session")

TARGET: Final = "https://bank.example/back?case=7"
TITLE: Final = '[data-slot="result-title"]'


def document() -> bytes:
    """The picture of a specimen passport."""
    return to_jpeg(draw_passport(PassportSpecimen(), hopper().portrait))


async def upload_until_result(page: Shown) -> None:
    """Agree, and upload both pictures instead of taking them."""
    await page.on_screen("consent")
    await page.press("agree")
    await page.on_screen("blocked")
    await page.upload(document())
    await page.press("use")
    await page.page.locator("#last4").fill("02C3")
    await page.page.keyboard.press("Enter")
    await page.on_screen("blocked")
    await page.upload(to_jpeg(hopper().selfie))
    await page.press("use")
    await page.on_screen("result")


async def test_a_person_is_verified_with_the_camera(
    camera: Camera, shown: Show, open_session: Open, service: Service
) -> None:
    write_scene(camera.scene, steady(passport()))
    opened = await open_session("person-1", "DOCUMENT", return_url=TARGET)
    page = await shown(opened["url"])
    await page.on_screen("consent")
    assert await page.page.evaluate("location.hash") == ""
    wrong = await page.judge("consent")
    await page.press("agree")

    await expect(page.page.locator('[data-action="use"]:visible')).to_be_focused()
    wrong += await page.judge("check-good")
    await page.press("use")
    wrong += await page.judge("number")
    await page.page.locator("#last4").fill("02c3")
    await page.page.keyboard.press("Enter")

    await expect(page.page.locator(TITLE)).to_have_text("Thank you, it is you")
    wrong += await page.judge("verified")
    back = page.page.locator('[data-slot="return"]:visible')
    await expect(back).to_have_attribute("href", f"{TARGET}&session_id={opened['session_id']}")
    assert await page.page.locator('[data-slot="receipt"] div').count() == 2
    row = (await service.get(f"/v1/verification-sessions/{opened['session_id']}"))[1]
    assert row["capture_sources"] == {"document": "CAMERA", "selfie": None}
    assert wrong == []


async def test_a_blurred_picture_is_repeated(camera: Camera, shown: Show, open_session: Open) -> None:
    write_scene(camera.scene, steady(passport(blurred=30)))
    page = await shown((await open_session("person-2", "DOCUMENT"))["url"])
    await page.press("agree")
    await page.on_screen("camera")
    await expect(page.page.locator('[data-slot="guide"]')).not_to_have_text("Good, hold still")
    await page.upload(blurred(draw_passport(PassportSpecimen(), hopper().portrait), 12))

    await expect(page.page.locator('[data-slot="verdicts"] .bad')).to_contain_text("blurred")
    await expect(page.page.locator(".anyway:visible")).to_have_count(2)
    wrong = await page.judge("check-blurred")
    write_scene(camera.scene, steady(passport()))
    await page.press("again")

    await expect(page.page.locator('[data-slot="verdicts"]')).to_contain_text("good")
    assert wrong == []


async def test_a_face_is_taken_with_the_front_camera_and_sent_as_it_is(
    camera: Camera, shown: Show, open_session: Open
) -> None:
    write_scene(camera.scene, steady(face()))
    page = await shown((await open_session("sim:approved@face"))["url"])
    await page.press("agree")
    await page.on_screen("camera")
    await page.upload(document())
    await page.press("use")
    await page.page.locator("#last4").fill("02C3")
    await page.page.keyboard.press("Enter")
    video = page.page.locator("video.front")
    await expect(video).to_be_visible()

    wrong = await page.judge("selfie", widths=(320, 1280))
    await page.page.set_viewport_size({"width": 320, "height": 568})
    shutter = await page.page.locator('[data-action="shoot"]').bounding_box()
    guide = await page.page.locator(".guide:visible").bounding_box()
    attributes = [await video.get_attribute(name) for name in ("playsinline", "muted", "autoplay")]
    await page.press("shoot")
    await page.press("use")
    await page.press("cannot-move")
    await page.on_screen("result")

    assert (attributes, wrong) == (["", "", ""], [])
    assert shutter is not None
    assert guide is not None
    assert shutter["y"] + shutter["height"] <= 568
    assert guide["y"] + guide["height"] <= shutter["y"] + 8


async def test_who_refuses_the_camera_uploads(shown: Show, open_session: Open, service: Service) -> None:
    opened = await open_session("sim:review:FACE_MATCH_UNCERTAIN@upload")
    page = await shown(opened["url"], allowed=False)
    await page.press("agree")
    await page.on_screen("blocked")
    wrong = await page.judge("blocked")
    await page.page.reload()
    await page.on_screen("blocked")
    await page.upload(b"GIF89a and no picture")
    await expect(page.page.locator('[data-slot="camera-note"]')).to_contain_text("does not move")
    await page.on_screen("blocked")
    await page.upload(document())
    await page.press("use")
    await page.page.locator("#last4").fill("02C3")
    await page.page.keyboard.press("Enter")
    await page.on_screen("blocked")
    await page.upload(to_jpeg(hopper().selfie))
    await page.press("use")

    await expect(page.page.locator(TITLE)).to_have_text("A person will look at it")
    wrong += await page.judge("in-review")
    row = (await service.get(f"/v1/verification-sessions/{opened['session_id']}"))[1]
    assert row["capture_sources"] == {"document": "UPLOAD", "selfie": "UPLOAD"}
    assert wrong == []


async def test_declining_takes_nothing_and_can_be_undone(shown: Show, open_session: Open) -> None:
    page = await shown((await open_session("sim:approved@declined", return_url=TARGET))["url"])
    await page.press("decline")
    await page.on_screen("declined")
    wrong = await page.judge("declined")
    await page.press("consent")

    await page.on_screen("consent")
    assert wrong == []


async def test_another_device_goes_on_and_the_first_one_follows(shown: Show, open_session: Open) -> None:
    opened = await open_session("sim:reject:FACE_MISMATCH@hand")
    desk = await shown(opened["url"], viewport={"width": 1280, "height": 800})
    await desk.press("hand-over")
    await desk.on_screen("hand")
    wrong = await desk.judge("hand-over")
    phone = await shown(opened["url"], allowed=False)
    await upload_until_result(phone)

    await expect(desk.page.locator(TITLE)).to_have_text("You could not be verified")
    wrong += await desk.judge("not-verified")
    assert wrong == []


async def test_a_picture_cut_off_is_sent_again_by_itself(shown: Show, open_session: Open) -> None:
    page = await shown((await open_session("sim:approved@cut"))["url"], allowed=False)
    page.expected = ("ERR_", "503", "502")
    tries: list[int] = []
    seen = asyncio.Event()

    async def fail(route: Route) -> None:
        tries.append(1)
        match len(tries):
            case 1:
                await route.abort("connectionreset")
            case 2:
                await route.fulfill(status=503, headers={"Retry-After": "1"}, body="{}")
            case 3:
                await route.fulfill(status=502, content_type="text/html", body="<h1>Bad gateway</h1>")
            case _:
                await seen.wait()
                await route.continue_()

    await page.press("agree")
    await page.page.route("**/v1/capture/document", fail)
    await page.upload(document())
    banner = page.page.locator('[data-slot="banner"]')
    await expect(banner).to_be_visible()
    wrong = await page.judge("offline", widths=(320,))
    seen.set()

    await expect(page.page.locator('[data-action="use"]:visible')).to_be_visible()
    await expect(banner).to_be_hidden()
    assert (len(tries), wrong) == (4, [])


async def test_a_covered_lens_is_said_to_be_black(camera: Camera, shown: Show, open_session: Open) -> None:
    write_scene(camera.scene, black())
    page = await shown((await open_session("sim:approved@black"))["url"])
    await page.press("agree")

    await page.on_screen("blocked")
    await expect(page.page.locator('[data-slot="blocked-why"]')).to_contain_text("only black")


@pytest.mark.parametrize("token", ["", "cap_x", "finished"])
async def test_a_link_that_is_over_says_what_to_do(
    shown: Show, open_session: Open, service: Service, token: str
) -> None:
    if token == "finished":  # noqa: S105 - a name
        opened = await open_session("sim:approved@cancelled")
        headers = {"Authorization": f"Bearer {service.test_key}"}
        path = f"{service.url}/v1/verification-sessions/{opened['session_id']}/cancel"
        async with service.client.post(path, headers=headers) as answer:
            assert answer.status == 200
        token = opened["client_token"]
    page = await shown("about:blank")
    page.expected = ("401",)
    await page.page.goto(f"{service.url}/verify#{token}")

    await page.on_screen("ended")
    wrong = await page.judge("ended", widths=(320,)) if not token else []
    assert wrong == []


async def test_the_keyboard_alone_is_enough(shown: Show, open_session: Open) -> None:
    page = await shown((await open_session("sim:approved@keys"))["url"], allowed=False)
    keyboard = page.page.keyboard

    async def tab_to(selector: str) -> None:
        target = page.page.locator(selector)
        await expect(target).to_be_visible()
        for _ in range(30):
            if await target.evaluate("element => element === document.activeElement"):
                return
            await keyboard.press("Tab")
        raise AssertionError(f"{selector} cannot be reached")

    choosers = asyncio.Queue[FileChooser]()
    page.page.on("filechooser", choosers.put_nowait)

    async def choose(selector: str) -> FileChooser:
        """Press Enter until a chooser opens: a screen that has just appeared may move the focus once more."""
        async with asyncio.timeout(120):
            while True:
                await tab_to(selector)
                await keyboard.press("Enter")
                with suppress(TimeoutError):
                    chooser = await asyncio.wait_for(choosers.get(), 5)
                    if await chooser.element.is_visible():
                        return chooser

    await page.on_screen("consent")
    await tab_to('[data-action="agree"]')
    await keyboard.press("Enter")
    for what, picture in (("document", document()), ("selfie", to_jpeg(hopper().selfie))):
        await page.on_screen("blocked")
        chooser = await choose('[data-screen="blocked"] [data-slot="file"]')
        await chooser.set_files({"name": "a.jpg", "mimeType": "image/jpeg", "buffer": picture})
        await expect(page.page.locator('[data-action="use"]:visible')).to_be_focused()
        await keyboard.press("Enter")
        if what == "document":
            await page.on_screen("number")
            await tab_to("#last4")
            await keyboard.type("02C3")
            await keyboard.press("Enter")
    await page.on_screen("result")


async def test_names_of_markup_are_shown_as_text(shown: Show, open_session: Open) -> None:
    canary = "<img src=x onerror=document.title='run'>\u202e" + "long " * 800
    opened = await open_session("sim:approved@canary")
    page = await shown("about:blank", allowed=False)

    async def replace(route: Route) -> None:
        answer = await route.fetch()
        view: dict[str, Any] = await answer.json()
        for one in view["documents"]:
            one["display_name"] = canary
        await route.fulfill(response=answer, json={**view, "tenant": {"name": canary}})

    await page.page.route("**/v1/capture", replace)
    await page.page.goto(opened["url"])
    await page.on_screen("consent")
    wrong = await page.scrolls_sideways()
    await page.press("agree")
    await page.on_screen("blocked")

    assert (await page.page.locator("img[src=x]").count(), wrong) == (0, False)
    await expect(page.page).to_have_title("The camera cannot be used")
