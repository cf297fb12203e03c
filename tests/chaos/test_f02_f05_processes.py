"""F2, F4, F5: a front dies in the middle of requests, workers come and go, a stopped worker wakes up late."""

import asyncio
import signal
import time
from collections import Counter
from pathlib import Path

import pytest

from streams.runtime.authentication import FRESH_MS
from streams.runtime.producer import REQUEST_TIMEOUT_MS
from tests.chaos.fleet import Embedded, Fleet, Profile, running_fleet
from tests.chaos.load import CUT, Load, open_client
from tests.chaos.logs import decision_log_of
from tests.chaos.sizes import commands, seconds, seeded
from tests.chaos.store_lock import can_be_written
from tests.chaos.verdict import check
from tests.journeys.service import Role

IN_FLIGHT = 50
STORMS = 4


async def test_a_front_that_dies_with_requests_in_flight_leaves_one_record_for_each(
    tmp_path: Path, profile: Profile
) -> None:
    """F2: who asked sees the connection cut; the same key at another front finds the one record."""
    chance = seeded("F2")
    async with running_fleet(tmp_path, profile) as fleet, open_client() as client:
        front, _ = await asyncio.gather(fleet.front(), fleet.worker())
        load = Load(client, front.url, fleet.test_key, commands(100), scenario="slow:300ms")
        posting = asyncio.create_task(load.post_all(at_once=IN_FLIGHT))
        await load.until(chance.uniform(0.05, 0.4))
        await front.kill()
        await posting
        load.url = (await fleet.front()).url
        await load.settle_all()
        rows = await load.audit_rows()
        await check(fleet)

    assert load.outcomes[CUT] > 0
    assert load.patient
    assert Counter(rows.values()) == {1: load.commands}


async def test_workers_that_come_and_go_lose_nothing_and_keep_the_order_of_each_subject(
    tmp_path: Path, profile: Profile
) -> None:
    """F4: every start and every stop moves partitions from one worker to the other, under load."""
    seeded("F4")
    async with running_fleet(tmp_path, profile) as fleet, open_client() as client:
        front, _ = await asyncio.gather(fleet.front(), fleet.worker())
        load, enough = Load(client, front.url, fleet.test_key), asyncio.Event()
        posting = asyncio.create_task(load.keep_posting(enough, at_once=16))
        for storm in range(STORMS):
            worker = await fleet.worker()
            await (worker.kill() if storm % 2 else worker.stop())
        enough.set()
        await posting
        settled = await load.settle_all()
        await check(fleet)
        published = await decision_log_of(profile.access)

    assert load.patient
    assert {number: published.sequences[name] for number, name in settled.items()} == {
        number: [1, 2] for number in settled
    }


async def send_to_sleep(fleet: Fleet, worker: Role, profile: Profile) -> None:
    """Stop a worker between two transactions of the file that all processes of one machine share.

    Asleep within one it holds the file, and nobody else can write: F7 says what is answered then. So it is
    looked at for a moment only, and the worker may end its transaction before it is stopped again.
    """
    worker.process.send_signal(signal.SIGSTOP)
    while isinstance(profile, Embedded) and not await can_be_written(fleet.data_dir, within_s=0.05):
        worker.process.send_signal(signal.SIGCONT)
        await asyncio.sleep(0.2)
        worker.process.send_signal(signal.SIGSTOP)


@pytest.mark.on_engines
async def test_a_worker_that_sleeps_through_its_session_decides_nothing_twice(
    tmp_path: Path, profile: Profile
) -> None:
    """F5: its commands are decided by another; when it wakes up in the middle of them its writes lose."""
    chance = seeded("F5")
    async with running_fleet(tmp_path, profile) as fleet, open_client() as client:
        front, zombie, _ = await asyncio.gather(fleet.front(), fleet.worker(), fleet.worker())
        load = Load(client, front.url, fleet.test_key, commands(60), scenario="slow:400ms")
        posting = asyncio.create_task(load.post_all(at_once=24))
        await load.until(chance.uniform(0.1, 0.5))
        await send_to_sleep(fleet, zombie, profile)
        fell_asleep = time.monotonic()
        await posting  # the other worker takes over and answers everything
        await asyncio.sleep(seconds(0))  # a longer sleep for long runs
        asleep_ms = (time.monotonic() - fell_asleep) * 1000
        zombie.process.send_signal(signal.SIGCONT)
        await load.settle_all()
        late = Load(client, front.url, fleet.test_key, 16, name="late")
        await late.post_all()
        rows = await load.audit_rows()
        await check(fleet, suspended=asleep_ms > FRESH_MS - REQUEST_TIMEOUT_MS)
        assert zombie.process.returncode is None

    assert load.patient, load.outcomes
    assert Counter(rows.values()) == {1: load.commands + late.commands}
