"""How many records wait for the agents, and since when, is reported from outside of them."""

import asyncio
from datetime import UTC, datetime
from pathlib import Path

from app.broker.server import Broker
from app.kafka.request_reply import Gateway
from schemas.topics import Topic
from schemas.verifications import SubmitVerification, VerificationDecided
from streams.runtime.kafka_client_config import LogAccess
from streams.runtime.lag import CONSUMED, Waiting, measure_waiting
from streams.runtime.producer import LogWriter
from streams.runtime.supervisor import running_worker
from tests.agents.support import (
    ask,
    decided,
    everything_in,
    names,
    quick_settings,
    until,
    until_settled,
    verification_app,
)

COMMANDS = 5


async def test_records_wait_until_they_are_settled(
    broker: Broker, writer: LogWriter, gateway: Gateway, tmp_path: Path
) -> None:
    door = asyncio.Event()

    async def decide(command: SubmitVerification) -> VerificationDecided:
        await door.wait()
        return decided(command)

    async def all_in_the_log() -> bool:
        return len(await everything_in(broker.address, Topic.VERIFICATION_COMMANDS)) == COMMANDS

    access, settings = LogAccess(broker.address), quick_settings(broker.address, tmp_path)
    before = await measure_waiting(access)
    async with running_worker(lambda: verification_app(writer, settings, lambda _: decide)) as worker:
        await worker.wait_ready()
        asking = [asyncio.create_task(ask(gateway, name)) for name in names("lag", COMMANDS)]
        await until(all_in_the_log)
        meanwhile, taken = await measure_waiting(access), await taken_times(broker.address)
        door.set()
        await asyncio.gather(*asking)
        await until_settled(broker.address)
    after = await measure_waiting(access)

    nothing = dict.fromkeys(map(str, CONSUMED), 0)
    assert before == after == Waiting(nothing, {})
    assert meanwhile.records == {**nothing, Topic.VERIFICATION_COMMANDS: COMMANDS}
    assert meanwhile.commands_since == {Topic.VERIFICATION_COMMANDS: min(taken)}


async def test_what_was_settled_is_not_waited_for(
    broker: Broker, writer: LogWriter, gateway: Gateway, tmp_path: Path
) -> None:
    """The oldest command is the first that is not settled, whatever stands before it."""
    door, first = asyncio.Event(), next(iter(names("since", 1)))

    async def decide(command: SubmitVerification) -> VerificationDecided:
        if command.request_id != first:
            await door.wait()
        return decided(command)

    async def all_in_the_log() -> bool:
        return len(await everything_in(broker.address, Topic.VERIFICATION_COMMANDS)) == COMMANDS + 1

    access, settings = LogAccess(broker.address), quick_settings(broker.address, tmp_path)
    async with running_worker(lambda: verification_app(writer, settings, lambda _: decide)) as worker:
        await worker.wait_ready()
        await ask(gateway, first)
        await until_settled(broker.address)
        asking = [asyncio.create_task(ask(gateway, name)) for name in names("later", COMMANDS)]
        await until(all_in_the_log)
        waiting, taken = await measure_waiting(access), await taken_times(broker.address)
        door.set()
        await asyncio.gather(*asking)

    assert waiting.commands_since == {Topic.VERIFICATION_COMMANDS: sorted(taken)[1]}


async def taken_times(bootstrap: str) -> list[datetime]:
    """When the broker took each command of verifications."""
    records = await everything_in(bootstrap, Topic.VERIFICATION_COMMANDS)
    return [datetime.fromtimestamp(record.timestamp / 1000, UTC) for record in records]
