"""Flows over HTTP: drafts, revisions, races, and every refusal at its place."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from schemas.audit import Actor, AuditAction
from schemas.people import PERMISSIONS_OF, Permission, Role
from streams.catalog.handler import Catalogue
from tests.builders import GLOBEX
from tests.http.support import TEST, Front, SignedIn, now, open_front

PATH = "/v1/verification-flows"
DRAFT = {
    "name": "Customers",
    "flow_type": "FULL_IDENTITY",
    "documents": [{"country": "NG", "capabilities": ["NG_NIN_SLIP", "NG_PASSPORT"]}],
    "return_url": "https://shop.example/done",
}


@pytest.fixture
async def front() -> AsyncIterator[Front]:
    """A front with the first catalogue."""
    async with open_front() as opened:
        await Catalogue(opened.stores.records, opened.ports.commit, now).install_first()
        yield opened


@pytest.fixture
async def owner(front: Front) -> SignedIn:
    """An owner of ACME."""
    return await front.sign_in()


async def create(owner: SignedIn, **changes: Any) -> Any:
    """Create a flow."""
    response = await owner.ask("POST", PATH, json={**DRAFT, **changes})
    assert response.status == 201, response.body
    return response.json


async def switch(front: Front, code: str) -> None:
    """Take an entry out of the catalogue."""
    catalogue = Catalogue(front.stores.records, front.ports.commit, now)
    await catalogue.change(code, {"enabled": False}, AuditAction.CATALOG_DISABLED, Actor(), None)


async def actions(owner: SignedIn) -> list[str]:
    """The audit log, oldest first."""
    response = await owner.ask("GET", "/v1/audit?action=flow.")
    return [row["action"] for row in reversed(response.json["events"])]


async def test_a_flow_begins_as_a_draft(owner: SignedIn) -> None:
    response = await owner.ask("POST", PATH, json={**DRAFT, "name": "  Customers "})

    flow = response.json
    assert (response.status, flow["status"], flow["name"]) == (201, "DRAFT", "Customers")
    assert response.headers["ETag"] == '"1"'
    assert (flow["published"], flow["published_revision"], flow["archived_at"]) == (None, None, None)
    assert flow["documents"] == DRAFT["documents"]
    assert (await owner.ask("GET", f"{PATH}/{flow['flow_id']}")).json == flow
    assert await actions(owner) == ["flow.created"]


async def test_a_revision_freezes_the_draft_and_the_catalogue(front: Front, owner: SignedIn) -> None:
    flow = await create(owner)

    response = (await owner.ask("POST", f"{PATH}/{flow['flow_id']}/publish")).json
    await switch(front, "NG_PASSPORT")

    configuration = response["published"]["configuration"]
    assert (response["status"], response["published_revision"]) == ("ACTIVE", 1)
    assert response["published"]["published_by"] == owner.member.reviewer_id
    assert configuration["required_checks"] == [
        "AUTHENTICITY", "DOCUMENT_EXTRACTION", "DOCUMENT_CONSISTENCY", "LIVENESS", "FACE_MATCH",
    ]  # fmt: skip
    assert [one["code"] for one in configuration["documents"]] == ["NG_NIN_SLIP", "NG_PASSPORT"]
    stored = await owner.ask("GET", f"{PATH}/{flow['flow_id']}/revisions/1")
    assert stored.json == response["published"]


async def test_an_unchanged_draft_keeps_its_number(owner: SignedIn) -> None:
    flow = await create(owner)
    path = f"{PATH}/{flow['flow_id']}"
    first = (await owner.ask("POST", f"{path}/publish")).json
    renamed = await owner.ask("PATCH", path, json={"name": "Others"}, headers={"If-Match": '"2"'})
    assert renamed.json["name"] == "Others"

    second = (await owner.ask("POST", f"{path}/publish")).json

    assert second["published"] == first["published"]
    assert await actions(owner) == ["flow.created", "flow.published", "flow.updated"]


async def test_a_code_disabled_since_drafting_cannot_be_published(front: Front, owner: SignedIn) -> None:
    flow = await create(owner)
    await switch(front, "NG_PASSPORT")

    response = await owner.ask("POST", f"{PATH}/{flow['flow_id']}/publish")

    assert (response.status, response.code) == (422, "CAPABILITY_DISABLED")
    assert list(response.pointers) == ["/documents/0/capabilities/1"]


async def test_twenty_publishes_at_once_number_without_gaps(owner: SignedIn) -> None:
    flow = await create(owner)
    path = f"{PATH}/{flow['flow_id']}"

    async def edit_and_publish(number: int) -> None:
        await owner.ask(
            "PATCH", path, json={"return_url": f"https://shop.example/{number}"}, headers={"If-Match": "*"}
        )
        assert (await owner.ask("POST", f"{path}/publish")).status == 200

    await asyncio.gather(*(edit_and_publish(number) for number in range(20)))

    listed = (await owner.ask("GET", f"{path}/revisions?limit=100")).json["revisions"]
    numbers = [revision["revision"] for revision in listed]
    flow = (await owner.ask("GET", path)).json
    assert sorted(numbers) == list(range(1, len(numbers) + 1))
    assert flow["published_revision"] == len(numbers)
    assert (await actions(owner)).count("flow.published") == len(numbers)


async def test_archiving_ends_a_flow_and_twice_is_once(owner: SignedIn) -> None:
    flow = await create(owner)
    path = f"{PATH}/{flow['flow_id']}"

    responses = [(await owner.ask("POST", f"{path}/archive")) for _ in range(2)]

    assert [one.status for one in responses] == [200, 200]
    assert responses[0].json == responses[1].json
    assert (responses[0].json["status"], responses[0].json["archived_at"] is not None) == ("ARCHIVED", True)
    assert (await owner.ask("POST", f"{path}/publish")).code == "FLOW_ARCHIVED"
    edit = await owner.ask("PATCH", path, json={"name": "x"}, headers={"If-Match": "2"})
    assert (edit.status, edit.code) == (409, "FLOW_ARCHIVED")
    assert await actions(owner) == ["flow.created", "flow.archived"]


async def test_an_archived_flow_can_be_duplicated(owner: SignedIn) -> None:
    flow = await create(owner)
    await owner.ask("POST", f"{PATH}/{flow['flow_id']}/archive")

    response = await owner.ask("POST", f"{PATH}/{flow['flow_id']}/duplicate")

    assert (response.status, response.json["status"], response.json["name"]) == (201, "DRAFT", flow["name"])
    assert response.json["flow_id"] != flow["flow_id"]


async def test_an_edit_names_the_version_it_was_meant_for(owner: SignedIn) -> None:
    flow = await create(owner)
    path = f"{PATH}/{flow['flow_id']}"

    assert (await owner.ask("PATCH", path, json={"name": "x"})).code == "PRECONDITION_REQUIRED"
    for seen in ('"7"', "7", "x"):
        response = await owner.ask("PATCH", path, json={"name": "x"}, headers={"If-Match": seen})
        assert (response.status, response.code) == (412, "PRECONDITION_FAILED")


async def test_the_same_key_begins_one_flow(owner: SignedIn) -> None:
    headers = {"Idempotency-Key": "k"}

    responses = await asyncio.gather(
        *(owner.ask("POST", PATH, json=DRAFT, headers=headers) for _ in range(20))
    )

    assert sorted(one.status for one in responses) == [200] * 19 + [201]
    assert len({one.body for one in responses}) == 1
    other = await owner.ask("POST", PATH, json={**DRAFT, "name": "y"}, headers=headers)
    assert (other.status, other.code) == (422, "IDEMPOTENCY_KEY_REUSED")


@pytest.mark.parametrize(
    ("changes", "code", "pointer"),
    [
        ({"name": ""}, "VALIDATION_FAILED", "/name"),
        ({"name": "   "}, "VALIDATION_FAILED", "/name"),
        ({"name": "x" * 81}, "VALIDATION_FAILED", "/name"),
        ({"name": None}, "VALIDATION_FAILED", "/name"),
        ({"flow_type": "BIOMETRICS"}, "VALIDATION_FAILED", "/flow_type"),
        ({"colour": "red"}, "VALIDATION_FAILED", "/colour"),
        ({"flow_type": "BIOMETRIC"}, "DOCUMENTS_NOT_ALLOWED", "/documents"),
        ({"documents": []}, "DOCUMENTS_REQUIRED", "/documents"),
        ({"documents": None}, "DOCUMENTS_REQUIRED", "/documents"),
        (
            {"documents": [{"country": "NG", "capabilities": []}]},
            "DOCUMENTS_REQUIRED",
            "/documents/0/capabilities",
        ),
        (
            {"documents": [{"country": "ng", "capabilities": ["NG_PASSPORT"]}]},
            "VALIDATION_FAILED",
            "/documents/0/country",
        ),
        (
            {"documents": [{"country": "GB", "capabilities": ["NG_PASSPORT"]}]},
            "CAPABILITY_UNKNOWN",
            "/documents/0/capabilities/0",
        ),
        (
            {"documents": [{"country": "NG", "capabilities": ["NG_PASSPORT", "NG_X"]}]},
            "CAPABILITY_UNKNOWN",
            "/documents/0/capabilities/1",
        ),
        (
            {"documents": [{"country": "NG", "capabilities": ["NG_PASSPORT", "NG_PASSPORT"]}]},
            "VALIDATION_FAILED",
            "/documents/0/capabilities/1",
        ),
        ({"return_url": "http://shop.example"}, "RETURN_URL_INVALID", "/return_url"),
        ({"return_url": "https://"}, "RETURN_URL_INVALID", "/return_url"),
        ({"return_url": "https://u:p@shop.example"}, "RETURN_URL_INVALID", "/return_url"),
        ({"return_url": "https://shop.example/#x"}, "RETURN_URL_INVALID", "/return_url"),
        ({"return_url": "https://shop.example/" + "x" * 2048}, "RETURN_URL_INVALID", "/return_url"),
        ({"return_url": "https://shop.example:0/"}, "RETURN_URL_INVALID", "/return_url"),
        ({"return_url": "https://shop.example:99999/"}, "RETURN_URL_INVALID", "/return_url"),
        ({"return_url": "https://[::1"}, "RETURN_URL_INVALID", "/return_url"),
        ({"return_url": "https://shop.example\\@evil.example"}, "RETURN_URL_INVALID", "/return_url"),
        ({"return_url": "javascript:alert(1)"}, "RETURN_URL_INVALID", "/return_url"),
    ],
)
async def test_a_wrong_draft_is_refused_at_its_place(
    owner: SignedIn, changes: dict[str, Any], code: str, pointer: str
) -> None:
    response = await owner.ask("POST", PATH, json={**DRAFT, **changes})

    assert (response.status, response.code, response.pointers) == (422, code, {pointer: code})
    assert (await owner.ask("GET", PATH)).json["flows"] == []


async def test_flows_are_listed_by_status_and_type_page_by_page(owner: SignedIn) -> None:
    flows = [await create(owner, name=f"flow {number}") for number in range(5)]
    await owner.ask("POST", f"{PATH}/{flows[0]['flow_id']}/archive")
    await create(owner, flow_type="BIOMETRIC", documents=[])

    names: list[str] = []
    cursor: str | None = ""
    while cursor is not None:
        page = (await owner.ask("GET", f"{PATH}?limit=2&flow_type=FULL_IDENTITY{cursor}")).json
        names += [flow["name"] for flow in page["flows"]]
        cursor = f"&cursor={page['next_cursor']}" if page["next_cursor"] else None
    archived = (await owner.ask("GET", f"{PATH}?status=ARCHIVED")).json["flows"]

    assert names == [f"flow {number}" for number in reversed(range(5))]
    assert [flow["name"] for flow in archived] == ["flow 0"]


async def test_another_tenants_flow_is_not_found(front: Front, owner: SignedIn) -> None:
    flow = await create(owner)
    foreign = await front.sign_in(tenant_id=GLOBEX)
    path = f"{PATH}/{flow['flow_id']}"

    responses = [
        await foreign.ask("GET", path),
        await foreign.ask("PATCH", path, json={"name": "x"}, headers={"If-Match": "1"}),
        *[await foreign.ask("POST", f"{path}/{verb}") for verb in ("publish", "archive", "duplicate")],
        await foreign.ask("GET", f"{path}/revisions"),
        await foreign.ask("GET", f"{path}/revisions/1"),
    ]

    assert {one.status for one in responses} == {404}


@pytest.mark.parametrize("role", Role)
async def test_who_may_manage_flows_and_who_may_read_them(front: Front, role: Role) -> None:
    member = await front.sign_in(role)

    response = await member.ask("POST", PATH, json=DRAFT)

    may = Permission.VERIFICATION_FLOWS_MANAGE in PERMISSIONS_OF[role]
    assert response.status == (201 if may else 403)
    assert (await member.ask("GET", PATH)).status == 200


async def test_a_key_reads_flows_and_changes_none(front: Front, owner: SignedIn) -> None:
    flow = await create(owner)

    assert (await front.ask("GET", f"{PATH}/{flow['flow_id']}", TEST)).status == 200
    response = await front.ask("POST", PATH, TEST, json=DRAFT)
    assert (response.status, response.code) == (403, "API_KEY_NOT_ALLOWED")
