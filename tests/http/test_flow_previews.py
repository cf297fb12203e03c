"""A draft is walked through by a test session before it is published (P22)."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from schemas.enums import FlowType
from schemas.people import Role
from tests.builders import GLOBEX
from tests.http.session_steps import FLOWS, PATH, Page, draft_flow
from tests.http.support import LIVE, TEST, Front, Response, SignedIn

TAKEN = {
    FlowType.BIOMETRIC: ("selfie",),
    FlowType.DOCUMENT: ("document",),
    FlowType.FULL_IDENTITY: ("document", "selfie"),
}
"""The images of a flow type."""


@pytest.fixture
async def owner(front: Front) -> SignedIn:
    """An owner of ACME."""
    return await front.sign_in()


async def preview(owner: SignedIn, flow_id: str, **more: Any) -> Response:
    """Open a session under the draft."""
    return await owner.ask("POST", f"{FLOWS}/{flow_id}/preview", json={}, **more)


@pytest.mark.parametrize("flow_type", FlowType)
async def test_a_draft_that_was_never_published_is_walked_through(
    front: Front, owner: SignedIn, flow_type: FlowType
) -> None:
    flow_id = await draft_flow(owner, flow_type)

    answer = await preview(owner, flow_id)

    assert (answer.status, answer.json["flow_revision"]) == (201, 0)
    assert answer.json["url"] == f"{front.settings.base_url}/verify#{answer.json['client_token']}"
    session = (await front.ask("GET", f"{PATH}/{answer.json['session_id']}", TEST)).json
    assert session["subject_id"].startswith("sim:approved@preview-")
    assert (session["livemode"], session["flow_id"], session["flow_type"]) == (False, flow_id, flow_type)
    lasts = datetime.fromisoformat(session["expires_at"]) - datetime.fromisoformat(session["created_at"])
    assert lasts == timedelta(minutes=30)
    page = Page(front, answer.json)
    assert (await page.consent()).status == 200
    for what in TAKEN[flow_type]:
        assert (await page.put(what)).status in {200, 422}
    assert (await page.ask("POST", "/submit", json={})).status == 202
    assert (await page.view())["status"] == "APPROVED"


async def test_a_preview_shows_the_draft_and_the_published_flow_stays(front: Front, owner: SignedIn) -> None:
    flow_id = await draft_flow(owner)
    await owner.ask("POST", f"{FLOWS}/{flow_id}/publish")
    changes = {"flow_type": "DOCUMENT", "return_url": "https://shop.example/new"}
    await owner.ask("PATCH", f"{FLOWS}/{flow_id}", json=changes, headers={"If-Match": "*"})

    answer = (await preview(owner, flow_id)).json
    body = {"flow_id": flow_id, "subject_id": "sim:approved@shop"}
    real = (await front.ask("POST", PATH, TEST, json=body)).json

    assert (answer["flow_revision"], real["flow_revision"]) == (0, 1)
    assert answer["configuration"]["flow_type"] == "DOCUMENT"
    assert answer["configuration"]["return_url"] == "https://shop.example/new"
    assert real["configuration"]["flow_type"] == "FULL_IDENTITY"
    hidden = await front.ask("GET", f"{PATH}/{answer['session_id']}", LIVE)
    assert hidden.status == 404


async def test_a_preview_replays_with_its_key_and_two_previews_are_two_sessions(owner: SignedIn) -> None:
    flow_id = await draft_flow(owner)
    key = {"Idempotency-Key": "one"}

    first, again = [await preview(owner, flow_id, headers=key) for _ in range(2)]
    other = await preview(owner, flow_id)

    assert (first.status, again.status, other.status) == (201, 200, 201)
    assert again.json == first.json
    assert other.json["session_id"] != first.json["session_id"]


async def test_a_preview_is_refused_as_publishing_is(front: Front, owner: SignedIn) -> None:
    flow_id = await draft_flow(owner)
    foreign = await front.sign_in(tenant_id=GLOBEX)
    reviewer = await front.sign_in(Role.REVIEWER)

    denied = await preview(reviewer, flow_id)
    with_key = await front.ask("POST", f"{FLOWS}/{flow_id}/preview", TEST, json={})
    elsewhere = await preview(foreign, flow_id)
    await owner.ask("POST", f"{FLOWS}/{flow_id}/archive")
    archived = await preview(owner, flow_id)

    assert (denied.status, denied.code) == (403, "PERMISSION_DENIED")
    assert with_key.status == 403
    assert elsewhere.status == 404
    assert (archived.status, archived.code) == (409, "FLOW_ARCHIVED")
