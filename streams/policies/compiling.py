"""Compile a policy to closures that evaluate a transaction and record what was read; pure (G114)."""

import operator
from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Context, Decimal
from typing import Any, Final, TypeGuard

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
    PLACEHOLDER,
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
class _Read:
    """What a rule reads; rules that read the same share what was found of it."""

    names: tuple[str, ...]
    """In the order in which the rule names them."""
    required: tuple[str, ...]
    """Of them those that may not be null."""
    lists: tuple[str, ...]

    def find(
        self,
        values: _Values,
        known: Mapping[str, RuleInput],
        lists: ValueLists,
        lost: Container[str],
    ) -> "_Found":
        """Return the inputs, what is not available, and what is null."""
        unread = [name for name in self.lists if name not in lists]
        unread += [name for name in self.names if name in lost]
        missing = [name for name in self.required if values[name] is None]
        return {name: known[name] for name in self.names}, tuple(unread), tuple(missing)


_Found = tuple[Mapping[str, RuleInput], tuple[str, ...], tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class _CompiledRule:
    """A rule with all that is known of it before a transaction comes."""

    rule: Rule
    place: int
    """Of what it reads, among those of the policy."""
    types: frozenset[str]
    holds: _Predicate
    reason: RuleReason | None
    """None: its message has placeholders."""


class CompiledPolicy:
    """A revision of a policy, ready to evaluate transactions; `names` are what it reads."""

    def __init__(self, document: PolicyDocument, revision: int, sha256: str) -> None:
        self.document = document
        self.revision = revision
        self.sha256 = sha256
        self.features: tuple[Feature, ...] = document.features
        places: dict[_Read, int] = {}
        evaluated = [rule for rule in document.rules if rule.mode is not RuleMode.DISABLED]
        self._rules = tuple(_compile(rule, places) for rule in evaluated)
        self._reads = tuple(places)
        self.names = tuple(dict.fromkeys(name for reads in self._reads for name in reads.names))
        by_rules = {name for reads in self._reads for name in reads.lists}
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
        values: dict[str, FieldValue] = {**dict.fromkeys(self.names), **fields}
        for key, declared in self.document.metadata.items():
            name = METADATA_PREFIX + key
            if not _is_of(values.get(name), declared):
                values[name] = None
        for name, feature in features.items():
            values[name] = feature.value
        inexact = {name for name, feature in features.items() if not feature.exact}
        lost = {name for name in inexact if not features[name].available}
        inputs = {name: RuleInput(values[name], name not in inexact) for name in self.names}
        found = [reads.find(values, inputs, lists, lost) for reads in self._reads]
        return tuple([_evaluate(rule, values, found[rule.place], lists) for rule in self._rules])


def compile_policy(document: PolicyDocument, revision: int, sha256: str) -> CompiledPolicy:
    """Return the policy ready to evaluate; a document that `load` returned always compiles."""
    return CompiledPolicy(document, revision, sha256)


def _is_of(value: FieldValue, declared: MetadataType) -> bool:
    is_boolean = isinstance(value, bool)
    return isinstance(value, _TYPES_OF[declared]) and is_boolean is (declared is MetadataType.BOOLEAN)


def _evaluate(compiled: _CompiledRule, values: _Values, found: _Found, lists: ValueLists) -> RuleResult:
    rule = compiled.rule
    if compiled.types and values.get("type") not in compiled.types:
        return RuleResult(rule.id, rule.mode, RuleOutcome.MISS, {"type": RuleInput(values.get("type"))})
    inputs, unread, missing = found
    if unread:
        return RuleResult(rule.id, rule.mode, RuleOutcome.ERROR, inputs, missing=unread)
    if missing:
        return RuleResult(rule.id, rule.mode, RuleOutcome.SKIPPED, inputs, missing=missing)
    if not compiled.holds(values, lists):
        return RuleResult(rule.id, rule.mode, RuleOutcome.MISS, inputs)
    then = rule.then
    return RuleResult(
        rule.id,
        rule.mode,
        RuleOutcome.HIT,
        inputs,
        then.decision,
        then.score or 0,
        compiled.reason or RuleReason(then.reason_code, _fill(then.message, values)),
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


def _compile(rule: Rule, places: dict[_Read, int]) -> _CompiledRule:
    """Return the rule; what it reads gets a place unless an earlier rule reads the same."""
    leaves = tuple(leaves_of(rule.when))
    names = dict.fromkeys(name for leaf in leaves for name in _names(leaf))
    required = dict.fromkeys(
        name for leaf in leaves if leaf.op not in _WITHOUT_VALUE for name in _names(leaf)
    )
    lists = dict.fromkeys(str(leaf.value) for leaf in leaves if leaf.op in _OF_LISTS)
    reads, then = _Read(tuple(names), tuple(required), tuple(lists)), rule.then
    fixed = PLACEHOLDER.search(then.message) is None
    return _CompiledRule(
        rule=rule,
        place=places.setdefault(reads, len(places)),
        types=frozenset(rule.types),
        holds=_predicate(rule.when),
        reason=RuleReason(then.reason_code, then.message) if fixed else None,
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
            return _combination(condition.parts, until=False)
        case AnyOf():
            return _combination(condition.parts, until=True)


def _combination(parts: tuple[Condition, ...], *, until: bool) -> _Predicate:
    """Return what holds as `until` says once a part does, and else the opposite."""
    plain = [(part.name, _COMPARE[part.op], part.value) for part in parts if _is_plain(part)]
    others = tuple(_predicate(part) for part in parts if not _is_plain(part))

    def holds(values: _Values, lists: ValueLists) -> bool:
        for name, compare, value in plain:
            if compare(values[name], value) is until:
                return until
        for predicate in others:
            if predicate(values, lists) is until:
                return until
        return not until

    return holds


def _is_plain(part: Condition) -> TypeGuard[Leaf]:
    """Return whether it compares one field or feature with a value that is written in the policy."""
    return isinstance(part, Leaf) and part.op not in _OF_LISTS and not isinstance(part.value, FeatureMultiple)


# The values were compared with the field's type when the policy was read, so a leaf compares without asking.
_COMPARE: Final[Mapping[Operator, Callable[[Any, Any], bool]]] = {
    Operator.EQ: operator.eq,
    Operator.NE: operator.ne,
    Operator.GT: operator.gt,
    Operator.GTE: operator.ge,
    Operator.LT: operator.lt,
    Operator.LTE: operator.le,
    Operator.BETWEEN: lambda left, right: bool(right[0] <= left <= right[1]),
    Operator.IN: lambda left, right: left in right,
    Operator.NOT_IN: lambda left, right: left not in right,
    Operator.STARTS_WITH: str.startswith,
    Operator.CONTAINS: operator.contains,
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
    return lambda values, _: compare(values[name], value)


def _decimal(value: FieldValue) -> Decimal:
    if isinstance(value, Decimal):
        return value
    if isinstance(value, int):
        return Decimal(value)
    raise TypeError("a feature is a number")
