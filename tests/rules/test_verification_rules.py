import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.enums import (
    CheckKind,
    CheckVerdict,
    DecisionOutcome,
    Recommendation,
    ReviewStatus,
    RiskLevel,
    VerificationStatus,
)
from schemas.reason_catalogue import CATALOGUE
from schemas.reasons import VERDICT_OF, ReasonCode, Severity
from schemas.verifications import CheckResult, codes_of
from streams.verification.policy import FaceBands, LivenessBands, VerificationPolicy
from streams.verification.rules import (
    Match,
    decide,
    explain,
    found,
    is_number,
    liveness_findings,
    match,
    model_version,
    recommend,
    risk_level,
    risk_terms,
    summarise,
    to_reasons,
    usual,
)
from tests.builders import build_result

POLICY = VerificationPolicy()
BANDS = FaceBands(accept_at=0.5, reject_above=0.6)
GOOD_ENOUGH = {CheckVerdict.PASSED, CheckVerdict.WARNED}

codes = st.lists(st.sampled_from(ReasonCode), unique=True, max_size=6)
results = st.lists(
    st.builds(
        found,
        st.sampled_from(CheckKind),
        st.lists(st.tuples(st.sampled_from(ReasonCode), st.sampled_from(CheckVerdict)), max_size=3),
    ),
    max_size=8,
)


def passed_but(kind: CheckKind, verdict: CheckVerdict, *reasons: ReasonCode) -> list[CheckResult]:
    others = [build_result(other) for other in POLICY.required_checks if other is not kind]
    return [*others, build_result(kind, verdict=verdict, reasons=reasons)]


def test_all_checks_passed_is_approved_and_allowed_without_a_reason() -> None:
    judgement = decide(POLICY, [build_result(kind) for kind in POLICY.required_checks])

    assert (judgement.status, judgement.outcome) == (VerificationStatus.APPROVED, DecisionOutcome.ALLOW)
    assert judgement.reasons == ()
    assert judgement.risk_level is RiskLevel.LOW


@pytest.mark.parametrize(
    ("verdict", "status", "outcome"),
    [
        (CheckVerdict.WARNED, VerificationStatus.APPROVED, DecisionOutcome.WARN),
        (CheckVerdict.NOT_EVALUATED, VerificationStatus.REVIEW_REQUIRED, DecisionOutcome.REVIEW_REQUIRED),
        (CheckVerdict.UNCLEAR, VerificationStatus.REVIEW_REQUIRED, DecisionOutcome.REVIEW_REQUIRED),
        (CheckVerdict.FAILED, VerificationStatus.REJECTED, DecisionOutcome.BLOCK),
        (CheckVerdict.BROKEN, VerificationStatus.FAILED, DecisionOutcome.HOLD),
    ],
)
def test_the_worst_verdict_decides(
    verdict: CheckVerdict, status: VerificationStatus, outcome: DecisionOutcome
) -> None:
    judgement = decide(POLICY, passed_but(CheckKind.FACE_MATCH, verdict, ReasonCode.FACE_MATCH_UNCERTAIN))

    assert (judgement.status, judgement.outcome) == (status, outcome)


def test_a_broken_check_holds_even_beside_a_final_reason() -> None:
    results = passed_but(CheckKind.FACE_MATCH, CheckVerdict.BROKEN, ReasonCode.PROVIDER_UNAVAILABLE)
    expired = build_result(
        CheckKind.DOCUMENT_CONSISTENCY, verdict=CheckVerdict.FAILED, reasons=(ReasonCode.DOCUMENT_EXPIRED,)
    )

    judgement = decide(POLICY, [*results, expired])

    assert judgement.outcome is DecisionOutcome.HOLD


def test_nothing_evaluated_is_never_approved() -> None:
    assert decide(POLICY, []).outcome is DecisionOutcome.HOLD


@given(results)
def test_a_required_check_that_did_not_pass_is_never_approved(results: list[CheckResult]) -> None:
    judgement = decide(POLICY, results)

    verdicts = {result.kind: result.verdict for result in results if result.verdict not in GOOD_ENOUGH}
    missing = set(POLICY.required_checks) - {result.kind for result in results}
    if verdicts or missing:
        assert judgement.status is not VerificationStatus.APPROVED
    else:
        assert judgement.status is VerificationStatus.APPROVED


@given(results)
def test_a_review_is_pending_with_a_recommendation_or_neither(results: list[CheckResult]) -> None:
    judgement = decide(POLICY, results)

    pending = judgement.review_status is ReviewStatus.PENDING
    assert pending == (judgement.status is VerificationStatus.REVIEW_REQUIRED)
    assert pending == (judgement.recommendation is not None)


@given(results)
def test_a_decision_has_the_reasons_of_every_check_once(results: list[CheckResult]) -> None:
    reasons = explain(results)

    assert set(reasons) == {code for result in results for code in result.reasons}
    assert len(reasons) == len(set(reasons))


@given(results)
def test_the_order_of_the_checks_does_not_change_the_decision(results: list[CheckResult]) -> None:
    one, other = decide(POLICY, results), decide(POLICY, results[::-1])

    assert (one.status, one.outcome, one.risk_points) == (other.status, other.outcome, other.risk_points)
    assert set(one.reasons) == set(other.reasons)


@given(codes, codes)
def test_another_reason_never_lowers_the_risk(some: list[ReasonCode], more: list[ReasonCode]) -> None:
    everything = list(dict.fromkeys([*some, *more]))
    few = sum(term.points for term in risk_terms(POLICY, some))
    many = sum(term.points for term in risk_terms(POLICY, everything))

    order = list(RiskLevel)
    assert many >= few
    assert order.index(risk_level(everything, many)) >= order.index(risk_level(some, few))


@pytest.mark.parametrize(
    ("points", "level"),
    [
        (0, RiskLevel.LOW),
        (19, RiskLevel.LOW),
        (20, RiskLevel.MEDIUM),
        (49, RiskLevel.MEDIUM),
        (50, RiskLevel.HIGH),
        (79, RiskLevel.HIGH),
        (80, RiskLevel.CRITICAL),
        (500, RiskLevel.CRITICAL),
    ],
)
def test_the_risk_level_follows_the_published_bands(points: int, level: RiskLevel) -> None:
    assert risk_level([], points) is level


def test_a_sanctions_match_is_critical_whatever_the_points_say() -> None:
    assert risk_level([ReasonCode.SANCTIONS_MATCH], 0) is RiskLevel.CRITICAL


@given(codes)
def test_every_reason_brings_the_points_of_its_severity(reasons: list[ReasonCode]) -> None:
    terms = risk_terms(POLICY, reasons)

    assert [(term.code, term.points) for term in terms] == [
        (code, POLICY.points[CATALOGUE[code].severity]) for code in reasons
    ]


@pytest.mark.parametrize(
    ("reasons", "advice"),
    [
        ([ReasonCode.FACE_MATCH_UNCERTAIN], Recommendation.APPROVED),
        ([ReasonCode.QR_MISMATCH], Recommendation.REJECTED),
        ([ReasonCode.EXTRACTION_INCOMPLETE], Recommendation.REJECTED),
        ([ReasonCode.FACE_NOT_FOUND_DOCUMENT], Recommendation.REJECTED),
        ([ReasonCode.NUMBER_MISMATCH], Recommendation.REJECTED),
        ([ReasonCode.DECLARED_FIELD_MISMATCH], Recommendation.REJECTED),
        ([ReasonCode.MRZ_VISUAL_MISMATCH], Recommendation.REJECTED),
        ([ReasonCode.MRZ_CHECK_DIGIT_FAILED], Recommendation.REJECTED),
        ([ReasonCode.PORTRAIT_TAMPERING_SUSPECTED], Recommendation.REJECTED),
        ([ReasonCode.DUPLICATE_SUBJECT], Recommendation.REJECTED),
        ([ReasonCode.SANCTIONS_POSSIBLE_MATCH], Recommendation.REJECTED),
        (
            [
                ReasonCode.FACE_MATCH_UNCERTAIN,
                ReasonCode.LIVENESS_UNCERTAIN,
                ReasonCode.IMAGE_CROPPED,
                ReasonCode.MULTIPLE_FACES,
            ],
            Recommendation.APPROVED,
        ),
        (
            [
                ReasonCode.FACE_MATCH_UNCERTAIN,
                ReasonCode.NUMBER_MISMATCH,
                ReasonCode.DECLARED_FIELD_MISMATCH,
            ],
            Recommendation.REJECTED,
        ),
    ],
)
def test_the_machine_recommends_by_what_it_knows(reasons: list[ReasonCode], advice: Recommendation) -> None:
    assert recommend(reasons) is advice


@pytest.mark.parametrize(
    ("distance", "band"),
    [
        (0.0, Match.SAME),
        (0.5, Match.SAME),
        (0.500001, Match.UNCERTAIN),
        (0.6, Match.UNCERTAIN),
        (0.600001, Match.DIFFERENT),
        (math.inf, Match.DIFFERENT),
    ],
)
def test_a_distance_falls_into_its_band(distance: float, band: Match) -> None:
    assert match(distance, BANDS) is band


def test_a_distance_that_is_no_number_is_never_the_same_person() -> None:
    assert match(math.nan, BANDS) is not Match.SAME


@given(st.floats())
def test_only_a_finite_number_from_zero_up_counts(value: float) -> None:
    assert is_number(value) == (math.isfinite(value) and value >= 0)


@pytest.mark.parametrize(
    ("score", "reasons"),
    [
        (1.0, ()),
        (0.8, ()),
        (0.79, (ReasonCode.LIVENESS_UNCERTAIN,)),
        (0.4, (ReasonCode.LIVENESS_UNCERTAIN,)),
        (0.39, (ReasonCode.LIVENESS_FAILED,)),
        (math.nan, (ReasonCode.LIVENESS_UNCERTAIN,)),
    ],
)
def test_a_liveness_score_falls_into_its_band(score: float, reasons: tuple[ReasonCode, ...]) -> None:
    findings = liveness_findings(score, LivenessBands(pass_at=0.8, fail_below=0.4))

    assert tuple(code for code, _ in findings) == reasons


@given(st.sampled_from(CheckKind), codes)
def test_a_check_is_as_bad_as_its_worst_finding(kind: CheckKind, reasons: list[ReasonCode]) -> None:
    result = found(kind, usual(*reasons))

    order = list(CheckVerdict)
    worst = max((VERDICT_OF[code] for code in reasons), key=order.index, default=CheckVerdict.PASSED)
    assert result.verdict is worst


def test_the_model_version_names_the_thresholds_it_was_read_against() -> None:
    version = model_version("dlib-resnet-v1@55533b28", VerificationPolicy(revision=7))

    assert version == "dlib-resnet-v1@55533b28+thr.7"


def test_a_reason_is_reported_in_the_words_for_the_subject() -> None:
    (reason,) = to_reasons([ReasonCode.SANCTIONS_MATCH])

    assert reason.message == CATALOGUE[ReasonCode.SANCTIONS_MATCH].subject_message
    assert "sanction" not in reason.message.lower()


def test_the_severities_weigh_more_and_more() -> None:
    assert sorted(Severity, key=lambda severity: POLICY.points[severity]) == list(Severity)


def test_r7_a_reason_stands_once_for_each_declared_field_it_is_about() -> None:
    codes = (ReasonCode.IMAGE_BLURRED, ReasonCode.NUMBER_MISMATCH, ReasonCode.DECLARED_FIELD_MISMATCH)
    pointers = ("/document/number_last4", "/document/expires_at", "/document/extracted_fields/surname")

    result = to_reasons(codes, pointers)

    assert [(reason.code, reason.pointer) for reason in result] == [
        (ReasonCode.IMAGE_BLURRED, None),
        (ReasonCode.NUMBER_MISMATCH, "/document/number_last4"),
        (ReasonCode.DECLARED_FIELD_MISMATCH, "/document/expires_at"),
        (ReasonCode.DECLARED_FIELD_MISMATCH, "/document/extracted_fields/surname"),
    ]
    assert codes_of(result) == codes


@pytest.mark.parametrize("verdict", CheckVerdict)
def test_r7_every_verdict_is_reported_in_one_of_four_words(verdict: CheckVerdict) -> None:
    (summary,) = summarise([build_result(verdict=verdict)])

    expected = {CheckVerdict.WARNED: "PASSED", CheckVerdict.BROKEN: "NOT_EVALUATED"}.get(
        verdict, verdict.value
    )
    assert (summary.kind, summary.verdict) == (CheckKind.FACE_MATCH, expected)
