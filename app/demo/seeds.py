"""Seed data of the demonstration: members, a flow, and verifications of every status."""

import asyncio
import base64
from dataclasses import dataclass
from datetime import timedelta
from io import BytesIO
from typing import Any, Final

from PIL import Image, ImageDraw

from app.demo.access import DemoAccess, DemoMember, keep_access
from app.demo.client import Client, member_client, sign_in
from app.settings import Settings

SUBJECTS: Final = (
    "sim:approved@amina",
    "sim:warn:DOCUMENT_EXPIRING@ben",
    "sim:review:FACE_MATCH_UNCERTAIN@chioma",
    "sim:review:NUMBER_MISMATCH@dayo",
    "sim:reject:DOCUMENT_EXPIRED@efe",
    "sim:reject:FACE_MISMATCH@farida",
    "sim:fail:PROVIDER_UNAVAILABLE@goke",
)
"""One for every status, decided without a model."""

OTHER_SUBJECT: Final = "sim:approved@hassan"
"""Of the second tenant, which sees none of the first one's."""

MOST_SHOWN: Final = "100"
"""Verifications, events and deliveries looked at; the demonstration makes a handful."""

FLOW: Final = {
    "name": "Demo onboarding",
    "flow_type": "FULL_IDENTITY",
    "documents": [{"country": "NG", "capabilities": ["NG_PASSPORT", "NG_NIN_SLIP"]}],
}

DELIVERED_S: Final = 30.0
"""How long webhooks may take; a healthy service takes a second."""

LOOK_AGAIN: Final = timedelta(seconds=0.2)


@dataclass(frozen=True, slots=True)
class Shown:
    """A verification in the demonstration's table."""

    verification: dict[str, Any]
    webhook: str
    """What became of its webhook."""


async def furnish(settings: Settings, url: str, access: DemoAccess) -> DemoAccess:
    """Enrol the members' second factors and publish a flow, where that was not done before.

    Raises:
        CannotStart: The service refused.
    """
    for place, member in enumerate(access.members):
        needed = member.totp_secret is None or (place == 0 and access.flow_id is None)
        if not needed:
            continue
        async with member_client(url) as client:
            access = _with(access, place, await sign_in(client, member))
            await asyncio.to_thread(keep_access, settings, access)
            if place == 0 and access.flow_id is None:
                flow = await client.request("POST", "/v1/verification-flows", FLOW)
                await client.request("POST", f"/v1/verification-flows/{flow['flow_id']}/publish", {})
                access = access.model_copy(update={"flow_id": flow["flow_id"]})
                await asyncio.to_thread(keep_access, settings, access)
    return access


def _with(access: DemoAccess, place: int, member: DemoMember) -> DemoAccess:
    members = (*access.members[:place], member, *access.members[place + 1 :])
    return access.model_copy(update={"members": members})


async def submit_missing(client: Client, subjects: tuple[str, ...]) -> None:
    """Submit a verification for each subject that has none.

    Raises:
        CannotStart: The service refused.
    """
    there = {one["subject_id"] for one in await verifications(client)}
    for number, subject in enumerate(subjects):
        if subject not in there:
            await client.request("POST", "/v1/verifications", _request(subject, number))


async def verifications(client: Client) -> list[dict[str, Any]]:
    """Return the tenant's verifications, oldest first."""
    answered = await client.request("GET", "/v1/verifications", limit=MOST_SHOWN)
    return list(reversed(answered["verifications"]))


def _request(subject: str, number: int) -> dict[str, Any]:
    return {
        "subject_id": subject,
        "document": {"image_base64": _picture(number, "passport")},
        "selfie_image_base64": _picture(number, "selfie"),
    }


def _picture(number: int, what: str) -> str:
    """Return a small picture that is marked as a specimen and no other's; the scenario needs no more."""
    picture = Image.new("RGB", (240, 180), (60 + 20 * number, 100, 140 if what == "selfie" else 180))
    ImageDraw.Draw(picture).text((20, 80), f"SPECIMEN {what} {number}", fill="white")
    out = BytesIO()
    picture.save(out, "PNG")
    return base64.b64encode(out.getvalue()).decode()


async def with_webhooks(client: Client, access: DemoAccess) -> list[Shown]:
    """Return the tenant's verifications with the outcome of their webhooks, once none is pending."""
    made = await verifications(client)
    loop = asyncio.get_running_loop()
    deadline = loop.time() + DELIVERED_S
    while True:
        log = await _webhook_log(client, access)
        settled = all(log.get(one["verification_id"], "PENDING") != "PENDING" for one in made)
        if settled or loop.time() > deadline:
            return [Shown(one, log.get(one["verification_id"], "")) for one in made]
        await asyncio.sleep(LOOK_AGAIN.total_seconds())


async def _webhook_log(client: Client, access: DemoAccess) -> dict[str, str]:
    """Return the status of the delivery of each verification's event, by verification."""
    endpoint = f"/v1/webhooks/endpoints/{access.endpoint_id}/deliveries"
    deliveries = (await client.request("GET", endpoint, limit=MOST_SHOWN))["deliveries"]
    status_of = {one["event_id"]: one["status"] for one in deliveries}
    query = {"types": "verification.completed", "limit": MOST_SHOWN}
    events = (await client.request("GET", "/v1/events", **query))["events"]
    return {
        event["data"]["verification_id"]: status_of[event["id"]]
        for event in events
        if event["id"] in status_of
    }
