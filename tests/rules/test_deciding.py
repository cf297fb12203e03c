"""`decide`: the most severe outcome wins, everything is shown, and the same values give the same bytes."""

from decimal import Decimal
from typing import Any, Final

from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.enums import CheckKind, DecisionOutcome, RiskLevel
from schemas.policies import FeatureValue, FieldValue
from schemas.reasons import ReasonCode
from schemas.transaction_decisions import CheckOutcome, ScreenedTarget, ShownCheck
from schemas.transactions import OUTCOME_CLASS, OutcomeClass
from streams.policies.compiling import CompiledPolicy, compile_policy
from streams.policies.loading import load
from streams.transactions.rules import GRAVITY, OPENS_CASE, Decided, SubjectState, decide
from streams.transactions.shown_rules import WrittenInput, shown_rules

RULE_OUTCOMES: Final = (
    "ALLOW",
    "FLAG",
    "WARN",
    "BLOCK_RECOMMENDED",
    "HOLD",
    "REVIEW_REQUIRED",
    "BLOCK",
    "SUSPEND",
)
CHECK: Final = (
    "{check: SANCTIONS, targets: [counterparty, subject], match: 0.85, possible: 0.7, "
    "on_match: BLOCK, on_possible: REVIEW_REQUIRED, on_error: HOLD}"
)


def policy(rules: list[tuple[str, int, str]], score: str = "{}", check: str = CHECK) -> CompiledPolicy:
    """A policy of rules that each compare the amount: decision, least amount, mode."""
    written = ",\n ".join(
        f"{{id: rule_{number}, mode: {mode}, when: {{field: amount, op: GTE, value: '{least}'}}, "
        f"then: {{decision: {decision}, score: 10, "
        f"reason: {{code: POLICY_R{number}, message: '{{amount}}'}}}}}}"
        for number, (decision, least, mode) in enumerate(rules)
    )
    text = f"policy: transactions\nfeatures: []\nchecks: [{check}]\nrules: [{written}]\nscore: {score}\n"
    return compile_policy(load(text.encode()), 1, "0" * 64)


def check(
    result: CheckOutcome, target: ScreenedTarget = ScreenedTarget.COUNTERPARTY, *found: ReasonCode
) -> ShownCheck:
    """What a sanctions check came to."""
    return ShownCheck(check=CheckKind.SANCTIONS, target=target, result=result, findings=found)


def amount(value: str) -> dict[str, FieldValue]:
    """The fields of a payment of that amount."""
    return {"type": "PAYMENT", "amount": Decimal(value)}


def judge(compiled: CompiledPolicy | None, value: str = "50", *checks: ShownCheck, **state: Any) -> Decided:
    """Decide a payment."""
    return decide(compiled, amount(value), {}, checks, SubjectState(**state))


some_rules = st.lists(
    st.tuples(st.sampled_from(RULE_OUTCOMES), st.integers(0, 100), st.sampled_from(["ACTIVE", "SHADOW"])),
    min_size=1,
    max_size=6,
)
some_results = st.lists(st.sampled_from(CheckOutcome), min_size=2, max_size=2)


@settings(max_examples=60, deadline=None)
@given(rules=some_rules, results=some_results, value=st.integers(0, 120), advisory=st.booleans())
def test_the_same_values_give_the_same_bytes_and_the_most_severe_voice_wins(
    rules: list[tuple[str, int, str]],
    results: list[CheckOutcome],
    value: int,
    advisory: bool,  # noqa: FBT001
) -> None:
    checks = [check(one, target) for one, target in zip(results, ScreenedTarget, strict=False)]
    first, again = (judge(policy(rules), str(value), *checks, advisory=advisory) for _ in range(2))
    asked = [rule.decision for rule in first.rules if rule.decision and rule.mode == "ACTIVE"]
    asked += [one.decision for one in first.checks if one.decision]
    severest = max(asked, key=GRAVITY.__getitem__, default=DecisionOutcome.ALLOW)
    stopped = OUTCOME_CLASS[severest] is OutcomeClass.STOP

    assert repr(first) == repr(again)
    assert first.decision is (DecisionOutcome.BLOCK_RECOMMENDED if advisory and stopped else severest)
    assert (first.recommendation is not None) == (first.decision in OPENS_CASE)
    assert (first.hold_for is not None) == (first.decision is DecisionOutcome.HOLD)


@settings(max_examples=40, deadline=None)
@given(rules=some_rules, more=some_rules, value=st.integers(0, 120))
def test_another_rule_never_lowers_an_outcome(
    rules: list[tuple[str, int, str]], more: list[tuple[str, int, str]], value: int
) -> None:
    fewer, all_of_them = (judge(policy(chosen), str(value)) for chosen in (rules, rules + more))

    assert GRAVITY[fewer.decision] <= GRAVITY[all_of_them.decision]
    assert fewer.risk_score <= all_of_them.risk_score


def test_reasons_come_the_most_severe_first_and_then_in_the_policys_order() -> None:
    rules = [("FLAG", 0, "ACTIVE"), ("HOLD", 0, "ACTIVE"), ("FLAG", 1, "ACTIVE"), ("BLOCK", 0, "SHADOW")]
    decided = judge(policy(rules), "50", check(CheckOutcome.POSSIBLE))

    codes = [reason.code for reason in decided.reasons]
    assert codes == ["SANCTIONS_POSSIBLE_MATCH", "POLICY_R1", "POLICY_R0", "POLICY_R2"]
    assert (decided.decision, decided.risk_score) == (DecisionOutcome.REVIEW_REQUIRED, 30)
    assert decided.reasons[1].message == "50"


def test_the_score_asks_for_its_threshold() -> None:
    rules = [("ALLOW", 0, "ACTIVE"), ("ALLOW", 0, "ACTIVE")]
    below, above = (judge(policy(rules, f"{{FLAG: {least}}}")) for least in (21, 20))

    assert (below.decision, above.decision) == (DecisionOutcome.ALLOW, DecisionOutcome.FLAG)
    assert [reason.code for reason in above.reasons] == ["SCORE_THRESHOLD", "POLICY_R0", "POLICY_R1"]


def test_a_listed_party_is_critical_and_money_that_waits_at_least_high() -> None:
    rules = [("ALLOW", 0, "SHADOW")]
    listed, waiting = (
        judge(policy(rules), "1", check(result, ScreenedTarget.COUNTERPARTY, *found))
        for result, found in ((CheckOutcome.MATCH, ()), (CheckOutcome.ERROR, (ReasonCode.LIST_MISSING,)))
    )

    assert (listed.decision, listed.risk_level) == (DecisionOutcome.BLOCK, RiskLevel.CRITICAL)
    assert (waiting.decision, waiting.risk_level) == (DecisionOutcome.HOLD, RiskLevel.HIGH)
    assert judge(policy(rules)).risk_level is RiskLevel.LOW


def test_a_mild_finding_on_one_list_does_not_excuse_another_that_is_not_loaded() -> None:
    mild = policy(
        [("ALLOW", 0, "SHADOW")], check=CHECK.replace("on_possible: REVIEW_REQUIRED", "on_possible: FLAG")
    )
    whole, lacking, unanswered = (
        judge(mild, "1", check(CheckOutcome.POSSIBLE, ScreenedTarget.COUNTERPARTY, *found))
        for found in ((), (ReasonCode.LIST_STALE,), (ReasonCode.CHECK_UNAVAILABLE,))
    )

    assert whole.decision is DecisionOutcome.FLAG
    assert {lacking.decision, unanswered.decision} == {DecisionOutcome.HOLD}


def test_a_suspended_subject_and_an_ended_stream_are_blocked_whatever_the_policy_says() -> None:
    rules = [("SUSPEND", 0, "ACTIVE")]
    suspended, ended = judge(policy(rules), suspended=True), judge(policy(rules), stream_ended=True)
    advised = judge(policy(rules), suspended=True, advisory=True)

    assert {suspended.decision, ended.decision} == {DecisionOutcome.BLOCK}
    assert [one.reasons[0].code for one in (suspended, ended)] == ["SUBJECT_SUSPENDED", "STREAM_ENDED"]
    assert advised.decision is DecisionOutcome.BLOCK_RECOMMENDED


def test_without_a_policy_the_money_waits() -> None:
    decided = judge(None)

    assert (decided.decision, decided.risk_level) == (DecisionOutcome.HOLD, RiskLevel.HIGH)
    assert [reason.code for reason in decided.reasons] == ["POLICY_UNAVAILABLE"]
    assert decided.hold_for is not None


def test_a_feature_is_shown_with_its_exactness() -> None:
    text = (
        "policy: transactions\n"
        "features: [{name: spent, metric: SUM, window: 1h, key: subject_id, field: amount}]\n"
        "checks: []\nrules: [{id: much, mode: ACTIVE, when: {feature: spent, op: GT, value: '5'}, "
        "then: {decision: FLAG, reason: {code: POLICY_MUCH, message: '{spent}'}}}]\n"
    )
    features = {"spent": FeatureValue(Decimal("10.50"), exact=False)}
    decided = decide(compile_policy(load(text.encode()), 1, ""), amount("1"), features, (), SubjectState())

    assert shown_rules(decided)[0].inputs["spent"] == WrittenInput("10.50", exact=False)
