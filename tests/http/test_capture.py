"""The subject's page over HTTP: order, images, tokens, second chances, plain results."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest

from app.configuration.front import RateLimits
from schemas.enums import EvidenceKind
from schemas.ids import SessionId
from tests.builders import ACME, GLOBEX
from tests.http.session_steps import PATH, Page, open_page, open_session, publish_flow
from tests.http.support import TEST, Front, SignedIn, draw_image, encoded, open_front


@pytest.fixture
async def front() -> AsyncIterator[Front]:
    """A front over memory stores."""
    async with open_front() as opened:
        yield opened


@pytest.fixture
async def owner(front: Front) -> SignedIn:
    """An owner of ACME."""
    return await front.sign_in()


@pytest.fixture
async def page(front: Front, owner: SignedIn) -> Page:
    """The page of a session under a FULL_IDENTITY flow."""
    return await open_page(front, await publish_flow(owner))


def images(front: Front, kind: EvidenceKind) -> int:
    """How many images of a kind are kept."""
    return sum(row.kind is kind for row, _ in front.shelves.evidence.values())


async def test_the_page_sees_what_it_needs_and_nothing_internal(page: Page) -> None:
    view = (await page.ask("GET")).json

    assert set(view) == {
        "session_id", "status", "flow_type", "required_checks", "documents", "consent", "document",
        "selfie", "retry_reasons", "attempts_left", "expires_at", "locale", "locales", "return_url", "result",
        "tenant", "session_locale", "steps", "limits", "kept",
    }  # fmt: skip
    assert (view["status"], view["attempts_left"], view["result"]) == ("CREATED", 3, None)
    assert view["documents"][0]["capture"] == {"document_number_required": True}
    assert view["consent"]["accepted_at"] is None
    assert view["tenant"] == {"name": "Acme Bank"}


async def test_the_page_sees_its_steps_and_at_the_end_until_when_pictures_are_stored(page: Page) -> None:
    before = (await page.ask("GET")).json
    await page.consent()
    await page.put("document")
    between = (await page.ask("GET")).json
    after = await page.hand_in()

    assert [one["step"] for one in before["steps"]] == [
        *("CONSENT", "DOCUMENT", "NUMBER", "SELFIE", "MOVEMENTS", "RESULT")
    ]
    assert {one["state"] for one in before["steps"]} == {"TODO"}
    assert [one["step"] for one in between["steps"] if one["state"] == "DONE"] == ["CONSENT", "DOCUMENT"]
    assert {one["state"] for one in after["steps"]} == {"DONE"}
    assert (before["kept"], [one["what"] for one in after["kept"]]) == ([], ["DOCUMENT", "FACE"])
    days = [datetime.fromisoformat(one["until"]) - datetime.now(UTC) for one in after["kept"]]
    assert [round(one / timedelta(days=1)) for one in days] == [90, 30]


async def test_a_page_that_has_the_state_is_not_sent_it_again(page: Page) -> None:
    first = await page.ask("GET")
    same = await page.ask("GET", headers={"If-None-Match": first.headers["ETag"]})
    await page.consent()
    changed = await page.ask("GET", headers={"If-None-Match": first.headers["ETag"]})

    assert (same.status, same.body, changed.status) == (304, b"", 200)


async def test_the_link_for_another_device_is_the_pages_own(page: Page) -> None:
    link = (await page.ask("GET", "/link")).json

    assert (link["url"], link["expires_at"]) == (page.opened["url"], page.opened["expires_at"])
    assert link["qr_svg"].startswith("<svg")


async def test_where_an_image_comes_from_is_shown_to_the_tenant(front: Front, page: Page) -> None:
    await page.consent()
    headers = {"Content-Type": "image/png", "Capture-Source": "CAMERA"}
    await page.ask("PUT", "/document", data=draw_image(), headers=headers)
    await page.put("selfie")
    wrong = await page.ask(
        "PUT", "/selfie", data=draw_image(), headers={**headers, "Capture-Source": "TELESCOPE"}
    )

    row = (await front.ask("GET", f"{PATH}/{page.session_id}")).json
    assert row["capture_sources"] == {"document": "CAMERA", "selfie": "UPLOAD"}
    assert (wrong.status, wrong.json["errors"][0]["header"]) == (422, "Capture-Source")


async def test_a_second_image_at_the_same_time_is_to_wait(page: Page) -> None:
    await page.consent()

    responses = await asyncio.gather(*(page.put("document") for _ in range(5)))

    found = {one.status for one in responses}
    assert 200 in found
    assert {one.code for one in responses if one.status != 200} <= {"RATE_LIMITED"}
    assert (await page.put("document")).status == 200


@pytest.mark.parametrize("what", ["document", "selfie"])
async def test_no_image_is_taken_before_consent(front: Front, page: Page, what: str) -> None:
    before = await page.put(what)
    declined = await page.consent(accepted=False)
    after = await page.put(what)

    assert (before.status, before.code) == (409, "CONSENT_REQUIRED")
    assert (declined.status, declined.json["consent"]["accepted_at"]) == (200, None)
    assert (after.status, after.code) == (409, "CONSENT_REQUIRED")
    assert front.shelves.evidence == {}


async def test_consent_names_the_notice_that_is_shown(page: Page) -> None:
    response = await page.ask("POST", "/consent", json={"notice_version": "1999-01", "accepted": True})

    assert (response.status, response.pointers) == (422, {"/notice_version": "VALIDATION_FAILED"})


async def test_where_faces_are_searched_the_notice_says_so_and_what_was_agreed_to_stays(
    owner: SignedIn, page: Page
) -> None:
    plain = (await page.ask("GET")).json["consent"]
    body = {"verification_policy": {"duplicate_faces": "review"}}
    assert (await owner.ask("PATCH", "/v1/control/settings", json=body)).status == 200
    searched = (await page.ask("GET")).json["consent"]

    outdated = await page.ask(
        "POST", "/consent", json={"notice_version": plain["notice_version"], "accepted": True}
    )
    await page.consent()
    await owner.ask("PATCH", "/v1/control/settings", json={"verification_policy": {"duplicate_faces": "off"}})
    agreed = (await page.ask("GET")).json["consent"]

    assert "faces of the other people" in searched["text"]
    assert "faces of the other people" not in plain["text"]
    assert (outdated.status, outdated.pointers) == (422, {"/notice_version": "VALIDATION_FAILED"})
    assert (agreed["notice_version"], agreed["text"]) == (searched["notice_version"], searched["text"])


async def test_consent_twice_starts_once(owner: SignedIn, page: Page) -> None:
    responses = await asyncio.gather(*(page.consent() for _ in range(5)))

    rows = (await owner.ask("GET", "/v1/audit?action=session.started")).json["events"]
    assert {one.status for one in responses} == {200}
    assert [row["actor_type"] for row in rows] == ["SUBJECT"]
    assert rows[0]["context"]["changes"]["notice_version"]


@pytest.mark.parametrize("kind", ["image/png", "application/octet-stream", "json"])
async def test_an_image_is_the_body_or_stands_in_it_and_the_same_is_kept_once(
    front: Front, page: Page, kind: str
) -> None:
    await page.consent()

    if kind == "json":
        response = await page.ask("PUT", "/document", json={"image_base64": encoded(draw_image())})
    else:
        response = await page.put("document", kind=kind)
    again = await page.put("document")

    assert (response.status, response.json) == (200, {"accepted": True, "reasons": []})
    assert (again.status, again.json) == (response.status, response.json)
    assert images(front, EvidenceKind.IMAGE) == 1


async def test_a_blurred_picture_is_said_to_be_blurred_at_once(front: Front, owner: SignedIn) -> None:
    page = await open_page(front, await publish_flow(owner), "customer-1")
    await page.consent()

    response = (await page.put("document")).json

    assert response["accepted"] is False
    assert [reason["code"] for reason in response["reasons"]] == ["IMAGE_BLURRED"]
    assert response["reasons"][0]["message"]
    assert (await page.view())["document"] == response


async def test_the_picture_taken_last_counts_and_the_others_are_removed(front: Front, page: Page) -> None:
    await page.consent()

    for size in (200, 300, 400):
        await page.put("selfie", draw_image(size, size))

    assert images(front, EvidenceKind.SELFIE) == 1


@pytest.mark.parametrize(
    ("image", "kind", "status", "code"),
    [
        (b"no image", "image/png", 400, "IMAGE_UNDECODABLE"),
        (draw_image()[:-40], "image/png", 400, "IMAGE_UNDECODABLE"),
        (draw_image(100, 100), "image/png", 422, "IMAGE_NOT_EVALUABLE"),
        (b"x" * 10_000_001, "image/jpeg", 413, "PAYLOAD_TOO_LARGE"),
        (draw_image(), "text/plain", 415, "UNSUPPORTED_MEDIA_TYPE"),
        (b'{"image_base64": "@"}', "application/json", 400, "IMAGE_UNDECODABLE"),
        (b'{"image": "x"}', "application/json", 422, "VALIDATION_FAILED"),
    ],
)
async def test_what_is_no_usable_image_is_refused(
    front: Front, page: Page, image: bytes, kind: str, status: int, code: str
) -> None:
    await page.consent()

    response = await page.put("document", image, kind)

    assert (response.status, response.code) == (status, code)
    assert front.shelves.evidence == {}


async def test_nothing_is_handed_in_before_both_pictures_are_there(page: Page) -> None:
    early = await page.ask("POST", "/submit", json={})
    await page.consent()
    await page.put("document")
    half = await page.ask("POST", "/submit", json={})

    assert (early.status, early.code) == (409, "CONSENT_REQUIRED")
    assert (half.status, half.code, list(half.pointers)) == (422, "VALIDATION_FAILED", [""])


async def test_a_document_the_flow_does_not_accept_cannot_be_named(page: Page) -> None:
    await page.consent()
    await page.put("document")
    await page.put("selfie")

    response = await page.ask("POST", "/submit", json={"document_code": "GB_PASSPORT"})

    assert (response.status, response.pointers) == (422, {"/document_code": "VALIDATION_FAILED"})


async def test_handing_in_twice_is_once(owner: SignedIn, page: Page) -> None:
    await page.consent()
    await page.put("document")
    await page.put("selfie")

    responses = await asyncio.gather(*(page.ask("POST", "/submit", json={}) for _ in range(10)))
    view = await page.view()

    rows = (await owner.ask("GET", "/v1/audit?action=session.submitted")).json["events"]
    assert {one.status for one in responses} <= {202, 409}
    assert 202 in {one.status for one in responses}
    assert (view["status"], len(rows)) == ("APPROVED", 1)


async def test_a_finished_session_takes_nothing_any_more(page: Page) -> None:
    view = await page.hand_in()

    responses = [
        await page.put("document"),
        await page.put("selfie"),
        await page.ask("POST", "/submit", json={}),
        await page.consent(),
    ]

    assert view["result"] == {"outcome": "VERIFIED", "message": "Thank you. Your identity was verified."}
    assert {(one.status, one.code) for one in responses} == {(409, "SESSION_FINISHED")}


@pytest.mark.parametrize(
    ("subject", "outcome"),
    [
        ("sim:warn", "VERIFIED"),
        ("sim:review:FACE_MATCH_UNCERTAIN", "IN_REVIEW"),
        ("sim:reject:FACE_MISMATCH", "NOT_VERIFIED"),
        ("sim:fail", "IN_REVIEW"),
    ],
)
async def test_the_result_is_reported_in_plain_words_and_without_reasons(
    front: Front, owner: SignedIn, subject: str, outcome: str
) -> None:
    page = await open_page(front, await publish_flow(owner), subject)

    view = await page.hand_in()

    assert view["result"]["outcome"] == outcome
    assert view["retry_reasons"] == []
    assert "FACE" not in view["result"]["message"]


async def test_pictures_that_cannot_be_judged_are_asked_for_twice_more(front: Front, owner: SignedIn) -> None:
    page = await open_page(front, await publish_flow(owner), "sim:review:IMAGE_CROPPED")

    first, second, third = [await page.hand_in() for _ in range(3)]

    row = (await front.ask("GET", f"{PATH}/{page.session_id}")).json
    assert [(view["status"], view["attempts_left"]) for view in (first, second)] == [
        ("STARTED", 2),
        ("STARTED", 1),
    ]
    assert [reason["code"] for reason in first["retry_reasons"]] == ["IMAGE_CROPPED"]
    assert (first["document"], first["selfie"]) == (None, None)
    assert (third["status"], row["attempts"]) == ("REVIEW_REQUIRED", 3)
    assert len((await front.ask("GET", "/v1/verifications")).json["verifications"]) == 1
    assert images(front, EvidenceKind.SELFIE) == 1


async def test_a_token_opens_one_session_and_nothing_else(front: Front, owner: SignedIn) -> None:
    flow_id = await publish_flow(owner)
    one = await open_page(front, flow_id)
    other = await open_page(front, flow_id, "sim:approved@other")

    response = await front.ask("GET", f"{PATH}/{one.session_id}", one.opened["client_token"])
    listed = await front.ask("GET", "/v1/verifications", one.opened["client_token"])

    assert (await one.ask("GET")).json["session_id"] == one.session_id
    assert (await other.ask("GET")).json["session_id"] == other.session_id
    assert (response.status, listed.status) == (401, 401)


async def test_a_forged_expired_or_malformed_token_opens_nothing(front: Front, page: Page) -> None:
    token, tokens = page.opened["client_token"], front.ports.capture_tokens
    soon = datetime.now(UTC) + timedelta(hours=1)
    session_id = SessionId(page.session_id)
    foreign = tokens.issue(GLOBEX, session_id, soon)
    bad = [
        token[:-1] + ("A" if token[-1] != "A" else "B"),
        foreign.rpartition("_")[0] + "_" + token.rpartition("_")[2],
        tokens.issue(ACME, session_id, datetime.now(UTC) - timedelta(seconds=1)),
        token + "x", "cap_", "x", TEST,
    ]  # fmt: skip

    responses = [await front.ask("GET", "/v1/capture", one) for one in bad]
    nobody = await front.ask("GET", "/v1/capture", None)

    assert {one.status for one in [*responses, nobody]} == {401}
    assert (await front.ask("GET", "/v1/capture", foreign)).status == 404


async def test_the_number_typed_is_kept_sealed(front: Front, page: Page) -> None:
    await page.hand_in(number_last4="Q7Z9")

    bodies = [record.body for record in front.shelves.records.values()]
    sent = [command.to_bytes() for command in front.gateway.asked]
    assert not any(b"Q7Z9" in body for body in [*bodies, *sent])


async def test_metadata_and_addresses_are_in_no_command(front: Front, owner: SignedIn) -> None:
    page = await open_page(front, await publish_flow(owner), metadata={"note": "CANARY-77"})
    await page.hand_in()

    sent = [command.to_bytes() for command in front.gateway.asked]
    assert not any(b"CANARY-77" in body or b"127.0.0.1" in body for body in sent)
    assert not any(b"CANARY-77" in record.body for record in front.shelves.records.values())


async def test_a_token_has_a_limit_of_its_own() -> None:
    async with open_front(rate_limits=RateLimits(capture=3)) as front:
        flow_id = await publish_flow(await front.sign_in())
        page = await open_page(front, flow_id)
        other = await open_page(front, flow_id, "sim:approved@other")

        responses = [await page.ask("GET") for _ in range(4)]

        assert [one.status for one in responses] == [200, 200, 200, 429]
        assert (await other.ask("GET")).status == 200


async def test_a_session_not_handed_in_within_a_day_is_over() -> None:
    moment = datetime.now(UTC)

    async with open_front(clock=lambda: moment) as front:
        flow_id = await publish_flow(await front.sign_in())
        page = await open_page(front, flow_id)
        moment += timedelta(hours=24, seconds=1)

        response = await page.ask("GET")
        again = await open_session(front, flow_id)

    assert (response.status, response.code) == (401, "UNAUTHENTICATED")
    assert (again.status, again.json["session_id"] == page.session_id) == (201, False)
