"""F13: every command lies in the log three times, and the log is read again from its beginning."""

import asyncio
from collections import Counter
from pathlib import Path

from streams.runtime.authentication import without_authentication
from streams.runtime.producer import LogWriter, Outgoing
from tests.chaos.fleet import Profile, running_fleet
from tests.chaos.load import Load, open_client
from tests.chaos.logs import decision_log_of, deliveries_in, forget_progress, until_caught_up
from tests.chaos.sizes import commands, seeded
from tests.chaos.verdict import check


async def test_a_log_read_again_from_its_beginning_decides_nothing_twice(
    tmp_path: Path, profile: Profile
) -> None:
    chance = seeded("F13")
    async with running_fleet(tmp_path, profile) as fleet, open_client() as client:
        front, worker = await asyncio.gather(fleet.front(), fleet.worker())
        load = Load(client, front.url, fleet.test_key, commands(60))
        await load.post_all()
        await load.settle_all()
        sent = await deliveries_in(profile.access)
        again = [
            Outgoing(one.topic, one.key, one.value, tuple(without_authentication(one.headers).items()))
            for one in sent * 2
        ]
        chance.shuffle(again)
        async with LogWriter(profile.access, fleet.record_keys) as writer:
            await writer.write(*again)
        await worker.stop()
        await forget_progress(profile.access)
        await fleet.worker()
        await until_caught_up(profile.access)
        rows = await load.audit_rows()
        await check(fleet)
        published = await decision_log_of(profile.access)

    assert load.patient
    assert Counter(rows.values()) == {1: load.commands}
    assert published.repeats > 0
