"""What a 201 says about where the new thing is, and requests that say nothing."""

from typing import Any

import pytest
from pydantic import SecretStr

from schemas.people import Role
from tests.http.session_steps import draft_flow, publish_flow
from tests.http.support import TEST, Front, Response, build_body, open_front
from tests.http.test_catalog import ENTRY, TOKEN
from tests.http.test_catalog import PATH as CATALOG
from tests.http.test_review_cases import open_case
from tests.http.test_webhooks import PATH as ENDPOINTS
from tests.http.test_webhooks import REQUESTED

KEY = {"headers": {"Idempotency-Key": "one"}}


def leads_to(made: Response, response: Response, name: str) -> bool:
    """Return whether what was read is what was made."""
    return (made.status, response.status, response.json[name]) == (201, 200, made.json[name])


@pytest.mark.parametrize(
    ("path", "body", "name"),
    [
        ("/v1/verifications", build_body(), "verification_id"),
        (ENDPOINTS, REQUESTED, "endpoint_id"),
    ],
)
async def test_what_a_key_creates_is_where_location_says(
    front: Front, path: str, body: Any, name: str
) -> None:
    made = await front.ask("POST", path, TEST, json=body, **KEY)
    again = await front.ask("POST", path, TEST, json=body, **KEY)

    assert leads_to(made, await front.ask("GET", made.headers["Location"]), name)
    assert (again.status, "Location" in again.headers) == (200, False)


async def test_a_session_is_where_location_says(front: Front) -> None:
    owner = await front.sign_in()
    body = {"flow_id": await publish_flow(owner), "subject_id": "sim:approved@located"}

    made = await front.ask("POST", "/v1/verification-sessions", TEST, json=body)

    assert leads_to(made, await front.ask("GET", made.headers["Location"]), "session_id")


async def test_a_flow_is_where_location_says(front: Front) -> None:
    owner = await front.sign_in()
    first = await draft_flow(owner)

    made = await owner.ask("POST", f"/v1/verification-flows/{first}/duplicate")

    assert leads_to(made, await owner.ask("GET", made.headers["Location"]), "flow_id")


async def test_an_appeal_is_where_location_says(front: Front) -> None:
    verification = (await front.submit()).json
    lead = await front.sign_in(Role.COMPLIANCE_LEAD)

    path = f"/v1/control/verifications/{verification['verification_id']}/appeal"
    made = await lead.ask("POST", path, json={"note": "x"})

    assert leads_to(made, await lead.ask("GET", made.headers["Location"]), "review_case_id")


async def test_an_entry_of_the_catalogue_is_where_location_says() -> None:
    async with open_front(operator_token=SecretStr(TOKEN)) as front:
        made = await front.ask("POST", CATALOG, TOKEN, json=ENTRY)

        assert leads_to(made, await front.ask("GET", made.headers["Location"], TOKEN), "code")


@pytest.mark.parametrize("verb", ["claim", "release"])
@pytest.mark.parametrize("more", [{}, {"json": {}}, {"headers": {"Content-Type": "application/json"}}])
async def test_a_route_that_asks_for_nothing_takes_no_body_as_well_as_an_empty_object(
    front: Front, verb: str, more: dict[str, Any]
) -> None:
    _, case = await open_case(front)
    reviewer = await front.sign_in(Role.REVIEWER)
    await reviewer.ask("POST", f"{case}/claim", json={})

    assert (await reviewer.ask("POST", f"{case}/{verb}", **more)).status == 200


async def test_a_route_that_asks_for_nothing_refuses_something(front: Front) -> None:
    _, case = await open_case(front)
    reviewer = await front.sign_in(Role.REVIEWER)

    response = await reviewer.ask("POST", f"{case}/claim", json={"force": True})

    assert (response.status, list(response.pointers)) == (422, ["/force"])
