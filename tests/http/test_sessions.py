"""Sessions over HTTP: opening, the one open session of a subject, reading, cancelling, outcomes."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from schemas.people import Role
from schemas.sessions import OpenedSession
from tests.builders import GLOBEX
from tests.http.session_steps import (
    FLOWS,
    PATH,
    draft_flow,
    open_page,
    open_session,
    publish_flow,
)
from tests.http.support import BARE, FOREIGN, LIVE, TEST, Front, SignedIn, build_caller, open_front


@pytest.fixture
async def front() -> AsyncIterator[Front]:
    """A front over memory stores."""
    async with open_front() as opened:
        yield opened


@pytest.fixture
async def owner(front: Front) -> SignedIn:
    """An owner of ACME."""
    return await front.sign_in()


async def actions(owner: SignedIn) -> list[str]:
    """The audit log of sessions, oldest first."""
    rows = (await owner.ask("GET", "/v1/audit?action=session.")).json["events"]
    return [row["action"] for row in reversed(rows)]


def events(front: Front) -> list[str]:
    """The events of sessions and verifications, in the order they were committed."""
    return [event.type.value for event in front.shelves.events.values() if "flow" not in event.type]


async def test_a_session_carries_what_the_flow_was_when_it_was_opened(front: Front, owner: SignedIn) -> None:
    flow_id = await publish_flow(owner, return_url="https://shop.example/done")
    flow = (await owner.ask("GET", f"{FLOWS}/{flow_id}")).json

    result = await open_session(front, flow_id)
    await owner.ask("PATCH", f"{FLOWS}/{flow_id}", json={"return_url": None}, headers={"If-Match": "*"})
    await owner.ask("POST", f"{FLOWS}/{flow_id}/publish")

    opened = result.json
    assert (result.status, opened["flow_revision"]) == (201, 1)
    assert opened["configuration"] == flow["published"]["configuration"]
    assert opened["url"] == f"{front.settings.base_url}/verify#{opened['client_token']}"
    read = (await front.ask("GET", f"{PATH}/{opened['session_id']}")).json
    assert (read["status"], read["configuration"], read["attempts"]) == (
        "CREATED",
        opened["configuration"],
        0,
    )
    assert await actions(owner) == ["session.created"]
    assert events(front) == ["verification_session.created"]


async def test_the_tenants_return_url_stands_in_the_place_of_the_flows(front: Front, owner: SignedIn) -> None:
    flow_id = await publish_flow(owner, return_url="https://shop.example/done")

    page = await open_page(front, flow_id, return_url="https://shop.example/other")

    assert page.opened["configuration"]["return_url"] == "https://shop.example/other"


async def test_the_same_key_opens_one_session_and_answers_the_same(front: Front, owner: SignedIn) -> None:
    flow_id, headers = await publish_flow(owner), {"Idempotency-Key": "k"}

    results = await asyncio.gather(*(open_session(front, flow_id, headers=headers) for _ in range(20)))

    assert sorted(one.status for one in results) == [200] * 19 + [201]
    assert len({one.body for one in results}) == 1
    assert OpenedSession.from_bytes(results[0].body).model_dump_json().encode() == results[0].body
    page = results[0].json
    await front.ask("POST", f"{PATH}/{page['session_id']}/cancel")
    later = await open_session(front, flow_id, headers=headers)
    assert (later.status, later.body) == (200, results[0].body)
    assert later.headers["Idempotent-Replayed"] == "true"
    other = await open_session(front, flow_id, headers=headers, locale="fr")
    assert (other.status, other.code) == (422, "IDEMPOTENCY_KEY_REUSED")


async def test_a_subject_has_one_open_session_under_a_flow(front: Front, owner: SignedIn) -> None:
    flow_id = await publish_flow(owner)

    results = await asyncio.gather(*(open_session(front, flow_id) for _ in range(20)))

    assert sorted(one.status for one in results) == [200] * 19 + [201]
    assert len({one.json["session_id"] for one in results}) == 1
    assert (await open_session(front, flow_id, "sim:approved@other")).status == 201
    assert (await open_session(front, await publish_flow(owner))).status == 201
    assert await actions(owner) == ["session.created"] * 3


async def test_after_the_end_another_session_is_opened(front: Front, owner: SignedIn) -> None:
    flow_id = await publish_flow(owner)
    page = await open_page(front, flow_id)
    await page.hand_in()

    result = await open_session(front, flow_id)

    assert result.status == 201
    assert result.json["session_id"] != page.session_id


async def test_a_flow_opens_sessions_only_while_it_is_published(front: Front, owner: SignedIn) -> None:
    flow_id = await draft_flow(owner)
    drafted = await open_session(front, flow_id)
    await owner.ask("POST", f"{FLOWS}/{flow_id}/archive")
    archived = await open_session(front, flow_id)

    assert (drafted.status, drafted.code) == (409, "FLOW_NOT_PUBLISHED")
    assert (archived.status, archived.code) == (409, "FLOW_ARCHIVED")


async def test_an_open_session_of_an_archived_flow_is_finished(front: Front, owner: SignedIn) -> None:
    flow_id = await publish_flow(owner)
    page = await open_page(front, flow_id)
    await owner.ask("POST", f"{FLOWS}/{flow_id}/archive")

    assert (await page.hand_in())["status"] == "APPROVED"


async def test_another_tenants_flow_and_session_are_not_found(front: Front, owner: SignedIn) -> None:
    flow_id = await publish_flow(owner)
    page = await open_page(front, flow_id)
    foreign = await front.sign_in(tenant_id=GLOBEX)

    responses = [
        await open_session(front, flow_id, key=FOREIGN),
        await open_session(front, "vf_unknown"),
        await front.ask("GET", f"{PATH}/{page.session_id}", FOREIGN),
        await front.ask("POST", f"{PATH}/{page.session_id}/cancel", FOREIGN),
        await foreign.ask("GET", f"{PATH}/{page.session_id}"),
    ]

    assert {one.status for one in responses} == {404}


async def test_test_sessions_are_invisible_to_a_live_key(front: Front, owner: SignedIn) -> None:
    flow_id = await publish_flow(owner)
    page = await open_page(front, flow_id, "customer-1")

    response = await front.ask("GET", f"{PATH}/{page.session_id}", LIVE)
    live = await open_session(front, flow_id, "customer-1", LIVE)

    assert response.status == 404
    assert (live.status, live.json["session_id"] == page.session_id) == (201, False)
    assert (await open_session(front, flow_id, key=LIVE)).pointers == {"/subject_id": "VALIDATION_FAILED"}


async def test_who_may_open_and_read_sessions(front: Front, owner: SignedIn) -> None:
    flow_id = await publish_flow(owner)
    page = await open_page(front, flow_id)
    front.keys.known["idv_test_reads"] = build_caller(scopes=frozenset({"verifications:read"}))
    developer = await front.sign_in(Role.DEVELOPER)
    path = f"{PATH}/{page.session_id}"

    assert (await open_session(front, flow_id, key=BARE)).code == "PERMISSION_DENIED"
    assert (await front.ask("GET", path, BARE)).code == "PERMISSION_DENIED"
    assert (await front.ask("GET", path, "idv_test_reads")).status == 200
    assert (await front.ask("POST", f"{path}/cancel", "idv_test_reads")).status == 403
    assert (await owner.ask("GET", path)).status == 200
    assert (await developer.ask("GET", path)).code == "PERMISSION_DENIED"


@pytest.mark.parametrize(
    ("changes", "code", "pointer"),
    [
        ({"subject_id": "has space"}, "VALIDATION_FAILED", "/subject_id"),
        ({"subject_id": "sim:dancing"}, "VALIDATION_FAILED", "/subject_id"),
        ({"return_url": "http://shop.example"}, "RETURN_URL_INVALID", "/return_url"),
        ({"locale": "not a locale"}, "VALIDATION_FAILED", "/locale"),
        ({"metadata": {str(n): n for n in range(33)}}, "VALIDATION_FAILED", "/metadata"),
        ({"colour": "red"}, "VALIDATION_FAILED", "/colour"),
    ],
)
async def test_a_wrong_body_is_refused_at_its_place(
    front: Front, owner: SignedIn, changes: dict[str, Any], code: str, pointer: str
) -> None:
    body = {"flow_id": await publish_flow(owner), "subject_id": "customer-1", **changes}

    response = await front.ask("POST", PATH, TEST, json=body)

    assert (response.status, response.code) == (422, code)
    assert pointer in response.pointers


async def test_metadata_is_flat(front: Front, owner: SignedIn) -> None:
    flow_id = await publish_flow(owner)

    flat = await open_session(
        front, flow_id, metadata={"order": "A-1", "total": 12.5, "vip": True, "x": None}
    )
    deep = await open_session(front, flow_id, metadata={"order": {"id": 1}})

    assert (flat.status, deep.status) == (201, 422)


async def test_cancelling_ends_a_session_and_twice_is_once(front: Front, owner: SignedIn) -> None:
    page = await open_page(front, await publish_flow(owner))
    path = f"{PATH}/{page.session_id}/cancel"

    responses = [await front.ask("POST", path) for _ in range(2)]

    assert [one.status for one in responses] == [200, 200]
    assert responses[0].json == responses[1].json
    assert (responses[0].json["status"], responses[0].json["completed_at"] is not None) == ("CANCELLED", True)
    assert await actions(owner) == ["session.created", "session.cancelled"]
    assert events(front) == ["verification_session.created", "verification_session.cancelled"]
    assert (await page.consent()).code == "SESSION_FINISHED"


async def test_a_finished_session_cannot_be_cancelled(front: Front, owner: SignedIn) -> None:
    page = await open_page(front, await publish_flow(owner))
    await page.hand_in()

    response = await front.ask("POST", f"{PATH}/{page.session_id}/cancel")

    assert (response.status, response.code) == (409, "SESSION_FINISHED")


@pytest.mark.parametrize(
    ("subject", "status", "decision"),
    [
        ("sim:approved", "APPROVED", "ALLOW"),
        ("sim:warn", "APPROVED", "WARN"),
        ("sim:review:FACE_MATCH_UNCERTAIN", "REVIEW_REQUIRED", "REVIEW_REQUIRED"),
        ("sim:reject:DOCUMENT_EXPIRED", "REJECTED", "BLOCK"),
        ("sim:fail", "FAILED", "HOLD"),
    ],
)
async def test_a_session_ends_as_its_verification_does(
    front: Front, owner: SignedIn, subject: str, status: str, decision: str
) -> None:
    page = await open_page(front, await publish_flow(owner), subject)

    view = await page.hand_in()

    row = (await front.ask("GET", f"{PATH}/{page.session_id}")).json
    verification = (await front.ask("GET", f"/v1/verifications/{row['verification_id']}")).json
    assert (view["status"], row["status"], row["decision"]) == (status, status, decision)
    assert (verification["status"], verification["decision"]) == (status, decision)
    assert (row["attempts"], row["completed_at"] is not None) == (1, True)
    assert row["review_case_id"] == verification.get("review_case_id")
    assert await actions(owner) == ["session.created", "session.started", "session.submitted"]
    assert events(front)[:3] == [
        f"verification_session.{word}" for word in ("created", "started", "submitted")
    ]


async def test_the_verifications_events_and_rows_name_the_session(front: Front, owner: SignedIn) -> None:
    page = await open_page(front, await publish_flow(owner))
    await page.hand_in()

    published = [event for event in front.shelves.events.values() if event.type == "verification.approved"]
    rows = (await owner.ask("GET", "/v1/audit?action=verification.evaluated")).json["events"]

    assert [event.data.session_id for event in published] == [page.session_id]
    assert [(row["actor_type"], row["actor_id"]) for row in rows] == [("SUBJECT", page.session_id)]


async def test_a_biometric_session_needs_an_approved_verification(front: Front, owner: SignedIn) -> None:
    flow_id = await publish_flow(owner, "BIOMETRIC")

    refused = await open_session(front, flow_id)
    await front.submit()
    page = await open_page(front, flow_id)
    view = await page.hand_in()

    row = (await front.ask("GET", f"{PATH}/{page.session_id}")).json
    verification = (await front.ask("GET", f"/v1/verifications/{row['verification_id']}")).json
    assert (refused.status, refused.code) == (409, "NO_REFERENCE_FACE")
    assert (view["status"], row["flow_type"]) == ("APPROVED", "BIOMETRIC")
    assert verification["document"] is None
    assert [one["kind"] for one in verification["evidence"]] == ["SELFIE"]


async def test_a_selfie_in_a_document_session_is_refused_and_not_kept(front: Front, owner: SignedIn) -> None:
    page = await open_page(front, await publish_flow(owner, "DOCUMENT"))
    await page.consent()

    response = await page.put("selfie")

    assert (response.status, response.pointers) == (422, {"": "VALIDATION_FAILED"})
    assert "takes no selfie" in response.json["detail"]
    assert front.shelves.evidence == {}


async def test_a_document_session_takes_no_selfie(front: Front, owner: SignedIn) -> None:
    page = await open_page(front, await publish_flow(owner, "DOCUMENT"))

    view = await page.hand_in()

    row = (await front.ask("GET", f"{PATH}/{page.session_id}")).json
    verification = (await front.ask("GET", f"/v1/verifications/{row['verification_id']}")).json
    assert view["status"] == "APPROVED"
    assert "distance" not in verification
    assert [one["kind"] for one in verification["evidence"]] == ["IMAGE", "EXTRACTION"]
