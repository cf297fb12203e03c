"""F8, F9, F12 on the way to Cassandra: answers come late, get lost, or nothing passes."""

import asyncio
from collections import Counter
from pathlib import Path

import pytest

from tests.chaos.engines_profile import Engines, through
from tests.chaos.fleet import running_fleet
from tests.chaos.load import LATER, Load, open_client
from tests.chaos.proxy import Way
from tests.chaos.sizes import commands, seconds, seeded
from tests.chaos.verdict import check

pytestmark = pytest.mark.engines

APPLIED = b"[applied]"
"""Stands in the answer to every lightweight transaction, and in no other."""

EACH_WAY_S = 0.7
"""Pieces are held one after the other: an answer takes one and a half to three seconds."""

LATE = 4
"""Commands under way while answers are late; a minute for each eight, for the pieces of a link queue up."""

ONE_WAY = (frozenset({Way.THERE}), frozenset({Way.BACK}))
PARTED_S = 6.0
"""Longer than a request waits for Cassandra."""


async def test_a_store_that_answers_after_seconds_is_waited_for_or_reported(
    tmp_path: Path, engines: Engines
) -> None:
    """F8: liveness is answered meanwhile; who waited too long finds the decision later."""
    seeded("F8 link")
    settings = {"SERVICE_ANSWER_TIMEOUT_S": "4"}
    async with (
        running_fleet(tmp_path, engines, **settings) as fleet,
        engines.before_store() as link,
        open_client() as client,
    ):
        front, _ = await asyncio.gather(fleet.front(**through(link)), fleet.worker(**through(link)))
        load = Load(client, front.url, fleet.test_key, LATE)
        link.latency_s = EACH_WAY_S
        await load.post_all(at_once=LATE)
        async with client.get(f"{front.url}/livez") as answer:
            live = answer.status
        link.latency_s = 0.0
        await load.settle_all()
        rows = await load.audit_rows()
        await check(fleet)

    assert live == 200
    assert {status for status, _ in load.outcomes} <= {200, 201, 500, 503}
    assert {code for _, code in load.outcomes if code} <= LATER
    assert Counter(rows.values()) == {1: load.commands}


async def test_a_decision_whose_acknowledgement_is_lost_stands_and_is_not_made_again(
    tmp_path: Path, engines: Engines
) -> None:
    """F9: the worker does not know whether its transaction was applied; what stands there decides."""
    chance = seeded("F9")
    async with (
        running_fleet(tmp_path, engines) as fleet,
        engines.before_store() as link,
        open_client() as client,
    ):
        front, _ = await asyncio.gather(fleet.front(), fleet.worker(**through(link)))
        load = Load(client, front.url, fleet.test_key, commands(60))
        posting = asyncio.create_task(load.post_all(at_once=8))
        for moment in sorted(chance.uniform(0.05, 0.7) for _ in range(4)):
            await load.until(moment)
            link.lose_answer(APPLIED)
        await posting
        await load.settle_all()
        rows = await load.audit_rows()
        await check(fleet)

    assert link.lost > 0
    assert load.patient
    assert Counter(rows.values()) == {1: load.commands}


async def test_a_one_way_partition_between_store_and_front_or_worker_heals_without_loss(
    tmp_path: Path, engines: Engines
) -> None:
    """F12: what was asked arrives and is not answered, or does not arrive at all."""
    chance = seeded("F12 store")
    async with (
        running_fleet(tmp_path, engines, SERVICE_ANSWER_TIMEOUT_S="8") as fleet,
        engines.before_store() as before_front,
        engines.before_store() as before_worker,
        open_client() as client,
    ):
        front, _ = await asyncio.gather(
            fleet.front(**through(before_front)), fleet.worker(**through(before_worker))
        )
        loads = []
        links = chance.sample([before_front, before_worker], 2)
        for number, (link, ways) in enumerate(zip(links, chance.sample(ONE_WAY, 2), strict=True)):
            load = Load(client, front.url, fleet.test_key, commands(40), name=f"round-{number}")
            posting = asyncio.create_task(load.post_all(at_once=16))
            await load.until(chance.uniform(0.1, 0.4))
            with link.delayed(ways):
                await asyncio.sleep(seconds(PARTED_S))
            await posting
            loads.append(load)
        for load in loads:
            await load.settle_all()
        rows = await loads[0].audit_rows()
        await check(fleet)

    assert {status for load in loads for status, _ in load.outcomes} <= {200, 201, 500, 503}
    assert {code for load in loads for status, code in load.outcomes if status >= 500} <= LATER
    assert Counter(rows.values()) == {1: sum(load.commands for load in loads)}
