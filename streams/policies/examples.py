"""Run the tests inside a policy: evaluate the rules over given values and merge by G40's maximum; pure."""

from collections.abc import Iterator, Sequence
from typing import Final

from schemas.enums import DecisionOutcome
from schemas.policies import RuleMode, RuleOutcome, RuleResult
from schemas.policy_documents import Check, PolicyDocument, PolicyTest
from schemas.policy_fields import WALLET_CHECK_FIELD
from schemas.transactions import OUTCOME_CLASS
from streams.policies.compiling import compile_policy

GRAVITY: Final = {outcome: place for place, outcome in enumerate(OUTCOME_CLASS)}
"""The rank of each outcome when outcomes are merged (G40)."""


def failure_of(document: PolicyDocument, test: PolicyTest) -> str | None:
    """Return what a test came to instead of what it expects, or None when it passes."""
    results = compile_policy(document, 0, "").evaluate(test.fields, test.features, test.lists)
    active = [result for result in results if result.mode is RuleMode.ACTIVE]
    decided = max(_decisions(document, test, active), key=GRAVITY.__getitem__)
    hits = {result.id for result in active if result.result is RuleOutcome.HIT}
    if decided is not test.decision:
        return f"the decision is {decided}, not {test.decision}; {_hit_words(hits)}."
    if test.hits is not None and hits != set(test.hits):
        return f"{_hit_words(hits)}."
    return None


def _hit_words(hits: set[str]) -> str:
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
