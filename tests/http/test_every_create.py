"""Every route that answers 201 replays: its Idempotency-Key is answered 200 with the first answer (R6)."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from http import HTTPStatus
from typing import Any, Final

import pytest

from app.http.bodies import BodyBudget
from app.http.endpoints import IDEMPOTENCY, Credential, Endpoint
from app.http.idempotent_create import REPLAYED
from app.http.server import endpoints_of
from schemas.base import rfc3339
from schemas.people import Role
from tests.http.furnished import HOOKS, Furnished, open_furnished
from tests.http.reviewers import EMAIL, PASSWORD, SESSIONS, TOTP, Browser, Office
from tests.http.session_steps import Page, open_page, publish_flow
from tests.http.support import TEST, Front, Response, build_body, draw_image, now
from tests.http.test_catalog import ENTRY
from tests.http.test_movements import CAMERA
from tests.http.test_permissions import TOKEN
from tests.http.test_webhooks import REQUESTED

Ask = Callable[..., Awaitable[Response]]

SHOWN_ONCE: Final = frozenset(
    {"api_key", "invitation_token", "invitation_expires_at", "otpauth_uri", "secret", "qr_svg"}
)
"""Secrets and the end of one, which a replay does not show again (G82)."""

APPEAL: Final = "/v1/control/verifications/{verification_id}/appeal"
WALLET: Final = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"
PAID_AT: Final = rfc3339(now())
TOMORROW: Final = rfc3339(now() + timedelta(days=1))
"""When the transaction of these tests occurred; the same in each request."""

INVITED: Final = {"email": "bo@acme.example", "name": "Bo"}


@dataclass(frozen=True)
class Stage:
    """A tenant that has everything, and the browser of a member who signed in just now."""

    furnished: Furnished
    browser: Browser
    page: Page

    @property
    def front(self) -> Front:
        """The front all of it is at."""
        return self.furnished.front

    async def create(self, endpoint: Endpoint, key: str, **changes: Any) -> Response:
        """Ask a route for something under a key; `changes` are merged into the body."""
        path = endpoint.path.format(**self.furnished.ids)
        more: dict[str, Any] = {"headers": {IDEMPOTENCY: key}}
        if endpoint.body is not None:
            more["json"] = self.bodies[endpoint.path] | changes
        return await self.asker(endpoint)("POST", path, **more)

    def asker(self, endpoint: Endpoint) -> Ask:
        """Return how a caller asks whom the route accepts."""
        accepts = endpoint.access.accepts
        if Credential.CAPTURE_TOKEN in accepts:
            return self.ask_as_subject
        if Credential.OPERATOR_TOKEN in accepts or Credential.TENANT_KEY in accepts:
            credential = TOKEN if Credential.OPERATOR_TOKEN in accepts else TEST

            async def ask(method: str, path: str, **more: Any) -> Response:
                return await self.front.ask(method, path, credential, **more)

            return ask
        if endpoint.access.before_factor:
            return self.browser.ask
        if not accepts:  # signing in: another browser each time, without a cookie
            return Browser(self.browser.office).ask
        return self.furnished.owner.ask

    async def ask_as_subject(self, method: str, path: str, **more: Any) -> Response:
        """Ask with the token of a session whose selfie was taken with the camera."""
        return await self.page.ask(method, path.removeprefix("/v1/capture"), **more)

    @property
    def bodies(self) -> dict[str, dict[str, Any]]:
        """A body for each route that makes something and wants to hear what."""
        flow = self.furnished.ids["flow_id"]
        return {
            "/v1/verifications": build_body("sim:approved@created"),
            "/v1/transactions": {
                "subject_id": "sim:approved@created",
                "type": "PAYMENT",
                "direction": "OUTBOUND",
                "amount": {"value": "5", "currency": "EUR"},
                "occurred_at": PAID_AT,
            },
            "/v1/verification-sessions": {"flow_id": flow, "subject_id": "sim:approved@created"},
            "/v1/name-screenings": {"queries": [{"kind": "PERSON", "name": "Ada Okafor"}]},
            "/v1/control/dispositions": {
                "kind": "LIST_MATCH",
                "subject_id": "sim:approved@created",
                "list": "sandbox",
                "entity_id": "sandbox-1",
                "expires_at": TOMORROW,
                "note": "x",
                "livemode": False,
            },
            "/v1/wallet-assessments": {"address": WALLET},
            "/v1/wallet-assessments/batch": {"assessments": [{"address": WALLET}]},
            "/v1/verification-flows": {"name": "x", "flow_type": "BIOMETRIC", "documents": []},
            "/v1/control/api-keys": {"name": "x", "livemode": False, "expires_at": "never"},
            "/v1/control/members": INVITED | {"role": "REVIEWER"},
            "/v1/platform/tenants": {"name": "x"},
            "/v1/platform/tenants/{tenant_id}/owner-invitations": INVITED | {"email": "cy@acme.example"},
            "/v1/platform/catalog": ENTRY,
            HOOKS: REQUESTED,
            SESSIONS: {"email": EMAIL, "password": PASSWORD},
            APPEAL: {"note": "The person shows a renewal."},
            "/v1/capture/challenge": {},
        }


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    """A tenant with everything, one of its verifications finally decided."""
    async with open_furnished() as furnished:
        office = Office(furnished.front)
        await office.add()
        decided = await furnished.front.submit(build_body("sim:reject:DOCUMENT_EXPIRED@created"))
        tenant = await furnished.front.ask("POST", "/v1/platform/tenants", TOKEN, json={"name": "Initech"})
        furnished.ids["verification_id"] = decided.json["verification_id"]
        furnished.ids["tenant_id"] = tenant.json["tenant_id"]
        yield Stage(furnished, await office.enter(), await open_movements(furnished))


async def open_movements(furnished: Furnished) -> Page:
    """Return the page of a session that movements can be drawn for."""
    page = await open_page(furnished.front, await publish_flow(furnished.owner), "sim:approved@movements")
    await page.consent()
    await page.ask("PUT", "/selfie", data=draw_image(), headers=CAMERA)
    return page


def creating(front: Front) -> list[Endpoint]:
    """Every route that can answer 201, but those of lists, which tests/http/test_*_lists.py try."""
    endpoints = endpoints_of(front.ports, front.settings, BodyBudget(1))
    return [one for one in endpoints if one.method != "PUT" and HTTPStatus.CREATED in one.answers]


async def test_every_route_that_answers_201_says_how_it_replays(front: Front) -> None:
    silent = [
        one.path
        for one in creating(front)
        if IDEMPOTENCY not in {header.name for header in one.headers}
        or HTTPStatus.OK not in one.answers
        or REPLAYED not in one.answers[HTTPStatus.OK].headers
    ]

    assert silent == []


async def test_every_route_that_answers_201_replays_with_the_first_answer(stage: Stage) -> None:
    """A new route fails here until `Stage.bodies` has a body for it and it replays."""
    result = {one.path: [await stage.create(one, "one") for _ in range(2)] for one in creating(stage.front)}

    statuses = {path: [one.status for one in both] for path, both in result.items()}
    assert statuses == {path: [201, 200] for path in result}
    headers = {path: [one.headers.get(REPLAYED) for one in both] for path, both in result.items()}
    assert headers == {path: [None, "true"] for path in result}
    assert {path: other for path, both in result.items() if (other := differing(*both))} == {}
    assert {APPEAL, TOTP, SESSIONS, "/v1/verification-flows/{flow_id}/duplicate"} <= result.keys()


def differing(first: Response, again: Response) -> dict[str, Any]:
    """Return what a replay says otherwise than the first answer, but for secrets it leaves out."""
    was, now = first.json, again.json
    return {
        name: now.get(name)
        for name in was.keys() | now.keys()
        if was.get(name) != now.get(name) and (name not in SHOWN_ONCE or now.get(name) is not None)
    }


@pytest.fixture
def appeal(stage: Stage) -> Endpoint:
    """The route of the appeal."""
    return next(one for one in creating(stage.front) if one.path == APPEAL)


async def test_an_appeal_replays_when_its_decision_was_superseded_since(
    stage: Stage, appeal: Endpoint
) -> None:
    opened = await stage.create(appeal, "one")
    lead = await stage.front.sign_in(Role.COMPLIANCE_LEAD)
    case = f"/v1/control/review-cases/{opened.json['review_case_id']}"
    concluded = await lead.ask("POST", f"{case}/conclude", json={"outcome": "APPROVE", "note": "x"})

    again = await stage.create(appeal, "one")

    assert (concluded.json["status"], concluded.json["review_status"]) == ("CONCLUDED", "OVERTURNED")
    assert (again.status, again.headers[REPLAYED], again.body) == (200, "true", opened.body)


async def test_an_appeals_key_is_refused_for_another_note(stage: Stage, appeal: Endpoint) -> None:
    await stage.create(appeal, "one")

    result = await stage.create(appeal, "one", note="Something else.")

    assert (result.status, result.code) == (422, "IDEMPOTENCY_KEY_REUSED")
    assert result.json["errors"][0]["header"] == IDEMPOTENCY


async def test_a_second_key_for_an_appealed_decision_finds_its_case_and_replays(
    stage: Stage, appeal: Endpoint
) -> None:
    first = await stage.create(appeal, "one")

    results = [await stage.create(appeal, "two", note="Again.") for _ in range(2)]

    assert [(one.status, one.headers.get(REPLAYED)) for one in results] == [(201, None), (200, "true")]
    assert {one.body for one in results} == {first.body}


async def test_of_many_appeals_under_one_key_at_once_one_is_the_first(stage: Stage, appeal: Endpoint) -> None:
    results = await asyncio.gather(*(stage.create(appeal, "one") for _ in range(8)))

    assert sorted(one.status for one in results) == [200] * 7 + [201]
    assert len({one.body for one in results}) == 1
    audit = await stage.front.ask("GET", "/v1/audit?action=case.opened&limit=200")
    assert sum(row["detail"].endswith("opened by an appeal.") for row in audit.json["events"]) == 1
