import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.enums import DecisionOutcome, ExtractionStatus, VerificationStatus
from schemas.ids import SubjectId
from schemas.problems import ProblemCode, Refused
from schemas.reasons import ReasonCode
from streams.verification.policy import VerificationPolicy
from streams.verification.rules import decide
from streams.verification.sandbox import Scenario, ScenarioName, parse_scenario, scenario_for, simulate
from tests.builders import TODAY

POLICY = VerificationPolicy()


def outcome_of(subject_id: str) -> tuple[VerificationStatus, DecisionOutcome]:
    scenario = parse_scenario(subject_id)
    assert scenario is not None
    judgement = decide(POLICY, simulate(scenario, POLICY, TODAY).results)
    return judgement.status, judgement.outcome


@pytest.mark.parametrize("subject_id", ["customer-17", "simon", "SIM:approved", "a:sim:approved", "sim"])
def test_an_ordinary_subject_asks_for_nothing(subject_id: str) -> None:
    assert parse_scenario(subject_id) is None


@pytest.mark.parametrize(
    ("subject_id", "scenario"),
    [
        ("sim:approved", Scenario(ScenarioName.APPROVED)),
        ("sim:approved@user-17", Scenario(ScenarioName.APPROVED)),
        ("sim:approved@a:b@c", Scenario(ScenarioName.APPROVED)),
        ("sim:warn", Scenario(ScenarioName.WARN, ReasonCode.DOCUMENT_EXPIRING)),
        ("sim:warn:IMAGE_BLURRED", Scenario(ScenarioName.WARN, ReasonCode.IMAGE_BLURRED)),
        (
            "sim:review:FACE_MATCH_UNCERTAIN@x",
            Scenario(ScenarioName.REVIEW, ReasonCode.FACE_MATCH_UNCERTAIN),
        ),
        ("sim:reject:DOCUMENT_EXPIRED", Scenario(ScenarioName.REJECT, ReasonCode.DOCUMENT_EXPIRED)),
        ("sim:fail:PROVIDER_UNAVAILABLE", Scenario(ScenarioName.FAIL, ReasonCode.PROVIDER_UNAVAILABLE)),
        ("sim:slow", Scenario(ScenarioName.SLOW, delay_s=5.0)),
        ("sim:slow:5s", Scenario(ScenarioName.SLOW, delay_s=5.0)),
        ("sim:slow:250ms@x", Scenario(ScenarioName.SLOW, delay_s=0.25)),
        ("sim:slow:1.5s", Scenario(ScenarioName.SLOW, delay_s=1.5)),
        ("sim:slow:30s", Scenario(ScenarioName.SLOW, delay_s=30.0)),
    ],
)
def test_a_magic_subject_asks_for_its_scenario(subject_id: str, scenario: Scenario) -> None:
    assert parse_scenario(subject_id) == scenario


@pytest.mark.parametrize(
    "subject_id",
    [
        "sim:",
        "sim:@x",
        "sim:perfect",
        "sim:Approved",
        "sim:approved:DOCUMENT_EXPIRED",
        "sim:approved:",
        "sim:review:",
        "sim:review:NO_SUCH_REASON",
        "sim:review:face_match_uncertain",
        "sim:reject:DOCUMENT_EXPIRED:again",
        "sim:slow:",
        "sim:slow:5",
        "sim:slow:0s",
        "sim:slow:31s",
        "sim:slow:-1s",
        "sim:slow:5m",
        "sim:slow:99999999999s",
    ],
)
def test_an_unknown_scenario_is_refused_at_the_subject(subject_id: str) -> None:
    with pytest.raises(Refused) as refused:
        parse_scenario(subject_id)

    (problem,) = refused.value.refusal.errors
    assert (problem.code, problem.pointer) == (ProblemCode.VALIDATION_FAILED, "/subject_id")


@given(st.from_regex(r"[A-Za-z0-9._:@-]{0,120}", fullmatch=True))
def test_any_subject_is_either_understood_or_refused(rest: str) -> None:
    try:
        understood = parse_scenario("sim:" + rest) is not None
    except Refused:
        understood = True

    assert understood


@pytest.mark.parametrize("subject_id", ["sim:approved", "sim:nonsense", "sim:"])
def test_a_live_key_knows_no_magic_subjects(subject_id: str) -> None:
    with pytest.raises(Refused, match="test keys only"):
        scenario_for(SubjectId(subject_id), livemode=True)


def test_a_test_key_gets_its_scenario() -> None:
    scenario = scenario_for(SubjectId("sim:approved"), livemode=False)

    assert scenario == Scenario(ScenarioName.APPROVED)


@pytest.mark.parametrize(
    ("subject_id", "status", "outcome"),
    [
        ("sim:approved", VerificationStatus.APPROVED, DecisionOutcome.ALLOW),
        ("sim:slow:1s", VerificationStatus.APPROVED, DecisionOutcome.ALLOW),
        ("sim:warn", VerificationStatus.APPROVED, DecisionOutcome.WARN),
        ("sim:review", VerificationStatus.REVIEW_REQUIRED, DecisionOutcome.REVIEW_REQUIRED),
        ("sim:reject", VerificationStatus.REJECTED, DecisionOutcome.BLOCK),
        ("sim:fail", VerificationStatus.FAILED, DecisionOutcome.HOLD),
    ],
)
def test_a_scenario_comes_about(
    subject_id: str, status: VerificationStatus, outcome: DecisionOutcome
) -> None:
    assert outcome_of(subject_id) == (status, outcome)


@pytest.mark.parametrize("reason", ReasonCode)
@pytest.mark.parametrize("name", ["warn", "review", "reject", "fail"])
def test_any_reason_may_follow_a_scenario(name: str, reason: ReasonCode) -> None:
    scenario = parse_scenario(f"sim:{name}:{reason}")
    assert scenario is not None

    judgement = decide(POLICY, simulate(scenario, POLICY, TODAY).results)

    assert judgement.reasons == (reason,)
    assert outcome_of(f"sim:{name}") == (judgement.status, judgement.outcome)


def test_a_simulated_document_belongs_to_nobody() -> None:
    personal = simulate(Scenario(ScenarioName.APPROVED), POLICY, TODAY).personal

    assert (personal.extracted_fields["surname"], personal.issuing_country) == ("SPECIMEN", "UTO")


def test_a_simulated_incomplete_reading_looks_incomplete() -> None:
    scenario = Scenario(ScenarioName.REVIEW, ReasonCode.EXTRACTION_INCOMPLETE)

    findings = simulate(scenario, POLICY, TODAY).findings

    assert findings is not None
    assert findings.status is ExtractionStatus.PARTIAL
