"""F12: the network parts a front or a worker from the broker, both ways or one; healed, nothing is lost."""

import asyncio
from collections import Counter
from pathlib import Path

from streams.runtime.kafka_client_config import LogAccess
from tests.chaos.fleet import Profile, running_fleet
from tests.chaos.load import LATER, Load, open_client
from tests.chaos.proxy import BOTH, Proxy, Way
from tests.chaos.sizes import commands, seconds, seeded
from tests.chaos.verdict import check

WAYS = (BOTH, frozenset({Way.THERE}), frozenset({Way.BACK}))


def behind(proxy: Proxy, access: LogAccess) -> dict[str, str]:
    """Return the settings of a process that reaches the broker by a proxy."""
    given = {"SERVICE_KAFKA_BOOTSTRAP": proxy.address}
    if access.sign_in is not None:
        given |= {
            "SERVICE_KAFKA_SECURITY_PROTOCOL": access.protocol,
            "SERVICE_KAFKA_SASL_MECHANISM": access.sign_in.mechanism.value,
            "SERVICE_KAFKA_USERNAME": access.sign_in.username,
            "SERVICE_KAFKA_PASSWORD": access.sign_in.password.get_secret_value(),
        }
    return given


async def test_a_partition_between_broker_and_front_or_worker_heals_without_loss(
    tmp_path: Path, profile: Profile
) -> None:
    """The first lasts longer than the worker's session: another takes over, and the parted one comes back."""
    chance = seeded("F12")
    async with (
        running_fleet(tmp_path, profile, SERVICE_ANSWER_TIMEOUT_S="8") as fleet,
        Proxy.before(profile.bootstrap, posing=True) as before_front,
        Proxy.before(profile.bootstrap, posing=True) as before_worker,
        open_client() as client,
    ):
        front, *_ = await asyncio.gather(
            fleet.front(**behind(before_front, profile.access)),
            fleet.worker(**behind(before_worker, profile.access)),
            fleet.worker(),
        )
        loads = []
        links = [before_worker, *chance.sample([before_front, before_worker], 2)]
        for number, (link, ways) in enumerate(zip(links, chance.sample(WAYS, len(WAYS)), strict=True)):
            load = Load(client, front.url, fleet.test_key, commands(60), name=f"round-{number}")
            posting = asyncio.create_task(load.post_all(at_once=16))
            await load.until(chance.uniform(0.1, 0.4))
            with link.delayed(ways):
                await asyncio.sleep(seconds(8 if number == 0 else 3))
            await posting
            loads.append(load)
        for load in loads:
            await load.settle_all()
        rows = await loads[0].audit_rows()
        await check(fleet)

    assert {status for load in loads for status, _ in load.outcomes} <= {200, 201, 500, 503}
    assert {code for load in loads for status, code in load.outcomes if status >= 500} <= LATER
    assert Counter(rows.values()) == {1: sum(load.commands for load in loads)}
