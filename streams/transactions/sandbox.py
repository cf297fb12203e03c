"""Magic subjects of the sandbox: a test key requests the decision of a transaction (G64, G102, G132)."""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from schemas.enums import DecisionOutcome
from schemas.ids import SubjectId
from schemas.reasons import ReasonCode
from streams.verification import sandbox
from streams.verification.sandbox import Scenario, ScenarioName

OUTCOME_OF: Final[Mapping[ScenarioName, DecisionOutcome]] = MappingProxyType(
    {
        ScenarioName.APPROVED: DecisionOutcome.ALLOW,
        ScenarioName.SLOW: DecisionOutcome.ALLOW,
        ScenarioName.WARN: DecisionOutcome.WARN,
        ScenarioName.REVIEW: DecisionOutcome.REVIEW_REQUIRED,
        ScenarioName.REJECT: DecisionOutcome.BLOCK,
        ScenarioName.FAIL: DecisionOutcome.HOLD,
    }
)
"""The decision of each scenario."""

_USUAL_REASON: Final = MappingProxyType(
    {
        ScenarioName.WARN: ReasonCode.SCORE_THRESHOLD,
        ScenarioName.REVIEW: ReasonCode.SANCTIONS_POSSIBLE_MATCH,
        ScenarioName.REJECT: ReasonCode.SANCTIONS_MATCH,
        ScenarioName.FAIL: ReasonCode.CHECK_UNAVAILABLE,
    }
)
"""The reason when a subject names none: one that a transaction can have."""


def scenario_for(subject_id: SubjectId, *, livemode: bool) -> Scenario | None:
    """Return the scenario of a subject in its mode, or None; live data has no magic subjects.

    Raises:
        Refused: As `streams.verification.sandbox.scenario_for`.
    """
    scenario = sandbox.scenario_for(subject_id, livemode=livemode)
    if scenario is None or scenario.name not in _USUAL_REASON:
        return scenario
    named = ":" in subject_id.removeprefix(sandbox.PREFIX).partition("@")[0]
    return scenario if named else replace(scenario, reason=_USUAL_REASON[scenario.name])
