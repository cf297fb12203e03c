"""F21: what the agents remember is lost, with its changelog or before it got there; the store knows it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Any

import faust
import pytest
from aiohttp import ClientSession
from aiokafka.admin import AIOKafkaAdminClient  # type: ignore[import-untyped]  # ships no types
from prometheus_client import CollectorRegistry
from typing_extensions import override

from app.broker.server import Broker
from app.http.health_port import serving_health
from app.kafka.cluster import TABLES
from app.kafka.request_reply import Gateway
from app.observability.health_probes import probes_of
from schemas.ids import SubjectId, VerificationId, derive_id
from schemas.topics import Topic
from schemas.verifications import SubmitVerification, VerificationDecided
from streams.ports.records import RecordKind
from streams.ports.stores import WorkingState
from streams.runtime.app import GROUP
from streams.runtime.kafka_client_config import LogAccess
from streams.runtime.producer import LogWriter
from streams.runtime.supervisor import Worker, running_worker
from streams.runtime.tables import ValueTable
from streams.runtime.topics import changelog_of, ensure_topics
from streams.verification import agent, change
from streams.verification.change import Remembered
from tests.agents.support import KEYS, now, open_broker, quick_settings, until, verification_app
from tests.builders import ACME
from tests.chaos.proxy import Proxy, Way
from tests.chaos.sizes import commands, seeded
from tests.handlers.verification_stage import Stage

CHANGELOG = changelog_of(GROUP, agent.TABLE)


class Forgetful(WorkingState[Remembered]):
    """A memory that tells its changelog only some of what it is reported, as a killed process leaves it."""

    def __init__(self, table: WorkingState[Remembered], stored: set[str]) -> None:
        self._table = table
        self._stored = stored

    @override
    def get(self, key: str) -> Remembered | None:
        return self._table.get(key)

    @override
    def put(self, key: str, value: Remembered) -> None:
        if key in self._stored:
            self._table.put(key, value)


class Actors:
    """The verification agent over a stage's store; the memory of its latest life is at hand."""

    def __init__(self, stage: Stage, writer: LogWriter, address: str, folder: Path) -> None:
        self.stage = stage
        self.memory: WorkingState[Remembered]
        self.stored: set[str] | None = None
        self._writer = writer
        self._settings = quick_settings(address, folder)

    def __call__(self) -> faust.App:
        """Build the app of one life."""
        return verification_app(self._writer, self._settings, self._handler)

    def _handler(self, table: WorkingState[Remembered]) -> Any:
        assert isinstance(table, ValueTable)
        self.memory = table
        self.stage.state = table if self.stored is None else Forgetful(table, self.stored)  # type: ignore[assignment]  # any memory will do
        return self.stage.handler

    async def differing(self, asked: list[SubmitVerification]) -> list[str]:
        """The commands of which the memory is not what the store makes it."""
        found: list[str] = []
        for command in asked:
            record = await self.stage.stores.records.get(
                ACME, RecordKind.VERIFICATION, command.verification_id
            )
            if self.memory.get(command.verification_id) != change.remembered(record):
                found.append(command.verification_id)
        return found


@asynccontextmanager
async def scene(folder: Path) -> AsyncIterator[tuple[Broker, Gateway, Actors]]:
    """A broker, a front's gateway, and actors whose worker the test runs."""
    async with (
        open_broker(folder / "broker") as broker,
        LogWriter(LogAccess(broker.address), KEYS) as writer,
        Gateway(LogAccess(broker.address), writer, KEYS, name="front", now=now) as gateway,
    ):
        yield broker, gateway, Actors(Stage(), writer, broker.address, folder / "local")


async def submitted(stage: Stage, count: int) -> list[SubmitVerification]:
    """That many commands, their evidence kept."""
    stage.now = now()
    return [
        await stage.keep(
            verification_id=VerificationId(derive_id("ver", f"f21-{number}")),
            subject_id=SubjectId(f"sim:approved@f21-{number}"),
            livemode=False,
            request_id=f"req-{number}",
        )
        for number in range(count)
    ]


async def ask_all(gateway: Gateway, asked: list[SubmitVerification]) -> list[VerificationDecided]:
    """Ask for all of them at once."""
    topic = Topic.VERIFICATION_COMMANDS
    return await asyncio.gather(
        *(gateway.ask(topic, one.verification_id, one, VerificationDecided, 120) for one in asked)
    )


async def purge_changelog(address: str) -> None:
    """Drop the changelog with all that is in it, and make it anew."""
    admin = AIOKafkaAdminClient(bootstrap_servers=address)
    await admin.start()
    try:
        await admin.delete_topics([CHANGELOG])
    finally:
        await admin.close()
    await ensure_topics(LogAccess(address), GROUP, TABLES)


async def test_a_memory_comes_back_from_its_changelog_as_the_store_would_make_it(tmp_path: Path) -> None:
    """Nothing is on the worker's own disk that could be lost."""
    async with scene(tmp_path) as (_, gateway, actors):
        asked = await submitted(actors.stage, commands(60))
        async with running_worker(actors) as worker:
            await worker.wait_ready()
            await ask_all(gateway, asked)
        async with running_worker(actors) as worker:
            await worker.wait_ready()

            assert await actors.differing(asked) == []


@pytest.mark.parametrize("lost", ["the whole changelog", "what was not flushed"])
async def test_a_lost_memory_decides_nothing_twice_and_is_rebuilt_from_the_store(
    tmp_path: Path, lost: str
) -> None:
    chance = seeded("F21")
    async with scene(tmp_path) as (broker, gateway, actors):
        asked = await submitted(actors.stage, commands(40))
        if lost == "what was not flushed":
            actors.stored = {one.verification_id for one in chance.sample(asked, len(asked) // 2)}
        async with running_worker(actors) as worker:
            await worker.wait_ready()
            first = await ask_all(gateway, asked)
        decided = list(actors.stage.scene.calls)
        actors.stored = None
        if lost == "the whole changelog":
            await purge_changelog(broker.address)
        async with running_worker(actors) as worker:
            await worker.wait_ready()
            unknown = await actors.differing(asked)
            again = await ask_all(gateway, asked)

            assert len(unknown) == (len(asked) if lost == "the whole changelog" else len(asked) // 2)
            assert again == first
            assert actors.stage.scene.calls == decided
            assert await actors.differing(asked) == []


async def test_a_worker_is_not_ready_before_its_memory_is_back(tmp_path: Path) -> None:
    async with (
        scene(tmp_path) as (broker, gateway, actors),
        Proxy.before(broker.address, posing=True) as proxy,
        ClientSession() as client,
    ):
        asked = await submitted(actors.stage, commands(20))
        async with running_worker(actors) as worker:
            await worker.wait_ready()
            await ask_all(gateway, asked)
        async with LogWriter(LogAccess(proxy.address), KEYS) as writer:
            behind = Actors(actors.stage, writer, proxy.address, tmp_path / "behind")
            worker = Worker(behind)
            access = LogAccess(broker.address)
            probes = probes_of(actors.stage.stores, access, worker)
            async with serving_health(0, probes, CollectorRegistry()) as url:
                with proxy.delayed(frozenset({Way.BACK})):
                    worker.start()
                    early, causes = await readiness(client, url)
                await worker.wait_ready()

                async def ready() -> bool:
                    return (await readiness(client, url))[0] == HTTPStatus.OK

                await until(ready, within_s=60)  # an answer is kept for a second
            differing = await behind.differing(asked)
            await worker.stop()

    assert (early, causes["dependencies"]["agents"]["status"]) == (HTTPStatus.SERVICE_UNAVAILABLE, "down")
    assert differing == []


async def test_readiness_is_lost_with_the_broker_and_comes_back_with_it(tmp_path: Path) -> None:
    async with (
        scene(tmp_path) as (broker, _, actors),
        Proxy.before(broker.address, posing=True) as proxy,
        LogWriter(LogAccess(proxy.address), KEYS) as writer,
        ClientSession() as client,
    ):
        behind = Actors(actors.stage, writer, proxy.address, tmp_path / "behind")
        async with running_worker(behind) as worker:
            await worker.wait_ready()
            probes = probes_of(actors.stage.stores, LogAccess(proxy.address), worker)
            async with serving_health(0, probes, CollectorRegistry()) as url:

                async def ready() -> bool:
                    return (await readiness(client, url))[0] == HTTPStatus.OK

                with proxy.refusing():
                    away, _ = await readiness(client, url)
                await until(ready, within_s=180)

    assert away == HTTPStatus.SERVICE_UNAVAILABLE


async def readiness(client: ClientSession, url: str) -> tuple[int, dict[str, Any]]:
    """Ask `/readyz`."""
    async with client.get(f"{url}/readyz") as answer:
        return answer.status, await answer.json()
