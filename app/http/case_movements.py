"""Present the movements of a verification as a strip, each with its frame if there is one; pure (P16)."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from app.http.case_view import Image, image_of
from schemas.enums import EvidenceKind
from schemas.ids import EvidenceId
from schemas.movements import AcceptedFrame, Movement, MovementsOutcome, MovementsResult
from schemas.verifications import Verification


@dataclass(frozen=True, slots=True)
class StripStep:
    """One movement that was asked for, and its frame if one was accepted."""

    movement: Movement
    frame: AcceptedFrame | None
    image: Image | None
    after_s: float
    """Seconds from the drawing to the accepted frame."""


@dataclass(frozen=True, slots=True)
class MovementStrip:
    """How the movements went."""

    outcome: MovementsOutcome | None
    """None once the trace was deleted."""
    drawings: int = 0
    judged: int = 0
    """Frames of the last drawing, with those that were not accepted."""
    steps: tuple[StripStep, ...] = ()


def trace_of(verification: Verification) -> EvidenceId | None:
    """Return the id of the movements' trace, which stands before its frames; None without one."""
    return next((one.id for one in verification.evidence if one.kind is EvidenceKind.LIVENESS_TRACE), None)


def strip_of(verification: Verification, trace: Mapping[str, Any] | None) -> MovementStrip | None:
    """Return the strip of a trace as it is stored, None for a deleted one; None without movements."""
    if trace_of(verification) is None:
        return None
    result = None if trace is None else MovementsResult.model_validate(trace)
    if result is None or result.challenge is None:
        return MovementStrip(None)
    drawn_at, accepted = result.challenge.drawn_at, result.challenge.accepted
    steps = (
        StripStep(
            movement,
            frame,
            None if frame is None else _image(verification, frame.evidence_id),
            0.0 if frame is None else (frame.accepted_at - drawn_at).total_seconds(),
        )
        for movement, frame in zip_longest(result.challenge.movements, accepted)
    )
    return MovementStrip(result.outcome, result.drawings, result.challenge.frames, tuple(steps))


def _image(verification: Verification, evidence_id: EvidenceId) -> Image | None:
    found = (one for one in verification.evidence if one.id == evidence_id)
    return next((image_of(verification, one, seen=False) for one in found), None)
