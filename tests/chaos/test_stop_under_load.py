"""SIGTERM in the middle of the work: the process ends by itself, and every key finds its one record."""

import asyncio
from pathlib import Path

from aiohttp import ClientError, ClientSession, ClientTimeout

from tests.chaos.test_kills import Crowd, settle
from tests.journeys.service import Role, make_tenant, veristream_json

COMMANDS = 300


async def test_a_stop_under_load_loses_nothing(tmp_path: Path) -> None:
    role = await Role.start(tmp_path, "up", "--port", "0")
    tenant, _, key = await make_tenant(tmp_path)
    async with ClientSession(timeout=ClientTimeout(total=60)) as client:
        crowd = Crowd(client, role.url, key)
        half = asyncio.Event()

        async def post(number: int) -> None:
            try:
                crowd.answers[number] = await crowd.post(number)
            except ClientError:
                crowd.answers[number] = (0, {})
            if len(crowd.answers) > COMMANDS // 3:
                half.set()

        posting = [asyncio.create_task(post(number)) for number in range(COMMANDS)]
        await half.wait()
        status = await role.stop()
        await asyncio.gather(*posting)
        role = await Role.start(tmp_path, "up", "--port", "0")
        try:
            crowd.url = role.url
            settled = [(await settle(crowd, number))[1] for number in range(COMMANDS)]
            report = (await veristream_json(tmp_path, "audit", "verify", "--tenant", tenant))[0]
        finally:
            await role.stop()

    answered = {n: body["verification_id"] for n, (code, body) in crowd.answers.items() if code == 201}
    assert status == 0
    assert 0 < len(answered) < COMMANDS
    assert {settled[number]["verification_id"] for number in answered} == set(answered.values())
    assert len({body["verification_id"] for body in settled}) == COMMANDS
    assert (report["ok"], report["rows"]) == (True, COMMANDS + 2)
