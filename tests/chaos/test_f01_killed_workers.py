"""F1: a worker is killed at every point of a command's life, and at random ones; no outsider notices."""

import asyncio
from collections import Counter
from pathlib import Path

import pytest

from tests.chaos.fleet import Profile, running_fleet
from tests.chaos.load import Load, open_client
from tests.chaos.sizes import seeded
from tests.chaos.verdict import check


@pytest.mark.on_engines
async def test_a_worker_that_dies_at_any_point_leaves_one_decision_each(
    tmp_path: Path, profile: Profile
) -> None:
    """One worker after the other dies at the next point; each command is decided and audited once."""
    chance = seeded("F1")
    async with running_fleet(tmp_path, profile) as fleet, open_client() as client:
        front = await fleet.front()
        load, enough = Load(client, front.url, fleet.test_key), asyncio.Event()
        posting = asyncio.create_task(load.keep_posting(enough, at_once=16))
        deaths = []
        for point in profile.deaths:
            worker = await fleet.crashing_worker(point, chance.randint(1, 8))
            async with asyncio.timeout(180):
                deaths.append(await worker.process.wait())
        await fleet.worker()
        enough.set()
        await posting
        await load.settle_all()
        rows = await load.audit_rows()
        await check(fleet)

    assert deaths == [-9] * len(profile.deaths)
    assert Counter(rows.values()) == {1: load.commands}
