"""The movements of a verification as a strip in the console: in order, as far as they were made (P16)."""

import re
from typing import Any

import pytest

from app.web.site import console_language
from schemas.ids import SubjectId
from schemas.movements import Movement, MovementsOutcome
from schemas.people import Role
from tests.builders import ACME
from tests.http.console import enter
from tests.http.session_steps import open_page, publish_flow
from tests.http.support import Front, draw_image
from tests.http.test_console_case import UNCERTAIN, doubtful, look
from tests.http.test_movements import CAMERA, draw, send

TO_PLACE = {"To their left": "LEFT", "To their right": "RIGHT", "Up": "UP"}


async def moved(front: Front, made: int) -> tuple[list[str], dict[str, Any]]:
    """The movements asked for and the doubtful verification of a person who made some of them."""
    page = await open_page(front, await publish_flow(await front.sign_in()), UNCERTAIN)
    await page.consent()
    await page.put("document")
    await page.ask("PUT", "/selfie", data=draw_image(), headers=CAMERA)
    asked = [(await draw(page))["movement"]]
    answers = [await send(page, step, step) for step in range(1, made + 1)]
    asked += [one.json["movement"] for one in answers]
    await page.ask("POST", "/challenge/skip", json={})
    assert (await page.ask("POST", "/submit", json={})).status == 202
    await front.sending.settle()
    (verification,) = (await front.ask("GET", "/v1/verifications")).json["verifications"]
    return [one for one in asked if one], verification


def strip(page: str) -> str:
    """The part of a case that shows the movements."""
    return page.partition('id="movements"')[2].partition('<section class="card read"')[0]


def steps(page: str) -> list[str]:
    """The movements of the strip, in its order."""
    return [TO_PLACE[words] for words in re.findall(r"<strong>\d\. ([\w ]+)</strong>", strip(page))]


async def viewed(front: Front) -> list[dict[str, str]]:
    """What was looked at, oldest first."""
    rows = (await front.ask("GET", "/v1/audit?action=evidence.viewed")).json["events"]
    return [row["context"]["changes"] for row in reversed(rows)]


async def test_movements_are_a_strip_in_their_order_whose_frames_are_fetched_when_seen(front: Front) -> None:
    asked, made = await moved(front, 3)
    page = await look(await enter(front, Role.REVIEWER), made)
    trace, *frames = [one["id"] for one in made["evidence"] if one["kind"] == "LIVENESS_TRACE"]

    assert steps(page) == asked
    assert re.findall(r'data-src="/v1/verifications/[^"]+/(evd_\w+)"', strip(page)) == frames
    assert all(words in strip(page) for words in ("All made in time", "Frames judged: 3. Drawn: 1 of 5"))
    assert len(re.findall(r"after \d+\.\d s, try 1, \d\.\d\d from the selfie", strip(page))) == 3
    assert [one["evidence_id"] for one in await viewed(front) if "evidence_id" in one] == [trace]
    assert "looked at 0 of 2 images" in page  # the document and the selfie; frames need not be looked at


async def test_movements_that_were_not_made_are_named(front: Front) -> None:
    asked, made = await moved(front, 1)
    page = strip(await look(await enter(front, Role.REVIEWER), made))

    assert (len(steps('id="movements"' + page)), page.count("Not made.")) == (3, 2)
    assert (steps('id="movements"' + page)[:2], page.count("data-src=")) == (asked, 1)
    assert "Skipped or not finished." in page


@pytest.mark.parametrize("role", [Role.REVIEWER, Role.AUDITOR])
async def test_without_movements_nothing_of_them_is_shown(front: Front, role: Role) -> None:
    made = await doubtful(front) if role is Role.REVIEWER else (await moved(front, 1))[1]
    page = await look(await enter(front, role), made)

    assert "movements" not in page.partition("<dialog")[0]


async def test_movements_of_an_erased_subject_are_gone(front: Front) -> None:
    _, made = await moved(front, 3)
    who = await enter(front, Role.REVIEWER)
    await front.stores.vault.destroy(ACME, SubjectId(UNCERTAIN))

    page = strip(await look(who, made))

    assert "The movements were deleted" in page
    assert "data-src" not in page


def test_every_word_of_a_movement_has_a_text() -> None:
    wanted = {f"movement.{one}" for one in Movement} | {f"moved.{one}" for one in MovementsOutcome}

    assert wanted - set(console_language().texts) == set()
