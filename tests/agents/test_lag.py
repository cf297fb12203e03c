"""How many records wait for the agents, and since when, is reported from outside of them."""

import asyncio
from contextlib import aclosing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from app.broker.server import Broker
from app.kafka.request_reply import RequestReply
from schemas.problems import StoreUnavailable
from schemas.topics import Topic
from schemas.verifications import SubmitVerification, VerificationDecided
from streams.runtime.kafka_client_config import LogAccess
from streams.runtime.lag import CONSUMED, LagMeter, Waiting, measure_waiting
from streams.runtime.producer import LogWriter, Outgoing
from streams.runtime.supervisor import running_worker
from tests.agents.support import (
    ask,
    decided,
    everything_in,
    names,
    open_broker,
    quick_settings,
    until,
    until_settled,
    verification_app,
)

COMMANDS = 5


async def test_records_wait_until_they_are_settled(
    broker: Broker, writer: LogWriter, gateway: RequestReply, tmp_path: Path
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
    broker: Broker, writer: LogWriter, gateway: RequestReply, tmp_path: Path
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


async def test_measuring_again_opens_no_connection_and_ends_the_search_for_times(
    broker: Broker, writer: LogWriter
) -> None:
    """Clients that stayed assigned to partitions would go on reading what waits in them."""
    async with aclosing(LagMeter(LogAccess(broker.address))) as meter:
        first, opened = await meter.measure(), connections(broker)
        await writer.write(Outgoing(Topic.FLOW_COMMANDS, b"flow", b"{}"))
        second, third = await meter.measure(), await meter.measure()

        assert connections(broker) == opened
        assert first.commands_since == {}
        assert second.commands_since.keys() == {Topic.FLOW_COMMANDS}
        assert second == third
        assert not meter._reader.assignment()


async def test_after_a_broker_was_away_waiting_records_are_measured_again(tmp_path: Path) -> None:
    async with open_broker(tmp_path / "broker") as first:
        port, meter = first.port, LagMeter(LogAccess(first.address))
        before = await meter.measure()
    with pytest.raises(StoreUnavailable):
        await meter.measure()
    async with open_broker(tmp_path / "broker", port), aclosing(meter):
        assert await meter.measure() == before


def connections(broker: Broker) -> set[object]:
    """What is connected to a broker."""
    assert broker._listener is not None
    return set(broker._listener.connections)


async def taken_times(bootstrap: str) -> list[datetime]:
    """When the broker took each command of verifications."""
    records = await everything_in(bootstrap, Topic.VERIFICATION_COMMANDS)
    return [datetime.fromtimestamp(record.timestamp / 1000, UTC) for record in records]
