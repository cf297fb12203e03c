"""Movements over HTTP, for a subject of the sandbox, whose frames are accepted without a model."""

from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from typing import Any

import pytest

from app.configuration.front import RateLimits
from schemas.enums import EvidenceKind
from tests.http.session_steps import Page, open_page, publish_flow
from tests.http.support import Front, Response, SignedIn, draw_image, now, open_front

CAMERA = {"Content-Type": "image/png", "Capture-Source": "CAMERA"}


class Clock:
    """A clock that only a test puts forward."""

    def __init__(self) -> None:
        self.began, self.ahead = now(), timedelta()

    def __call__(self) -> datetime:
        """Return the moment."""
        return self.began + self.ahead


@pytest.fixture
def clock() -> Clock:
    """The clock of the handlers."""
    return Clock()


@pytest.fixture
async def front(clock: Clock) -> AsyncIterator[Front]:
    """A front over memory stores."""
    async with open_front(clock=clock, rate_limits=RateLimits(capture=30, capture_frames=10)) as opened:
        yield opened


@pytest.fixture
async def owner(front: Front) -> SignedIn:
    """An owner of ACME."""
    return await front.sign_in()


@pytest.fixture
async def page(front: Front, owner: SignedIn) -> Page:
    """The page of a session whose selfie was taken with the camera."""
    one = await open_page(front, await publish_flow(owner))
    await one.consent()
    await one.put("document")
    await one.ask("PUT", "/selfie", data=draw_image(), headers=CAMERA)
    return one


def frame(number: int) -> bytes:
    """A frame; each number is another picture."""
    return draw_image(480 + number, 640, "JPEG")


async def draw(page: Page, **said: Any) -> Any:
    """Draw movements."""
    response = await page.ask("POST", "/challenge", json=said)
    assert response.status == 201, response.body
    return response.json


async def send(page: Page, step: int, number: int) -> Response:
    """Send a frame for a step."""
    headers = {"Content-Type": "image/jpeg"}
    return await page.ask("PUT", f"/challenge/{step}", data=frame(number), headers=headers)


def state(view: Any) -> str:
    """How the step of movements stands."""
    return str(next(one["state"] for one in view["steps"] if one["step"] == "MOVEMENTS"))


def images(front: Front, kind: EvidenceKind) -> int:
    """How many pieces of evidence of a kind are stored."""
    return sum(row.kind is kind for row, _ in front.shelves.evidence.values())


async def test_movements_follow_one_another_to_the_result(page: Page) -> None:
    drawn = await draw(page)
    answers = [(await send(page, step, step)).json for step in (1, 2, 3)]
    view = (await page.ask("GET")).json
    ended = await page.hand_in()

    asked = [drawn["movement"], *(one["movement"] for one in answers[:2])]
    assert (drawn["step"], drawn["steps"]) == (1, 3)
    assert {"LEFT", "RIGHT"} <= set(asked) <= {"LEFT", "RIGHT", "UP"}
    assert [one["step"] for one in answers] == [2, 3, 3]
    assert [one["done"] for one in answers] == [False, False, True]
    assert answers[2]["movement"] is None
    assert all((one["accepted"], one["hint"]) == (True, None) for one in answers)
    assert (state(view), ended["result"]["outcome"]) == ("DONE", "VERIFIED")


async def test_the_trace_and_the_frames_are_stored_as_biometric_evidence(front: Front, page: Page) -> None:
    await draw(page)
    for step in (1, 2, 3):
        await send(page, step, step)
    await page.ask("POST", "/submit", json={})
    await front.sending.settle()

    listed = (await front.ask("GET", "/v1/verifications")).json["verifications"][0]["evidence"]
    traces = [one for one in listed if one["kind"] == "LIVENESS_TRACE"]
    assert [one["retention_policy"] for one in traces] == ["BIOMETRIC_P30D"] * 4
    assert images(front, EvidenceKind.LIVENESS_TRACE) == 4


@pytest.mark.parametrize(("step", "status"), [(2, 409), (3, 409), (4, 404), (0, 404)])
async def test_a_step_out_of_order_is_refused(page: Page, step: int, status: int) -> None:
    await draw(page)

    response = await send(page, step, 1)

    assert response.status == status
    assert status == 404 or response.code == "CHALLENGE_OVER"


async def test_the_same_frame_twice_and_one_of_an_earlier_challenge_are_not_accepted(
    front: Front, page: Page
) -> None:
    await draw(page)
    await send(page, 1, 1)
    again = (await send(page, 2, 1)).json
    await draw(page)
    earlier = (await send(page, 1, 1)).json

    assert [(one["accepted"], one["hint"]) for one in (again, earlier)] == [(False, "TRY_AGAIN")] * 2
    assert images(front, EvidenceKind.LIVENESS_TRACE) == 0


@pytest.mark.parametrize(("said", "seconds"), [({}, 60), ({"double_time": True}, 120)])
async def test_a_frame_that_comes_too_late_is_refused(
    page: Page, clock: Clock, said: dict[str, bool], seconds: int
) -> None:
    await draw(page, **said)
    clock.ahead = timedelta(seconds=seconds - 30)
    in_time = await send(page, 1, 1)
    clock.ahead = timedelta(seconds=seconds + 30)
    late = await send(page, 2, 2)

    assert (in_time.status, late.status, late.code) == (200, 409, "CHALLENGE_OVER")


async def test_movements_are_drawn_five_times_at_most_and_not_after_they_were_made(page: Page) -> None:
    for _ in range(5):
        await draw(page)
    sixth = await page.ask("POST", "/challenge", json={})
    for step in (1, 2, 3):
        assert (await send(page, step, step)).status == 200
    after = await page.ask("POST", "/challenge", json={})

    assert [(one.status, one.code) for one in (sixth, after)] == [(409, "CHALLENGE_OVER")] * 2


async def test_movements_need_consent_a_selfie_of_the_camera_and_a_flow_with_liveness(
    front: Front, owner: SignedIn
) -> None:
    page = await open_page(front, await publish_flow(owner))
    before = await page.ask("POST", "/challenge", json={})
    await page.consent()
    without = await page.ask("POST", "/challenge", json={})
    await page.put("selfie")
    uploaded = await page.ask("POST", "/challenge", json={})
    other = await open_page(front, await publish_flow(owner, "DOCUMENT"), "sim:approved@2")
    await other.consent()
    foreign = await other.ask("POST", "/challenge", json={})
    frames = await send(page, 1, 1)

    assert (before.status, before.code) == (409, "CONSENT_REQUIRED")
    assert [one.status for one in (without, uploaded, foreign)] == [422] * 3
    assert frames.code == "CHALLENGE_OVER"
    assert state((await page.ask("GET")).json) == "DONE"


@pytest.mark.parametrize(
    ("body", "kind", "status", "code"),
    [
        (draw_image(480, 640), "image/png", 400, "IMAGE_UNDECODABLE"),
        (b"\xff\xd8\xff" + b"x" * 300_000, "image/jpeg", 413, "PAYLOAD_TOO_LARGE"),
        (b"\xff\xd8\xffno picture", "image/jpeg", 400, "IMAGE_UNDECODABLE"),
        (b"left", "text/plain", 415, "UNSUPPORTED_MEDIA_TYPE"),
    ],
    ids=["a PNG", "too large", "broken", "text"],
)
async def test_a_body_that_is_no_frame_is_refused(
    page: Page, body: bytes, kind: str, status: int, code: str
) -> None:
    await draw(page)

    response = await page.ask("PUT", "/challenge/1", data=body, headers={"Content-Type": kind})

    assert (response.status, response.code) == (status, code)


async def test_who_skips_goes_on_and_can_hand_in(page: Page) -> None:
    await draw(page)
    skipped = await page.ask("POST", "/challenge/skip", json={})
    frames = await send(page, 1, 1)
    again = await page.ask("POST", "/challenge/skip", json={})

    assert (skipped.status, state(skipped.json), again.status) == (200, "DONE", 200)
    assert (frames.status, frames.code) == (409, "CHALLENGE_OVER")
    assert (await page.ask("POST", "/submit", json={})).status == 202


async def test_another_selfie_voids_what_was_accepted(front: Front, page: Page) -> None:
    await draw(page)
    await send(page, 1, 1)
    await page.ask("PUT", "/selfie", data=draw_image(300, 300), headers=CAMERA)
    response = await send(page, 2, 2)

    assert (response.status, response.code) == (409, "CHALLENGE_OVER")
    assert images(front, EvidenceKind.LIVENESS_TRACE) == 0


async def test_frames_have_a_limit_of_their_own(page: Page) -> None:
    await draw(page, double_time=True)
    answers = [await send(page, 1 if number == 0 else 2, 0) for number in range(11)]
    view = await page.ask("GET")

    assert [one.status for one in answers].count(200) == 10
    assert (answers[-1].status, answers[-1].code, view.status) == (429, "RATE_LIMITED", 200)


async def test_a_key_draws_once_and_says_no_more_than_the_first_answer(page: Page) -> None:
    key = {"Idempotency-Key": "one"}
    first = await page.ask("POST", "/challenge", json={}, headers=key)
    assert (await send(page, 1, 1)).json["step"] == 2

    again = await page.ask("POST", "/challenge", json={}, headers=key)
    other = await page.ask("POST", "/challenge", json={"double_time": True}, headers=key)

    assert (first.status, again.status, again.json) == (201, 200, first.json)
    assert (other.status, other.code) == (422, "IDEMPOTENCY_KEY_REUSED")
    assert (await send(page, 2, 2)).json["accepted"]
