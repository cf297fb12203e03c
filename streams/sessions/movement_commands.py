"""Execute the commands about movements: draw them, and judge their frames against the selfie."""

from datetime import datetime
from typing import Final

from schemas.ids import TenantId
from schemas.movements import FrameHint
from schemas.problems import ProblemCode, Refused
from schemas.reasons import ReasonCode
from schemas.sessions import AddCapture, AddFrame, DrawChallenge, SkipMovements, StoredSession
from streams.sessions import movements
from streams.sessions.captured_faces import CapturedFaces, SelfieFace
from streams.sessions.image_rules import FrameVerdict, Thresholds, is_straight, judge_frame
from streams.verification.sandbox import scenario_for
from streams.vision_ports import Pose

_NOT_JUDGED: Final = FrameVerdict(FrameHint.TRY_AGAIN)
_SIMULATED: Final = FrameVerdict(None)


class MovementCommands:
    """Draw movements and judge their frames; a sandbox subject's are accepted without a model (G64)."""

    def __init__(self, faces: CapturedFaces | None, choose: movements.Choose) -> None:
        """Judge with `faces`; without them no movements are drawn."""
        self._faces = faces
        self._choose = choose

    async def reasons(self, stored: StoredSession, command: AddCapture) -> tuple[ReasonCode, ...]:
        """Return what is wrong with the faces of a selfie, as far as it is known at once (P9)."""
        if self._faces is None or _is_simulated(stored):
            return ()
        return await self._faces.reasons(command.tenant_id, command.evidence_id)

    async def __call__(
        self, stored: StoredSession, command: DrawChallenge | AddFrame | SkipMovements, now: datetime
    ) -> StoredSession:
        """Return the session after a command about its movements.

        Raises:
            Refused: CHALLENGE_OVER, VALIDATION_FAILED, IMAGE_NOT_EVALUABLE, SESSION_FINISHED,
                CONSENT_REQUIRED, OVERLOADED.
        """
        match command:
            case DrawChallenge():
                return await self._drawn(stored, command, now)
            case AddFrame():
                return await self._judged(stored, command, now)
            case SkipMovements():
                return movements.skipped(stored, command.attempt, now)

    async def _drawn(self, stored: StoredSession, command: DrawChallenge, now: datetime) -> StoredSession:
        """Return the session with new movements.

        Raises:
            Refused: As `movements.drawn`; VALIDATION_FAILED when the selfie shows no single face that looks
                straight ahead, CHALLENGE_OVER when nothing here can judge movements.
        """
        if movements.drawn_before(stored, command):
            return stored
        movements.require_drawing(stored)
        if not _is_simulated(stored):
            await self._measured(stored, command.tenant_id)
        return movements.drawn(stored, command, now, self._choose)

    async def _judged(self, stored: StoredSession, command: AddFrame, now: datetime) -> StoredSession:
        """Return the session with a judged frame; it counts as sent when it came in.

        Raises:
            Refused: As `movements.require_frame`; IMAGE_NOT_EVALUABLE.
        """
        challenge = movements.require_frame(stored, command.step, now)
        movements.require_attempt(stored, command.attempt)
        if challenge.challenge_id != command.challenge_id:
            raise movements.over()
        if _is_simulated(stored):
            return movements.judged(stored, command, _SIMULATED, (0.0, 1.0), command.evidence_id, now)
        faces, (selfie, pose, limits) = self._faces, await self._measured(stored, command.tenant_id)
        frame = await faces.frame(command.tenant_id, command.evidence_id, selfie) if faces else None
        if frame is None:
            return movements.judged(stored, command, _NOT_JUDGED, (0.0, 0.0), command.evidence_id, now)
        asked = challenge.movements[challenge.step - 1]
        verdict = judge_frame(frame.seen, pose, asked, limits)
        if frame.digest == selfie.digest and verdict.hint is None:
            verdict = _NOT_JUDGED
        measures = (frame.seen.distance, frame.seen.score)
        return movements.judged(stored, command, verdict, measures, frame.digest, now)

    async def _measured(
        self, stored: StoredSession, tenant_id: TenantId
    ) -> tuple[SelfieFace, Pose, Thresholds]:
        """Return the face that movements are measured against, and the thresholds."""
        limits = self._faces.thresholds if self._faces is not None else None
        if self._faces is None or limits is None or stored.selfie is None:
            raise movements.over()
        selfie = await self._faces.selfie(tenant_id, stored.selfie.evidence_id)
        if selfie is None:
            raise Refused.because(ProblemCode.OVERLOADED, "The selfie could not be measured now; try again.")
        pose = selfie.pose
        if pose is None or selfie.seen.several_alike or not is_straight(pose.turn, limits.movement):
            message = "The selfie must show one face that looks straight ahead; take another one."
            raise Refused.because(ProblemCode.VALIDATION_FAILED, message)
        return selfie, pose, limits


def _is_simulated(stored: StoredSession) -> bool:
    row = stored.session
    return scenario_for(row.subject_id, livemode=row.livemode) is not None
