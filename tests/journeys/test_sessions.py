"""A verification session end to end: published flow, client token, real images, broker, agents, outcome."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest
import pytest_asyncio

from app.demo.specimens import PassportSpecimen, draw_passport, to_jpeg
from tests.journeys.people import Person, sign_in
from tests.journeys.service import Service, hopper, veristream_json

pytestmark = pytest.mark.asyncio(loop_scope="session")

SESSIONS = "/v1/verification-sessions"
FLOWS = "/v1/verification-flows"
ENDED = {"APPROVED", "REVIEW_REQUIRED", "REJECTED", "FAILED"}


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def admin(service: Service) -> Person:
    """A signed-in member who may publish flows."""

    async def command(*words: str) -> Any:
        return await veristream_json(service.data_dir, *words)

    return await sign_in(service.client, service.url, command, service.tenant_id, "ADMIN")


@dataclass(frozen=True, slots=True)
class Page:
    """The subject's page."""

    service: Service
    opened: Mapping[str, Any]

    async def ask(
        self, method: str, suffix: str = "", body: Any = None, image: bytes | None = None
    ) -> tuple[int, Any]:
        """Ask with the client token; the body is JSON or the image itself."""
        headers = {"Authorization": f"Bearer {self.opened['client_token']}"}
        if image is not None:
            headers["Content-Type"] = "image/jpeg"
        url = f"{self.service.url}/v1/capture{suffix}"
        asked = self.service.client.request(method, url, json=body, data=image, headers=headers)
        async with asked as answer:
            return answer.status, await answer.json(content_type=None)

    async def consent(self) -> None:
        """Accept the notice."""
        version = (await self.ask("GET"))[1]["consent"]["notice_version"]
        status, _ = await self.ask("POST", "/consent", {"notice_version": version, "accepted": True})
        assert status == 200

    async def outcome(self) -> Any:
        """Look until the session has ended."""
        async with asyncio.timeout(180):
            while True:
                _, view = await self.ask("GET")
                if view["status"] in ENDED:
                    return view
                await asyncio.sleep(0.1)


async def publish_flow(person: Person, flow_type: str) -> str:
    """Publish a flow that takes Nigerian documents."""
    documents = [{"country": "NG", "capabilities": ["NG_PASSPORT", "NG_NIN_SLIP"]}]
    if flow_type == "BIOMETRIC":
        documents = []
    body = {"name": "Journey", "flow_type": flow_type, "documents": documents}
    status, flow = await person.ask("POST", FLOWS, json=body)
    assert status == 201, flow
    status, flow = await person.ask("POST", f"{FLOWS}/{flow['flow_id']}/publish")
    assert status == 200, flow
    return str(flow["flow_id"])


async def open_page(service: Service, flow_id: str, subject_id: str, key: str) -> Page:
    """Open a session."""
    headers = {"Authorization": f"Bearer {key}"}
    body = {"flow_id": flow_id, "subject_id": subject_id}
    async with service.client.post(f"{service.url}{SESSIONS}", json=body, headers=headers) as answer:
        opened = await answer.json()
        assert answer.status == 201, opened
        return Page(service, opened)


async def test_a_person_with_a_good_passport_is_verified(service: Service, admin: Person) -> None:
    person = hopper()
    page = await open_page(service, await publish_flow(admin, "DOCUMENT"), "session-1", service.test_key)
    await page.consent()
    passport = to_jpeg(draw_passport(PassportSpecimen(), person.portrait))

    status, stored = await page.ask("PUT", "/document", image=passport)
    submitted, _ = await page.ask("POST", "/submit", {"number_last4": "02C3"})
    view = await page.outcome()

    assert (status, stored) == (200, {"accepted": True, "reasons": []})
    assert submitted == 202
    assert view["result"]["outcome"] == "VERIFIED", view
    path = f"{SESSIONS}/{page.opened['session_id']}"
    _, row = await service.get(path)
    _, verification = await service.get(f"/v1/verifications/{row['verification_id']}")
    assert (row["status"], row["decision"]) == ("APPROVED", "ALLOW")
    assert verification["document"]["extracted_fields"]["surname"] == "ERIKSSON"
    _, audit = await service.get("/v1/audit", subject_id="session-1")
    assert [event["action"] for event in reversed(audit["events"])] == [
        "session.created", "session.started", "session.submitted", "verification.evaluated",
    ]  # fmt: skip


async def test_without_movements_a_person_must_look(service: Service, admin: Person) -> None:
    person = hopper()
    flow_id = await publish_flow(admin, "FULL_IDENTITY")
    page = await open_page(service, flow_id, "session-2", service.test_key)
    await page.consent()

    passport = to_jpeg(draw_passport(PassportSpecimen(), person.portrait))
    await page.ask("PUT", "/document", image=passport)
    _, stored = await page.ask("PUT", "/selfie", image=to_jpeg(person.selfie))
    await page.ask("POST", "/submit", {})
    view = await page.outcome()

    _, row = await service.get(f"{SESSIONS}/{page.opened['session_id']}")
    _, verification = await service.get(f"/v1/verifications/{row['verification_id']}")
    assert stored["accepted"], stored
    assert (view["status"], view["result"]["outcome"]) == ("REVIEW_REQUIRED", "IN_REVIEW")
    assert [reason["code"] for reason in verification["reasons"]] == ["LIVENESS_UNCERTAIN"]
    assert verification["distance"] < 0.5


async def test_a_sandbox_session_ends_as_it_was_asked_to(service: Service, admin: Person) -> None:
    flow_id = await publish_flow(admin, "FULL_IDENTITY")
    page = await open_page(service, flow_id, "sim:reject:DOCUMENT_EXPIRED@session", service.test_key)
    await page.consent()
    image = to_jpeg(hopper().selfie)

    for what in ("document", "selfie"):
        assert (await page.ask("PUT", f"/{what}", image=image))[0] == 200
    await page.ask("POST", "/submit", {})
    view = await page.outcome()

    assert (view["status"], view["result"]["outcome"]) == ("REJECTED", "NOT_VERIFIED")


async def test_a_known_face_needs_no_document(service: Service, admin: Person) -> None:
    """The portrait of the first verification is what the selfie is compared with (G7)."""
    person = hopper()
    first = await open_page(service, await publish_flow(admin, "DOCUMENT"), "session-3", service.test_key)
    await first.consent()
    passport = to_jpeg(draw_passport(PassportSpecimen(), person.portrait))
    await first.ask("PUT", "/document", image=passport)
    await first.ask("POST", "/submit", {})
    assert (await first.outcome())["status"] == "APPROVED"

    page = await open_page(service, await publish_flow(admin, "BIOMETRIC"), "session-3", service.test_key)
    await page.consent()
    await page.ask("PUT", "/selfie", image=to_jpeg(person.selfie))
    await page.ask("POST", "/submit", {})
    await page.outcome()

    _, row = await service.get(f"{SESSIONS}/{page.opened['session_id']}")
    _, verification = await service.get(f"/v1/verifications/{row['verification_id']}")
    assert (verification["document"], verification["distance"] < 0.5) == (None, True)
    assert [reason["code"] for reason in verification["reasons"]] == ["LIVENESS_UNCERTAIN"]
