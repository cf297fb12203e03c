"""Evaluating a policy: every operator, what is missing, lists that are not loaded, inputs, messages."""

from collections.abc import Mapping
from decimal import Decimal

import pytest

from schemas.policies import (
    FeatureValue,
    FieldValue,
    RuleInput,
    RuleMode,
    RuleOutcome,
    RuleReason,
    RuleResult,
)
from streams.policies.compiling import compile_policy
from streams.policies.loading import load

POLICY = """
policy: transactions
metadata: {tier: STRING, points: NUMBER, vip: BOOLEAN}
features:
  - {name: total, metric: SUM, window: 1h, key: subject_id, field: amount}
  - {name: count, metric: COUNT, window: 1h, key: subject_id}
checks: []
rules:
  - id: the_rule
    mode: MODE
    types: TYPES
    when: WHEN
    then: {decision: FLAG, score: 7, reason: {code: POLICY_HIT, message: "MESSAGE"}}
  - id: reads_all
    mode: SHADOW
    when: {any: [{feature: total, op: NOT_NULL}, {feature: count, op: NOT_NULL}]}
    then: {score: 1, reason: {code: POLICY_READ, message: m}}
"""


def evaluate(
    when: str,
    fields: Mapping[str, FieldValue],
    features: Mapping[str, FeatureValue] | None = None,
    *,
    mode: str = "ACTIVE",
    types: str = "[CARD]",
    message: str = "m",
) -> RuleResult:
    """The result of one rule for a card payment."""
    text = POLICY.replace("WHEN", when).replace("MODE", mode).replace("TYPES", types)
    compiled = compile_policy(load(text.replace("MESSAGE", message).encode()), 3, "sha")
    values = {"type": "CARD", **fields}
    return compiled.evaluate(values, features or {}, {"tor": frozenset({"10.0.0.1"})})[0]


AMOUNT = {"amount": Decimal("100.00")}


@pytest.mark.parametrize(
    ("condition", "fields", "hits"),
    [
        ("field: amount, op: EQ, value: '100'", AMOUNT, True),
        ("field: amount, op: NE, value: '100.0'", AMOUNT, False),
        ("field: amount, op: GT, value: '99.99'", AMOUNT, True),
        ("field: amount, op: GT, value: '100'", AMOUNT, False),
        ("field: amount, op: GTE, value: '100'", AMOUNT, True),
        ("field: amount, op: LT, value: '100'", AMOUNT, False),
        ("field: amount, op: LTE, value: '100'", AMOUNT, True),
        ("field: amount, op: BETWEEN, value: ['100', '200']", AMOUNT, True),
        ("field: amount, op: BETWEEN, value: ['100.01', '200']", AMOUNT, False),
        ("field: currency, op: IN, value: [EUR, NO]", {"currency": "NO"}, True),
        ("field: currency, op: NOT_IN, value: [EUR, NO]", {"currency": "NO"}, False),
        ("field: device.ip, op: IN_LIST, value: tor", {"device.ip": "10.0.0.1"}, True),
        ("field: device.ip, op: NOT_IN_LIST, value: tor", {"device.ip": "10.0.0.1"}, False),
        ("field: counterparty.account, op: STARTS_WITH, value: DE", {"counterparty.account": "DE12"}, True),
        ("field: counterparty.name, op: CONTAINS, value: bar", {"counterparty.name": "Foobar"}, True),
        ("field: findings, op: CONTAINS, value: PHONE_VOIP", {"findings": ("PHONE_VOIP",)}, True),
        ("field: findings, op: CONTAINS, value: PHONE_VOIP", {"findings": ()}, False),
        ("field: reference, op: IS_NULL", {}, True),
        ("field: reference, op: NOT_NULL", {}, False),
        ("field: wallet.sanctioned, op: EQ, value: true", {"wallet.sanctioned": True}, True),
        ("field: metadata.points, op: GTE, value: 1.5", {"metadata.points": Decimal("1.5")}, True),
    ],
)
def test_each_operator_compares_as_its_name_says(
    condition: str,
    fields: Mapping[str, FieldValue],
    hits: bool,  # noqa: FBT001 - a column of the table
) -> None:
    wanted = RuleOutcome.HIT if hits else RuleOutcome.MISS
    assert evaluate(f"{{{condition}}}", fields).result is wanted
    assert evaluate(f"{{not: {{{condition}}}}}", fields).result is not wanted


def test_a_hit_shows_all_it_read_and_fills_its_message() -> None:
    multiple = "{field: amount, op: GT, value: {feature: total, times: 2.5}}"
    when = f"{{all: [{multiple}, {{feature: count, op: LT, value: 9}}]}}"
    features = {"total": FeatureValue(Decimal("39.99"), exact=False), "count": FeatureValue(3)}

    result = evaluate(when, AMOUNT, features, message="{amount} after {count}: {currency} {hour}")

    assert result == RuleResult(
        "the_rule",
        RuleMode.ACTIVE,
        RuleOutcome.HIT,
        inputs={
            "amount": RuleInput(Decimal("100.00")),
            "total": RuleInput(Decimal("39.99"), exact=False),
            "count": RuleInput(3),
        },
        decision=evaluate("{field: type, op: NOT_NULL}", {}).decision,
        score=7,
        reason=RuleReason("POLICY_HIT", "100.00 after 3: - -"),
    )


def test_a_value_that_looks_like_a_placeholder_is_not_filled_again() -> None:
    result = evaluate("{field: type, op: NOT_NULL}", {"currency": "{amount}", **AMOUNT}, message="{currency}")

    assert result.reason == RuleReason("POLICY_HIT", "{amount}")


def test_what_is_missing_anywhere_in_a_rule_skips_it() -> None:
    """Even where the other parts would decide: nothing is guessed of what is not known."""
    multiple = "{field: amount, op: LT, value: {feature: total, times: 2}}"
    when = f"{{any: [{{field: amount, op: GT, value: '1'}}, {{field: hour, op: EQ, value: 3}}, {multiple}]}}"

    result = evaluate(when, AMOUNT)

    assert (result.result, result.missing) == (RuleOutcome.SKIPPED, ("hour", "total"))
    assert list(result.inputs) == ["amount", "hour", "total"]


@pytest.mark.parametrize("value", ["5", True])
def test_metadata_of_another_type_than_declared_is_missing(value: FieldValue) -> None:
    result = evaluate("{field: metadata.points, op: GT, value: 1}", {"metadata.points": value})

    assert (result.result, result.missing) == (RuleOutcome.SKIPPED, ("metadata.points",))
    assert result.inputs["metadata.points"] == RuleInput(None)


def test_a_list_that_is_not_loaded_is_an_error_whatever_else_holds() -> None:
    when = "{any: [{field: type, op: EQ, value: CARD}, {field: device.ip, op: IN_LIST, value: vpn}]}"

    result = evaluate(when, {})

    assert (result.result, result.missing) == (RuleOutcome.ERROR, ("vpn",))


def test_a_rule_for_other_types_misses_whatever_its_lists_and_fields() -> None:
    result = evaluate("{field: device.ip, op: IN_LIST, value: vpn}", {}, types="[PAYOUT]")

    assert (result.result, result.inputs) == (RuleOutcome.MISS, {"type": RuleInput("CARD")})


def test_a_shadow_rule_is_shown_and_a_disabled_one_is_not() -> None:
    when = "{field: type, op: NOT_NULL}"

    assert evaluate(when, {}, mode="SHADOW").mode is RuleMode.SHADOW
    assert evaluate(when, {}, mode="DISABLED").id == "reads_all"


def test_a_multiple_is_computed_exactly() -> None:
    features = {"total": FeatureValue(Decimal("0.1"))}
    when = "{field: amount, op: EQ, value: {feature: total, times: 3}}"

    assert evaluate(when, {"amount": Decimal("0.3")}, features).result is RuleOutcome.HIT
