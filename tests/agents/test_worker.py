"""A worker comes back after a crash, reports when it makes no progress and leaves its process alone."""

import asyncio
import logging
import math
import signal
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path

import faust
from faust.types import TP

from app.broker.server import Broker
from app.broker.settings import BrokerSettings
from app.kafka.request_reply import RequestReply
from schemas.topics import Topic
from schemas.verifications import SubmitVerification, VerificationDecided
from streams.runtime.app import GROUP, StreamSettings, build_app
from streams.runtime.consumer import PatchedTransport
from streams.runtime.fetch_waits import ENDED_WAIT_MS, PATIENT_WAIT_MS
from streams.runtime.kafka_client_config import LogAccess
from streams.runtime.producer import LogWriter
from streams.runtime.supervisor import Progress, running_worker
from streams.runtime.topics import ensure_topics
from streams.verification import agent
from tests.agents.support import (
    KEYS,
    ask,
    decided,
    open_broker,
    quick_settings,
    submission,
    until,
    until_settled,
    verification_app,
)


async def decide(command: SubmitVerification) -> VerificationDecided:
    """Decide at once."""
    return decided(command)


async def test_an_app_that_crashed_is_built_anew(
    broker: Broker, writer: LogWriter, gateway: RequestReply, tmp_path: Path
) -> None:
    built: list[faust.App] = []

    def build() -> faust.App:
        built.append(verification_app(writer, quick_settings(broker.address, tmp_path), lambda _: decide))
        return built[-1]

    async with running_worker(build) as worker:
        await worker.wait_ready()
        await built[0].crash(RuntimeError("the consumer gave up"))

        await ask(gateway, "after the crash")
        await worker.wait_ready()

    assert len(built) == 2


def test_fetches_wait_longer_at_a_broker_that_ends_them(tmp_path: Path) -> None:
    accesses = [LogAccess("127.0.0.1:1", ends_waiting_fetches=ends) for ends in (True, False)]
    transports = [build_app(StreamSettings(access, tmp_path)).transport for access in accesses]

    waits = [one.patient_wait_ms for one in transports if isinstance(one, PatchedTransport)]

    assert waits == [ENDED_WAIT_MS, PATIENT_WAIT_MS]


async def test_an_app_that_cannot_be_built_after_a_crash_is_built_a_second_later(
    broker: Broker, writer: LogWriter, gateway: RequestReply, tmp_path: Path
) -> None:
    built: list[faust.App | None] = []

    def build() -> faust.App:
        if len(built) == 1:
            built.append(None)
            raise OSError("too many open files")
        app = verification_app(writer, quick_settings(broker.address, tmp_path), lambda _: decide)
        built.append(app)
        return app

    async with running_worker(build) as worker:
        await worker.wait_ready()
        assert built[0] is not None
        await built[0].crash(RuntimeError("the consumer gave up"))

        await ask(gateway, "after the crash")
        await worker.wait_ready()

    assert [app is not None for app in built] == [True, False, True]


async def test_a_worker_that_joined_before_its_topics_were_there_works_once_they_are(tmp_path: Path) -> None:
    """A broker that lost everything has no topics until a role makes them again."""
    async with AsyncExitStack() as first, AsyncExitStack() as rest:
        address = (await first.enter_async_context(open_broker(tmp_path / "lost"))).address
        access, settings = LogAccess(address), quick_settings(address, tmp_path)
        writer = await rest.enter_async_context(LogWriter(access, KEYS))
        build = partial(verification_app, writer, settings, lambda _: decide)
        worker = await rest.enter_async_context(running_worker(build))
        await worker.wait_ready()
        await first.aclose()
        port = int(address.rpartition(":")[2])
        empty = await rest.enter_async_context(
            Broker(BrokerSettings(directory=tmp_path / "empty", port=port, auto_create_topics=False))
        )

        async def joined() -> bool:
            return any(group.generation for group in empty._groups._groups.values()) and not worker.ready

        await until(joined)
        await ensure_topics(access, GROUP, {agent.TABLE: Topic.VERIFICATION_COMMANDS})

        async with asyncio.timeout(180):
            await worker.wait_ready()
        assert worker.is_assigned(Topic.VERIFICATION_COMMANDS, 0)


async def test_the_longest_session_timeout_of_the_settings_can_be_chosen(
    broker: Broker, writer: LogWriter, gateway: RequestReply, tmp_path: Path
) -> None:
    settings = replace(quick_settings(broker.address, tmp_path), session_timeout_s=300.0)

    async with running_worker(lambda: verification_app(writer, settings, lambda _: decide)):
        await ask(gateway, "in a long session")


async def test_an_app_that_stands_still_for_no_reason_is_built_anew(
    broker: Broker, writer: LogWriter, gateway: RequestReply, tmp_path: Path
) -> None:
    built: list[faust.App] = []

    async def stuck(command: SubmitVerification) -> VerificationDecided:
        if len(built) == 1:
            await asyncio.Event().wait()
        return decided(command)

    def build() -> faust.App:
        settings = quick_settings(broker.address, tmp_path)
        built.append(verification_app(writer, settings, lambda _: stuck))
        return built[-1]

    async with running_worker(build, stall_after_s=1.0):
        answer = await ask(gateway, "stuck at first")

    assert answer == decided(submission("stuck at first"))
    assert len(built) == 2


async def test_an_app_whose_rebalance_does_not_end_is_built_anew(
    broker: Broker, writer: LogWriter, gateway: RequestReply, tmp_path: Path
) -> None:
    built: list[faust.App] = []

    def build() -> faust.App:
        settings = quick_settings(broker.address, tmp_path)
        built.append(verification_app(writer, settings, lambda _: decide))
        return built[-1]

    async def built_anew() -> bool:
        return len(built) == 2 and worker.ready

    async with running_worker(build, stall_after_s=1.0) as worker:
        await worker.wait_ready()
        built[0].flow_control.suspend()
        built[0].rebalancing = True

        await until(built_anew)
        await ask(gateway, "after the rebalance")


async def test_a_worker_without_a_broker_waits_for_one(tmp_path: Path) -> None:
    built: list[faust.App] = []

    def build() -> faust.App:
        built.append(
            verification_app(
                LogWriter(LogAccess(""), KEYS), quick_settings("127.0.0.1:1", tmp_path), lambda _: decide
            )
        )
        return built[-1]

    async def tried_again() -> bool:
        return len(built) > 1

    async with running_worker(build) as worker:
        await until(tried_again)

        assert not worker.ready


async def test_a_record_that_waits_for_its_store_makes_the_worker_unhealthy_and_is_waited_for(
    broker: Broker, writer: LogWriter, gateway: RequestReply, tmp_path: Path
) -> None:
    door = asyncio.Event()

    async def stuck(command: SubmitVerification) -> VerificationDecided:
        await door.wait()
        return decided(command)

    app = verification_app(writer, quick_settings(broker.address, tmp_path), lambda _: stuck)

    async with running_worker(lambda: app, stall_after_s=0.5, waited_at=lambda: math.inf) as worker:
        await worker.wait_ready()
        assert worker.healthy
        asking = asyncio.create_task(ask(gateway, "stuck"))

        async def stands_still() -> bool:
            return not worker.healthy

        await until(stands_still)
        assert worker.lag == {Topic.VERIFICATION_COMMANDS: 1}
        door.set()
        await asking
        await until_settled(broker.address)

        async def moves() -> bool:
            return worker.healthy

        await until(moves)


async def test_signals_and_logging_stay_the_callers(
    broker: Broker, writer: LogWriter, tmp_path: Path
) -> None:
    before = (
        signal.getsignal(signal.SIGTERM),
        signal.getsignal(signal.SIGINT),
        list(logging.getLogger().handlers),
    )
    app = verification_app(writer, quick_settings(broker.address, tmp_path), lambda _: decide)

    async with running_worker(lambda: app) as worker:
        await worker.wait_ready()

        assert before == (
            signal.getsignal(signal.SIGTERM),
            signal.getsignal(signal.SIGINT),
            list(logging.getLogger().handlers),
        )


HERE, THERE = TP("commands", 0), TP("commands", 1)


def test_rebalances_that_end_do_not_add_up() -> None:
    progress = Progress(stall_after_s=10)

    seen = [(True, 0), (True, 9), (False, 9.5), (True, 10), (True, 19), (True, 20)]
    assert [progress.unended(changing=changing, now=now) for changing, now in seen] == [False] * 5 + [True]


def test_a_partition_that_is_behind_and_moves_is_not_stalled() -> None:
    progress = Progress(stall_after_s=10)

    assert progress.stalled({HERE: 9}, {HERE: 1}, now=0) == []
    assert progress.stalled({HERE: 9}, {HERE: 2}, now=11) == []


def test_a_partition_that_is_behind_and_stands_is_stalled() -> None:
    progress = Progress(stall_after_s=10)

    assert progress.stalled({HERE: 9, THERE: 9}, {HERE: 1, THERE: 1}, now=0) == []
    assert progress.stalled({HERE: 9, THERE: 9}, {HERE: 1, THERE: 2}, now=10) == [HERE]


def test_the_time_before_a_partition_fell_behind_does_not_count() -> None:
    progress = Progress(stall_after_s=10)

    assert progress.stalled({HERE: 1}, {HERE: 1}, now=0) == []
    assert progress.stalled({HERE: 2}, {HERE: 1}, now=100) == []
