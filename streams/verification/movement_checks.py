"""Join how the movements of a session ended to its LIVENESS check; pure (P8, P15)."""

from dataclasses import replace
from types import MappingProxyType
from typing import Final

from schemas.enums import CheckKind, CheckVerdict, EvidenceKind
from schemas.ids import EvidenceId
from schemas.movements import MovementsOutcome, MovementsResult
from schemas.reasons import VERDICT_OF, ReasonCode
from schemas.verifications import CheckResult, SubmitVerification
from streams.verification.observations import Evaluation
from streams.verification.rules import Finding, found, most_severe

_FINDINGS: Final = MappingProxyType[MovementsOutcome, tuple[Finding, ...]](
    {
        MovementsOutcome.PASSED: (),
        MovementsOutcome.SOMEONE_ELSE: (
            (ReasonCode.LIVENESS_FAILED, VERDICT_OF[ReasonCode.LIVENESS_FAILED]),
        ),
        MovementsOutcome.GIVEN_UP: ((ReasonCode.LIVENESS_UNCERTAIN, CheckVerdict.UNCLEAR),),
        MovementsOutcome.NOT_TRIED: ((ReasonCode.LIVENESS_UNCERTAIN, CheckVerdict.NOT_EVALUATED),),
    }
)

_DETAILS: Final = MappingProxyType(
    {
        MovementsOutcome.PASSED: "All movements were made in time by the person of the selfie.",
        MovementsOutcome.SOMEONE_ELSE: "A frame of the movements shows another person than the selfie.",
        MovementsOutcome.GIVEN_UP: "The movements were skipped or not finished.",
        MovementsOutcome.NOT_TRIED: "No movements were made, as after a selfie that was uploaded.",
    }
)


def with_movements(evaluation: Evaluation, movements: MovementsResult | None) -> Evaluation:
    """Return the evaluation whose LIVENESS has the movements; where none were asked for it is unchanged."""
    if movements is None:
        return evaluation
    results = tuple(
        _joined(result, movements.outcome) if result.kind is CheckKind.LIVENESS else result
        for result in evaluation.results
    )
    return replace(evaluation, results=results)


def trace_made(command: SubmitVerification) -> tuple[EvidenceKind, ...]:
    """Return the kind of the movements' trace, where frames were judged (P16)."""
    challenge = command.movements.challenge if command.movements is not None else None
    return (EvidenceKind.LIVENESS_TRACE,) if challenge is not None and challenge.frames else ()


def frames_of(command: SubmitVerification) -> tuple[EvidenceId, ...]:
    """Return the accepted frames of the movements."""
    challenge = command.movements.challenge if command.movements is not None else None
    return tuple(frame.evidence_id for frame in challenge.accepted) if challenge is not None else ()


def _joined(passive: CheckResult, outcome: MovementsOutcome) -> CheckResult:
    """Return the result of both kinds of liveness; without an engine that of the movements alone."""
    own = found(CheckKind.LIVENESS, _FINDINGS[outcome], detail=_DETAILS[outcome])
    if passive.reasons == (ReasonCode.MODEL_UNAVAILABLE,):
        return own
    return passive.model_copy(
        update={
            "verdict": most_severe((passive.verdict, own.verdict)),
            "reasons": tuple(dict.fromkeys((*passive.reasons, *own.reasons))),
            "detail": f"{passive.detail} {own.detail}".strip(),
        }
    )
