"""F10: the broker dies under load and is away at post time; nothing answered 2xx is lost, nothing hangs."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.chaos.fleet import Profile, running_fleet
from tests.chaos.load import LATER, Load, open_client
from tests.chaos.sizes import commands, seeded
from tests.chaos.verdict import check


async def health(load: Load, path: str) -> tuple[int, dict[str, Any]]:
    """Ask the front how it is."""
    async with load.client.get(f"{load.url}{path}") as answer:
        return answer.status, await answer.json()


@pytest.mark.on_engines
async def test_what_is_posted_while_the_broker_is_away_is_answered_so_and_decided_once_it_is_back(
    tmp_path: Path, profile: Profile
) -> None:
    chance = seeded("F10")
    count = commands(60)
    async with (
        running_fleet(tmp_path, profile, SERVICE_ANSWER_TIMEOUT_S="5") as fleet,
        open_client() as client,
    ):
        front, _ = await asyncio.gather(fleet.front(), fleet.worker())
        under_way = Load(client, front.url, fleet.test_key, count, name="under-way")
        away = Load(client, front.url, fleet.test_key, count // 3, name="away")
        posting = asyncio.create_task(under_way.post_all())
        await under_way.until(chance.uniform(0.1, 0.6))
        await profile.kill_broker()
        await away.post_all(at_once=count)
        live, _ = await health(away, "/livez")
        ready, causes = await health(away, "/readyz")
        await posting
        await profile.start_broker()

        settled = [await load.settle_all() for load in (under_way, away)]

        assert {(status, code in LATER) for status, code in away.outcomes} <= {(500, True), (503, True)}
        assert {status for status, _ in under_way.outcomes} <= {201, 500, 503}
        assert (live, ready, causes["dependencies"]["broker"]["status"]) == (200, 503, "down")
        assert len(set(settled[0].values()) | set(settled[1].values())) == count + count // 3
        rows = await under_way.audit_rows()
        assert (len(rows), set(rows.values())) == (count + count // 3, {1})
        await check(fleet)
