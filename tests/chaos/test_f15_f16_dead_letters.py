"""F15, F16: what cannot be understood is buried once, with a reason; what was buried comes back once."""

import asyncio
from collections import Counter
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer  # type: ignore[import-untyped]  # ships no types
from aiokafka.errors import MessageSizeTooLargeError  # type: ignore[import-untyped]  # ships no types

from schemas.topics import Topic
from streams.runtime.dead_letters import MAX_VALUE_BYTES, list_dead_letters
from streams.runtime.producer import MAX_RECORD_BYTES, LogWriter, Outgoing
from tests.chaos.faulty_worker import run_burying
from tests.chaos.fleet import Profile, running_fleet
from tests.chaos.load import Load, open_client
from tests.chaos.logs import deliveries_in, lag_of, until_caught_up
from tests.chaos.sizes import seeded
from tests.chaos.verdict import check

PERSON = "Ada Lovelace"
MIB = 1024 * 1024


async def test_poison_is_buried_once_and_what_comes_after_it_is_decided(
    tmp_path: Path, profile: Profile
) -> None:
    """F15: its reason names places and kinds, never what stood there."""
    chance = seeded("F15")
    async with running_fleet(tmp_path, profile) as fleet, open_client() as client:
        front, _ = await asyncio.gather(fleet.front(), fleet.worker())
        load = Load(client, front.url, fleet.test_key, 40)
        await load.post_all()
        sound = (await deliveries_in(profile.access))[0]
        value = sound.value or b""
        poison: list[tuple[bytes | None, bytes | None]] = [
            (sound.key, b'{"verification_id": "' + PERSON.encode()),
            (sound.key, value[:-1] + f',"version":2,"{PERSON}":1}}'.encode()),
            (sound.key, b"x" * (MAX_RECORD_BYTES - 1_000)),
            (None, value),
            (sound.key, value.replace(b'"livemode":false', f'"livemode":"{PERSON}"'.encode())),
            (sound.key, None),
            (b"other", value),
        ]
        chance.shuffle(poison)
        access = profile.access
        async with LogWriter(access, fleet.record_keys) as writer:
            places = [chance.randrange(8) for _ in poison]
            await writer.write(
                *(
                    Outgoing(Topic.VERIFICATION_COMMANDS, key, raw, partition=place)
                    for (key, raw), place in zip(poison, places, strict=True)
                )
            )
        after = Load(client, front.url, fleet.test_key, 40, name="after")
        await after.post_all()
        await after.settle_all()
        await until_caught_up(profile.access)
        letters = await list_dead_letters(access, fleet.record_keys, 100)
        await check(fleet, dead_letters=len(poison))

    assert after.patient
    assert Counter((one.delivery.key, one.delivery.value) for one in letters) == Counter(
        (key, (raw or b"")[:MAX_VALUE_BYTES]) for key, raw in poison
    )
    assert not [one.reason for one in letters if PERSON in one.reason]


async def test_a_value_of_five_megabytes_is_refused_by_the_log(tmp_path: Path, profile: Profile) -> None:
    """F15: what no reader could take in never lies in a partition."""
    async with running_fleet(tmp_path, profile) as fleet:
        await fleet.worker()
        producer = AIOKafkaProducer(**profile.access.client(), max_request_size=8 * MIB)
        await producer.start()
        try:
            with pytest.raises(MessageSizeTooLargeError):
                await producer.send_and_wait(Topic.VERIFICATION_COMMANDS, b"x" * (5 * MIB), key=b"key")
        finally:
            await producer.stop()
        assert await lag_of(profile.access) == 0


async def test_buried_commands_sent_again_are_decided_once(tmp_path: Path, profile: Profile) -> None:
    """F16: a defect buries commands; once it is fixed they are sent again, and only once."""
    seeded("F16")
    buried = 3
    async with running_fleet(tmp_path, profile) as fleet, open_client() as client:
        front, defective = await asyncio.gather(fleet.front(), fleet.odd_worker(run_burying, "burying"))
        load = Load(client, front.url, fleet.test_key, buried)
        await load.post_all(at_once=1)
        await defective.stop()
        await fleet.worker()
        sent = [await fleet.command("dlq", "redrive") for _ in range(2)]
        await until_caught_up(profile.access)
        rows = await load.audit_rows()
        settled = await load.settle_all()
        await check(fleet)

    assert load.outcomes == {(500, "STORE_FAILED"): buried}
    assert sent == [{"redriven": buried, "withheld": 0}, {"redriven": 0, "withheld": 0}]
    assert Counter(rows.values()) == {1: len(settled)}
