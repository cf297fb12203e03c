import math
from dataclasses import replace
from typing import Any

import pytest

from schemas.enums import CheckKind, CheckVerdict, DecisionOutcome, RiskLevel, VerificationStatus
from schemas.ids import SubjectId
from schemas.problems import ProblemCode, Refused, StoreUnavailable
from schemas.reasons import ReasonCode
from streams.verification.policy import VerificationPolicy
from tests.handlers.verification_stage import Breaking, Scene, Stage, Trouble, check_of

EVERYTHING = VerificationPolicy(required_checks=(*VerificationPolicy().required_checks, CheckKind.LIVENESS))
IMPATIENT = EVERYTHING.model_copy(update={"engine_deadline_s": 0.05, "reading_deadline_s": 0.05})
ENGINE_CALLS = ("find on document", "find on selfie", "embed", "sharpness", "read", "encode", "liveness")
STORE_CALLS = (
    ("records", "get"),
    ("vault", "open"),
    ("evidence", "get"),
    ("evidence", "put"),
    ("vault", "seal"),
    ("journal", "commit"),
)


def break_port(stage: Stage, port: str, method: str, *, after: bool = False) -> None:
    broken: Any = Breaking(getattr(stage.stores, port), method, StoreUnavailable(method), after=after)
    stage.stores = replace(stage.stores, **{port: broken})


@pytest.mark.parametrize("trouble", [Trouble.BROKEN, Trouble.HANGING])
@pytest.mark.parametrize("call", ["decode", *ENGINE_CALLS])
async def test_an_engine_in_trouble_holds_and_never_approves(call: str, trouble: Trouble) -> None:
    policy = IMPATIENT if trouble is Trouble.HANGING else EVERYTHING
    stage = Stage(Scene(trouble={call: trouble}), policy)

    await stage.submit()

    verification = (await stage.stored()).verification
    assert (verification.status, verification.decision) == (
        VerificationStatus.FAILED,
        DecisionOutcome.HOLD,
    )
    assert ReasonCode.PROVIDER_UNAVAILABLE in {reason.code for reason in verification.reasons}


@pytest.mark.parametrize("distance", [math.nan, math.inf, -1.0])
async def test_a_distance_that_is_nonsense_holds(distance: float) -> None:
    stage = Stage(Scene(distance=distance))

    await stage.submit()

    verification = (await stage.stored()).verification
    assert verification.status is VerificationStatus.FAILED
    assert verification.distance is None


async def test_a_liveness_score_that_is_nonsense_holds() -> None:
    stage = Stage(Scene(liveness=math.nan), EVERYTHING)

    await stage.submit()

    stored = await stage.stored()
    assert check_of(stored, CheckKind.LIVENESS).verdict is CheckVerdict.BROKEN


async def test_a_broken_reader_leaves_the_face_match_standing() -> None:
    stage = Stage(Scene(trouble={"read": Trouble.BROKEN}))

    await stage.submit()

    stored = await stage.stored()
    assert check_of(stored, CheckKind.FACE_MATCH).verdict is CheckVerdict.PASSED
    assert check_of(stored, CheckKind.DOCUMENT_CONSISTENCY).verdict is CheckVerdict.BROKEN


async def test_a_broken_face_engine_does_not_blame_the_document() -> None:
    stage = Stage(Scene(trouble={"find on document": Trouble.BROKEN}))

    await stage.submit()

    stored = await stage.stored()
    assert check_of(stored, CheckKind.DOCUMENT_EXTRACTION).verdict is CheckVerdict.PASSED


async def test_what_the_service_could_not_decide_is_no_high_risk() -> None:
    stage = Stage(Scene(trouble={"read": Trouble.BROKEN}))

    await stage.submit()

    assert (await stage.stored()).verification.risk_level is RiskLevel.MEDIUM


@pytest.mark.parametrize("call", ["decode", *ENGINE_CALLS])
async def test_an_engine_without_room_refuses_the_command(call: str) -> None:
    stage = Stage(Scene(trouble={call: Trouble.FULL}), EVERYTHING)

    with pytest.raises(Refused) as refused:
        await stage.submit()

    assert refused.value.refusal.code is ProblemCode.OVERLOADED
    assert stage.shelves.records == {}


async def test_a_command_refused_for_want_of_room_succeeds_when_it_is_sent_again() -> None:
    stage = Stage(Scene(trouble={"read": Trouble.FULL}))
    with pytest.raises(Refused):
        await stage.submit()
    stage.scene.trouble.clear()

    decided = await stage.submit(request_id="req-2")

    assert not decided.replayed


@pytest.mark.parametrize(("port", "method"), STORE_CALLS)
async def test_a_store_that_is_away_decides_nothing(port: str, method: str) -> None:
    stage = Stage()
    command = await stage.keep()
    break_port(stage, port, method)

    with pytest.raises(StoreUnavailable):
        await stage.handler(command)

    assert stage.shelves.records == {}
    assert stage.announcer.events == []


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize(("port", "method"), STORE_CALLS)
async def test_the_command_given_again_after_an_outage_is_decided_once(
    *, port: str, method: str, after: bool
) -> None:
    stage = Stage(Scene(distance=0.55))
    command = await stage.keep()
    break_port(stage, port, method, after=after)
    with pytest.raises(StoreUnavailable):
        await stage.handler(command)

    decided = await stage.handler(command)

    assert not decided.replayed
    assert len(stage.shelves.records) == 3
    assert {event.id for event in stage.announcer.events} == set(stage.shelves.events)


async def test_an_outage_while_refusing_refuses_when_it_is_over() -> None:
    stage = Stage(Scene(selfie_faces=()))
    command = await stage.keep()
    break_port(stage, "evidence", "discard")
    with pytest.raises(StoreUnavailable):
        await stage.handler(command)

    with pytest.raises(Refused) as refused:
        await stage.handler(command)

    assert refused.value.refusal.code is ProblemCode.IMAGE_NOT_EVALUABLE
    assert stage.evidence_ids() == set()


async def test_a_log_that_is_away_does_not_undo_the_decision() -> None:
    stage = Stage()
    stage.announcer = Breaking(stage.announcer, "announce", StoreUnavailable("log"))

    decided = await stage.submit()

    assert not decided.replayed
    assert len(await stage.stores.journal.pending_events(10)) == 2


async def test_engine_trouble_does_not_touch_the_sandbox() -> None:
    trouble = dict.fromkeys(ENGINE_CALLS, Trouble.BROKEN)
    stage = Stage(Scene(trouble=trouble))

    await stage.submit(subject_id=SubjectId("sim:approved"), livemode=False)

    assert (await stage.stored()).verification.status is VerificationStatus.APPROVED
