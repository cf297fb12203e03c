"""Decide from check results: the most severe verdict, the risk sum, the review; pure."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from schemas.enums import (
    CheckKind,
    CheckVerdict,
    DecisionOutcome,
    Recommendation,
    ReviewStatus,
    RiskLevel,
    ShownVerdict,
    TextEnum,
    VerificationStatus,
)
from schemas.reason_catalogue import CATALOGUE
from schemas.reasons import VERDICT_OF, ReasonCode, Severity
from schemas.verifications import CheckResult, CheckSummary, Reason, RiskTerm
from streams.verification.declared_values import code_at
from streams.verification.policy import FaceBands, LivenessBands, VerificationPolicy

SEVERITY: Final = tuple(CheckVerdict)
"""Verdicts from the least to the most severe; the enum is in this order."""

STATUS_OF: Final[Mapping[CheckVerdict, VerificationStatus]] = MappingProxyType(
    {
        CheckVerdict.PASSED: VerificationStatus.APPROVED,
        CheckVerdict.WARNED: VerificationStatus.APPROVED,
        CheckVerdict.NOT_EVALUATED: VerificationStatus.REVIEW_REQUIRED,
        CheckVerdict.UNCLEAR: VerificationStatus.REVIEW_REQUIRED,
        CheckVerdict.FAILED: VerificationStatus.REJECTED,
        CheckVerdict.BROKEN: VerificationStatus.FAILED,
    }
)
"""The status for each most severe verdict (G15, G70)."""

OUTCOME_OF: Final[Mapping[CheckVerdict, DecisionOutcome]] = MappingProxyType(
    {
        CheckVerdict.PASSED: DecisionOutcome.ALLOW,
        CheckVerdict.WARNED: DecisionOutcome.WARN,
        CheckVerdict.NOT_EVALUATED: DecisionOutcome.REVIEW_REQUIRED,
        CheckVerdict.UNCLEAR: DecisionOutcome.REVIEW_REQUIRED,
        CheckVerdict.FAILED: DecisionOutcome.BLOCK,
        CheckVerdict.BROKEN: DecisionOutcome.HOLD,
    }
)
"""The decision outcome of each status (G15)."""

RISK_FROM: Final = (
    (80, RiskLevel.CRITICAL),
    (50, RiskLevel.HIGH),
    (20, RiskLevel.MEDIUM),
    (0, RiskLevel.LOW),
)
"""The least points of each level (G16)."""

CONTRADICTIONS: Final = frozenset(
    {
        ReasonCode.NUMBER_MISMATCH,
        ReasonCode.DECLARED_FIELD_MISMATCH,
        ReasonCode.MRZ_VISUAL_MISMATCH,
        ReasonCode.MRZ_CHECK_DIGIT_FAILED,
    }
    | {code for code, entry in CATALOGUE.items() if entry.severity in {Severity.HIGH, Severity.CRITICAL}}
)
"""Reasons that two sources disagree, or as severe, such as suspected tampering (R9)."""

SHOWN_AS: Final[Mapping[CheckVerdict, ShownVerdict]] = MappingProxyType(
    {
        CheckVerdict.PASSED: ShownVerdict.PASSED,
        CheckVerdict.WARNED: ShownVerdict.PASSED,
        CheckVerdict.NOT_EVALUATED: ShownVerdict.NOT_EVALUATED,
        CheckVerdict.UNCLEAR: ShownVerdict.UNCLEAR,
        CheckVerdict.FAILED: ShownVerdict.FAILED,
        CheckVerdict.BROKEN: ShownVerdict.NOT_EVALUATED,
    }
)
"""The verdict shown to tenants: a broken check evaluated nothing, a warning has passed (R7)."""

NOTHING_KNOWN: Final = frozenset(
    {
        ReasonCode.EXTRACTION_INCOMPLETE,
        ReasonCode.DOCUMENT_NOT_FOUND,
        ReasonCode.FACE_NOT_FOUND_DOCUMENT,
        ReasonCode.FACE_NOT_FOUND_SELFIE,
        ReasonCode.MODEL_UNAVAILABLE,
    }
)
"""Reasons that something needed was not seen; without it nothing is recommended."""

Finding = tuple[ReasonCode, CheckVerdict]
"""A reason of a check and its verdict."""


class Match(TextEnum):
    """The band of a face distance (G14)."""

    SAME = "SAME"
    UNCERTAIN = "UNCERTAIN"
    DIFFERENT = "DIFFERENT"


@dataclass(frozen=True, slots=True)
class Judgement:
    """The decision and its explanation."""

    status: VerificationStatus
    outcome: DecisionOutcome
    reasons: tuple[ReasonCode, ...]
    risk_level: RiskLevel
    risk_points: int
    risk_terms: tuple[RiskTerm, ...]
    review_status: ReviewStatus
    recommendation: Recommendation | None
    """Only with REVIEW_REQUIRED (G26)."""


def most_severe(verdicts: Iterable[CheckVerdict]) -> CheckVerdict:
    """Return the most severe verdict, or NOT_EVALUATED of none."""
    return max(set(verdicts) or {CheckVerdict.NOT_EVALUATED}, key=SEVERITY.index)


def usual(*codes: ReasonCode) -> tuple[Finding, ...]:
    """Return each reason with the verdict the catalogue gives it."""
    return tuple((code, VERDICT_OF[code]) for code in codes)


def found(
    kind: CheckKind, findings: Sequence[Finding], *, score: float | None = None, detail: str = ""
) -> CheckResult:
    """Return the result of a check: passed without findings, else the most severe verdict of them."""
    verdict = most_severe(verdict for _, verdict in findings) if findings else CheckVerdict.PASSED
    codes = tuple(dict.fromkeys(code for code, _ in findings))
    return CheckResult(kind=kind, verdict=verdict, reasons=codes, score=score, detail=detail)


def broken(kind: CheckKind) -> CheckResult:
    """Return the result of a check whose engine broke or timed out (G70)."""
    return found(kind, usual(ReasonCode.PROVIDER_UNAVAILABLE), detail="An engine broke or ran out of time.")


def match(distance: float, bands: FaceBands) -> Match:
    """Return the band of a distance; NaN is never the same person."""
    if distance <= bands.accept_at:
        return Match.SAME
    return Match.DIFFERENT if distance > bands.reject_above else Match.UNCERTAIN


def liveness_findings(score: float, bands: LivenessBands) -> tuple[Finding, ...]:
    """Return the finding for a liveness score, or None; NaN is uncertain."""
    if score >= bands.pass_at:
        return ()
    failed = score < bands.fail_below
    return usual(ReasonCode.LIVENESS_FAILED if failed else ReasonCode.LIVENESS_UNCERTAIN)


def is_number(value: float) -> bool:
    """Return whether an engine's result is a finite number."""
    return math.isfinite(value) and value >= 0


def model_version(engine_version: str, policy: VerificationPolicy) -> str:
    """Return the engine, its weights and the thresholds behind a distance as text (G14)."""
    return f"{engine_version}+thr.{policy.revision}"


def decide(policy: VerificationPolicy, results: Sequence[CheckResult]) -> Judgement:
    """Decide by the most severe verdict; a required check without a result counts as broken."""
    present = {result.kind for result in results}
    missing = [broken(kind) for kind in policy.required_checks if kind not in present]
    everything = [*results, *missing]
    verdict = most_severe(result.verdict for result in everything)
    reasons = explain(everything)
    terms = risk_terms(policy, reasons)
    points = sum(term.points for term in terms)
    status = STATUS_OF[verdict]
    in_review = status is VerificationStatus.REVIEW_REQUIRED
    return Judgement(
        status=status,
        outcome=OUTCOME_OF[verdict],
        reasons=reasons,
        risk_level=risk_level(reasons, points),
        risk_points=points,
        risk_terms=terms,
        review_status=ReviewStatus.PENDING if in_review else ReviewStatus.NOT_REQUIRED,
        recommendation=recommend(reasons) if in_review else None,
    )


def explain(results: Sequence[CheckResult]) -> tuple[ReasonCode, ...]:
    """Return each reason once, those of the most severe checks first."""
    by_severity = sorted(results, key=lambda result: SEVERITY.index(result.verdict), reverse=True)
    return tuple(dict.fromkeys(code for result in by_severity for code in result.reasons))


def risk_terms(policy: VerificationPolicy, reasons: Sequence[ReasonCode]) -> tuple[RiskTerm, ...]:
    """Return the points of each reason by its severity, the terms of the risk sum (G16)."""
    return tuple(RiskTerm(code=code, points=policy.points[CATALOGUE[code].severity]) for code in reasons)


def risk_level(reasons: Sequence[ReasonCode], points: int) -> RiskLevel:
    """Return the level of a sum; a CRITICAL reason, such as a sanctions match, is CRITICAL by itself."""
    if any(CATALOGUE[code].severity is Severity.CRITICAL for code in reasons):
        return RiskLevel.CRITICAL
    return next(level for least, level in RISK_FROM if points >= least)


def recommend(reasons: Sequence[ReasonCode]) -> Recommendation:
    """Return the recommendation for a verification in review (G26, R9).

    APPROVED only when all reasons are uncertain readings or measurements; however
    many there are, they do not add up to a contradiction.
    """
    if (CONTRADICTIONS | NOTHING_KNOWN).intersection(reasons):
        return Recommendation.REJECTED
    return Recommendation.APPROVED


def to_reasons(reasons: Sequence[ReasonCode], pointers: Sequence[str] = ()) -> tuple[Reason, ...]:
    """Return the reasons with messages that are safe for the subject (G12), one for each pointer (R7)."""
    about: dict[ReasonCode, list[str]] = {}
    for pointer in pointers:
        about.setdefault(code_at(pointer), []).append(pointer)
    return tuple(
        Reason(code=code, message=CATALOGUE[code].subject_message, pointer=pointer)
        for code in reasons
        for pointer in about.get(code) or (None,)
    )


def summarise(results: Sequence[CheckResult]) -> tuple[CheckSummary, ...]:
    """Return the summary of each check for the tenant (R7)."""
    return tuple(CheckSummary(kind=one.kind, verdict=SHOWN_AS[one.verdict]) for one in results)
