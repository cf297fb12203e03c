"""Magic subjects of the sandbox: a test key requests an outcome and gets it without a model (G64, G102).

The images are checked and stored as always; only the results of the models are simulated.
"""

import re
from dataclasses import dataclass
from datetime import date, timedelta
from types import MappingProxyType
from typing import Final, NoReturn

from schemas.enums import CheckKind, CheckVerdict, ExtractionStatus, ReaderClass, TextEnum
from schemas.ids import SubjectId
from schemas.problems import ProblemCode, Refused
from schemas.reason_catalogue import CATALOGUE
from schemas.reasons import ReasonCategory, ReasonCode
from schemas.verifications import CheckResult
from streams.verification.observations import DocumentFindings, Evaluation
from streams.verification.policy import VerificationPolicy
from streams.verification.rules import found

PREFIX: Final = "sim:"
MAX_DELAY_S: Final = 30.0
"""The longest delay of a `slow` scenario; other subjects of its partition wait as long."""

ENGINE_VERSION: Final = "sim@00000000"
"""The name of the simulated engine's weights."""

_DURATION = re.compile(r"(\d{1,5}(?:\.\d{1,3})?)(ms|s)")


class ScenarioName(TextEnum):
    """The name of a scenario."""

    APPROVED = "approved"
    WARN = "warn"
    REVIEW = "review"
    REJECT = "reject"
    FAIL = "fail"
    SLOW = "slow"


@dataclass(frozen=True, slots=True)
class Scenario:
    """A scenario with its reason and delay."""

    name: ScenarioName
    reason: ReasonCode | None = None
    delay_s: float = 0.0


USUAL_REASON: Final = MappingProxyType(
    {
        ScenarioName.WARN: ReasonCode.DOCUMENT_EXPIRING,
        ScenarioName.REVIEW: ReasonCode.FACE_MATCH_UNCERTAIN,
        ScenarioName.REJECT: ReasonCode.DOCUMENT_EXPIRED,
        ScenarioName.FAIL: ReasonCode.PROVIDER_UNAVAILABLE,
    }
)
"""The reason when a subject names none. APPROVED and SLOW have no reason."""

_USUAL_DELAY: Final = "5s"

_VERDICT_OF: Final = {
    ScenarioName.WARN: CheckVerdict.WARNED,
    ScenarioName.REVIEW: CheckVerdict.UNCLEAR,
    ScenarioName.REJECT: CheckVerdict.FAILED,
    ScenarioName.FAIL: CheckVerdict.BROKEN,
}

_CHECK_OF: Final = {
    ReasonCategory.IMAGE: CheckKind.DOCUMENT_EXTRACTION,
    ReasonCategory.DOCUMENT: CheckKind.DOCUMENT_CONSISTENCY,
    ReasonCategory.AUTHENTICITY: CheckKind.AUTHENTICITY,
    ReasonCategory.FACE: CheckKind.FACE_MATCH,
    ReasonCategory.SCREENING: CheckKind.SANCTIONS,
    ReasonCategory.SUBJECT: CheckKind.DOCUMENT_CONSISTENCY,
    ReasonCategory.SYSTEM: CheckKind.FACE_MATCH,
    ReasonCategory.TRANSACTION: CheckKind.SANCTIONS,
    ReasonCategory.WALLET: CheckKind.SANCTIONS,
    ReasonCategory.CONTACT: CheckKind.ADDRESS,
}
"""The check that reports a reason of each category, as in a real evaluation."""


_LIST_CHECK_OF: Final = {
    ReasonCode.PEP_MATCH: CheckKind.PEP,
    ReasonCode.ADVERSE_MEDIA_MATCH: CheckKind.ADVERSE_MEDIA,
}
"""Reasons of SCREENING that another check than SANCTIONS reports."""


def parse_scenario(subject_id: str) -> Scenario | None:
    """Return the scenario of a magic subject, or None for an ordinary subject.

    The form is `sim:<scenario>[:<reason or duration>][@<anything>]`.

    Raises:
        Refused: VALIDATION_FAILED at `/subject_id` for an unknown scenario, reason or duration.
    """
    if not subject_id.startswith(PREFIX):
        return None
    name, colon, argument = subject_id.removeprefix(PREFIX).partition("@")[0].partition(":")
    if name not in set(ScenarioName):
        _refuse("The sandbox knows no such scenario; GET /v1/sandbox/scenarios lists them.")
    scenario = ScenarioName(name)
    if scenario is ScenarioName.SLOW:
        return Scenario(scenario, delay_s=_delay(argument if colon else _USUAL_DELAY))
    return Scenario(scenario, reason=_reason(scenario, argument if colon else None))


def scenario_for(subject_id: SubjectId, *, livemode: bool) -> Scenario | None:
    """Return the scenario of a subject in its mode, or None; live data has no magic subjects.

    Raises:
        Refused: As `parse_scenario`, and for every `sim:` subject of a live key.
    """
    if livemode and subject_id.startswith(PREFIX):
        _refuse("Subjects that begin with sim: are for test keys only.")
    return parse_scenario(subject_id)


def simulate(scenario: Scenario, policy: VerificationPolicy, today: date) -> Evaluation:
    """Return the simulated evaluation of the scenario."""
    return Evaluation(
        results=_results(scenario, policy),
        findings=_specimen(scenario, today),
        distance=_distance(scenario),
        engine_version=ENGINE_VERSION,
    )


def _results(scenario: Scenario, policy: VerificationPolicy) -> tuple[CheckResult, ...]:
    """Return the results: all required checks pass, but the one that reports the scenario's reason."""
    results = {kind: found(kind, ()) for kind in policy.required_checks}
    if scenario.reason is not None:
        kind = _LIST_CHECK_OF.get(scenario.reason) or _CHECK_OF[CATALOGUE[scenario.reason].category]
        finding = (scenario.reason, _VERDICT_OF[scenario.name])
        results[kind] = found(kind, (finding,), detail="The sandbox was asked for this reason.")
    return tuple(results.values())


def _specimen(scenario: Scenario, today: date) -> DocumentFindings:
    """Return the reading of a fictional document of the state UTO (G75)."""
    days = {ReasonCode.DOCUMENT_EXPIRED: -30, ReasonCode.DOCUMENT_EXPIRING: 14}
    expiry = today + timedelta(days=1_800 if scenario.reason is None else days.get(scenario.reason, 1_800))
    incomplete = scenario.reason is ReasonCode.EXTRACTION_INCOMPLETE
    fields = {
        "surname": "SPECIMEN",
        "given_names": "SIM",
        "full_name": "SIM SPECIMEN",
        "date_of_birth": "1990-01-01",
        "nationality": "UTO",
        "issuing_state": "UTO",
        "expiry_date": expiry.isoformat(),
    }
    return DocumentFindings(
        status=ExtractionStatus.PARTIAL if incomplete else ExtractionStatus.EXTRACTED,
        reader=ReaderClass.TD3_MRZ,
        fields=fields,
        confidence=dict.fromkeys(fields, 1.0),
        number="SIM001234",
    )


def _distance(scenario: Scenario) -> float | None:
    """Return a face distance that fits the scenario, on the scale of the default engine."""
    if scenario.name is ScenarioName.FAIL or scenario.reason is ReasonCode.FACE_NOT_FOUND_DOCUMENT:
        return None
    stories = {ReasonCode.FACE_MISMATCH: 0.85, ReasonCode.FACE_MATCH_UNCERTAIN: 0.55}
    return 0.31 if scenario.reason is None else stories.get(scenario.reason, 0.31)


def _reason(scenario: ScenarioName, argument: str | None) -> ReasonCode | None:
    if argument is None:
        return USUAL_REASON.get(scenario)
    if scenario not in USUAL_REASON:
        _refuse(f"The scenario {scenario} takes no reason.")
    if argument not in set(ReasonCode):
        _refuse("The sandbox knows no such reason; GET /v1/reason-codes lists them.")
    return ReasonCode(argument)


def _delay(argument: str) -> float:
    form = _DURATION.fullmatch(argument)
    delay_s = float(form[1]) / (1_000 if form[2] == "ms" else 1) if form else 0.0
    if not 0 < delay_s <= MAX_DELAY_S:
        _refuse(f"A duration is a number with ms or s, above 0 and at most {MAX_DELAY_S:g} s.")
    return delay_s


def _refuse(message: str) -> NoReturn:
    raise Refused.at("/subject_id", ProblemCode.VALIDATION_FAILED, message)
