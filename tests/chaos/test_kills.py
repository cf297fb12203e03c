"""Workers and broker die in the middle of a thousand verifications; nothing is lost, doubled or unaudited."""

import asyncio
import json
import random
import secrets
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientError, ClientSession, ClientTimeout

from tests.journeys.service import Role, make_tenant, small_request, veristream_json

COMMANDS = 1_000
AT_ONCE = 48
WORKER_KILLS = 5
SETTINGS = {"SERVICE_ANSWER_TIMEOUT_S": "25", "SERVICE_WORKER_SESSION_TIMEOUT_S": "6"}
CLEAR = {"DECISION_PENDING", "STORE_UNAVAILABLE", "OVERLOADED"}


class Crowd:
    """Posts every command once under its own key, and remembers each answer."""

    def __init__(self, client: ClientSession, url: str, key: str) -> None:
        self.client, self.url, self.key = client, url, key
        self.answers: dict[int, tuple[int, dict[str, Any]]] = {}
        self.answered = asyncio.Condition()

    async def post(self, number: int) -> tuple[int, dict[str, Any]]:
        """Post one command."""
        headers = {"Authorization": f"Bearer {self.key}", "Idempotency-Key": f"chaos-{number}"}
        body = small_request(f"sim:approved@chaos-{number}")
        async with self.client.post(f"{self.url}/v1/verifications", json=body, headers=headers) as answer:
            return answer.status, await answer.json(content_type=None)

    async def post_all(self) -> None:
        """Post every command, `AT_ONCE` at a time."""
        numbers = iter(range(COMMANDS))

        async def one() -> None:
            for number in numbers:
                self.answers[number] = await self.post(number)
                async with self.answered:
                    self.answered.notify_all()

        await asyncio.gather(*(one() for _ in range(AT_ONCE)))

    async def until(self, share: float) -> None:
        """Return once this share of the commands has been answered."""
        async with self.answered:
            await self.answered.wait_for(lambda: len(self.answers) >= share * COMMANDS)


async def settle(crowd: Crowd, number: int) -> tuple[int, dict[str, Any]]:
    """Send a command again until it is answered; the service has a minute to come back."""
    async with asyncio.timeout(90):
        while True:
            try:
                status, body = await crowd.post(number)
            except ClientError:
                status, body = 503, {}
            if status in {200, 201}:
                return status, body
            assert (status, body.get("code")) in {(503, code) for code in CLEAR}, body
            await asyncio.sleep(0.3)


@pytest.mark.timeout(600)
async def test_a_thousand_commands_survive_killed_workers_and_a_killed_broker(tmp_path: Path) -> None:
    seed = secrets.randbits(32)
    print(f"seed {seed}")  # noqa: T201 - a failing run is repeated by its seed
    chance = random.Random(seed)
    broker = await Role.start(tmp_path, "broker")
    front = await Role.start(tmp_path, "front", "--port", "0", given=SETTINGS)
    worker = await Role.start(tmp_path, "worker", given=SETTINGS)
    try:
        tenant, _, key = await make_tenant(tmp_path)
        moments = sorted(chance.uniform(0.05, 0.9) for _ in range(WORKER_KILLS + 1))
        broker_dies = chance.randrange(len(moments))
        async with ClientSession(timeout=ClientTimeout(total=60)) as client:
            crowd = Crowd(client, front.url, key)
            posting = asyncio.create_task(crowd.post_all())
            for index, moment in enumerate(moments):
                await crowd.until(moment)
                if index == broker_dies:
                    await broker.kill()
                    broker = await Role.start(tmp_path, "broker")
                else:
                    await worker.kill()
                    worker = await Role.start(tmp_path, "worker", given=SETTINGS)
            await posting
            first = Counter((status, body.get("code")) for status, body in crowd.answers.values())
            print(first)  # noqa: T201 - what the outages looked like from outside
            settled = [await settle(crowd, number) for number in range(COMMANDS)]
            rows = await audit_rows(client, front.url, key)
        assert {status for status, _ in first} <= {201, 200, 503}
        assert {code for _, code in first if code} <= CLEAR
        assert one_record_each(crowd, [body for _, body in settled])
        assert Counter(rows.values()) == {1: COMMANDS}
        report = (await veristream_json(tmp_path, "audit", "verify", "--tenant", tenant))[0]
        assert report["ok"], report
        assert await veristream_json(tmp_path, "dlq", "list") == []
    finally:
        for role in (front, worker, broker):
            await role.stop()


def one_record_each(crowd: Crowd, settled: list[dict[str, Any]]) -> bool:
    """Tell whether every command has one record, the same at every answer."""
    names = [body["verification_id"] for body in settled]
    earlier = {n: b["verification_id"] for n, (s, b) in crowd.answers.items() if s in {200, 201}}
    return len(set(names)) == COMMANDS and all(names[number] == name for number, name in earlier.items())


async def audit_rows(client: ClientSession, url: str, key: str) -> Counter[tuple[str, str]]:
    """Count the rows of each subject and action, by walking the whole log."""
    found: Counter[tuple[str, str]] = Counter()
    parameters = {"limit": "200", "action": "verification.evaluated"}
    while True:
        headers = {"Authorization": f"Bearer {key}"}
        async with client.get(f"{url}/v1/audit", params=parameters, headers=headers) as answer:
            page = json.loads(await answer.text())
        found.update((row["subject_id"], row["action"]) for row in page["events"])
        if page["next_cursor"] is None:
            return found
        parameters["cursor"] = page["next_cursor"]
