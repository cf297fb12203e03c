"""F6: every call of the store fails in ways that pass; nothing is acknowledged away, nothing is buried."""

import asyncio
from collections import Counter
from pathlib import Path

from tests.chaos.faulty_worker import run_failing
from tests.chaos.fleet import Profile, running_fleet
from tests.chaos.load import Load, open_client
from tests.chaos.sizes import seeded
from tests.chaos.verdict import check


async def test_a_store_that_fails_at_every_call_is_asked_again(tmp_path: Path, profile: Profile) -> None:
    seeded("F6")
    async with running_fleet(tmp_path, profile) as fleet, open_client() as client:
        front, _ = await asyncio.gather(fleet.front(), fleet.odd_worker(run_failing, "failing"))
        load = Load(client, front.url, fleet.test_key, 40)
        await load.post_all()
        await load.settle_all()
        rows = await load.audit_rows()
        await check(fleet)

    assert load.patient
    assert Counter(rows.values()) == {1: 40}
