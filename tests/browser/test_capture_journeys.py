"""The capture page from its link to its result, in a browser with a camera, against a running service."""

import asyncio
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
from PIL import ExifTags, Image
from playwright.async_api import FileChooser, Route, expect

from app.demo.specimens import PassportSpecimen, draw_passport, to_jpeg
from tests.browser.adapted import judge_adapted
from tests.browser.conftest import PLAIN_HOST, Camera, Open, Show
from tests.browser.scenes import black, face, passport, steady, write_scene
from tests.browser.shown import Shown
from tests.journeys.service import Service, blurred, hopper

pytestmark = pytest.mark.asyncio(loop_scope="session")

TARGET: Final = "https://bank.example/back?case=7"
PICTURE_BYTES: Final = 900_000
"""The most that is sent of a picture, however large it was."""

TITLE: Final = '[data-slot="result-title"]'


def document() -> bytes:
    """The picture of a specimen passport."""
    return to_jpeg(draw_passport(PassportSpecimen(), hopper().portrait))


PLACE: Final = "51.4779 N 0.0015 W"
"""The place in the metadata of a picture."""


def sixty_megapixels() -> bytes:
    """The same page as a very large photograph, held sideways, with metadata."""
    page = draw_passport(PassportSpecimen(), hopper().portrait).convert("L")
    out, exif = BytesIO(), Image.Exif()
    large = page.resize((9600, round(9600 * page.height / page.width)), Image.Resampling.NEAREST)
    exif[ExifTags.Base.Orientation], exif[ExifTags.Base.ImageDescription] = 6, PLACE  # to be turned clockwise
    large.transpose(Image.Transpose.ROTATE_90).save(out, "JPEG", quality=90, exif=exif)
    return out.getvalue()


def small() -> bytes:
    """A picture of too few pixels."""
    return to_jpeg(Image.new("RGB", (150, 900)))


def moving(kind: str) -> bytes:
    """Two pictures in one file."""
    out, frames = BytesIO(), [Image.new("RGB", (400, 400), colour) for colour in ("red", "blue")]
    frames[0].save(out, kind, save_all=True, append_images=frames[1:])
    return out.getvalue()


UNUSABLE: Final = (
    *((moving(kind), "does not move") for kind in ("GIF", "WEBP", "PNG")),
    (b"\0\0\0\x18ftypheic\0\0\0\0mif1heic", "cannot open HEIC"),
    (b"%PDF-1.7 and no picture", "not a picture that can be opened"),
    (b"", "not a picture that can be opened"),
    (small(), "too small"),
)
"""Files that cannot be sent, and what is said of them."""

NO_CAMERA: Final = {
    "NotFoundError": "No camera was found",
    "NotReadableError": "Another app is using the camera",
    "in app": "your phone's own browser",
    "no camera for pages": "your phone's own browser",
}
"""Why a browser gives no camera, and what is said of it."""

NOTE_STREAMS: Final = """
window.asked = [], window.given = [];
const ask = navigator.mediaDevices.getUserMedia.bind(navigator.mediaDevices);
navigator.mediaDevices.getUserMedia = async wanted => {
  asked.push({ ...wanted.video, audio: wanted.audio });
  const stream = await ask(wanted);
  given.push(...stream.getTracks());
  return stream;
};
"""
"""Notes every camera and microphone that is asked for, and what was given."""

TWO_WITH_LIGHT: Final = """
window.lit = [];
navigator.mediaDevices.enumerateDevices = async () => [{ kind: "videoinput" }, { kind: "videoinput" }];
MediaStreamTrack.prototype.getCapabilities = () => ({ torch: true });
MediaStreamTrack.prototype.applyConstraints = async wanted => { lit.push(wanted.advanced[0].torch); };
"""
"""Makes a device of two cameras with lights."""

NOTE_SENT: Final = """() => {
  window.sent = [];
  const send = XMLHttpRequest.prototype.send;
  XMLHttpRequest.prototype.send = function (body) {
    if (body instanceof Blob) sent.push(body);
    return send.call(this, body);
  };
}"""
"""Notes the pictures that are sent."""

GIVE_NOTHING: Final = """() => {
  const track = () => new MediaStreamTrackGenerator({ kind: "video" });
  navigator.mediaDevices.getUserMedia = async () => new MediaStream([track()]);
}"""
"""Lets the camera be allowed and never deliver a picture."""

FIRST_IS_LATE: Final = """() => {
  const ask = navigator.mediaDevices.getUserMedia.bind(navigator.mediaDevices);
  let last;
  const second = new Promise(done => last = done);
  window.calls = 0;
  navigator.mediaDevices.getUserMedia = async wanted => {
    window.calls += 1;
    if (calls > 1) return last(), ask(wanted);
    await second;
    await new Promise(done => setTimeout(done, 1000));
    return ask(wanted);
  };
}"""
"""Lets the first camera that is asked for come after the second."""

CAMERA: Final = {"width": {"ideal": 1920}, "height": {"ideal": 1080}, "audio": False}
SIDES: Final = ("environment", "user", "environment", "user")
"""The back camera for the document, the front one for the face, which is flipped there and back."""

REFUSE: Final = """name => {
  const give = (what, value) => Object.defineProperty(navigator, what, { value, configurable: true });
  if (name === "no camera for pages") return give("mediaDevices", undefined);
  const inApp = name === "in app";
  if (inApp) give("userAgent", "Mozilla/5.0 (Linux; Android 14; Pixel 8; wv) Version/4.0 Mobile Safari/537");
  const refused = new DOMException("", inApp ? "NotAllowedError" : name);
  navigator.mediaDevices.getUserMedia = () => Promise.reject(refused);
}"""
"""Lets the browser answer as one without a camera, one that is busy, and those of other apps."""


class Lost(NamedTuple):
    """An answer that the service did not give."""

    status: int
    kind: str
    body: str


LOST: Final = (
    "request",
    "answer",
    Lost(503, "application/problem+json", "{}"),
    Lost(429, "application/problem+json", "{}"),
    Lost(502, "text/html", "<h1>Bad gateway</h1>"),
    Lost(200, "text/html", "<h1>Sign in to the network</h1>"),
    Lost(200, "application/json", '{"accepted": tr'),
)
"""What becomes of a picture on its way, one after the other."""


COUNT_WRITTEN: Final = """() => {
  window.written = 0;
  const count = new MutationObserver(records => (window.written += records.length));
  for (const one of document.querySelectorAll(".top, .foot, [data-screen=consent]")) {
    count.observe(one, { childList: true, characterData: true, subtree: true });
  }
}"""
"""Counts what is written anew: a screen reader hears all of it, and not the next headline."""


NO_STORAGE: Final = """Object.defineProperty(window, "sessionStorage", {
  get() { throw new DOMException("refused", "SecurityError"); },
})"""
"""Lets the browser refuse storage."""


async def upload_until_result(page: Shown, why: str) -> None:
    """Agree, and upload both pictures instead of taking them; the page says why."""
    await page.on_screen("consent")
    await page.press("agree")
    await expect(page.page.locator('[data-slot="blocked-why"]')).to_contain_text(why)
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
    wrong += await judge_adapted(page, "consent")
    await page.press("agree")

    await expect(page.page.locator('[data-action="use"]:visible')).to_be_focused()
    wrong += await page.judge("check-good")
    wrong += await judge_adapted(page, "check-good")
    await page.press("use")
    wrong += await page.judge("number")
    wrong += await judge_adapted(page, "number")
    await page.page.locator("#last4").fill("02c3")
    await page.page.keyboard.press("Enter")

    await expect(page.page.locator(TITLE)).to_have_text("Thank you, it is you")
    wrong += await page.judge("verified")
    wrong += await judge_adapted(page, "verified")
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
    write_scene(camera.scene, black())  # of which no picture is taken by itself
    page = await shown("about:blank")
    await page.page.add_init_script(NOTE_STREAMS + TWO_WITH_LIGHT)
    await page.page.goto((await open_session("sim:approved@face"))["url"])
    await page.on_screen("consent")
    before = await page.page.evaluate("asked.length")
    await page.press("agree")
    await page.upload(document())
    await page.press("use")
    await page.page.locator("#last4").fill("02C3")
    write_scene(camera.scene, steady(face()))
    await page.page.keyboard.press("Enter")
    video = page.page.locator("video.front")
    await expect(video).to_be_visible()

    wrong = await page.judge("selfie", widths=(320, 1280))
    wrong += await judge_adapted(page, "selfie")
    await page.page.set_viewport_size({"width": 320, "height": 568})
    shutter = await page.page.locator('[data-action="shoot"]').bounding_box()
    guide = await page.page.locator(".guide:visible").bounding_box()
    attributes = [await video.get_attribute(name) for name in ("playsinline", "muted", "autoplay")]
    light = page.page.locator('[data-action="light"]:visible')
    for state in ("true", "false", "true"):
        await light.click()
        await expect(light).to_have_attribute("aria-pressed", state)
    await page.press("flip")
    await expect(page.page.locator("video:not(.front):visible")).to_be_visible()
    await expect(light).to_have_attribute("aria-pressed", "false")
    await page.press("flip")
    await expect(video).to_be_visible()
    await page.press("shoot")
    await page.press("use")
    await page.press("cannot-move")
    await page.on_screen("result")

    assert (attributes, wrong) == (["", "", ""], [])
    assert before == 0
    assert await page.page.evaluate("lit") == [True, False, True]
    assert await page.page.evaluate("asked") == [{**CAMERA, "facingMode": {"ideal": side}} for side in SIDES]
    assert await page.page.evaluate("given.map(one => one.readyState)") == ["ended"] * len(SIDES)
    assert shutter is not None
    assert guide is not None
    assert shutter["y"] + shutter["height"] <= 568
    assert guide["y"] + guide["height"] <= shutter["y"] + 8


async def test_who_refuses_the_camera_uploads(shown: Show, open_session: Open, service: Service) -> None:
    opened = await open_session("sim:review:FACE_MATCH_UNCERTAIN@upload")
    page = await shown(opened["url"], allowed=False)
    await page.on_screen("consent")
    await page.page.evaluate(COUNT_WRITTEN)
    await page.press("agree")
    await page.on_screen("blocked")
    assert await page.page.evaluate("written") == 0
    wrong = await page.judge("blocked")
    wrong += await judge_adapted(page, "blocked")
    await page.page.reload()
    await page.on_screen("blocked")
    await page.page.goto("about:blank")
    await page.page.go_back()
    await page.on_screen("blocked")
    for name, words in NO_CAMERA.items():
        await page.page.evaluate(REFUSE, name)
        await page.press("camera")
        await expect(page.page.locator('[data-slot="blocked-why"]')).to_contain_text(words)
    note = page.page.locator('[data-slot="note"]:visible')
    for picture, words in UNUSABLE:
        await page.upload(picture)
        await expect(note).to_contain_text(words)
        await page.on_screen("blocked")
    await page.page.evaluate(NOTE_SENT)
    await page.upload(sixty_megapixels())
    await expect(page.page.locator('[data-action="use"]:visible')).to_be_visible()
    sent = await page.page.locator('[data-slot="photo"]').evaluate(
        "one => [one.naturalWidth, one.naturalHeight]"
    )
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
    puts = [await one.all_headers() for one in page.requests if one.method == "PUT"]
    assert max(int(one["content-length"]) for one in puts) <= PICTURE_BYTES
    assert PLACE.encode() in sixty_megapixels()
    assert not await page.page.evaluate("async place => (await sent[0].text()).includes(place)", PLACE)
    assert (sent[0], sent[0] > sent[1], wrong) == (2200, True, [])


async def test_declining_takes_nothing_and_can_be_undone(shown: Show, open_session: Open) -> None:
    page = await shown((await open_session("sim:approved@declined", return_url=TARGET))["url"])
    await page.press("decline")
    await page.on_screen("declined")
    wrong = await page.judge("declined")
    await page.press("consent")

    await page.on_screen("consent")
    assert wrong == []


async def test_an_insecure_device_with_a_wrong_clock_goes_on_and_the_first_one_follows(
    shown: Show, open_session: Open, service: Service
) -> None:
    opened = await open_session("sim:reject:FACE_MISMATCH@hand")
    desk = await shown(opened["url"], viewport={"width": 1280, "height": 800})
    await desk.press("hand-over")
    await desk.on_screen("hand")
    wrong = await desk.judge("hand-over")
    wrong += await judge_adapted(desk, "hand-over")
    phone = await shown("about:blank", allowed=False)
    phone.expected = ("Cross-Origin-Opener-Policy",)  # heeded on secure connections only
    phone.origin = service.url.replace("127.0.0.1", PLAIN_HOST)
    await phone.context.add_init_script(NO_STORAGE)
    await phone.page.clock.set_fixed_time("1999-12-31T23:59:59Z")
    await phone.page.goto(opened["url"].replace(service.url, phone.origin))
    await phone.on_screen("consent")
    await phone.page.reload()
    await upload_until_result(phone, "only over a secure connection")

    await expect(desk.page.locator(TITLE)).to_have_text("You could not be verified")
    wrong += await desk.judge("not-verified")
    assert wrong == []


async def test_what_the_network_loses_is_sent_again_by_itself_and_kept_once(
    shown: Show, open_session: Open, service: Service, tmp_path: Path
) -> None:
    opened = await open_session("sim:approved@cut", "DOCUMENT")
    page = await shown(opened["url"], allowed=False)
    page.expected = ("ERR_", "409", "429", "502", "503")  # 409: handed in already
    chosen, left = tmp_path / "page.jpg", list(LOST)
    chosen.write_bytes(document())
    seen = asyncio.Event()

    async def cut(route: Route) -> None:
        chosen.write_bytes(b"")  # the picture is in memory by now
        if not left:
            await seen.wait()
            await route.continue_()
            return
        match left.pop(0):
            case "request":
                await route.abort("connectionreset")
            case "answer":
                await route.fetch()
                await route.abort("connectionreset")
            case Lost(status, kind, body):
                await route.fulfill(status=status, headers={"Retry-After": "1"}, content_type=kind, body=body)

    async def never(route: Route) -> None:
        await route.abort("connectionreset")

    await page.on_screen("consent")
    await page.page.route("**/assets/taking.*", never)
    await page.press("agree")
    await page.on_screen("failed")
    wrong = await page.judge("failed", widths=(320,))
    await page.page.unroute("**/assets/taking.*")
    await page.press("retry")
    await page.on_screen("blocked")
    await page.page.route("**/v1/capture/document", cut)
    await page.page.locator('section:not([hidden]) [data-slot="file"]').set_input_files(chosen)
    banner = page.page.locator('[data-slot="banner"]')
    await expect(banner).to_be_visible()
    wrong += await page.judge("offline", widths=(320,))
    seen.set()
    await page.press("use")
    await expect(banner).to_be_hidden()
    assert (left, wrong) == ([], [])

    left.extend(["request", "answer"])
    await page.page.route("**/v1/capture/submit", cut)
    await page.page.locator("#last4").fill("02C3")
    await page.page.keyboard.press("Enter")
    await expect(page.page.locator(TITLE)).to_have_text("Thank you, it is you")
    row = (await service.get(f"/v1/verification-sessions/{opened['session_id']}"))[1]
    found = (await service.get(f"/v1/verifications/{row['verification_id']}"))[1]
    assert [one["kind"] for one in found["evidence"]].count("IMAGE") == 1


async def test_a_covered_lens_is_said_to_be_black(camera: Camera, shown: Show, open_session: Open) -> None:
    write_scene(camera.scene, black())
    page = await shown((await open_session("sim:approved@black"))["url"])
    await page.press("agree")

    await page.on_screen("blocked")
    await expect(page.page.locator('[data-slot="blocked-why"]')).to_contain_text("only black")


async def test_who_agrees_while_the_page_looks_again_is_asked_for_the_camera_once(
    camera: Camera, shown: Show, open_session: Open
) -> None:
    async def answer_late(route: Route) -> None:
        answer = await route.fetch()
        await page.on_screen("camera")  # the page has looked meanwhile, and gone on
        await route.fulfill(response=answer)
        answered.set()

    write_scene(camera.scene, black())  # of which no picture is taken by itself
    page = await shown((await open_session("sim:approved@once"))["url"])
    answered = asyncio.Event()
    await page.on_screen("consent")
    await page.page.evaluate(f"() => {{{NOTE_STREAMS}}}")
    await page.page.route("**/v1/capture/consent", answer_late)
    await page.press("agree")
    await answered.wait()

    await page.on_screen("blocked")
    assert await page.page.evaluate("asked.length") == 1


async def test_a_camera_that_is_asked_for_twice_shows_the_second_picture(
    camera: Camera, shown: Show, open_session: Open
) -> None:
    write_scene(camera.scene, steady(passport()))
    page = await shown((await open_session("sim:approved@twice"))["url"], allowed=False)
    await page.press("agree")
    await page.on_screen("blocked")
    await page.context.grant_permissions(["camera"])
    await page.page.evaluate(FIRST_IS_LATE)
    await page.page.locator('[data-action="camera"]:visible').dblclick()

    await expect(page.page.locator('[data-action="use"]:visible')).to_be_focused()
    assert await page.page.evaluate("calls") == 2


async def test_a_camera_that_shows_nothing_is_said_to_be_busy(shown: Show, open_session: Open) -> None:
    page = await shown((await open_session("sim:approved@nothing"))["url"])
    await page.page.evaluate(GIVE_NOTHING)
    await page.page.clock.install()
    await page.press("agree")
    await page.on_screen("camera")
    await page.page.clock.run_for(13_000)

    await page.on_screen("blocked")
    await expect(page.page.locator('[data-slot="blocked-why"]')).to_contain_text("Another app is using")


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
