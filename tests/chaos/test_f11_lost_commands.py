"""F11: the broker loses commands it had acknowledged, some or all it has; the same key brings them again.

Accepted means answered 2xx, and that comes with the decision alone: a command lost before was answered
503 DECISION_PENDING, its evidence is kept under derived ids, and who sends the key again has it
decided. What was answered stands in the store and needs no log.
"""

import asyncio
import shutil
from pathlib import Path

from aiokafka.admin import AIOKafkaAdminClient  # type: ignore[import-untyped]  # ships no types

from app.adapters.files.data_dir import BROKER_ADDRESS_FILE
from app.kafka.cluster import prepare_topics
from schemas.topics import Topic
from streams.runtime.kafka_client_config import LogAccess
from tests.agents.support import until
from tests.chaos.fleet import Embedded, Fleet, Profile, running_fleet
from tests.chaos.load import Load, open_client
from tests.chaos.sizes import commands, seeded
from tests.chaos.verdict import BOUND_S, check, violations

PENDING = (503, "DECISION_PENDING")
IMPATIENT = "3"
"""Seconds a request waits for a decision nobody makes."""


async def lose_commands(access: LogAccess) -> None:
    """Drop the topic of commands with all that is in it, and make it anew."""
    admin = AIOKafkaAdminClient(**access.client())
    await admin.start()
    try:
        await admin.delete_topics([Topic.VERIFICATION_COMMANDS.value])

        async def gone() -> bool:
            return Topic.VERIFICATION_COMMANDS not in await admin.list_topics()

        await until(gone)
    finally:
        await admin.close()
    await prepare_topics(access)


async def test_commands_the_broker_lost_are_decided_when_their_keys_come_again(
    tmp_path: Path, profile: Profile
) -> None:
    seeded("F11")
    count = commands(16)
    async with (
        running_fleet(tmp_path, profile, SERVICE_ANSWER_TIMEOUT_S=IMPATIENT) as fleet,
        open_client() as client,
    ):
        front, worker = await asyncio.gather(fleet.front(), fleet.worker())
        decided = Load(client, front.url, fleet.test_key, count, name="decided")
        await decided.post_all(at_once=4)
        await decided.settle_all()
        await worker.kill()
        lost = Load(client, front.url, fleet.test_key, count, name="lost")
        await lost.post_all(at_once=count)
        await lose_commands(profile.access)
        await fleet.worker()

        again = {number: await lost.settle(number) for number in range(count)}

        assert lost.outcomes == {PENDING: count}
        assert {status for status, _ in again.values()} == {201}
        assert {(await lost.post(number))[0] for number in range(count)} == {200}
        assert {(await decided.post(number))[0] for number in range(count)} == {200}
        assert set((await lost.audit_rows()).values()) == {1}
        await check(fleet)


async def test_a_broker_that_lost_everything_takes_new_commands_and_loses_no_decision(
    tmp_path: Path,
) -> None:
    """Positions in the lost log are higher than any in the new one; nobody may skip up to them."""
    seeded("F11 wiped")
    count = commands(16)
    profile = Embedded(tmp_path)
    async with (
        running_fleet(tmp_path, profile, SERVICE_ANSWER_TIMEOUT_S=IMPATIENT) as fleet,
        open_client() as client,
    ):
        front, _ = await asyncio.gather(fleet.front(), fleet.worker())
        before = Load(client, front.url, fleet.test_key, 3 * count, name="before")
        await before.post_all(at_once=4)
        decided = await before.settle_all()
        await profile.kill_broker()
        wipe(tmp_path / "broker")
        await profile.start_broker()
        after = Load(client, front.url, fleet.test_key, count, name="after")
        await after.post_all(at_once=4)

        await after.settle_all()

        assert {(await before.post(number))[0] for number in range(3 * count)} == {200}
        assert set((await after.audit_rows()).values()) == {1}
        await until(lambda: only_gone_with_the_log(fleet, set(decided.values())), within_s=BOUND_S)


async def only_gone_with_the_log(fleet: Fleet, decided: set[str]) -> bool:
    """Whether nothing is wrong but that events published before are not in the log any more."""
    found = [str(violation) for violation in await violations(fleet)]
    return all(
        "is not in the decision topic" in one and any(name in one for name in decided) for one in found
    )


def wipe(folder: Path) -> None:
    """Remove the broker's log and all it knows but its address."""
    for path in folder.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        elif path.name != BROKER_ADDRESS_FILE:
            path.unlink()
