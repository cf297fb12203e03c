"""The tables: what an actor remembers comes back after a restart, and never grows beyond its bound."""

import asyncio
import itertools
from pathlib import Path

import faust
import pytest

from app.broker.server import Broker
from app.kafka.request_reply import RequestReply
from schemas.topics import Topic
from schemas.verifications import SubmitVerification, VerificationDecided
from streams.runtime import app
from streams.runtime.agents import attach
from streams.runtime.app import build_app
from streams.runtime.guard import Contract
from streams.runtime.producer import LogWriter
from streams.runtime.supervisor import running_worker
from streams.runtime.tables import MOST_BYTES_PER_PARTITION, ValueTable, partitions_of, size_of
from streams.verification.agent import TABLE
from streams.verification.change import Remembered
from tests.agents.support import (
    KEYS,
    ask,
    committed,
    decided,
    names,
    quick_guard,
    quick_settings,
    remembered,
    submission,
    until,
    until_settled,
)

BOUND = 3
CONTRACT = Contract(SubmitVerification, lambda command: command.verification_id)


class Bounded:
    """An app whose actors remember little; the latest table it built is at hand."""

    def __init__(
        self,
        writer: LogWriter,
        bootstrap: str,
        directory: Path,
        most: int = BOUND,
        most_bytes: int = MOST_BYTES_PER_PARTITION,
    ) -> None:
        self._writer = writer
        self._bounds = (most, most_bytes)
        self._settings = quick_settings(bootstrap, directory)
        self.table: ValueTable[Remembered]

    def __call__(self) -> faust.App:
        """Build the app."""
        app = build_app(self._settings)
        guard = quick_guard(self._writer, self._settings.access)
        topic = Topic.VERIFICATION_COMMANDS
        self.table = ValueTable(app, TABLE, topic, Remembered, KEYS, *self._bounds)
        attach(app, guard, topic, "verification", CONTRACT, self._remember)
        return app

    async def _remember(self, command: SubmitVerification) -> VerificationDecided:
        self.table.put(command.verification_id, remembered(command))
        return decided(command)

    def knows(self, asked: list[str]) -> list[str]:
        """Which of the commands are remembered."""
        return [name for name in asked if self.table.get(submission(name).verification_id) is not None]


async def test_what_an_actor_remembers_survives_a_restart_and_stays_within_its_bound(
    broker: Broker, writer: LogWriter, gateway: RequestReply, tmp_path: Path
) -> None:
    build = Bounded(writer, broker.address, tmp_path)
    asked = list(names("table", 120))

    async with running_worker(build) as worker:
        await worker.wait_ready()
        await asyncio.gather(*(ask(gateway, name) for name in asked))
        known = build.knows(asked)
    async with running_worker(build) as worker:
        await worker.wait_ready()
        restored = build.knows(asked)
        await asyncio.gather(*(ask(gateway, name) for name in names("later", 120)))

        assert build.knows(asked) == []
        assert len(build.table) == BOUND * partitions_of(Topic.VERIFICATION_COMMANDS)

    assert restored == known
    assert len(known) == BOUND * partitions_of(Topic.VERIFICATION_COMMANDS)


async def test_what_is_remembered_stays_within_its_memory(
    broker: Broker, writer: LogWriter, gateway: RequestReply, tmp_path: Path
) -> None:
    asked = list(names("table", 120))
    command = submission(asked[0])
    entry = size_of(command.verification_id.encode(), remembered(command).model_dump_json().encode())
    build = Bounded(writer, broker.address, tmp_path, len(asked), BOUND * entry)

    async with running_worker(build) as worker:
        await worker.wait_ready()
        await asyncio.gather(*(ask(gateway, name) for name in asked))
        counts = [len(build.table)]
    async with running_worker(build) as worker:
        await worker.wait_ready()
        await asyncio.gather(*(ask(gateway, name) for name in names("later", 120)))

        assert build.knows(asked) == []
        counts.append(len(build.table))

    assert all(0 < one <= BOUND * partitions_of(Topic.VERIFICATION_COMMANDS) for one in counts)


async def test_an_entry_that_is_longer_than_the_memory_is_remembered_alone(
    broker: Broker, writer: LogWriter, gateway: RequestReply, tmp_path: Path
) -> None:
    build = Bounded(writer, broker.address, tmp_path, BOUND, 1)

    async with running_worker(build) as worker:
        await worker.wait_ready()
        await asyncio.gather(*(ask(gateway, name) for name in names("long", 60)))

        assert len(build.table) == partitions_of(Topic.VERIFICATION_COMMANDS)


async def test_what_is_remembered_again_is_young_again(
    broker: Broker, writer: LogWriter, gateway: RequestReply, tmp_path: Path
) -> None:
    build = Bounded(writer, broker.address, tmp_path)

    async with running_worker(build) as worker:
        await worker.wait_ready()
        for name in names("other", 60):
            await ask(gateway, name)
            await ask(gateway, "kept")

        assert build.knows(["kept"]) == ["kept"]


async def test_a_commit_does_not_wait_for_entries_to_linger(
    broker: Broker, writer: LogWriter, gateway: RequestReply, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app, "LINGER_MS", 600_000)

    async with running_worker(Bounded(writer, broker.address, tmp_path)):
        await ask(gateway, "lingering")

        await until_settled(broker.address)  # the producer is flushed before


async def test_what_is_settled_is_committed_while_the_load_goes_on(
    broker: Broker, writer: LogWriter, gateway: RequestReply, tmp_path: Path
) -> None:
    """Every command writes to the table here, so the producer never comes to rest."""
    over = asyncio.Event()

    async def keep_asking(asker: int) -> None:
        for number in itertools.count():
            await ask(gateway, f"steady-{asker}-{number}")
            if over.is_set():
                return

    async def many_committed() -> bool:
        done, _ = await committed(broker.address, Topic.VERIFICATION_COMMANDS)
        return done > 300

    async with running_worker(Bounded(writer, broker.address, tmp_path)), asyncio.TaskGroup() as load:
        for asker in range(64):
            load.create_task(keep_asking(asker))
        await until(many_committed)
        over.set()
