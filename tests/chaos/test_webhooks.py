"""F3, F13, F14, F17: webhooks while receivers fail at random and workers are killed; nothing is missing."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from aiohttp import ClientSession

from schemas.events import EventType
from schemas.topics import Topic
from streams.runtime.producer import LogWriter, Outgoing
from tests.chaos import brisk_worker
from tests.chaos.brisk_worker import BRISK, STEPS_S
from tests.chaos.fleet import Fleet, Profile, running_fleet
from tests.chaos.load import Load, open_client
from tests.chaos.logs import deliveries_in, forget_progress, until_caught_up
from tests.chaos.random_receivers import RandomReceivers, Registered
from tests.chaos.sizes import events, kills, seeded
from tests.chaos.verdict import check
from tests.journeys.service import Role
from tests.webhook_receiver import Receiver, hanging, open_receiver, saying

TENANTS: Final = 5
CHOICES: Final = (
    ("*",),
    ("*",),
    (EventType.VERIFICATION_COMPLETED,),
    (EventType.VERIFICATION_APPROVED, EventType.VERIFICATION_REJECTED, EventType.CASE_OPENED),
)
"""What the four endpoints of each tenant ask for."""

STANDSTILL_S: Final = 180.0
"""The schedule of attempts takes 22 s."""

EVENT_TOPICS: Final = (Topic.DECISIONS, Topic.WEBHOOK_DELIVERIES)

SCENARIOS: Final = ("approved", "reject", "review")


@dataclass(slots=True)
class Tenant:
    """A tenant with its key and its endpoints."""

    tenant_id: str
    key: str
    client: ClientSession
    url: str

    async def ask(self, method: str, path: str, **more: Any) -> Any:
        """Ask the front and return the body of a good answer."""
        headers = {"Authorization": f"Bearer {self.key}"}
        async with self.client.request(method, f"{self.url}{path}", headers=headers, **more) as answer:
            assert answer.ok, await answer.text()
            return await answer.json(content_type=None)

    async def register(
        self, receivers: RandomReceivers, path: str, event_types: tuple[str, ...]
    ) -> Registered:
        """Register an endpoint at a path of the receivers."""
        secret = f"the first secret of {path}"
        body = {"url": receivers.receiver.url(path), "event_types": event_types, "secret": secret}
        made = await self.ask("POST", "/v1/webhooks/endpoints", json=body)
        endpoint = Registered(self.tenant_id, made["endpoint_id"], path, event_types)
        receivers.add(endpoint, secret)
        return endpoint

    async def rotate(self, receivers: RandomReceivers, endpoint: Registered, secret: str) -> None:
        """Rotate an endpoint's secret; its receiver follows for what is signed some time later."""
        body = {"secret": secret, "overlap_seconds": 3_600}
        await self.ask("POST", f"/v1/webhooks/endpoints/{endpoint.endpoint_id}/rotate-secret", json=body)
        receivers.rotate(endpoint.path, secret, after_s=2 * BRISK.answer_within_s)

    async def events(self, verifications: int) -> dict[str, str]:
        """Every event of the tenant's feed, with its type; each verification tells two or more.

        A feed may show what happened some seconds later.
        """
        async with asyncio.timeout(180):
            while len(found := await self._feed()) < 2 * verifications:  # noqa: ASYNC110 - over HTTP
                await asyncio.sleep(0.5)
        return found

    async def _feed(self) -> dict[str, str]:
        found: dict[str, str] = {}
        asked = {"limit": "500"}
        while True:
            page = await self.ask("GET", "/v1/events", params=asked)
            found |= {event["id"]: event["type"] for event in page["events"]}
            if page["next_cursor"] is None:
                return found
            asked["cursor"] = page["next_cursor"]

    async def dead_letters(self, endpoint: Registered) -> dict[str, int]:
        """The events that failed for good at an endpoint, with their attempts."""
        path = f"/v1/webhooks/endpoints/{endpoint.endpoint_id}/deliveries"
        page = await self.ask("GET", path, params={"status": "FAILED", "limit": "100"})
        return {one["event_id"]: len(one["attempts"]) for one in page["deliveries"]}


@asynccontextmanager
async def brisk_fleet(tmp_path: Path, profile: Profile) -> AsyncIterator[tuple[Fleet, Role]]:
    """A fleet whose receivers may be on this machine, and its front."""
    async with running_fleet(tmp_path, profile, SERVICE_WEBHOOKS_ALLOW_INSECURE="true") as fleet:
        yield fleet, await fleet.front()


async def make_tenants(fleet: Fleet, client: ClientSession, url: str, count: int) -> list[Tenant]:
    """Make tenants beside the fleet's own, each with a test key."""
    made = [Tenant(fleet.tenant, fleet.test_key, client, url)]
    for number in range(1, count):
        tenant = (await fleet.command("tenant", "create", f"Tenant {number}"))["tenant_id"]
        key = (await fleet.command("key", "create", "--tenant", tenant, "--test"))["api_key"]
        made.append(Tenant(tenant, key, client, url))
    return made


def body_of(receiver: Receiver) -> dict[str, object]:
    """What registers an endpoint for everything."""
    return {"url": receiver.url(), "event_types": ["*"], "secret": "a secret of the tenant's receiver"}


def missing(receivers: RandomReceivers, happened: dict[str, dict[str, str]]) -> set[tuple[str, str]]:
    """Which events no 2xx was said to, by path and event id; `happened` is by tenant."""
    return {
        (one.path, event_id)
        for one in receivers.endpoints.values()
        for event_id, type_ in happened[one.tenant_id].items()
        if ("*" in one.event_types or type_ in one.event_types) and event_id not in receivers.taken[one.path]
    }


async def feeds(tenants: list[Tenant], loads: list[Load]) -> dict[str, dict[str, str]]:
    """What happened, by tenant."""
    return {one.tenant_id: await one.events(load.commands) for one, load in zip(tenants, loads, strict=True)}


async def dead_letters(tenants: list[Tenant], receivers: RandomReceivers) -> dict[tuple[str, str], int]:
    """Attempts of what failed for good, by path and event id."""
    found: dict[tuple[str, str], int] = {}
    for tenant in tenants:
        for one in receivers.endpoints.values():
            if one.tenant_id == tenant.tenant_id:
                letters = await tenant.dead_letters(one)
                found |= {(one.path, event_id): tries for event_id, tries in letters.items()}
    return found


async def until_delivered(
    happened: dict[str, dict[str, str]], tenants: list[Tenant], receivers: RandomReceivers
) -> dict[tuple[str, str], int]:
    """Wait until all that happened was taken or failed for good; return what failed.

    A busy machine may take long; for `STANDSTILL_S` nothing at all may happen to what is left.
    """
    behaved, moved = sum(receivers.behaviours.values()), time.monotonic()
    while True:
        left = missing(receivers, happened)
        letters = await dead_letters(tenants, receivers) if left else {}
        if not left - letters.keys():
            return {key: letters[key] for key in left}
        if (now := sum(receivers.behaviours.values())) != behaved:
            behaved, moved = now, time.monotonic()
        waited = time.monotonic() - moved
        assert waited < STANDSTILL_S, (
            f"{len(left)} never delivered: {sorted(left)[:5]}; {receivers.behaviours}"
        )
        await asyncio.sleep(1.0)  # what is waited for is said by another process


async def test_nothing_is_missing_when_receivers_fail_and_workers_die(
    tmp_path: Path, profile: Profile
) -> None:
    """The first row of How good: 20 endpoints of 5 tenants, each event delivered or dead after ten attempts.

    Meanwhile every tenant rotates a secret, and no request fails to verify.
    """
    chance, wanted, deaths = seeded("webhooks"), events(160), kills(1)
    async with (
        brisk_fleet(tmp_path, profile) as (fleet, front),
        open_client() as client,
        open_receiver() as receiver,
    ):
        receivers = RandomReceivers(chance, receiver)
        tenants = await make_tenants(fleet, client, front.url, TENANTS)
        for number, tenant in enumerate(tenants):
            for choice, event_types in enumerate(CHOICES):
                await tenant.register(receivers, f"/{number}/{choice}", event_types)
        enough = asyncio.Event()
        loads = [
            Load(client, front.url, tenant.key, name=f"hooks-{number}", scenario=chance.choice(SCENARIOS))
            for number, tenant in enumerate(tenants)
        ]
        posting = [asyncio.create_task(load.keep_posting(enough, at_once=3)) for load in loads]
        for death in range(deaths):
            worker = await fleet.odd_worker(brisk_worker.run, "brisk")
            await until_posted(loads, wanted * (death + 1) // (2 * (deaths + 1)))
            await asyncio.sleep(chance.uniform(0.5, 3.0))  # a kill comes at any moment
            await worker.kill()
        await fleet.odd_worker(brisk_worker.run, "brisk")
        rotating = [
            asyncio.create_task(tenant.rotate(receivers, endpoint, f"the second secret of {endpoint.path}"))
            for tenant, endpoint in zip(tenants, list(receivers.endpoints.values())[::4], strict=True)
        ]
        await until_posted(loads, wanted // 2)
        enough.set()
        await asyncio.gather(*posting, *rotating)
        for load in loads:
            await load.settle_all()
        happened = await feeds(tenants, loads)
        letters = await until_delivered(happened, tenants, receivers)
        await check(fleet)

    receivers.say(len(letters))
    assert receivers.wrong == []
    assert all(len(bodies) == 1 for bodies in receivers.bodies.values())
    assert set(letters.values()) <= {len(STEPS_S)}


async def until_posted(loads: list[Load], verifications: int) -> None:
    """Return once so many verifications were answered; each tells two events or three."""
    while sum(len(load.answers) for load in loads) < verifications:  # noqa: ASYNC110 - of several loads
        await asyncio.sleep(0.1)


async def test_a_log_read_again_from_its_beginning_delivers_nothing_twice(
    tmp_path: Path, profile: Profile
) -> None:
    """F13: every event and every request to deliver lies in the log three times, and is read again."""
    async with (
        brisk_fleet(tmp_path, profile) as (fleet, front),
        open_client() as client,
        open_receiver(saying(204)) as receiver,
    ):
        tenant = (await make_tenants(fleet, client, front.url, 1))[0]
        await tenant.ask("POST", "/v1/webhooks/endpoints", json=body_of(receiver))
        worker = await fleet.odd_worker(brisk_worker.run, "brisk")
        load = Load(client, front.url, tenant.key, 20)
        await load.post_all()
        happened = await tenant.events(load.commands)
        await receiver.until(lambda one: len(one.hits) >= len(happened))
        await worker.stop()
        async with LogWriter(profile.access, fleet.record_keys) as writer:
            for topic in EVENT_TOPICS:
                sent = await deliveries_in(profile.access, topic)
                await writer.write(*(Outgoing(one.topic, one.key, one.value) for one in sent * 2))
                await forget_progress(profile.access, topic)
        await fleet.odd_worker(brisk_worker.run, "brisk")
        for topic in EVENT_TOPICS:
            await until_caught_up(profile.access, topic)
        await check(fleet)

    assert sorted(hit.event_id for hit in receiver.hits) == sorted(happened)


async def test_a_worker_killed_before_it_knew_the_answer_delivers_again(
    tmp_path: Path, profile: Profile
) -> None:
    """F3: the receiver takes its time, and its worker dies meanwhile: the same id and bytes come again."""
    async with (
        brisk_fleet(tmp_path, profile) as (fleet, front),
        open_client() as client,
        open_receiver(hanging) as receiver,
    ):
        tenant = (await make_tenants(fleet, client, front.url, 1))[0]
        await tenant.ask("POST", "/v1/webhooks/endpoints", json=body_of(receiver))
        worker = await fleet.odd_worker(brisk_worker.run, "brisk")
        await Load(client, front.url, tenant.key, 1).post_all()
        happened = await tenant.events(1)
        await receiver.until(lambda one: {hit.event_id for hit in one.hits} == set(happened))
        await worker.kill()
        before, receiver.answer = len(receiver.hits), saying(204)
        await fleet.odd_worker(brisk_worker.run, "brisk")
        await receiver.until(lambda one: {hit.event_id for hit in one.hits[before:]} == set(happened))
        await check(fleet)

    for event_id in happened:
        assert len({hit.body for hit in receiver.hits if hit.event_id == event_id}) == 1
