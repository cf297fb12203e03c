"""Sessions that need attention are found, asked to look at themselves, and left alone otherwise."""

import json
from typing import Any

import pytest

from app.broker.server import Broker
from schemas.enums import EvidenceKind
from schemas.topics import Topic
from streams.runtime.producer import LogWriter
from streams.sessions import rules
from streams.sessions.scheduler import SessionScheduler
from tests.agents.support import everything_in
from tests.handlers.session_stage import SESSION, SessionStage


@pytest.fixture
async def stage() -> SessionStage:
    """A deployment with a started session."""
    deployment = SessionStage()
    await deployment.publish()
    await deployment.start()
    return deployment


async def sweep(stage: SessionStage, broker: Broker, writer: LogWriter) -> list[dict[str, Any]]:
    """What is asked at the stage's time."""
    before = len(await everything_in(broker.address, Topic.SESSION_COMMANDS))
    sweeper = SessionScheduler(stage.stores.records, writer, lambda: stage.now)
    sent = await sweeper.sweep()
    found = (await everything_in(broker.address, Topic.SESSION_COMMANDS))[before:]
    assert len(found) == sent
    assert {record.key for record in found} <= {SESSION.encode()}
    return [json.loads(record.value) for record in found]


async def test_a_session_is_expired_once_its_time_is_over(
    stage: SessionStage, broker: Broker, writer: LogWriter
) -> None:
    early = await sweep(stage, broker, writer)
    stage.passes(by=rules.LIFETIME)
    late = await sweep(stage, broker, writer)
    await stage.give(stage.expire())
    after = await sweep(stage, broker, writer)

    assert (early, [one["kind"] for one in late], after) == ([], ["expire"], [])


async def test_a_session_nobody_looked_at_for_days_is_found(
    stage: SessionStage, broker: Broker, writer: LogWriter
) -> None:
    stage.passes(by=10 * rules.LIFETIME)

    assert [one["kind"] for one in await sweep(stage, broker, writer)] == ["expire"]


async def test_a_session_nobody_heard_of_is_asked_for_its_outcome(
    stage: SessionStage, broker: Broker, writer: LogWriter
) -> None:
    for kind in (EvidenceKind.IMAGE, EvidenceKind.SELFIE):
        await stage.capture(kind)
    await stage.give(await stage.submission())
    early = await sweep(stage, broker, writer)
    stage.passes(by=rules.STUCK_AFTER)

    late = await sweep(stage, broker, writer)

    assert early == []
    assert [(one["kind"], one["attempt"], one["actor"]["actor_type"]) for one in late] == [
        ("outcome", 1, "SYSTEM")
    ]
