"""The patched consumer: neither a seek in the middle of a delivery nor a rebalance skips a record."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from pathlib import Path

import faust
import pytest
from faust.types import TP

from app.broker.server import Broker
from app.kafka.request_reply import Gateway
from schemas.verifications import SubmitVerification, VerificationDecided
from streams.runtime.consumer import patched
from streams.runtime.producer import LogWriter
from streams.runtime.supervisor import running_worker
from tests.agents.support import ask, decided, names, quick_settings, until, until_settled, verification_app

COMMANDS = 800
SEEK_EVERY = 20


class Doorkeeper:
    """A handler that decides only while its door is open."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.door = asyncio.Event()

    async def __call__(self, command: SubmitVerification) -> VerificationDecided:
        """Decide, slowly enough for a backlog."""
        self.begun.set()
        await self.door.wait()
        await asyncio.sleep(0.01)
        return decided(command)


@pytest.fixture
def handler() -> Doorkeeper:
    """A handler whose door is shut."""
    return Doorkeeper()


@pytest.fixture
async def app(
    broker: Broker, writer: LogWriter, handler: Doorkeeper, tmp_path: Path
) -> AsyncIterator[faust.App]:
    """A running app with buffers that are soon full."""
    settings = replace(quick_settings(broker.address, tmp_path), buffer=4)
    built = verification_app(writer, settings, lambda _: handler)
    async with running_worker(lambda: built) as worker:
        await worker.wait_ready()
        yield built


async def seek(app: faust.App) -> None:
    """Do what recovery does while the fetcher delivers; raise TimeoutError when it waits for the agents."""
    async with asyncio.timeout(60):
        await patched(app.consumer).perform_seek()


async def test_seeking_while_records_are_delivered_skips_none(
    broker: Broker, gateway: Gateway, app: faust.App, handler: Doorkeeper
) -> None:
    handler.door.set()
    asking = [asyncio.create_task(ask(gateway, name)) for name in names("seek", COMMANDS)]

    for count, answer in enumerate(asyncio.as_completed(asking)):
        await answer
        if count % SEEK_EVERY == 0:
            await seek(app)

    await until_settled(broker.address)


async def test_a_seek_does_not_wait_for_full_buffers(
    broker: Broker, gateway: Gateway, app: faust.App, handler: Doorkeeper
) -> None:
    asking = [asyncio.create_task(ask(gateway, name)) for name in names("full", COMMANDS)]
    await full(app)

    await seek(app)
    handler.door.set()

    await asyncio.gather(*asking)
    await until_settled(broker.address)


async def test_a_seek_that_is_given_up_skips_nothing(
    broker: Broker, gateway: Gateway, app: faust.App, handler: Doorkeeper
) -> None:
    """It had cut a batch short; the records that were left come again all the same."""
    asking = [asyncio.create_task(ask(gateway, name)) for name in names("given-up", COMMANDS)]
    await full(app)

    seeking = asyncio.create_task(seek(app))
    await asyncio.sleep(0)
    seeking.cancel()
    handler.door.set()

    await asyncio.gather(*asking)
    await until_settled(broker.address)


async def test_a_commit_during_a_seek_skips_nothing(
    broker: Broker, gateway: Gateway, app: faust.App, handler: Doorkeeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first commit of a partition lands after the broker said that it has none."""
    asking = [asyncio.create_task(ask(gateway, name)) for name in names("commit", COMMANDS)]
    await full(app)
    consumer = patched(app.consumer)
    ask_broker = consumer._thread.seek_to_committed

    async def then_commit() -> Mapping[TP, int]:
        committed = await ask_broker()
        handler.door.set()
        await until(anything_committed)
        return committed

    async def anything_committed() -> bool:
        return any(consumer.committed(tp) for tp in consumer.assignment())

    monkeypatch.setattr(consumer._thread, "seek_to_committed", then_commit)
    await seek(app)
    monkeypatch.undo()

    await asyncio.gather(*asking)
    await until_settled(broker.address)


async def test_what_was_thrown_away_before_the_first_commit_comes_again(
    broker: Broker, gateway: Gateway, app: faust.App, handler: Doorkeeper
) -> None:
    """A rebalance empties the buffers; a partition without a commit has no place of its own to go back to."""
    asking = [asyncio.create_task(ask(gateway, name)) for name in names("fresh", COMMANDS)]
    await handler.begun.wait()

    await throw_away(app)
    handler.door.set()

    await asyncio.gather(*asking)
    await until_settled(broker.address)


async def full(app: faust.App) -> None:
    """Wait until a delivery is held up by a full buffer."""

    async def blocked_delivery() -> bool:
        return bool(patched(app.consumer)._buffered_partitions)

    await until(blocked_delivery)


async def throw_away(app: faust.App) -> None:
    """Do what Faust does to the flow at a rebalance."""
    consumer = patched(app.consumer)
    consumer.stop_flow()
    app.flow_control.suspend()
    app.flow_control.clear()
    await consumer.wait_empty()
    await seek(app)
    app.flow_control.resume()
    consumer.resume_flow()


async def test_a_group_that_has_committed_nothing_begins_again_after_a_rebalance(
    broker: Broker, writer: LogWriter, gateway: Gateway, handler: Doorkeeper, tmp_path: Path
) -> None:
    def build() -> faust.App:
        return verification_app(writer, quick_settings(broker.address, tmp_path), lambda _: handler)

    async with running_worker(build) as first:
        await first.wait_ready()
        asking = [asyncio.create_task(ask(gateway, name)) for name in names("group", COMMANDS)]
        await handler.begun.wait()
        async with running_worker(build) as second:
            await second.wait_ready()
            handler.door.set()
            await asyncio.gather(*asking)
            await until_settled(broker.address)
