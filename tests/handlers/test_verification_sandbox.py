import asyncio
from datetime import timedelta

import pytest

from schemas.enums import DecisionOutcome, VerificationStatus
from schemas.ids import SubjectId
from schemas.problems import ProblemCode, Refused
from schemas.reasons import ReasonCode
from streams.ports.records import RecordKind
from streams.verification import records as verification_records
from streams.verification.checks import RequiredChecks
from streams.verification.command_images import SMALL_BYTES, CommandImages
from streams.verification.evaluation_limits import EngineSlots
from tests.builders import ACME
from tests.handlers.verification_stage import UNDECODABLE, Stage


async def simulate(subject_id: str) -> Stage:
    stage = Stage()
    await stage.submit(subject_id=SubjectId(subject_id), livemode=False)
    return stage


async def test_a_scenario_is_decided_without_a_model() -> None:
    stage = await simulate("sim:approved")

    assert set(stage.scene.calls) == {"decode"}


async def test_a_scenario_ends_as_it_was_asked_to() -> None:
    stage = await simulate("sim:reject:FACE_MISMATCH@customer-17")

    verification = (await stage.stored()).verification
    assert (verification.status, verification.decision) == (
        VerificationStatus.REJECTED,
        DecisionOutcome.BLOCK,
    )
    assert [reason.code for reason in verification.reasons] == [ReasonCode.FACE_MISMATCH]


async def test_a_scenario_says_that_no_engine_stood_behind_it() -> None:
    stage = await simulate("sim:approved")

    assert (await stage.stored()).verification.model_version == "sim@00000000+thr.1"


async def test_a_scenario_is_stored_and_published_like_the_real_thing() -> None:
    stage = await simulate("sim:review")

    assert len(stage.shelves.records) == 3
    assert len(stage.announcer.events) == 3
    assert not any(event.livemode for event in stage.announcer.events)


async def test_a_scenario_is_listed_as_test_data_only() -> None:
    stage = await simulate("sim:approved")

    records = stage.stores.records
    live = await records.page(ACME, RecordKind.VERIFICATION, verification_records.by_mode(True), limit=5)
    test = await records.page(ACME, RecordKind.VERIFICATION, verification_records.by_mode(False), limit=5)
    assert (len(live), len(test)) == (0, 1)


async def test_the_images_of_a_scenario_must_be_images() -> None:
    stage = Stage()

    with pytest.raises(Refused) as refused:
        await stage.submit(subject_id=SubjectId("sim:approved"), livemode=False, selfie=UNDECODABLE)

    assert refused.value.refusal.code is ProblemCode.IMAGE_UNDECODABLE


async def test_a_live_key_is_refused_its_magic_subject() -> None:
    with pytest.raises(Refused) as refused:
        await Stage().submit(subject_id=SubjectId("sim:approved"), livemode=True)

    (problem,) = refused.value.refusal.errors
    assert problem.pointer == "/subject_id"


async def test_a_slow_scenario_waits_and_approves() -> None:
    stage = await simulate("sim:slow:5s")

    assert stage.pauses == [5.0]
    assert (await stage.stored()).verification.status is VerificationStatus.APPROVED


async def test_a_slow_scenario_counts_from_when_it_was_sent() -> None:
    stage = Stage()
    command = await stage.keep(subject_id=SubjectId("sim:slow:5s"), livemode=False)
    stage.now += timedelta(seconds=4)

    await stage.handler(command)

    assert stage.pauses == [1.0]


async def test_a_clock_that_runs_ahead_never_makes_a_scenario_slower() -> None:
    stage = Stage()
    command = await stage.keep(subject_id=SubjectId("sim:slow:5s"), livemode=False)
    stage.now -= timedelta(hours=1)

    await stage.handler(command)

    assert stage.pauses == [5.0]


async def test_a_scenario_is_decided_while_every_slot_is_taken() -> None:
    stage, slots = Stage(), EngineSlots(1)
    handler = stage.handler
    handler._slots = slots
    command = await stage.keep(subject_id=SubjectId("sim:approved"), livemode=False)

    async with slots.taken(), asyncio.timeout(30):
        decided = await handler(command)

    assert not decided.replayed


async def test_only_small_images_are_examined_while_every_slot_is_taken() -> None:
    stage, slots = Stage(), EngineSlots(1)
    checks = RequiredChecks(stage.scene_engines, stage.policy)
    images = CommandImages(stage.stores.evidence, stage.scene_engines.decoder, checks, slots)
    command = await stage.keep(subject_id=SubjectId("sim:approved"), livemode=False)

    async def load(image_bytes: int | None) -> bool:
        """Return whether the images were loaded without a slot."""
        sized = command.model_copy(update={"image_bytes": image_bytes})
        loading = asyncio.create_task(images.load(sized, pixels=False))
        for _ in range(20):
            await asyncio.sleep(0)
        loaded = loading.done()
        loading.cancel()
        return loaded

    async with slots.taken():
        assert [await load(size) for size in (SMALL_BYTES, SMALL_BYTES + 1, None)] == [True, False, False]
