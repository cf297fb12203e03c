"""A tenant's people and what they are given to look at, in tests of the console in a browser."""

from base64 import b64encode
from dataclasses import dataclass
from typing import Any

from app.demo.specimens import PassportSpecimen, draw_passport, to_jpeg
from tests.journeys.people import COOKIE, Person
from tests.journeys.service import Service, hopper
from tests.journeys.test_sessions import Page as CapturePage


@dataclass(frozen=True, slots=True)
class Office:
    """A tenant's people and its verifications."""

    service: Service
    admin: Person
    people: dict[str, Person]

    async def verify(self, subject_id: str, **document: Any) -> dict[str, Any]:
        """Submit a verification as a tenant's server does."""
        page = b64encode(to_jpeg(draw_passport(PassportSpecimen(), hopper().portrait))).decode()
        body = {
            "subject_id": subject_id,
            "document": {"image_base64": page, **document},
            "selfie_image_base64": b64encode(to_jpeg(hopper().selfie)).decode(),
        }
        headers = {"Authorization": f"Bearer {self.service.test_key}"}
        url = f"{self.service.url}/v1/verifications"
        async with self.service.client.post(url, json=body, headers=headers) as answer:
            made: dict[str, Any] = await answer.json()
            assert answer.status == 201, made
            return made

    async def moved(self, opened: dict[str, Any], subject_id: str) -> dict[str, Any]:
        """Hand in a session whose person made the movements that were asked for."""
        page, person = CapturePage(self.service, opened), hopper()
        await page.consent()
        document = to_jpeg(draw_passport(PassportSpecimen(), person.portrait))
        assert (await page.ask("PUT", "/document", image=document))[0] == 200
        headers = {"Authorization": f"Bearer {opened['client_token']}", "Content-Type": "image/jpeg"}
        url, selfie = f"{self.service.url}/v1/capture/selfie", to_jpeg(person.selfie)
        of_camera = headers | {"Capture-Source": "CAMERA"}
        async with self.service.client.put(url, data=selfie, headers=of_camera) as answer:
            assert answer.status == 200, await answer.text()
        assert (await page.ask("POST", "/challenge", {}))[0] == 201
        for step in (1, 2, 3):
            frame = person.selfie.convert("RGB").rotate(step * 4).resize((480, 640))
            status, said = await page.ask("PUT", f"/challenge/{step}", image=to_jpeg(frame))
            assert (status, said["accepted"]) == (200, True), said
        assert (await page.ask("POST", "/submit", {"number_last4": "02C3"}))[0] == 202
        await page.outcome()
        _, listed = await self.service.get("/v1/verifications", subject_id=subject_id)
        made: dict[str, Any] = listed["verifications"][0]
        return made

    async def settle(self, **settings: Any) -> None:
        """Change the tenant's settings."""
        status, said = await self.admin.ask("PATCH", "/v1/control/settings", json=settings)
        assert status == 200, said

    def seen_by(self, role: str) -> dict[str, Any]:
        """Options of a browser in which a member of a role is signed in."""
        host = self.service.url.partition("//")[2].partition(":")[0]
        cookie = {
            "name": COOKIE, "value": self.people[role].cookie, "domain": host, "path": "/",
            "expires": -1, "httpOnly": True, "secure": False, "sameSite": "Lax",
        }  # fmt: skip
        return {"storage_state": {"cookies": [cookie], "origins": []}}

    def page_of(self, made: dict[str, Any]) -> str:
        """The address of a verification's case."""
        return f"{self.service.url}/console/review-cases/{made['review_case_id']}"
