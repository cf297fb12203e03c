"""Workers and broker die in the middle of a thousand verifications; nothing is lost, doubled or unaudited."""

import asyncio
import time
from collections import Counter
from pathlib import Path

import pytest

from streams.runtime.producer import REQUEST_TIMEOUT_MS
from tests.chaos.fleet import Profile, running_fleet
from tests.chaos.load import LATER, Load, open_client
from tests.chaos.sizes import commands, seeded
from tests.chaos.verdict import check

WORKER_KILLS = 5


@pytest.mark.timeout(1_800)
async def test_a_thousand_commands_survive_killed_workers_and_a_killed_broker(
    tmp_path: Path, profile: Profile
) -> None:
    chance = seeded("kills")
    async with running_fleet(tmp_path, profile) as fleet, open_client() as client:
        front, worker = await fleet.front(), await fleet.worker()
        load = Load(client, front.url, fleet.test_key, commands(1_000))
        moments = sorted(chance.uniform(0.05, 0.9) for _ in range(WORKER_KILLS + 1))
        broker_dies = chance.randrange(len(moments))
        posting = asyncio.create_task(load.post_all())
        for index, moment in enumerate(moments):
            await load.until(moment)
            if index == broker_dies:
                killed = time.monotonic()
                await profile.kill_broker()
                await profile.start_broker()
                away_ms = (time.monotonic() - killed) * 1000
            else:
                await worker.kill()
                worker = await fleet.worker()
        await posting
        await load.settle_all()
        rows = await load.audit_rows()
        await check(fleet)

    given_up = {500} if away_ms > REQUEST_TIMEOUT_MS / 2 else set()
    assert {status for status, _ in load.outcomes} <= {200, 201, 503} | given_up
    assert {code for _, code in load.outcomes if code} <= LATER
    assert Counter(rows.values()) == {1: load.commands}
