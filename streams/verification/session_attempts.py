"""Rules for verifications that are attempts of a session: checks and retries; pure.

The images came from the person, not the tenant: images that cannot be evaluated are requested again while
attempts remain, and are reviewed at the last one (G34).
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final

from schemas.enums import CheckKind, CheckVerdict, FlowType, ReaderClass
from schemas.problems import ProblemCode, Refusal, Refused
from schemas.reason_catalogue import CATALOGUE
from schemas.reasons import VERDICT_OF, ReasonCategory, ReasonCode
from schemas.sessions import RecordOutcome
from schemas.verifications import CheckResult, SubmitVerification
from streams.audit.rows import NOBODY
from streams.verification.change import DOCUMENT_TYPE_OF
from streams.verification.checks import SELFIE_POINTER
from streams.verification.observations import Evaluation
from streams.verification.policy import VerificationPolicy
from streams.verification.reuse import SPECIMENS
from streams.verification.rules import Finding, found, most_severe, usual

CARRIES_ISSUER: Final = (
    CheckKind.DOCUMENT_CONSISTENCY,
    CheckKind.AUTHENTICITY,
    CheckKind.DOCUMENT_EXTRACTION,
    CheckKind.FACE_MATCH,
    CheckKind.LIVENESS,
    CheckKind.SANCTIONS,
    CheckKind.PEP,
    CheckKind.ADVERSE_MEDIA,
)
"""The check that reports a document that is not accepted: the first of these that was run."""

_ALPHA_2: Final = 2


class TakeAgain(Refused):
    """The attempt is not decided, because better images are needed."""

    def __init__(self, reasons: tuple[ReasonCode, ...]) -> None:
        detail = "The images must be taken again."
        super().__init__(Refusal(code=ProblemCode.IMAGE_NOT_EVALUABLE, detail=detail))
        self.reasons = reasons


def to_take_again(command: SubmitVerification, results: Sequence[CheckResult]) -> tuple[ReasonCode, ...]:
    """Return the reasons to capture the images again; empty when that cannot help or attempts are used up."""
    final = {CheckVerdict.FAILED, CheckVerdict.BROKEN}
    if not command.may_retry or any(result.verdict in final for result in results):
        return ()
    return tuple(dict.fromkeys(_retryable(results)))


def _retryable(results: Sequence[CheckResult]) -> Iterator[ReasonCode]:
    for result in results:
        if result.verdict is CheckVerdict.UNCLEAR:
            for code in result.reasons:
                entry = CATALOGUE[code]
                if entry.retryable and entry.category is ReasonCategory.IMAGE:
                    yield code


def reasons_of(refused: Refused) -> tuple[ReasonCode, ...]:
    """Return the reasons of a refusal of images, by default that nothing was found on them."""
    if isinstance(refused, TakeAgain):
        return refused.reasons
    pointers = dict.fromkeys(error.pointer for error in refused.refusal.errors)
    return tuple(
        ReasonCode.FACE_NOT_FOUND_SELFIE if pointer == SELFIE_POINTER else ReasonCode.DOCUMENT_NOT_FOUND
        for pointer in pointers
    )


def unevaluable(policy: VerificationPolicy, refused: Refused) -> Evaluation:
    """Return the evaluation of unusable images at the last attempt, which needs a review."""
    findings = usual(*reasons_of(refused))
    exhausted: Finding = (ReasonCode.ATTEMPTS_EXHAUSTED, CheckVerdict.UNCLEAR)
    detail = "Nothing was found on the images of the last attempt."
    results = tuple(found(kind, (*findings, exhausted), detail=detail) for kind in policy.required_checks)
    return Evaluation(results=results, findings=None)


def fitted(command: SubmitVerification, simulated: Evaluation) -> Evaluation:
    """Return a simulated evaluation without results for images the flow type does not have."""
    match command.flow_type:
        case FlowType.BIOMETRIC:
            return replace(simulated, findings=None)
        case FlowType.DOCUMENT:
            return replace(simulated, distance=None)
        case _:
            return simulated


def accepted_only(command: SubmitVerification, evaluation: Evaluation) -> Evaluation:
    """Return the evaluation with a finding for a document that the mode or flow does not accept (R1)."""
    finding = _specimen(command, evaluation) or _not_accepted(command, evaluation)
    if finding is None:
        return evaluation
    kinds = [result.kind for result in evaluation.results]
    carrier = next(kind for kind in CARRIES_ISSUER if kind in kinds)
    results = tuple(
        _with(result, finding) if result.kind is carrier else result for result in evaluation.results
    )
    return replace(evaluation, results=results)


def _specimen(command: SubmitVerification, evaluation: Evaluation) -> Finding | None:
    """Return a finding for a document of the fictional issuer in live mode."""
    read = evaluation.findings
    if not command.livemode or read is None or read.fields.get("issuing_state") != SPECIMENS:
        return None
    code = ReasonCode.COUNTRY_NOT_ACCEPTED
    return code, VERDICT_OF[code] if read.digits_hold else CheckVerdict.UNCLEAR


def _not_accepted(command: SubmitVerification, evaluation: Evaluation) -> Finding | None:
    """Return a finding for a document the flow does not name; in test mode a specimen fits any country."""
    read = evaluation.findings
    if not command.accepted_documents or read is None or read.reader is None:
        return None
    shown = DOCUMENT_TYPE_OF[read.reader]
    of_type = [one for one in command.accepted_documents if one.document_type is shown]
    if not of_type:
        return ReasonCode.DOCUMENT_TYPE_NOT_ACCEPTED, VERDICT_OF[ReasonCode.DOCUMENT_TYPE_NOT_ACCEPTED]
    issuer = read.fields.get("issuing_state")
    if read.reader is not ReaderClass.TD3_MRZ or not isinstance(issuer, str) or issuer == SPECIMENS:
        return None
    if issuer in {one.country for one in of_type}:
        return None
    certain = len(issuer) == _ALPHA_2 and read.digits_hold
    verdict = VERDICT_OF[ReasonCode.COUNTRY_NOT_ACCEPTED] if certain else CheckVerdict.UNCLEAR
    return ReasonCode.COUNTRY_NOT_ACCEPTED, verdict


def _with(result: CheckResult, finding: Finding) -> CheckResult:
    code, verdict = finding
    update = {"verdict": most_severe((result.verdict, verdict)), "reasons": (*result.reasons, code)}
    return result.model_copy(update=update)


def outcome_of(
    command: SubmitVerification, now: datetime, *, retry: bool, reasons: Sequence[ReasonCode]
) -> RecordOutcome | None:
    """Return the command that records the outcome in the session, or None without a session."""
    if command.session_id is None:
        return None
    return RecordOutcome(
        tenant_id=command.tenant_id,
        session_id=command.session_id,
        actor=NOBODY,
        requested_at=now,
        attempt=command.attempt,
        retry=retry,
        retry_reasons=tuple(reasons),
    )
