"""Read the tests inside a policy: values of a transaction and what it must come to (G112)."""

from typing import Final

from schemas.enums import DecisionOutcome
from schemas.policies import FeatureValue, FieldValue, PolicyFault
from schemas.policy_documents import PolicyTest
from schemas.policy_fields import FieldType
from streams.policies.reading.conditions import ConditionReader
from streams.policies.reading.names import Names
from streams.policies.reading.nodes import MappingNode, Node, ScalarNode, SequenceNode
from streams.policies.reading.values import Keys, Values

MOST_TESTS: Final = 200
_MOST_NAME_CHARS: Final = 200
_MOST_VALUES: Final = 1_000

_KEYS: Final = Keys(("name", "expect"), ("fields", "features", "lists"))
_EXPECT_KEYS: Final = Keys(("decision",), ("hits",))


class ExampleReader:
    """Reads tests, whose values have the types of the fields and features they are of."""

    def __init__(
        self,
        values: Values,
        conditions: ConditionReader,
        names: Names,
        rule_ids: frozenset[str],
    ) -> None:
        self._values = values
        self._conditions = conditions
        self._names = names
        self._rule_ids = rule_ids

    def read(self, node: Node) -> tuple[tuple[PolicyTest, Node], ...]:
        """Return the tests that have no error, each with the place of what it expects."""
        items = self._values.sequence(node, MOST_TESTS)
        return tuple(test for item in items if (test := self._test(item)) is not None)

    def _test(self, item: Node) -> tuple[PolicyTest, Node] | None:
        entries = self._values.mapping(item, _KEYS)
        if entries is None:
            return None
        name = self._name(entries["name"]) if "name" in entries else None
        fields = self._fields(entries.get("fields"))
        features = self._feature_values(entries.get("features"))
        lists = self._lists(entries.get("lists"))
        expect = entries.get("expect")
        expected = self._values.mapping(expect, _EXPECT_KEYS) if expect else None
        if not expect or not expected:
            return None
        decision = self._decision(expected.get("decision"))
        hits = self._hits(expected.get("hits"))
        if name is None or decision is None:
            return None
        return PolicyTest(name, decision, hits, fields, features, lists), expect

    def _name(self, node: Node) -> str | None:
        text = self._values.text(node)
        if text is None or 0 < len(text) <= _MOST_NAME_CHARS:
            return text
        message = f"A name has 1 to {_MOST_NAME_CHARS} characters."
        self._values.problems.add(PolicyFault.VALUE_RANGE, node, message)
        return None

    def _decision(self, node: Node | None) -> DecisionOutcome | None:
        if node is None:
            return None
        return self._values.word(node, DecisionOutcome, "decision", PolicyFault.DECISION_UNKNOWN)

    def _hits(self, node: Node | None) -> tuple[str, ...] | None:
        if node is None:
            return None
        found = []
        for item in self._values.sequence(node, len(self._rule_ids) + 1):
            rule_id = self._values.text(item)
            if rule_id is not None and rule_id not in self._rule_ids:
                self._values.problems.unknown(
                    PolicyFault.VALUE_RANGE, item, "rule", rule_id, sorted(self._rule_ids)
                )
            elif rule_id is not None:
                found.append(rule_id)
        return tuple(found)

    def _fields(self, node: Node | None) -> dict[str, FieldValue]:
        found: dict[str, FieldValue] = {}
        for name, place, value in self._named(node):
            spec = self._names.spec(
                ScalarNode(place.pointer, place.line, place.column, name), is_feature=False
            )
            if spec is None or _is_null(value):
                continue
            if spec.type is FieldType.WORDS:
                items = value.items if isinstance(value, SequenceNode) else (value,)
                found[name] = tuple(str(self._conditions.literal(item, spec)) for item in items)
            else:
                found[name] = self._conditions.literal(value, spec)
        return found

    def _feature_values(self, node: Node | None) -> dict[str, FeatureValue]:
        found: dict[str, FeatureValue] = {}
        for name, place, value in self._named(node):
            known = self._names.features.get(name)
            if known is None:
                self._values.problems.unknown(
                    PolicyFault.FEATURE_UNKNOWN, place, "feature", name, self._names.features
                )
            elif known.type is FieldType.MONEY and not _is_null(value):
                found[name] = FeatureValue(self._values.money(value))
            elif known.type is FieldType.NUMBER and not _is_null(value):
                found[name] = FeatureValue(self._values.integer(value, 0, 10**12))
        return found

    def _lists(self, node: Node | None) -> dict[str, frozenset[str]]:
        found: dict[str, frozenset[str]] = {}
        for name, _, value in self._named(node):
            items = self._values.sequence(value, _MOST_VALUES)
            texts = (self._values.text(item) for item in items)
            found[name] = frozenset(text for text in texts if text is not None)
        return found

    def _named(self, node: Node | None) -> list[tuple[str, Node, Node]]:
        if node is None or self._values.open_mapping(node) is None or not isinstance(node, MappingNode):
            return []
        return [(name, node.keys[name], value) for name, value in node.entries.items()]


def _is_null(node: Node) -> bool:
    return isinstance(node, ScalarNode) and node.value is None
