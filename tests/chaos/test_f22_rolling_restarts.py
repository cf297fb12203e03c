"""F22: fronts and workers are stopped by SIGTERM one after the other, under load; each ends by itself."""

import asyncio
from collections import Counter
from pathlib import Path

from tests.chaos.fleet import Profile, running_fleet
from tests.chaos.load import LATER, Load, open_client
from tests.chaos.sizes import commands, seeded
from tests.chaos.verdict import check


async def test_rolling_restarts_under_load_lose_nothing(tmp_path: Path, profile: Profile) -> None:
    """Callers are led to the front that stays, as a balancer does; who is cut off asks again."""
    chance = seeded("F22")
    async with running_fleet(tmp_path, profile) as fleet, open_client() as client:
        staying, leaving, *workers = await asyncio.gather(
            fleet.front(SERVICE_FRONT_INSTANCE="0"),
            fleet.front(SERVICE_FRONT_INSTANCE="1"),
            fleet.worker(),
            fleet.worker(),
        )
        load = Load(client, leaving.url, fleet.test_key, commands(400))
        posting = asyncio.create_task(load.post_all(at_once=16))
        exits = []
        for moment in sorted(chance.uniform(0.05, 0.8) for _ in range(4)):
            await load.until(moment)
            if chance.random() < 0.5:
                load.url = staying.url
                exits.append(await leaving.stop())
                staying, leaving = await fleet.front(SERVICE_FRONT_INSTANCE="1"), staying
            else:
                exits.append(await workers.pop(0).stop())
                workers.append(await fleet.worker())
        await posting
        load.url = staying.url
        await load.settle_all()
        rows = await load.audit_rows()
        await check(fleet)

    assert exits == [0] * 4
    assert {status for status, _ in load.outcomes} <= {0, 200, 201, 500, 503}
    assert {code for status, code in load.outcomes if status >= 500} <= LATER
    assert Counter(rows.values()) == {1: load.commands}
