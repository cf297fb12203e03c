"""A worker dies in the middle of a publish and of a conclusion; sent again, neither happens twice."""

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

from aiohttp import ClientSession

from tests.chaos.crash_points import Point
from tests.chaos.fleet import Fleet, running_fleet
from tests.chaos.load import open_client
from tests.chaos.verdict import check
from tests.journeys.people import Person, sign_in
from tests.journeys.service import small_request

FLOW = {
    "name": "Customers",
    "flow_type": "DOCUMENT",
    "documents": [{"country": "NG", "capabilities": ["NG_NIN_SLIP"]}],
}
DEATHS = (Point.RECORD_WRITTEN, Point.COMMITTED)
"""In the middle of the commit, and after it."""


async def until_answered(person: Person, path: str, body: Any = None) -> Any:
    """Send a command again and again until it is carried out, or was carried out before."""
    async with asyncio.timeout(180):
        while True:
            status, response = await person.ask("POST", path, json=body)
            if status in {200, 409}:
                return response
            assert status == 503, response
            await asyncio.sleep(0.3)


async def die_in_between(fleet: Fleet, person: Person, point: Point, path: str, body: Any) -> None:
    """Let a worker die at the point of the command, another take over, and send the command again."""
    crashing = await fleet.crashing_worker(point, 1)
    asked = asyncio.create_task(person.ask("POST", path, json=body))
    async with asyncio.timeout(180):
        assert await crashing.process.wait() == -9
    worker = await fleet.worker()
    await asked
    await until_answered(person, path, body)
    await worker.stop()


async def actions(client: ClientSession, url: str, key: str) -> Counter[str]:
    """Count the rows of the audit log by action."""
    headers = {"Authorization": f"Bearer {key}"}
    async with client.get(f"{url}/v1/audit?limit=200", headers=headers) as answer:
        return Counter(row["action"] for row in (await answer.json())["events"])


async def test_a_publish_interrupted_anywhere_makes_one_revision(tmp_path: Path) -> None:
    async with running_fleet(tmp_path) as fleet, open_client() as client:
        front, worker = await fleet.front(), await fleet.worker()
        owner = await sign_in(client, front.url, fleet.command, fleet.tenant)
        flows = [(await owner.ask("POST", "/v1/verification-flows", json=FLOW))[1] for _ in DEATHS]
        await worker.stop()

        for point, flow in zip(DEATHS, flows, strict=True):
            path = f"/v1/verification-flows/{flow['flow_id']}"
            await die_in_between(fleet, owner, point, f"{path}/publish", None)
            _, revisions = await owner.ask("GET", f"{path}/revisions")
            assert [one["revision"] for one in revisions["revisions"]] == [1]

        assert (await actions(client, front.url, fleet.live_key))["flow.published"] == len(DEATHS)


async def test_a_conclusion_interrupted_anywhere_is_one(tmp_path: Path) -> None:
    async with running_fleet(tmp_path) as fleet, open_client() as client:
        front, worker = await fleet.front(), await fleet.worker()
        owner = await sign_in(client, front.url, fleet.command, fleet.tenant)
        headers = {"Authorization": f"Bearer {fleet.test_key}"}
        cases = []
        for point in DEATHS:
            body = small_request(f"sim:review:FACE_MATCH_UNCERTAIN@{point}")
            async with client.post(f"{front.url}/v1/verifications", json=body, headers=headers) as made:
                cases.append(await made.json())
        await worker.stop()

        for point, made in zip(DEATHS, cases, strict=True):
            path = f"/v1/control/review-cases/{made['review_case_id']}"
            said = {"outcome": "REJECT", "note": "Not the same person."}
            await die_in_between(fleet, owner, point, f"{path}/conclude", said)
            _, case = await owner.ask("GET", path)
            _, after = await owner.ask("GET", f"/v1/verifications/{made['verification_id']}")
            assert (case["status"], after["status"]) == ("CONCLUDED", "REJECTED")

        assert (await actions(client, front.url, fleet.test_key))["case.concluded"] == len(DEATHS)
        await fleet.worker()
        await check(fleet)
