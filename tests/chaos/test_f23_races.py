"""F23: many callers race for one key at several fronts; one record comes of it, the same for all."""

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.chaos.fleet import UNHURRIED, Fleet, Profile, running_fleet
from tests.chaos.load import Answer, open_client
from tests.chaos.sizes import seeded
from tests.chaos.verdict import check
from tests.journeys.service import Role, small_request

CALLERS = 50


class Race:
    """Callers who wait for the start and then post at once, each at a front of its own choice."""

    def __init__(self, client: Any, fleet: Fleet, fronts: list[Role]) -> None:
        self._client = client
        self._headers = {"Authorization": f"Bearer {fleet.test_key}"}
        self._urls = [front.url for front in fronts]

    async def run(self, key: str, bodies: list[dict[str, Any]]) -> list[Answer]:
        """Post the bodies under one key, all at once."""
        start = asyncio.Barrier(len(bodies))

        async def post(place: int, body: dict[str, Any]) -> Answer:
            await start.wait()
            headers = {**self._headers, "Idempotency-Key": key}
            url = f"{self._urls[place % len(self._urls)]}/v1/verifications"
            async with self._client.post(url, json=body, headers=headers) as answer:
                return answer.status, await answer.json(content_type=None)

        return await asyncio.gather(*(post(place, body) for place, body in enumerate(bodies)))


@pytest.mark.on_engines
async def test_one_record_comes_of_a_race_for_one_key_at_two_fronts(tmp_path: Path, profile: Profile) -> None:
    chance = seeded("F23")
    async with running_fleet(tmp_path, profile, **UNHURRIED) as fleet, open_client() as client:
        *fronts, _ = await asyncio.gather(
            fleet.front(SERVICE_FRONT_INSTANCE="0"),
            fleet.front(SERVICE_FRONT_INSTANCE="1"),
            fleet.worker(),
        )
        race = Race(client, fleet, fronts)
        same = await race.run("same", [small_request("sim:approved@same")] * CALLERS)
        rivals = [small_request(f"sim:approved@rival-{number % 2}") for number in range(CALLERS)]
        chance.shuffle(rivals)
        differing = await race.run("differing", rivals)
        await check(fleet)

    assert Counter(status for status, _ in same) == {201: 1, 200: CALLERS - 1}
    assert len({body["verification_id"] for _, body in same}) == 1
    winners = [body for status, body in differing if status in {200, 201}]
    losers = [body["code"] for status, body in differing if status == 422]
    assert Counter(status for status, _ in differing) == {201: 1, 200: CALLERS // 2 - 1, 422: CALLERS // 2}
    assert len({(body["verification_id"], body["subject_id"]) for body in winners}) == 1
    assert set(losers) == {"IDEMPOTENCY_KEY_REUSED"}
