"""State of the movements of an attempt: drawn, judged, skipped, and how they ended; pure (P12-P15)."""

import hashlib
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from itertools import pairwise, product
from typing import Final

from schemas.enums import CheckKind, EvidenceKind
from schemas.ids import ChallengeId, EvidenceId, SessionId, derive_id
from schemas.movements import (
    AcceptedFrame,
    Challenge,
    FrameHint,
    Movement,
    Movements,
    MovementsOutcome,
    MovementsResult,
    SaidOfFrame,
)
from schemas.problems import ProblemCode, Refused
from schemas.sessions import AddFrame, CaptureSource, DrawChallenge, StoredSession
from streams.aggregate import key_reused
from streams.sessions import rules
from streams.sessions.image_rules import FrameVerdict
from streams.sessions.notices import require_consent

STEPS: Final = 3
MOST_DRAWINGS: Final = 5
"""Challenges of one attempt."""
MOST_FRAMES: Final = 90
"""Frames of one challenge."""
TIME: Final = timedelta(seconds=60)

ORDERS: Final[tuple[tuple[Movement, ...], ...]] = tuple(
    order
    for order in product(Movement, repeat=STEPS)
    if {Movement.LEFT, Movement.RIGHT} <= set(order)
    and all(one != next_one for one, next_one in pairwise(order))
)
"""LEFT and RIGHT are always among them, and no two alike follow one another."""

Choose = Callable[[Sequence[tuple[Movement, ...]]], tuple[Movement, ...]]
"""Draw one of several at random, such as `secrets.choice`."""


def are_asked_for(stored: StoredSession) -> bool:
    """Return whether the session's flow asks for movements."""
    needed = rules.NEEDS[stored.session.flow_type]
    return CheckKind.LIVENESS in stored.configuration.required_checks and EvidenceKind.SELFIE in needed


def are_settled(stored: StoredSession) -> bool:
    """Return whether nothing more is asked of the person; a selfie that was uploaded needs no movements."""
    if stored.movements is not None and stored.movements.is_settled:
        return True
    return stored.selfie is not None and stored.selfie.source is CaptureSource.UPLOAD


def drawn_before(stored: StoredSession, command: DrawChallenge) -> Challenge | None:
    """Return the newest challenge if a command with the same key drew it.

    Raises:
        Refused: IDEMPOTENCY_KEY_REUSED: that one asked for another time.
    """
    challenge = stored.movements.challenge if stored.movements is not None else None
    if challenge is None or challenge.challenge_id != command.challenge_id:
        return None
    if challenge.expires_at - challenge.drawn_at != time_of(command):
        raise key_reused()
    return challenge


def time_of(command: DrawChallenge) -> timedelta:
    """Return how long the person has for all movements."""
    return 2 * TIME if command.double_time else TIME


def require_drawing(stored: StoredSession) -> None:
    """Raise unless movements can be drawn.

    Raises:
        Refused: SESSION_FINISHED, CONSENT_REQUIRED, VALIDATION_FAILED, CHALLENGE_OVER.
    """
    require_movements(stored)
    if stored.selfie is None:
        raise Refused.because(ProblemCode.VALIDATION_FAILED, "There is no selfie yet.")
    if stored.selfie.source is not CaptureSource.CAMERA:
        message = "The selfie was uploaded; movements need one of the camera (Capture-Source: CAMERA)."
        raise Refused.because(ProblemCode.VALIDATION_FAILED, message)
    movements = stored.movements or Movements()
    if movements.is_settled or movements.drawings >= MOST_DRAWINGS:
        raise over()


def require_movements(stored: StoredSession) -> None:
    """Raise unless the session is open and its flow asks for movements.

    Raises:
        Refused: SESSION_FINISHED, CONSENT_REQUIRED, VALIDATION_FAILED.
    """
    rules.require_open(stored)
    require_consent(stored)
    if not are_asked_for(stored):
        raise Refused.because(ProblemCode.VALIDATION_FAILED, "The flow asks for no movements.")


def drawn(stored: StoredSession, command: DrawChallenge, now: datetime, choose: Choose) -> StoredSession:
    """Return the session with new movements; those drawn before are void, but for the same key's.

    Raises:
        Refused: As `require_drawing`, SESSION_FINISHED for another attempt's, IDEMPOTENCY_KEY_REUSED.
    """
    if drawn_before(stored, command):
        return stored
    require_drawing(stored)
    require_attempt(stored, command.attempt)
    before = stored.movements or Movements()
    number = before.drawings + 1
    parts = (command.tenant_id, command.session_id, str(command.attempt), str(number))
    challenge = Challenge(
        challenge_id=command.challenge_id or ChallengeId(derive_id("chl", *parts)),
        movements=choose(ORDERS),
        drawn_at=now,
        expires_at=now + time_of(command),
    )
    after = before.model_copy(update={"drawings": number, "challenge": challenge})
    return rules.moved(stored.model_copy(update={"movements": after}), now)


def require_frame(stored: StoredSession, step: int, now: datetime) -> Challenge:
    """Return the challenge that takes a frame for a step.

    Raises:
        Refused: SESSION_FINISHED, CONSENT_REQUIRED, VALIDATION_FAILED, or CHALLENGE_OVER for a step out of
            order, too late, or one frame too many.
    """
    require_movements(stored)
    movements = stored.movements or Movements()
    challenge = movements.challenge
    if challenge is None or movements.is_settled or challenge.step != step:
        raise over()
    if now >= challenge.expires_at or challenge.frames >= MOST_FRAMES:
        raise over()
    return challenge


def judged(
    stored: StoredSession,
    command: AddFrame,
    verdict: FrameVerdict,
    measures: tuple[float, float],
    digest: str,
    now: datetime,
) -> StoredSession:
    """Return the session with a judged frame; `measures` are its distance and the detector's score.

    A frame that was judged before is not accepted, in whichever challenge that was.
    """
    before = stored.movements or Movements()
    challenge = require_frame(stored, command.step, now)
    keyed = keyed_digest(command.session_id, digest)
    hint = verdict.hint
    if hint is None and keyed in before.seen:
        hint = FrameHint.TRY_AGAIN
    said = SaidOfFrame(evidence_id=command.evidence_id, accepted=hint is None, hint=hint)
    tries = challenge.tries + 1
    changes: dict[str, object] = {"frames": challenge.frames + 1, "tries": tries, "said": said}
    if hint is None:
        frame = AcceptedFrame(
            movement=challenge.movements[challenge.step - 1],
            evidence_id=command.evidence_id,
            accepted_at=now,
            tries=tries,
            turn=verdict.turn,
            drop=verdict.drop,
            distance=measures[0],
            score=measures[1],
        )
        changes |= {"tries": 0, "accepted": (*challenge.accepted, frame)}
    after = before.model_copy(
        update={
            "challenge": challenge.model_copy(update=changes),
            "seen": tuple(dict.fromkeys((*before.seen, keyed))),
            "someone_else": before.someone_else or verdict.someone_else,
        }
    )
    return rules.moved(stored.model_copy(update={"movements": after}), now)


def skipped(stored: StoredSession, attempt: int, now: datetime) -> StoredSession:
    """Return the session without further movements; once they are settled it is unchanged.

    Raises:
        Refused: SESSION_FINISHED, CONSENT_REQUIRED, VALIDATION_FAILED.
    """
    require_movements(stored)
    require_attempt(stored, attempt)
    before = stored.movements or Movements()
    if before.is_settled:
        return stored
    after = before.model_copy(update={"skipped": True})
    return rules.moved(stored.model_copy(update={"movements": after}), now)


def require_attempt(stored: StoredSession, attempt: int) -> None:
    """Raise for a command of another attempt.

    Raises:
        Refused: SESSION_FINISHED.
    """
    if attempt != rules.attempt_of(stored):
        raise rules.finished()


def result_of(stored: StoredSession) -> MovementsResult | None:
    """Return the result for the verification; None where the flow asks for no movements."""
    if not are_asked_for(stored):
        return None
    movements = stored.movements or Movements()
    return MovementsResult(
        outcome=_outcome(movements), drawings=movements.drawings, challenge=movements.challenge
    )


def _outcome(movements: Movements) -> MovementsOutcome:
    if movements.someone_else:
        return MovementsOutcome.SOMEONE_ELSE
    if movements.challenge is not None and movements.challenge.is_done:
        return MovementsOutcome.PASSED
    return MovementsOutcome.NOT_TRIED if movements == Movements() else MovementsOutcome.GIVEN_UP


def frames_of(stored: StoredSession) -> set[EvidenceId]:
    """Return the stored frames that the session refers to."""
    challenge = stored.movements.challenge if stored.movements is not None else None
    return {frame.evidence_id for frame in challenge.accepted} if challenge is not None else set()


def keyed_digest(session_id: SessionId, digest: str) -> str:
    """Return what is remembered of a frame: nothing outside the session can be found by it."""
    return hashlib.sha256(f"{session_id}|{digest}".encode()).hexdigest()[:16]


def over() -> Refused:
    """Return the refusal of a frame or a drawing that comes too late or out of order."""
    return Refused.because(
        ProblemCode.CHALLENGE_OVER, "These movements are over, or another one is asked for."
    )
