"""A worker that stops ends its consumer, also while that waits to fetch again or the stop is cut short."""

import asyncio
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from app.broker.server import Broker
from schemas.verifications import SubmitVerification, VerificationDecided
from streams.runtime.consumer import patched
from streams.runtime.producer import LogWriter
from streams.runtime.supervisor import running_worker
from tests.agents.support import decided, quick_settings, until, verification_app
from tests.chaos.proxy import Proxy

PAUSE_S = 600.0
"""Longer than the test: the stop comes within the pause."""

FAR_S = 60.0
"""Longer than a worker takes to stop."""


async def test_a_stop_while_a_failed_fetch_waits_closes_the_consumer(
    broker: Broker, writer: LogWriter, tmp_path: Path
) -> None:
    async def decide(command: SubmitVerification) -> VerificationDecided:
        return decided(command)

    async with Proxy.before(broker.address, posing=True) as proxy:
        app = verification_app(writer, quick_settings(proxy.address, tmp_path), lambda _: decide)
        async with running_worker(lambda: app) as worker:
            await worker.wait_ready()
            consumer: Any = patched(app.consumer)._thread._consumer
            consumer._fetcher._retry_backoff = PAUSE_S

            async def pausing() -> bool:
                fetches = [task.get_coro().cr_await for task in tuple(consumer._fetcher._pending_tasks)]
                return any(getattr(awaited, "__name__", "") == "sleep" for awaited in fetches)

            with proxy.refusing():
                await until(pausing)

    connected = [connection for connection in consumer._client._conns.values() if connection.connected()]
    assert (connected, consumer._client._sync_task) == ([], None)


async def test_a_stop_that_is_cut_short_ends_the_thread_that_talks_to_the_broker(
    broker: Broker, writer: LogWriter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else it stays in the group with its partitions, and the process cannot end before it."""

    async def decide(command: SubmitVerification) -> VerificationDecided:
        return decided(command)

    async def never() -> None:
        await asyncio.Event().wait()

    async def ended() -> bool:
        return not thread.is_alive()

    app = verification_app(writer, quick_settings(broker.address, tmp_path), lambda _: decide)
    monkeypatch.setattr("streams.runtime.supervisor.STOP_S", 0.5)
    async with running_worker(lambda: app) as worker:
        await worker.wait_ready()
        thread: Any = patched(app.consumer)._thread._thread
        monkeypatch.setattr(app.consumer, "wait_empty", never)
        assert thread.is_alive()
        assert thread.daemon

    await until(ended)


async def test_a_consumer_thread_that_does_not_end_is_left_behind(
    broker: Broker, writer: LogWriter, tmp_path: Path
) -> None:
    """A task of aiokafka may keep a cancellation to itself; the worker would wait for it for ever."""
    let_go = threading.Event()
    far = threading.Timer(FAR_S, let_go.set)  # ends the wait that would have no end
    far.start()

    async def decide(command: SubmitVerification) -> VerificationDecided:
        return decided(command)

    async def keep_cancellations() -> None:
        while not let_go.is_set():
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(0.05)

    async def ended() -> bool:
        return not thread.is_alive()

    app = verification_app(writer, quick_settings(broker.address, tmp_path), lambda _: decide)
    async with running_worker(lambda: app) as worker:
        await worker.wait_ready()
        service: Any = patched(app.consumer)._thread
        thread = service._thread
        asyncio.run_coroutine_threadsafe(keep_cancellations(), service.thread_loop)

    assert thread.is_alive()
    let_go.set()
    await until(ended)
    far.cancel()
