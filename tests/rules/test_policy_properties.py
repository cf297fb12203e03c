"""Properties of policies: printed and read again, evaluated twice, with a rule more, with planted faults."""

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.enums import CheckKind, DecisionOutcome
from schemas.policies import (
    AmountField,
    DistinctField,
    Feature,
    FeatureFilter,
    FeatureKey,
    FeatureValue,
    FieldValue,
    Metric,
    PolicyFault,
    RuleMode,
    Window,
)
from schemas.policy_documents import (
    AllOf,
    AnyOf,
    Check,
    Condition,
    FeatureMultiple,
    Leaf,
    Not,
    Operator,
    PolicyDocument,
    PolicyTest,
    Rule,
    Then,
)
from schemas.policy_fields import FIELDS, CheckTarget, FieldSpec, FieldType, MetadataType
from schemas.problems import Refused
from schemas.transactions import Direction, OutcomeClass, TransactionType
from streams.policies.compiling import compile_policy, leaves_of
from streams.policies.examples import GRAVITY, decide_test
from streams.policies.loading import load
from streams.policies.printing import print_policy
from streams.policies.reading.conditions import OF_WORDS, OPERATORS_OF
from streams.policies.reading.features import type_of

METADATA = {"tier": MetadataType.STRING, "score": MetadataType.NUMBER, "vip": MetadataType.BOOLEAN}
CHECKED = "checks.SANCTIONS.counterparty"
READABLE = {
    **{name: spec for name, spec in FIELDS.items() if not name.startswith("checks.") or name == CHECKED},
    **{f"metadata.{key}": FieldSpec(FieldType(kind)) for key, kind in METADATA.items()},
}
MULTIPLES = st.decimals("0.1", "50", places=2) | st.integers(1, 50).map(Decimal)
MONEY = st.decimals(0, 10**9, places=2)
TEXT = st.text("aZ0 é漢😀:#'\"\\-~&*!%@,[", min_size=1, max_size=8) | st.sampled_from(
    ["NO", "1e3", "0x1f", "null"]
)


def literals(spec: FieldSpec) -> st.SearchStrategy[Any]:
    """Values of the type of a field."""
    match spec.type:
        case FieldType.MONEY:
            return MONEY
        case FieldType.NUMBER:
            return st.integers(-1000, 10**6) | st.decimals(-1000, 1000, places=3)
        case FieldType.BOOLEAN:
            return st.booleans()
        case _:
            return st.sampled_from(sorted(spec.words)) if spec.words else TEXT


def field_values(spec: FieldSpec) -> st.SearchStrategy[FieldValue]:
    """Values that a transaction may have in a field."""
    if spec.type is FieldType.WORDS:
        return st.lists(literals(spec), max_size=3).map(tuple)
    return literals(spec)


@st.composite
def leaves(draw: Callable[..., Any], features: tuple[Feature, ...]) -> Leaf:
    """A comparison that fits its field or feature."""
    kinds = {feature.name: FieldSpec(type_of(feature.metric)) for feature in features}
    is_feature = bool(kinds) and draw(st.booleans())
    name = draw(st.sampled_from(sorted(kinds if is_feature else READABLE)))
    spec = kinds[name] if is_feature else READABLE[name]
    here = OF_WORDS if spec.words and spec.type is FieldType.STRING else OPERATORS_OF[spec.type]
    op = draw(st.sampled_from(sorted(here)))
    same = [other for other, kind in kinds.items() if kind.type is spec.type]
    value: Any = None
    if op in {Operator.IN_LIST, Operator.NOT_IN_LIST}:
        value = draw(st.sampled_from(["watched", "not_loaded"]))
    elif op in {Operator.IN, Operator.NOT_IN}:
        value = tuple(draw(st.lists(literals(spec), min_size=1, max_size=3)))
    elif op is Operator.BETWEEN:
        value = tuple(sorted(draw(st.lists(literals(spec), min_size=2, max_size=2))))
    elif op in {Operator.GT, Operator.LTE} and same and draw(st.booleans()):
        value = FeatureMultiple(draw(st.sampled_from(same)), draw(MULTIPLES))
    elif op not in {Operator.IS_NULL, Operator.NOT_NULL}:
        value = draw(literals(spec))
    return Leaf(name, is_feature, op, value)


def conditions(features: tuple[Feature, ...]) -> st.SearchStrategy[Condition]:
    """Conditions at most two groups deep."""
    one: st.SearchStrategy[Condition] = leaves(features)
    for _ in range(2):
        groups = st.lists(one, min_size=1, max_size=3).map(tuple)
        one = leaves(features) | groups.map(AllOf) | groups.map(AnyOf) | one.map(Not)
    return one


@st.composite
def drawn_features(draw: Callable[..., Any]) -> tuple[Feature, ...]:
    """Up to three features of different names."""
    made = []
    for number in range(draw(st.integers(0, 3))):
        metric = draw(st.sampled_from(Metric))
        field: Any = None
        if metric is Metric.COUNT_DISTINCT:
            field = draw(st.sampled_from(DistinctField))
        elif type_of(metric) is FieldType.MONEY:
            field = draw(st.sampled_from(AmountField))
        where = FeatureFilter(
            direction=draw(st.none() | st.sampled_from(Direction)),
            currency=draw(st.none() | st.sampled_from(["EUR", "BTC"])),
            outcome=draw(st.none() | st.sampled_from(OutcomeClass)),
        )
        window, key = draw(st.sampled_from(Window)), draw(st.sampled_from(FeatureKey))
        made.append(
            Feature(name=f"f{number}", metric=metric, window=window, key=key, field=field, where=where)
        )
    return tuple(made)


@st.composite
def drawn_rules(draw: Callable[..., Any], features: tuple[Feature, ...], number: int) -> Rule:
    """A rule of any mode."""
    decision = draw(st.none() | st.sampled_from(sorted(set(DecisionOutcome) - {DecisionOutcome.END_STREAM})))
    score = draw(st.integers(1, 100)) if decision is None else draw(st.none() | st.integers(1, 100))
    message = draw(TEXT) + " {amount}"
    return Rule(
        id=f"rule_{number}",
        mode=draw(st.sampled_from(RuleMode)),
        when=draw(conditions(features)),
        then=Then(f"POLICY_R{number}", message, decision, score),
        types=tuple(draw(st.lists(st.sampled_from(TransactionType), unique=True, max_size=2))),
    )


def used(features: tuple[Feature, ...], rules: tuple[Rule, ...]) -> tuple[Rule, ...]:
    """The rules, with one more that reads every feature, since a policy has none in vain."""
    if not features:
        return rules
    reading = AnyOf(tuple(Leaf(feature.name, True, Operator.IS_NULL) for feature in features))
    return (*rules, Rule("reads_all", RuleMode.ACTIVE, reading, Then("POLICY_X", "x", score=1)))


@st.composite
def documents(draw: Callable[..., Any]) -> PolicyDocument:
    """Any policy without tests of its own."""
    features = draw(drawn_features())
    rules = tuple(draw(drawn_rules(features, number)) for number in range(draw(st.integers(0, 4))))
    check = Check(
        CheckKind.SANCTIONS,
        tuple(CheckTarget),
        on_match=DecisionOutcome.BLOCK,
        on_error=DecisionOutcome.HOLD,
        match=Decimal("0.85"),
        possible=Decimal("0.7"),
        on_possible=draw(st.sampled_from([DecisionOutcome.REVIEW_REQUIRED, DecisionOutcome.ALLOW])),
        corroborate=draw(st.booleans()),
    )
    return PolicyDocument(
        policy="transactions",
        features=features,
        checks=(check,),
        rules=used(features, rules),
        description=draw(st.none() | TEXT),
        score=draw(st.just({}) | st.just({DecisionOutcome.FLAG: 20, DecisionOutcome.BLOCK: 90})),
        metadata=METADATA,
    )


@st.composite
def transactions(draw: Callable[..., Any], document: PolicyDocument) -> PolicyTest:
    """Values of a transaction, some of them missing."""
    leaves_read = (leaf for rule in document.rules for leaf in leaves_of(rule.when))
    names = sorted({leaf.name for leaf in leaves_read if not leaf.is_feature} | {CHECKED, "type"})
    fields = {name: draw(field_values(READABLE[name])) for name in names if draw(st.integers(0, 3))}
    values: dict[str, FeatureValue] = {}
    for feature in document.features:
        value = draw(
            st.none() | (MONEY if type_of(feature.metric) is FieldType.MONEY else st.integers(0, 99))
        )
        values[feature.name] = FeatureValue(value, exact=draw(st.booleans()))
    lists = {"watched": frozenset(draw(st.lists(TEXT, max_size=2)))}
    return PolicyTest("drawn", DecisionOutcome.ALLOW, fields=fields, features=values, lists=lists)


@settings(max_examples=30, deadline=None)
@given(documents())
def test_a_policy_printed_and_read_again_is_the_same_policy(document: PolicyDocument) -> None:
    assert load(print_policy(document)) == document


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_a_policy_evaluates_twice_to_the_same_and_shows_every_rule(data: st.DataObject) -> None:
    document = data.draw(documents())
    sent = data.draw(transactions(document))
    once, again = (
        compile_policy(read, 7, "").evaluate(sent.fields, sent.features, sent.lists)
        for read in (document, load(print_policy(document)))
    )
    assert once == again
    evaluated = [rule.id for rule in document.rules if rule.mode is not RuleMode.DISABLED]
    assert [result.id for result in once] == evaluated


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_one_more_rule_never_lowers_an_outcome(data: st.DataObject) -> None:
    document = data.draw(documents())
    sent = data.draw(transactions(document))
    more = data.draw(drawn_rules(document.features, 99))
    place = data.draw(st.integers(0, len(document.rules)))
    with_more = replace(document, rules=(*document.rules[:place], more, *document.rules[place:]))
    assert GRAVITY[decide_test(with_more, sent).decision] >= GRAVITY[decide_test(document, sent).decision]


FAULTS: dict[PolicyFault, tuple[str, ...]] = {
    PolicyFault.METRIC_UNKNOWN: ("metric: @COUNTS", "window: 1h", "key: subject_id"),
    PolicyFault.WINDOW_UNKNOWN: ("metric: COUNT", "window: @2h", "key: subject_id"),
    PolicyFault.FIELD_UNKNOWN: ("metric: COUNT", "window: 1h", "key: @subject"),
    PolicyFault.KEY_UNKNOWN: ("metric: COUNT", "window: 1h", "key: subject_id", "@colour: red"),
    PolicyFault.KEY_DUPLICATE: ("metric: COUNT", "window: 1h", "key: subject_id", "@window: 1h"),
    PolicyFault.VALUE_TYPE: ("metric: COUNT", "window: 1h", "key: @[subject_id]"),
    PolicyFault.VALUE_RANGE: ("metric: COUNT", "window: 1h", "key: subject_id", "where: {type: @GIFT}"),
    PolicyFault.YAML_FORBIDDEN: ("metric: COUNT", "window: 1h", "key: @&here subject_id"),
}
"""Features with one fault each, at the sign."""


@settings(max_examples=40, deadline=None)
@given(st.lists(st.sampled_from(sorted(FAULTS)), min_size=1, max_size=60))
def test_every_planted_fault_is_reported_at_its_place(planted: list[PolicyFault]) -> None:
    lines, expected = ["policy: transactions", "features:"], set()
    for number, fault in enumerate(planted):
        lines.append(f"  - name: f{number}")
        for part in FAULTS[fault]:
            line = f"    {part}"
            if "@" in line:
                expected.add((fault, len(lines) + 1, line.index("@") + 1))
            lines.append(line.replace("@", ""))
    reads = ", ".join(f"{{feature: f{number}, op: NOT_NULL}}" for number in range(min(50, len(planted))))
    more = ", ".join(f"{{feature: f{number}, op: NOT_NULL}}" for number in range(50, len(planted)))
    lines += ["checks: []", "rules:"]
    for rule_id, parts in (("a", reads), ("b", more or "{field: type, op: NOT_NULL}")):
        reason = "{score: 1, reason: {code: POLICY_A, message: m}}"
        lines.append(f"  - {{id: {rule_id}, mode: ACTIVE, when: {{any: [{parts}]}}, then: {reason}}}")

    with pytest.raises(Refused) as refused:
        load("\n".join(lines).encode())

    reported = {(error.rule, error.line, error.column) for error in refused.value.refusal.errors}
    assert expected == reported
