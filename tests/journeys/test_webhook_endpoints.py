"""A tenant's endpoint in a running service: tried out, notified of a decision, asked again, rotated."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import pytest_asyncio

from schemas.base import rfc3339
from tests.journeys.service import Service, small_request
from tests.webhook_receiver import Hit, Receiver, open_receiver

pytestmark = pytest.mark.asyncio(loop_scope="session")

ENDPOINTS = "/v1/webhooks/endpoints"
SECRET = "a secret of the tenant's receiver"  # noqa: S105 - of nobody
OTHER_SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"  # noqa: S105 - of Standard Webhooks' published example


@dataclass(slots=True)
class Hook:
    """An endpoint of the tenant's test data, and what its receiver got."""

    service: Service
    receiver: Receiver
    shown: Any

    @property
    def path(self) -> str:
        """Its route."""
        return f"{ENDPOINTS}/{self.shown['endpoint_id']}"

    async def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Ask with the tenant's test key."""
        headers = {"Authorization": f"Bearer {self.service.test_key}"}
        asked = self.service.client.request(method, self.service.url + path, json=body, headers=headers)
        async with asked as answer:
            return answer.status, await answer.json(content_type=None)

    async def arrived(self, count: int) -> list[Hit]:
        """Wait for so many requests."""
        await self.receiver.until(lambda one: len(one.hits) >= count)
        return self.receiver.hits

    async def delivered(self, delivery_id: str, attempts: int) -> Any:
        """Look until the delivery had so many attempts and is over."""
        async with asyncio.timeout(180):
            while True:
                _, delivery = await self.ask("GET", f"/v1/webhooks/deliveries/{delivery_id}")
                if len(delivery["attempts"]) >= attempts and delivery["status"] != "PENDING":
                    return delivery
                await asyncio.sleep(0.1)  # the record of an attempt follows the attempt

    async def succeeded(self) -> Any:
        """Look until the endpoint shows a success."""
        async with asyncio.timeout(180):
            while True:
                _, shown = await self.ask("GET", self.path)
                if shown["last_success_at"] is not None:
                    return shown
                await asyncio.sleep(0.1)  # its actor notes the success after the attempt


@pytest_asyncio.fixture(loop_scope="session")
async def hook(service: Service) -> AsyncIterator[Hook]:
    """An endpoint for decisions of the test data; deleted in the end."""
    async with open_receiver() as receiver:
        made = Hook(service, receiver, None)
        body = {"url": receiver.url(), "secret": SECRET, "event_types": ["verification.completed"]}
        status, made.shown = await made.ask("POST", ENDPOINTS, body)
        assert status == 201, made.shown
        yield made
        await made.ask("DELETE", made.path)


async def test_a_test_arrives_signed_and_stands_in_the_log(hook: Hook) -> None:
    status, delivery = await hook.ask("POST", f"{hook.path}/test")

    [ping] = await hook.arrived(1)
    ping.verify(SECRET)
    ended = await hook.delivered(delivery["delivery_id"], 1)
    assert (status, ping.event_id, ended["status"]) == (202, delivery["event_id"], "DELIVERED")
    assert ended["attempts"][0]["status"] == 204


async def test_a_decision_arrives_and_again_when_asked_for(hook: Hook) -> None:
    begun = datetime.now(UTC)
    _, verification, _ = await hook.service.post(
        small_request("sim:approved@webhooks"), key=hook.service.test_key
    )
    await hook.arrived(1)
    _, listed = await hook.ask("GET", f"{hook.path}/deliveries")
    [row] = listed["deliveries"]
    await hook.delivered(row["delivery_id"], 1)

    await hook.ask("POST", f"/v1/webhooks/deliveries/{row['delivery_id']}/replay")
    await hook.delivered(row["delivery_id"], 2)
    window = {"from": rfc3339(begun), "to": rfc3339(begun + timedelta(hours=1))}
    status, _ = await hook.ask("POST", f"{hook.path}/replay", window)
    hits = await hook.arrived(3)

    assert status == 202
    assert {(hit.event_id, hit.body) for hit in hits} == {(row["event_id"], hits[0].body)}
    assert verification["verification_id"].encode() in hits[0].body
    for hit in hits:
        hit.verify(SECRET)


async def test_both_secrets_sign_while_a_rotation_overlaps(hook: Hook) -> None:
    rotation = {"secret": OTHER_SECRET, "overlap_seconds": 600}
    await hook.ask("POST", f"{hook.path}/rotate-secret", rotation)

    await hook.ask("POST", f"{hook.path}/test")

    [ping] = await hook.arrived(1)
    ping.verify(SECRET)
    ping.verify(OTHER_SECRET)


async def test_an_endpoint_knows_its_last_success(hook: Hook) -> None:
    await hook.ask("POST", f"{hook.path}/test")
    await hook.arrived(1)

    shown = await hook.succeeded()

    assert shown["last_success_at"] >= shown["created_at"]
