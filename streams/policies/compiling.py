"""Compile a policy to closures that evaluate a transaction and record what was read; pure (G114)."""

from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Context, Decimal
from typing import Any, Final

from schemas.policies import (
    Feature,
    FeatureValue,
    FieldValue,
    RuleInput,
    RuleMode,
    RuleOutcome,
    RuleReason,
    RuleResult,
)
from schemas.policy_documents import (
    AllOf,
    AnyOf,
    Condition,
    FeatureMultiple,
    Leaf,
    Not,
    Operator,
    PolicyDocument,
    Rule,
)
from schemas.policy_fields import METADATA_PREFIX, MetadataType
from streams.policies.placeholders import PLACEHOLDER

DECIMALS: Final = Context(prec=50, rounding=ROUND_HALF_EVEN)
"""The arithmetic of rules; fixed, so that every machine computes the same."""

ValueLists = Mapping[str, Container[str]]
"""The loaded lists of values by name; a list that is not there is not loaded."""

_Values = Mapping[str, FieldValue]
_Predicate = Callable[[_Values, ValueLists], bool]
_WITHOUT_VALUE: Final = frozenset({Operator.IS_NULL, Operator.NOT_NULL})
_OF_LISTS: Final = frozenset({Operator.IN_LIST, Operator.NOT_IN_LIST})
_TYPES_OF: Final[Mapping[MetadataType, tuple[type, ...]]] = {
    MetadataType.STRING: (str,),
    MetadataType.NUMBER: (int, Decimal),
    MetadataType.BOOLEAN: (bool,),
}


@dataclass(frozen=True, slots=True)
class _CompiledRule:
    """A rule with all that is known of it before a transaction comes."""

    rule: Rule
    names: tuple[str, ...]
    """What it reads, in the order in which it names it."""
    required: tuple[str, ...]
    """Of them those that may not be null."""
    lists: tuple[str, ...]
    types: frozenset[str]
    holds: _Predicate


class CompiledPolicy:
    """A revision of a policy, ready to evaluate transactions; `names` are what it reads."""

    def __init__(self, document: PolicyDocument, revision: int, sha256: str) -> None:
        self.document = document
        self.revision = revision
        self.sha256 = sha256
        self.features: tuple[Feature, ...] = document.features
        self._rules = tuple(_compile(rule) for rule in document.rules if rule.mode is not RuleMode.DISABLED)
        self.names = tuple(dict.fromkeys(name for rule in self._rules for name in rule.names))
        by_rules = {name for rule in self._rules for name in rule.lists}
        self.lists = frozenset(by_rules.union(*(check.lists for check in document.checks)))
        """The lists that its checks and rules name."""

    def evaluate(
        self, fields: Mapping[str, FieldValue], features: Mapping[str, FeatureValue], lists: ValueLists
    ) -> tuple[RuleResult, ...]:
        """Evaluate every rule that is not DISABLED, in the policy's order.

        `fields` holds the fields of `schemas.policy_fields` by name; one that is missing is null, and so is
        metadata of another type than the policy declares. `lists` holds the values of every loaded list. A
        rule that reads a list that is not there, or a feature that is not available, is an ERROR.
        """
        values: dict[str, FieldValue] = dict(fields)
        for key, declared in self.document.metadata.items():
            name = METADATA_PREFIX + key
            if not _is_of(values.get(name), declared):
                values[name] = None
        for name, feature in features.items():
            values[name] = feature.value
        inexact = {name for name, feature in features.items() if not feature.exact}
        lost = {name for name in inexact if not features[name].available}
        inputs = {name: RuleInput(values.get(name), name not in inexact) for name in self.names}
        return tuple([_evaluate(rule, values, inputs, lists, lost) for rule in self._rules])


def compile_policy(document: PolicyDocument, revision: int, sha256: str) -> CompiledPolicy:
    """Return the policy ready to evaluate; a document that `load` returned always compiles."""
    return CompiledPolicy(document, revision, sha256)


def _is_of(value: FieldValue, declared: MetadataType) -> bool:
    is_boolean = isinstance(value, bool)
    return isinstance(value, _TYPES_OF[declared]) and is_boolean is (declared is MetadataType.BOOLEAN)


def _evaluate(
    compiled: _CompiledRule,
    values: _Values,
    known: Mapping[str, RuleInput],
    lists: ValueLists,
    lost: Container[str],
) -> RuleResult:
    rule = compiled.rule
    get = values.get
    if compiled.types and get("type") not in compiled.types:
        return RuleResult(rule.id, rule.mode, RuleOutcome.MISS, {"type": RuleInput(get("type"))})
    inputs = {name: known[name] for name in compiled.names}
    unread = tuple([name for name in compiled.lists if name not in lists])
    unread += tuple([name for name in compiled.names if name in lost])
    if unread:
        return RuleResult(rule.id, rule.mode, RuleOutcome.ERROR, inputs, missing=unread)
    missing = tuple([name for name in compiled.required if get(name) is None])
    if missing:
        return RuleResult(rule.id, rule.mode, RuleOutcome.SKIPPED, inputs, missing=missing)
    if not compiled.holds(values, lists):
        return RuleResult(rule.id, rule.mode, RuleOutcome.MISS, inputs)
    then = rule.then
    reason = RuleReason(then.reason_code, _fill(then.message, values))
    return RuleResult(
        rule.id,
        rule.mode,
        RuleOutcome.HIT,
        inputs,
        decision=then.decision,
        score=then.score or 0,
        reason=reason,
    )


def _fill(message: str, values: _Values) -> str:
    return PLACEHOLDER.sub(lambda found: _text(values.get(found[1])), message)


def _text(value: FieldValue) -> str:
    match value:
        case None:
            return "-"
        case bool():
            return "true" if value else "false"
        case Decimal():
            return f"{value:f}"
        case tuple():
            return ", ".join(value)
        case _:
            return str(value)


def _compile(rule: Rule) -> _CompiledRule:
    leaves = tuple(leaves_of(rule.when))
    names = dict.fromkeys(name for leaf in leaves for name in _names(leaf))
    required = dict.fromkeys(
        name for leaf in leaves if leaf.op not in _WITHOUT_VALUE for name in _names(leaf)
    )
    lists = dict.fromkeys(str(leaf.value) for leaf in leaves if leaf.op in _OF_LISTS)
    return _CompiledRule(
        rule=rule,
        names=tuple(names),
        required=tuple(required),
        lists=tuple(lists),
        types=frozenset(rule.types),
        holds=_predicate(rule.when),
    )


def leaves_of(condition: Condition) -> Iterator[Leaf]:
    """Yield the comparisons of a condition in the order of the text."""
    match condition:
        case Leaf():
            yield condition
        case Not():
            yield from leaves_of(condition.part)
        case AllOf() | AnyOf():
            for part in condition.parts:
                yield from leaves_of(part)


def _names(leaf: Leaf) -> tuple[str, ...]:
    if isinstance(leaf.value, FeatureMultiple):
        return leaf.name, leaf.value.feature
    return (leaf.name,)


def _predicate(condition: Condition) -> _Predicate:
    match condition:
        case Leaf():
            return _comparison(condition)
        case Not():
            part = _predicate(condition.part)
            return lambda values, lists: not part(values, lists)
        case AllOf():
            return _combination(all, condition.parts)
        case AnyOf():
            return _combination(any, condition.parts)


def _combination(combine: Callable[[list[bool]], bool], parts: tuple[Condition, ...]) -> _Predicate:
    predicates = tuple(_predicate(part) for part in parts)

    def holds(values: _Values, lists: ValueLists) -> bool:
        return combine([predicate(values, lists) for predicate in predicates])

    return holds


# The values were compared with the field's type when the policy was read, so a leaf compares without asking.
_COMPARE: Final[Mapping[Operator, Callable[[Any, Any], bool]]] = {
    Operator.EQ: lambda left, right: bool(left == right),
    Operator.NE: lambda left, right: bool(left != right),
    Operator.GT: lambda left, right: bool(left > right),
    Operator.GTE: lambda left, right: bool(left >= right),
    Operator.LT: lambda left, right: bool(left < right),
    Operator.LTE: lambda left, right: bool(left <= right),
    Operator.BETWEEN: lambda left, right: bool(right[0] <= left <= right[1]),
    Operator.IN: lambda left, right: left in right,
    Operator.NOT_IN: lambda left, right: left not in right,
    Operator.STARTS_WITH: lambda left, right: bool(left.startswith(right)),
    Operator.CONTAINS: lambda left, right: right in left,
    Operator.IS_NULL: lambda left, _: left is None,
    Operator.NOT_NULL: lambda left, _: left is not None,
}


def _comparison(leaf: Leaf) -> _Predicate:
    name, value = leaf.name, leaf.value
    if leaf.op in _OF_LISTS:
        wanted, list_name = leaf.op is Operator.IN_LIST, str(value)
        return lambda values, lists: (values[name] in lists[list_name]) is wanted
    compare = _COMPARE[leaf.op]
    if isinstance(value, FeatureMultiple):
        feature, times = value.feature, value.times
        return lambda values, _: compare(values[name], DECIMALS.multiply(_decimal(values[feature]), times))
    return lambda values, _: compare(values.get(name), value)


def _decimal(value: FieldValue) -> Decimal:
    if isinstance(value, Decimal):
        return value
    if isinstance(value, int):
        return Decimal(value)
    raise TypeError("a feature is a number")
