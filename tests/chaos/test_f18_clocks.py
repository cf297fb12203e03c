"""F18: clocks that differ, jump and stand in other zones; order comes from numbers, never from a clock."""

import asyncio
from collections import Counter
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from app.adapters.memory.stores import open_memory_stores
from app.adapters.security.crypto import RootKey
from app.kafka.request_reply import Gateway
from schemas.topics import Topic
from streams.runtime.kafka_client_config import LogAccess
from streams.runtime.outbox_relay import OutboxRelay
from streams.runtime.producer import LogWriter
from streams.runtime.supervisor import running_worker
from tests.agents.support import (
    KEYS,
    ask,
    decided,
    everything_in,
    now,
    open_broker,
    quick_settings,
    verification_app,
)
from tests.agents.test_announcer import commit
from tests.chaos.clocks import Clock, start_clocked
from tests.chaos.fleet import UNHURRIED, Profile, running_fleet
from tests.chaos.load import Load, open_client
from tests.chaos.sizes import commands, seeded
from tests.chaos.verdict import check
from tests.handlers.verification_stage import Stage

MINUTES_5, HOUR = timedelta(minutes=5), timedelta(hours=1)


@pytest.mark.parametrize("front_ahead", [MINUTES_5, -MINUTES_5, -HOUR, HOUR])
async def test_an_answer_arrives_whatever_the_clocks_of_front_and_worker_say(
    tmp_path: Path, front_ahead: timedelta
) -> None:
    """A worker that is ahead would think that nobody waits any more."""

    async def decide(command: Any) -> Any:
        return decided(command)

    def clock() -> datetime:
        return now() + front_ahead

    async with (
        open_broker(tmp_path / "broker") as broker,
        LogWriter(LogAccess(broker.address), KEYS) as writer,
    ):
        settings = quick_settings(broker.address, tmp_path)
        async with (
            running_worker(lambda: verification_app(writer, settings, lambda _: decide)),
            Gateway(LogAccess(broker.address), writer, KEYS, name="front", now=clock) as gateway,
        ):
            await ask(gateway, "answered", timeout_s=120)


async def test_an_event_of_a_worker_that_is_ahead_is_reported_at_the_second_round(tmp_path: Path) -> None:
    stores = open_memory_stores(RootKey(b"r" * 32))
    await commit(stores, "ada")
    long_before = datetime(2020, 1, 1, tzinfo=UTC)
    async with open_broker(tmp_path) as broker, LogWriter(LogAccess(broker.address), KEYS) as writer:
        relay = OutboxRelay(stores.journal, stores.audit_log, writer, lambda: long_before)

        await relay.relay_pending()
        early = await everything_in(broker.address, Topic.DECISIONS)
        await relay.relay_pending()

        assert early == []
        assert len(await everything_in(broker.address, Topic.DECISIONS)) == 1


async def test_a_command_decided_before_the_clock_jumped_back_is_answered_as_before() -> None:
    stage = Stage()
    command = await stage.keep()
    first = await stage.handler(command)
    decided_at = (await stage.stored()).verification.created_at
    stage.now -= HOUR

    second = await stage.handler(command)

    assert second.verification_id == first.verification_id
    assert (await stage.stored()).verification.created_at == decided_at


async def test_a_worker_behind_the_front_does_not_wait_longer_than_the_scenario_says() -> None:
    """An age that is negative by the two clocks counts as none."""
    stage = Stage()
    command = await stage.keep(subject_id="sim:slow:3s@clock", livemode=False)
    stage.now -= HOUR

    await stage.handler(command)

    assert stage.pauses == [3.0]


@pytest.mark.parametrize(
    ("moment", "day"),
    [
        ("2026-10-24T23:59:59.999+00:00", date(2026, 10, 24)),
        ("2026-10-25T00:59:59+00:00", date(2026, 10, 25)),
        ("2026-10-25T01:00:00+00:00", date(2026, 10, 25)),
        ("2026-10-25T02:30:00+02:00", date(2026, 10, 25)),
    ],
)
async def test_the_day_a_document_is_judged_by_is_the_day_in_utc(moment: str, day: date) -> None:
    """Around the end of daylight saving time in Europe an hour comes twice; in UTC it does not."""
    stage = Stage()
    stage.now = datetime.fromisoformat(moment).astimezone(UTC)

    await stage.submit()

    assert (await stage.stored()).verification.created_at.date() == day


async def test_front_and_workers_of_different_times_lose_nothing_and_keep_the_order(
    tmp_path: Path, profile: Profile
) -> None:
    chance = seeded("F18")
    count = commands(200)
    async with running_fleet(tmp_path, profile, **UNHURRIED) as fleet, open_client() as client:
        slow, fast, behind = (
            Clock.ahead(tmp_path, name, seconds)
            for name, seconds in (("front", -300.0), ("fast", 300.0), ("behind", -3_600.0))
        )
        front = await start_clocked(fleet, slow, "front", "--port", "0", TZ="Pacific/Kiritimati")
        await asyncio.gather(
            start_clocked(fleet, fast, "worker", TZ="Pacific/Pago_Pago"),
            start_clocked(fleet, behind, "worker", TZ="Europe/Berlin"),
        )
        load = Load(client, front.url, fleet.test_key, count)
        posting = asyncio.create_task(load.post_all())
        for clock in chance.sample((slow, fast, behind), 3):
            await load.until(chance.uniform(0.1, 0.8))
            clock.set(-3_600.0)
        await posting

        assert load.outcomes == {(201, None): count}
        await load.settle_all()
        assert await load.audit_rows() == Counter({load.subject(n): 1 for n in range(count)})
        listed = await everything_listed(load)
        assert Counter(row["verification_id"] for row in listed) == Counter(
            {body["verification_id"]: 1 for _, body in load.answers.values()}
        )
        assert listed == sorted(
            listed, key=lambda row: (row["created_at"], row["verification_id"]), reverse=True
        )
        assert len(set(await chain_positions(load))) == len(listed)
        await check(fleet)


async def test_a_quota_is_not_given_anew_when_the_clock_jumps(tmp_path: Path) -> None:
    async with running_fleet(tmp_path, SERVICE_RATE_LIMITS='{"key": 3}') as fleet, open_client() as client:
        clock = Clock.ahead(tmp_path, "front", 0.0)
        front = await start_clocked(fleet, clock, "front", "--port", "0")
        load = Load(client, front.url, fleet.test_key, 0)
        before = [await status_of_list(load) for _ in range(3)]
        collected = []
        for jump in (3_600.0, -3_600.0):
            clock.set(jump)
            collected.append(await status_of_list(load))

    assert before == [200] * 3
    assert collected == [429, 429]


async def status_of_list(load: Load) -> int:
    """Ask for the list, and for nothing but its status."""
    headers = {"Authorization": f"Bearer {load.key}"}
    async with load.client.get(f"{load.url}/v1/verifications", headers=headers) as answer:
        return answer.status


async def everything_listed(load: Load) -> list[dict[str, Any]]:
    """Walk the whole list of verifications."""
    return [
        row for page in await pages(load, "/v1/verifications", limit="17") for row in page["verifications"]
    ]


async def chain_positions(load: Load) -> list[int]:
    """The places of all evaluations in the chain; rows that this key does not see may lie between."""
    found = [
        row
        for page in await pages(load, "/v1/audit", action="verification.evaluated")
        for row in page["events"]
    ]
    return [row["context"]["chain"]["position"] for row in found]


async def pages(load: Load, path: str, **parameters: str) -> list[dict[str, Any]]:
    """Every page of a list, from the newest on."""
    headers = {"Authorization": f"Bearer {load.key}"}
    walked: list[dict[str, Any]] = []
    while not walked or walked[-1]["next_cursor"] is not None:
        if walked:
            parameters["cursor"] = walked[-1]["next_cursor"]
        async with load.client.get(f"{load.url}{path}", params=parameters, headers=headers) as answer:
            assert answer.status == 200, await answer.text()
            walked.append(await answer.json())
    return walked
