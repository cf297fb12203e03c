"""SIGTERM in the middle of the work: the process ends by itself, and every key finds its one record."""

import asyncio
from pathlib import Path

from tests.chaos.load import Load, open_client
from tests.journeys.service import make_tenant, start_preloaded, veristream_json

COMMANDS, AT_ONCE = 300, 100


async def test_a_stop_under_load_loses_nothing(tmp_path: Path) -> None:
    role = await start_preloaded(tmp_path, "up", "--port", "0")
    tenant, _, key = await make_tenant(tmp_path)
    async with open_client() as client:
        load = Load(client, role.url, key, COMMANDS)
        posting = asyncio.create_task(load.post_all(at_once=AT_ONCE))
        await load.until(1 / 3)
        status = await role.stop()
        await posting
        role = await start_preloaded(tmp_path, "up", "--port", "0")
        try:
            load.url = role.url
            settled = await load.settle_all()
            found = await veristream_json(tmp_path, "audit", "verify", "--tenant", tenant)
        finally:
            await role.stop()

    answered = [number for number, (code, _) in load.answers.items() if code == 201]
    assert status == 0
    assert 0 < len(answered) < COMMANDS
    assert len(settled) == COMMANDS
    (report,) = found["chains"]
    assert (report["ok"], report["rows"]) == (True, COMMANDS + 2)
