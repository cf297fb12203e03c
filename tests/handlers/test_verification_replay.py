import asyncio
from datetime import timedelta

import pytest

from schemas.enums import VerificationStatus
from schemas.ids import VerificationId, derive_id
from schemas.problems import ProblemCode, Refused
from tests.builders import ACME, GLOBEX
from tests.handlers.verification_stage import Scene, Stage, other_evidence


async def test_another_request_with_the_same_key_gets_the_first_decision() -> None:
    stage = Stage()
    first = await stage.submit()

    again = await stage.submit(request_id="req-2", **other_evidence("second"))

    assert again.replayed
    assert again.verification_id == first.verification_id


async def test_a_replay_is_not_evaluated() -> None:
    stage = Stage()
    await stage.submit()
    stage.scene.calls.clear()

    await stage.submit(request_id="req-2", **other_evidence("second"))

    assert stage.scene.calls == []


async def test_a_replay_does_not_change_what_was_decided() -> None:
    stage = Stage()
    await stage.submit()
    stage.scene.distance = 0.9

    await stage.submit(request_id="req-2", **other_evidence("second"))

    assert (await stage.stored()).verification.status is VerificationStatus.APPROVED


async def test_the_images_of_a_replay_are_removed() -> None:
    stage = Stage()
    await stage.submit()
    stored = stage.evidence_ids()

    await stage.submit(request_id="req-2", **other_evidence("second"))

    assert stage.evidence_ids() == stored


async def test_the_images_the_first_decision_rests_on_survive_a_replay() -> None:
    stage = Stage()
    await stage.submit()
    stored = stage.evidence_ids()

    await stage.submit(request_id="req-2")

    assert stage.evidence_ids() == stored


async def test_an_actor_that_forgot_everything_finds_the_decision_in_the_store() -> None:
    stage = Stage()
    await stage.submit()
    stage.state.stored.clear()

    again = await stage.submit(request_id="req-2")

    assert again.replayed


async def test_the_same_request_delivered_again_is_no_replay() -> None:
    stage = Stage()
    command = await stage.keep()
    await stage.handler(command)

    again = await stage.handler(command)

    assert not again.replayed


@pytest.mark.parametrize("forgotten", [False, True])
async def test_the_same_request_delivered_again_tells_the_log_again(*, forgotten: bool) -> None:
    stage = Stage(Scene(distance=0.55))
    command = await stage.keep()
    await stage.handler(command)
    published = list(stage.announcer.events)
    stage.announcer.events.clear()
    if forgotten:
        stage.state.stored.clear()

    await stage.handler(command)

    assert stage.announcer.events == published


async def test_a_replay_tells_the_log_nothing_new() -> None:
    stage = Stage()
    await stage.submit()
    published = len(stage.announcer.events)

    await stage.submit(request_id="req-2")

    assert len(stage.announcer.events) == published


@pytest.mark.parametrize("forgotten", [False, True])
async def test_the_same_key_with_another_body_is_refused(*, forgotten: bool) -> None:
    stage = Stage()
    await stage.submit()
    if forgotten:
        stage.state.stored.clear()

    with pytest.raises(Refused) as refused:
        await stage.submit(request_id="req-2", fingerprint="e" * 64, **other_evidence("second"))

    (problem,) = refused.value.refusal.errors
    assert (problem.code, problem.header) == (ProblemCode.IDEMPOTENCY_KEY_REUSED, "Idempotency-Key")


async def test_another_body_under_the_same_key_takes_nothing_from_the_first() -> None:
    stage = Stage()
    await stage.submit()
    stored = stage.evidence_ids()

    with pytest.raises(Refused):
        await stage.submit(request_id="req-2", fingerprint="e" * 64)

    assert stage.evidence_ids() == stored


async def test_a_refused_key_is_free_for_another_body() -> None:
    stage = Stage(Scene(selfie_faces=()))
    with pytest.raises(Refused):
        await stage.submit()
    stage.scene.selfie_faces = Scene().selfie_faces

    decided = await stage.submit(request_id="req-2", fingerprint="e" * 64)

    assert not decided.replayed


async def test_a_refused_request_sent_later_is_evaluated_anew() -> None:
    stage = Stage(Scene(selfie_faces=()))
    with pytest.raises(Refused):
        await stage.submit()
    stage.scene.selfie_faces = Scene().selfie_faces
    stage.now += timedelta(seconds=1)

    decided = await stage.submit(request_id="req-2")

    assert not decided.replayed


async def test_requests_refused_at_once_all_hear_the_same_reason() -> None:
    stage = Stage(Scene(selfie_faces=()))
    commands = [await stage.keep(request_id=f"req-{number}") for number in range(3)]

    codes = []
    for command in commands:
        with pytest.raises(Refused) as refused:
            await stage.handler(command)
        codes.append(refused.value.refusal.code)

    assert codes == [ProblemCode.IMAGE_NOT_EVALUABLE] * 3


async def test_requests_refused_at_once_hear_the_same_reason_from_a_front_whose_clock_is_ahead() -> None:
    stage = Stage(Scene(selfie_faces=()))
    stage.now += timedelta(minutes=5)
    commands = [await stage.keep(request_id=f"req-{number}") for number in range(3)]
    stage.now -= timedelta(minutes=5)

    codes = []
    for command in commands:
        with pytest.raises(Refused) as refused:
            await stage.handler(command)
        codes.append(refused.value.refusal.code)

    assert codes == [ProblemCode.IMAGE_NOT_EVALUABLE] * 3


async def test_another_request_whose_images_are_gone_does_not_hear_the_refusal_of_the_first() -> None:
    stage = Stage(Scene(selfie_faces=()))
    with pytest.raises(Refused):
        await stage.submit()
    command = await stage.keep(request_id="req-2", fingerprint="e" * 64)
    await stage.stores.evidence.discard(command.tenant_id, [command.selfie_evidence_id])

    with pytest.raises(Refused) as refused:
        await stage.handler(command)

    assert refused.value.refusal.code is ProblemCode.STORE_FAILED


async def test_fifty_at_once_make_one_verification() -> None:
    stage = Stage(Scene(distance=0.55))
    commands = [await stage.keep(request_id=f"req-{number}") for number in range(50)]
    handler = stage.handler

    answers = await asyncio.gather(*(handler(command) for command in commands))

    assert [answer.replayed for answer in answers].count(False) == 1
    assert len({answer.verification_id for answer in answers}) == 1
    assert len(stage.shelves.records) == 3


async def test_fifty_at_once_are_notified_once() -> None:
    stage = Stage(Scene(distance=0.55))
    commands = [await stage.keep(request_id=f"req-{number}") for number in range(50)]
    handler = stage.handler

    await asyncio.gather(*(handler(command) for command in commands))

    assert len(stage.announcer.events) == 3
    assert len(stage.shelves.audit[ACME]) == 2


async def test_fifty_different_ones_at_once_are_fifty_verifications() -> None:
    stage = Stage()
    commands = [
        await stage.keep(
            verification_id=VerificationId(derive_id("ver", str(number))), **other_evidence(str(number))
        )
        for number in range(50)
    ]
    handler = stage.handler

    answers = await asyncio.gather(*(handler(command) for command in commands))

    assert not any(answer.replayed for answer in answers)
    assert len({answer.verification_id for answer in answers}) == 50


async def test_another_tenants_memory_answers_nothing() -> None:
    stage = Stage()
    await stage.submit()

    decided = await stage.submit(tenant_id=GLOBEX, request_id="req-2")

    assert not decided.replayed
