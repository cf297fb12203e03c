"""Movements of the head that a person is asked to make, and what becomes of them (G77, P12-P16)."""

from schemas.base import Frozen, Timestamp
from schemas.enums import TextEnum
from schemas.ids import ChallengeId, EvidenceId


class Movement(TextEnum):
    """A movement of the head, from the person's own view."""

    LEFT = "LEFT"
    RIGHT = "RIGHT"
    UP = "UP"


class FrameHint(TextEnum):
    """What to do after a frame that was not accepted; it never says whether it is the same person."""

    TURN_MORE = "TURN_MORE"
    TOO_FAR = "TOO_FAR"
    OTHER_WAY = "OTHER_WAY"
    LOOK_STRAIGHT = "LOOK_STRAIGHT"
    NO_FACE = "NO_FACE"
    SEVERAL_FACES = "SEVERAL_FACES"
    COME_CLOSER = "COME_CLOSER"
    MORE_LIGHT = "MORE_LIGHT"
    HOLD_STILL = "HOLD_STILL"
    TRY_AGAIN = "TRY_AGAIN"


class MovementsOutcome(TextEnum):
    """How the movements of an attempt ended."""

    PASSED = "PASSED"
    """All of one challenge were accepted in time."""
    SOMEONE_ELSE = "SOMEONE_ELSE"
    """A frame showed another person than the selfie."""
    GIVEN_UP = "GIVEN_UP"
    """They were begun or skipped, and not finished."""
    NOT_TRIED = "NOT_TRIED"
    """The selfie was no picture of the camera, or nothing was asked for."""


class AcceptedFrame(Frozen):
    """A frame that shows a movement, stored as evidence, with its measures."""

    movement: Movement
    evidence_id: EvidenceId
    accepted_at: Timestamp
    tries: int
    """Frames sent for this movement, with this one."""
    turn: float
    """Against the selfie, in distances of the eyes; positive: to the person's left."""
    drop: float
    """The nose below the eyes, as a share of the selfie's."""
    distance: float
    """Of the face from the selfie's, in the engine's own metric."""
    score: float
    """The detector's."""


class SaidOfFrame(Frozen):
    """The verdict on the last frame, for the page."""

    evidence_id: EvidenceId
    accepted: bool
    hint: FrameHint | None = None


class Challenge(Frozen):
    """Movements drawn for one attempt, and those accepted so far, in order."""

    challenge_id: ChallengeId
    movements: tuple[Movement, ...]
    drawn_at: Timestamp
    expires_at: Timestamp
    frames: int = 0
    """Frames judged in all."""
    tries: int = 0
    """Frames judged for the movement that is asked for now."""
    accepted: tuple[AcceptedFrame, ...] = ()
    said: SaidOfFrame | None = None

    @property
    def is_done(self) -> bool:
        """Whether every movement was accepted."""
        return len(self.accepted) == len(self.movements)

    @property
    def step(self) -> int:
        """The number of the movement that is asked for, from 1; the last one when all are done."""
        return min(len(self.accepted) + 1, len(self.movements))


class Movements(Frozen):
    """The challenges of an attempt; the newest alone counts."""

    drawings: int = 0
    challenge: Challenge | None = None
    seen: tuple[str, ...] = ()
    """Keyed digests of the frames judged, of earlier challenges too."""
    someone_else: bool = False
    skipped: bool = False

    @property
    def is_settled(self) -> bool:
        """Whether nothing more is asked for."""
        return self.skipped or (self.challenge is not None and self.challenge.is_done)

    def voided(self) -> "Movements":
        """Return them without those that were measured against another selfie."""
        return self.model_copy(update={"challenge": None, "someone_else": False})


class MovementsResult(Frozen):
    """How the movements of a session's attempt ended, for its verification."""

    outcome: MovementsOutcome
    drawings: int = 0
    challenge: Challenge | None = None
