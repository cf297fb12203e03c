"""F7, F8: the store is away for a while, or slow; callers are answered so, and everything is finished."""

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.chaos.fleet import Profile, running_fleet
from tests.chaos.load import LATER, Load, open_client
from tests.chaos.sizes import commands, seconds, seeded
from tests.chaos.verdict import check

AWAY_S = 6.0
"""How long the store is away at least; it stays away until a request was refused for that."""

REFUSED_S = 180.0
"""How long that may take: SQLite tries for ten seconds before it gives a locked file up."""


async def asked(load: Load, path: str) -> tuple[int, dict[str, Any]]:
    """Get a route; status and body."""
    headers = {"Authorization": f"Bearer {load.key}"}
    async with load.client.get(f"{load.url}{path}", headers=headers) as answer:
        return answer.status, await answer.json()


async def until_ready(load: Load) -> None:
    """Wait until the front says that it is ready."""
    async with asyncio.timeout(60):
        while (await asked(load, "/readyz"))[0] != 200:  # noqa: ASYNC110 - it is in another process
            await asyncio.sleep(0.2)


async def until_refused(*loads: Load) -> None:
    """Wait until a command was answered that the store is away."""
    async with asyncio.timeout(REFUSED_S):
        while not any((500, "STORE_FAILED") in load.outcomes for load in loads):  # noqa: ASYNC110
            await asyncio.sleep(0.1)


@pytest.mark.on_engines
@pytest.mark.kills_store
async def test_a_store_that_was_away_is_reported_and_everything_finishes_after_it(
    tmp_path: Path, profile: Profile
) -> None:
    """F7: nothing asked while it is away is answered 2xx; nothing has to be restarted."""
    chance = seeded("F7")
    async with running_fleet(tmp_path, profile) as fleet, open_client() as client:
        front, _ = await asyncio.gather(fleet.front(), fleet.worker())
        before = Load(client, front.url, fleet.test_key, commands(60), name="before")
        during = Load(client, front.url, fleet.test_key, 4, name="during")
        posting = asyncio.create_task(before.post_all())
        await before.until(chance.uniform(0.2, 0.6))
        async with profile.store_away():
            so_far, asked_before = len(before.answers), frozenset(before.begun)
            asking = asyncio.create_task(during.post_all())
            ready, causes = await asked(during, "/readyz")
            live, _ = await asked(during, "/livez")
            await asyncio.gather(asyncio.sleep(seconds(AWAY_S)), until_refused(before, during))
            late = list(before.answers.items())[so_far:]
            results = [answer for number, answer in late if number not in asked_before]
            results += during.answers.values()
            under_way = [answer for number, answer in late if number in asked_before]
        await asyncio.gather(posting, asking)
        await until_ready(during)
        await before.settle_all()
        await during.settle_all()
        rows = await before.audit_rows()
        await check(fleet)

    assert (live, ready, causes["dependencies"]["store"]["status"]) == (200, 503, "down")
    refusals = {(500, "STORE_FAILED"), (503, "DECISION_PENDING")}
    asked_while_away = {(status, body.get("code")) for status, body in results}
    asked_before_it = {(status, body.get("code")) for status, body in under_way}
    assert (500, "STORE_FAILED") in asked_while_away | asked_before_it
    assert asked_while_away <= refusals
    assert asked_before_it <= refusals | {(201, None)}
    assert Counter(rows.values()) == {1: before.commands + during.commands}


async def test_a_slow_store_slows_nobody_who_does_not_need_it(tmp_path: Path, profile: Profile) -> None:
    """F8: each write waits seconds; liveness is answered meanwhile, deadlines reported, all is decided."""
    seeded("F8")
    settings = {"SERVICE_ANSWER_TIMEOUT_S": "4"}
    async with running_fleet(tmp_path, profile, **settings) as fleet, open_client() as client:
        front, _ = await asyncio.gather(fleet.front(), fleet.worker())
        load = Load(client, front.url, fleet.test_key, commands(48))
        async with profile.store_stuck():
            posting = asyncio.create_task(load.post_all())
            lives = [(await asked(load, "/livez"))[0]]
            await asyncio.sleep(3.0)
            answered_meanwhile = {status for status, _ in load.outcomes}
        for _ in range(2):
            async with profile.store_stuck():
                lives.append((await asked(load, "/livez"))[0])
                await asyncio.sleep(3.0)
        await posting
        await load.settle_all()
        rows = await load.audit_rows()
        await check(fleet)

    assert (lives, 201 in answered_meanwhile) == ([200] * 3, False)
    assert {status for status, _ in load.outcomes} <= {201, 500, 503}
    assert {code for _, code in load.outcomes if code} <= LATER
    assert Counter(rows.values()) == {1: load.commands}
