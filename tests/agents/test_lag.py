"""How many records wait for the agents is told from outside of them as they tell it themselves."""

import asyncio
from pathlib import Path

from app.broker.server import Broker
from app.kafka.request_reply import Gateway
from schemas.topics import Topic
from schemas.verifications import SubmitVerification, VerificationDecided
from streams.runtime.kafka_client_config import LogAccess
from streams.runtime.lag import CONSUMED, measure_lag
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
    before = await measure_lag(access)
    async with running_worker(lambda: verification_app(writer, settings, lambda _: decide)) as worker:
        await worker.wait_ready()
        asking = [asyncio.create_task(ask(gateway, name)) for name in names("lag", COMMANDS)]
        await until(all_in_the_log)
        meanwhile = await measure_lag(access)
        door.set()
        await asyncio.gather(*asking)
        await until_settled(broker.address)
    after = await measure_lag(access)

    nothing = dict.fromkeys(CONSUMED, 0)
    assert before == after == nothing
    assert meanwhile == {**nothing, Topic.VERIFICATION_COMMANDS: COMMANDS}
