"""Run the tests inside a policy: evaluate the rules over given values and merge by G40's maximum; pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from schemas.enums import DecisionOutcome
from schemas.policies import RuleMode, RuleOutcome, RuleResult
from schemas.policy_documents import Check, PolicyDocument, PolicyTest
from schemas.policy_fields import WALLET_CHECK_FIELD
from schemas.transactions import OUTCOME_CLASS
from streams.policies.compiling import compile_policy

GRAVITY: Final = {outcome: place for place, outcome in enumerate(OUTCOME_CLASS)}
"""The rank of each outcome when outcomes are merged (G40)."""


@dataclass(frozen=True, slots=True)
class ExampleResult:
    """What a test came to."""

    decision: DecisionOutcome
    hits: frozenset[str]
    """The active rules that hit."""


def decide_test(document: PolicyDocument, test: PolicyTest) -> ExampleResult:
    """Return what the values of a test come to: checks, rules and score, merged by their maximum."""
    results = compile_policy(document, 0, "").evaluate(test.fields, test.features, test.lists)
    active = [result for result in results if result.mode is RuleMode.ACTIVE]
    decided = max(_decisions(document, test, active), key=GRAVITY.__getitem__)
    hits = frozenset(result.id for result in active if result.result is RuleOutcome.HIT)
    return ExampleResult(decided, hits)


def failure_of(document: PolicyDocument, test: PolicyTest) -> str | None:
    """Return what a test came to instead of what it expects, or None when it passes."""
    came_to = decide_test(document, test)
    if came_to.decision is not test.decision:
        return f"the decision is {came_to.decision}, not {test.decision}; {_hit_words(came_to.hits)}."
    if test.hits is not None and came_to.hits != set(test.hits):
        return f"{_hit_words(came_to.hits)}."
    return None


def _hit_words(hits: frozenset[str]) -> str:
    return f"these rules hit: {', '.join(sorted(hits))}" if hits else "no rule hits"


def _decisions(
    document: PolicyDocument, test: PolicyTest, results: Sequence[RuleResult]
) -> Iterator[DecisionOutcome]:
    yield DecisionOutcome.ALLOW
    for check in document.checks:
        for target in check.targets:
            yield _of_check(check, test.fields.get(f"checks.{check.check}.{target}"))
    listed = test.fields.get("wallet.sanctioned") or test.fields.get(WALLET_CHECK_FIELD) == "MATCH"
    yield DecisionOutcome.BLOCK if listed else DecisionOutcome.ALLOW
    for result in results:
        yield result.decision or DecisionOutcome.ALLOW
        yield DecisionOutcome.HOLD if result.result is RuleOutcome.ERROR else DecisionOutcome.ALLOW
    score = sum(result.score for result in results)
    yield from (outcome for outcome, points in document.score.items() if score >= points)


def _of_check(check: Check, result: object) -> DecisionOutcome:
    decided = {"MATCH": check.on_match, "POSSIBLE": check.on_possible, "ERROR": check.on_error}
    return decided.get(str(result)) or DecisionOutcome.ALLOW
