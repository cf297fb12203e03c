"""Name screenings on the real path: front's intake, embedded broker, agent, store and replies."""

import asyncio
from pathlib import Path

import faust

from app.adapters.memory.stores import Shelves, open_memory_stores
from app.adapters.security.crypto import RootKey
from app.broker.server import Broker
from app.intake.name_screenings import AskedScreening, NameScreeningIntake
from app.kafka.request_reply import RequestReply
from schemas.audit import Actor
from schemas.dispositions import ScreeningCommand
from schemas.enums import ActorType
from schemas.ids import ScreeningId, derive_id
from schemas.lists import EntityKind
from schemas.name_screenings import (
    NameQuery,
    NameScreeningRequest,
    NamesScreened,
    ScreenNames,
    StoredNameScreening,
)
from schemas.topics import Topic
from streams.dispositions.records import StoredDispositions
from streams.name_screenings import agent
from streams.name_screenings.handler import ScreenNamesOnce
from streams.runtime.app import GROUP, build_app
from streams.runtime.kafka_client_config import LogAccess
from streams.runtime.producer import LogWriter
from streams.runtime.supervisor import running_worker
from streams.runtime.topics import ensure_topics
from tests.agents.support import ACME, everything_in, now, quick_guard, quick_settings
from tests.http.support import HASHES, SCREENING, Silence

ACTOR = Actor(actor_type=ActorType.API_KEY, actor_id="key_1", request_id="req-1", ip="192.0.2.7")


async def test_a_screening_asked_for_twice_at_once_is_made_once_and_its_command_names_nobody(
    broker: Broker, writer: LogWriter, gateway: RequestReply, tmp_path: Path
) -> None:
    stores = open_memory_stores(RootKey(b"r" * 32), Shelves())

    def build() -> faust.App:
        settings = quick_settings(broker.address, tmp_path)
        app = build_app(settings)
        dispositions = StoredDispositions(stores.records, HASHES, now)
        screen = ScreenNamesOnce(stores, SCREENING, dispositions, now, Silence())

        async def carry(message: ScreeningCommand) -> NamesScreened:
            assert isinstance(message.root, ScreenNames)
            return await screen(message.root)

        agent.register(app, quick_guard(writer, settings.access), carry)
        return app

    intake = NameScreeningIntake(gateway, stores.records, stores.vault, HASHES, now, answer_timeout_s=120)
    query = NameQuery(kind=EntityKind.PERSON, name="Zoltan Qaraveli", birth_date="1970-01-01")
    asked = AskedScreening(
        ACME, livemode=False, actor=ACTOR, screening_id=ScreeningId(derive_id("ns", "once"))
    )
    body = NameScreeningRequest(queries=(query,), subject_id="ada@example.org")
    await ensure_topics(LogAccess(broker.address), GROUP, {})
    async with running_worker(build) as worker:
        async with asyncio.timeout(120):
            await worker.wait_ready()
        first, second = await asyncio.gather(intake.submit(body, asked), intake.submit(body, asked))
        sent = await everything_in(broker.address, Topic.SCREENING_COMMANDS)

    assert first.record.body == second.record.body
    screening = StoredNameScreening.from_bytes(first.record.body).screening
    assert [one.result for one in screening.results] == ["MATCH"]
    written = b"".join(one.key + one.value for one in sent)
    for word in (b"Qaraveli", b"ada@", b"192.0.2.7"):
        assert word not in written
