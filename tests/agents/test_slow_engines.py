"""Slow engines are no reason to restart a worker, and a restart does nothing twice at the same time."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path

import faust
import pytest
from faust.types import TP

from app.broker.server import Broker
from app.kafka.request_reply import RequestReply
from schemas.verifications import SubmitVerification, VerificationDecided
from streams.runtime import supervisor as worker_module
from streams.runtime.producer import LogWriter
from streams.runtime.supervisor import MOST_STALLS, Progress, running_worker
from tests.agents.support import ask, decided, names, quick_settings, verification_app

HERE = TP("commands", 0)

Handle = Callable[[SubmitVerification], Awaitable[VerificationDecided]]


class Lives:
    """The apps that a worker built, all with one handler."""

    def __init__(self, writer: LogWriter, broker: Broker, folder: Path, handle: Handle) -> None:
        self.apps: list[faust.App] = []
        self._writer, self._broker, self._folder, self._handle = writer, broker, folder, handle

    def __call__(self) -> faust.App:
        """Build another app."""
        settings = quick_settings(self._broker.address, self._folder)
        self.apps.append(verification_app(self._writer, settings, lambda _: self._handle))
        return self.apps[-1]


class SlowEngine:
    """One engine for all partitions that takes many short jobs for each record."""

    def __init__(self, jobs: int, job_s: float) -> None:
        self.finished = 0
        self.begun: Counter[str] = Counter()
        self._turn = asyncio.Lock()
        self._jobs, self._job_s = jobs, job_s

    async def __call__(self, command: SubmitVerification) -> VerificationDecided:
        """Decide after the jobs of this command, between those of the others."""
        self.begun[command.request_id] += 1
        for _ in range(self._jobs):
            async with self._turn:
                await asyncio.sleep(self._job_s)
                self.finished += 1
        return decided(command)


async def test_records_that_wait_long_for_moving_engines_cause_no_restart(
    broker: Broker,
    writer: LogWriter,
    gateway: RequestReply,
    tmp_path: Path,
) -> None:
    """Each record takes the engine three times the patience of the supervisor, beside its neighbours."""
    engine = SlowEngine(jobs=3, job_s=0.3)
    lives = Lives(writer, broker, tmp_path, engine)
    asked = names("slow", 8)

    async with running_worker(lives, stall_after_s=2.0, finished=lambda: engine.finished) as worker:
        await worker.wait_ready()
        await asyncio.gather(*(ask(gateway, name) for name in asked))
        healthy = worker.healthy

    assert (len(lives.apps), healthy) == (1, True)
    assert engine.begun == dict.fromkeys(asked, 1)


async def test_a_handler_that_stands_still_with_its_engines_is_restarted(
    broker: Broker,
    writer: LogWriter,
    gateway: RequestReply,
    tmp_path: Path,
) -> None:
    finished = 7  # jobs of before: a count that does not grow is no progress

    async def handle(command: SubmitVerification) -> VerificationDecided:
        if len(lives.apps) == 1:
            await asyncio.Event().wait()
        return decided(command)

    lives = Lives(writer, broker, tmp_path, handle)
    async with running_worker(lives, stall_after_s=1.0, finished=lambda: finished):
        await ask(gateway, "stuck at first")

    assert len(lives.apps) == 2


async def test_a_restart_ends_every_handler_of_the_app_before_it(
    broker: Broker,
    writer: LogWriter,
    gateway: RequestReply,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also when the old app's stop takes too long and is given up."""
    at_work: Counter[str] = Counter()
    beside: list[str] = []

    async def handle(command: SubmitVerification) -> VerificationDecided:
        name = command.request_id
        at_work[name] += 1
        if at_work[name] > 1:
            beside.append(name)
        try:
            if len(lives.apps) == 1:
                await asyncio.sleep(30)
        finally:
            at_work[name] -= 1
        return decided(command)

    monkeypatch.setattr(worker_module, "STOP_S", 0.2)  # less than the old app waits for its handlers
    lives = Lives(writer, broker, tmp_path, handle)
    async with running_worker(lives, stall_after_s=1.0):
        await asyncio.gather(*(ask(gateway, name) for name in names("twice", 4)))
        monkeypatch.undo()

    assert (len(lives.apps), beside) == (2, [])


def test_engines_that_move_count_as_progress() -> None:
    progress = Progress(stall_after_s=10)

    for now in range(0, 60, 5):
        assert progress.stalled({HERE: 9}, {HERE: 1}, now, finished=now) == []


def test_engines_that_stopped_count_no_more() -> None:
    progress = Progress(stall_after_s=10)
    for now in range(0, 30, 5):
        progress.stalled({HERE: 9}, {HERE: 1}, now, finished=now)

    assert progress.stalled({HERE: 9}, {HERE: 1}, 34, finished=25) == []
    assert progress.stalled({HERE: 9}, {HERE: 1}, 35, finished=25) == [HERE]


def test_a_partition_cannot_stand_for_ever_beside_engines_that_work_for_others() -> None:
    progress = Progress(stall_after_s=10)
    last = MOST_STALLS * 10

    seen = [progress.stalled({HERE: 9}, {HERE: 1}, now, finished=now) for now in range(0, last + 1, 5)]
    assert (seen[-2:], any(seen[:-1])) == ([[], [HERE]], False)
