"""Movements of a session judged by the real engine, from the selfie to the decision."""

from collections.abc import Sequence
from datetime import timedelta
from functools import cache
from typing import Any

import numpy as np
import pytest
from typing_extensions import override

from app.vision.faces.engine import build_face_engine
from schemas.enums import CheckKind, EvidenceKind, SessionStatus
from schemas.ids import EvidenceId, derive_id
from schemas.movements import FrameHint, Movement, SaidOfFrame
from schemas.problems import Refused
from schemas.reasons import ReasonCode
from schemas.sessions import AddCapture, AddFrame, CaptureSource, DrawChallenge, SkipMovements
from schemas.verifications import CheckResult
from streams.sessions import rules
from streams.sessions.captured_faces import CapturedFaces
from streams.sessions.handler import ChangeSession
from streams.sessions.movement_commands import MovementCommands
from streams.verification.engines import Engines
from streams.verification.policy import VerificationPolicy
from streams.vision_ports import Picture
from tests.bench.reuse_stage import RealDecoder, RealFaces
from tests.builders import ACME, build_evidence_draft
from tests.handlers.session_stage import SESSION, SessionStage
from tests.handlers.verification_stage import check_of
from tests.specimens.moving_head import Head
from tests.specimens.photographs import to_jpeg

LEFT, RIGHT, UP = Movement
ORDER = (LEFT, RIGHT, UP)
POSES = {LEFT: (27.0, 0.0), RIGHT: (-28.0, 0.0), UP: (0.0, 12.0)}

HEAD = cache(Head)
FACES = cache(lambda: RealFaces(build_face_engine()))


@cache
def moved(name: str, movement: Movement | None) -> bytes:
    """A frame of a person: straight, or making a movement."""
    picture: Picture = HEAD(name).turned(*POSES[movement]) if movement else HEAD(name).picture
    return to_jpeg(picture.pixels)


class MovingStage(SessionStage):
    """A stage whose sessions look at faces with the real engine; the evaluation has the scene's."""

    def __init__(self) -> None:
        super().__init__(with_liveness=False)
        self.moving = False
        self.orders: list[tuple[Movement, ...]] = []
        unused: Any = None
        engines = Engines(RealDecoder(), unused, unused, FACES())
        faces = CapturedFaces(self.stores.evidence, engines, VerificationPolicy(), patience_s=120)
        self.movements = MovementCommands(faces, self._choose)

    def _choose(self, orders: Sequence[tuple[Movement, ...]]) -> tuple[Movement, ...]:
        self.orders = list(orders)
        return ORDER

    @property
    @override
    def sessions(self) -> ChangeSession:
        """The handler of sessions over what the stage holds now."""
        return ChangeSession(
            self.stores, lambda: self.now, self.memory, self.announcer, self.hand,
            movement_commands=self.movements,
        )  # fmt: skip

    async def begin(self, selfie: bytes) -> None:
        """Open a session, and take the document's picture and a selfie with the camera."""
        await self.publish()
        await self.start()
        await self.capture(EvidenceKind.IMAGE)
        await self.take(selfie)

    async def _stored(self, kind: EvidenceKind, image: bytes) -> EvidenceId:
        run = rules.verification_id(ACME, SESSION, 1)
        evidence_id = EvidenceId(derive_id("evd", run, kind, image.hex()))
        draft = build_evidence_draft(image, evidence_id=evidence_id, kind=kind, verification_id=run)
        await self.stores.evidence.put([draft])
        return evidence_id

    async def take(self, selfie: bytes) -> None:
        """Take a selfie with the camera."""
        kind = EvidenceKind.SELFIE
        evidence_id = await self._stored(kind, selfie)
        await self.give(
            AddCapture(
                **self.common(), attempt=1, what=kind, evidence_id=evidence_id, source=CaptureSource.CAMERA
            )
        )

    async def draw(self) -> None:
        """Draw movements."""
        await self.give(DrawChallenge(**self.common(), attempt=1))

    async def send(self, image: bytes) -> SaidOfFrame:
        """Send a frame for the movement that is asked for."""
        movements = (await self.session()).movements
        assert movements is not None
        assert movements.challenge is not None
        evidence_id = await self._stored(EvidenceKind.LIVENESS_TRACE, image)
        challenge = movements.challenge
        await self.give(
            AddFrame(
                **self.common(), attempt=1, challenge_id=challenge.challenge_id, step=challenge.step,
                evidence_id=evidence_id,
            )
        )  # fmt: skip
        after = (await self.session()).movements
        assert after is not None
        assert after.challenge is not None
        assert after.challenge.said is not None
        return after.challenge.said

    async def liveness(self) -> CheckResult:
        """Submit, evaluate, and return the check."""
        await self.give(await self.submission())
        await self.settle()
        run = rules.verification_id(ACME, SESSION, 1)
        return check_of(await self.stored(run), CheckKind.LIVENESS)


@pytest.fixture
async def stage() -> MovingStage:
    """A session whose person looks straight on the selfie."""
    one = MovingStage()
    await one.begin(moved("astronaut", None))
    return one


async def test_the_persons_movements_pass_liveness_and_are_evidence(stage: MovingStage) -> None:
    await stage.draw()
    straight = await stage.send(moved("astronaut", None))
    said = [await stage.send(moved("astronaut", movement)) for movement in ORDER]
    result = await stage.liveness()

    assert straight.hint is FrameHint.TURN_MORE
    assert [one.accepted for one in said] == [True] * 3
    assert (result.verdict.value, result.reasons) == ("PASSED", ())
    assert (await stage.session()).session.status is SessionStatus.APPROVED
    stored = await stage.stored(rules.verification_id(ACME, SESSION, 1))
    kinds = [one.kind for one in stored.verification.evidence]
    assert kinds.count(EvidenceKind.LIVENESS_TRACE) == 4
    assert {one.id for one in stored.verification.evidence} == stage.evidence_ids()


async def test_another_person_fails_liveness_and_is_not_said_to_be_one(stage: MovingStage) -> None:
    await stage.take(moved("grace hopper", None))
    await stage.draw()
    said = await stage.send(moved("astronaut", LEFT))
    result = await stage.liveness()

    assert said.hint is FrameHint.TRY_AGAIN
    assert result.reasons == (ReasonCode.LIVENESS_FAILED,)
    assert (await stage.session()).session.status is SessionStatus.REJECTED


@pytest.mark.parametrize("way", ["skipped", "begun", "not tried"])
async def test_a_person_who_makes_no_movements_is_looked_at_by_a_person(stage: MovingStage, way: str) -> None:
    if way != "not tried":
        await stage.draw()
    if way == "skipped":
        await stage.give(SkipMovements(**stage.common(), attempt=1))
    result = await stage.liveness()

    assert result.reasons == (ReasonCode.LIVENESS_UNCERTAIN,)
    assert result.verdict.value == ("NOT_EVALUATED" if way == "not tried" else "UNCLEAR")
    assert (await stage.session()).session.status is SessionStatus.REVIEW_REQUIRED


async def test_a_frame_of_an_earlier_challenge_is_not_accepted_and_a_late_one_refused(
    stage: MovingStage,
) -> None:
    await stage.draw()
    first = await stage.send(moved("astronaut", LEFT))
    await stage.draw()
    again = await stage.send(moved("astronaut", LEFT))
    stage.now += timedelta(seconds=61)
    with pytest.raises(Refused) as late:
        await stage.send(moved("astronaut", UP))

    assert (first.accepted, again.hint) == (True, FrameHint.TRY_AGAIN)
    assert late.value.refusal.code == "CHALLENGE_OVER"
    assert not [row for row, _ in stage.shelves.evidence.values() if row.kind == "LIVENESS_TRACE"]


async def test_frames_are_searched_as_the_selfie_stands(stage: MovingStage) -> None:
    def lying(left: float) -> bytes:
        return to_jpeg(np.ascontiguousarray(np.rot90(HEAD("astronaut").turned(left).pixels)))

    await stage.draw()
    beside_upright = await stage.send(lying(27))
    await stage.take(lying(0))
    await stage.draw()
    beside_lying = await stage.send(lying(28))

    assert (beside_upright.accepted, beside_lying.accepted) == (False, True)


@pytest.mark.parametrize("selfie", ["turned", "nobody"])
async def test_movements_are_measured_against_a_straight_face_alone(selfie: str) -> None:
    stage = MovingStage()
    wall = HEAD("astronaut").picture.pixels[:200, :200].repeat(2, 0).repeat(2, 1)
    await stage.begin(moved("astronaut", LEFT) if selfie == "turned" else to_jpeg(wall))

    with pytest.raises(Refused) as refused:
        await stage.draw()

    taken = (await stage.session()).selfie
    assert taken is not None
    assert refused.value.refusal.code == "VALIDATION_FAILED"
    assert taken.reasons == ((ReasonCode.FACE_NOT_FOUND_SELFIE,) if selfie == "nobody" else ())


async def test_there_are_eight_orders_to_draw_from(stage: MovingStage) -> None:
    await stage.draw()

    assert len(set(stage.orders)) == 8
    assert all({LEFT, RIGHT} <= set(order) for order in stage.orders)
    assert all(order[0] != order[1] != order[2] for order in stage.orders)
