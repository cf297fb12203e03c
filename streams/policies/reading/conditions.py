"""Read the conditions of a policy's rules: leaves, `all`, `any`, `not` (G112)."""

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Final

from schemas.policies import PolicyFault
from schemas.policy_documents import AllOf, AnyOf, Condition, FeatureMultiple, Leaf, Literal, Not, Operator
from schemas.policy_fields import FieldSpec, FieldType
from streams.policies.reading.names import Names
from streams.policies.reading.nodes import MappingNode, Node
from streams.policies.reading.problems import show
from streams.policies.reading.values import Keys, Values

MOST_DEPTH: Final = 4
MOST_PARTS: Final = 50
MOST_MEMBERS: Final = 1_000
_MOST_TEXT_CHARS: Final = 256

_EQUALITY: Final = frozenset({Operator.EQ, Operator.NE, Operator.IN, Operator.NOT_IN})
_ORDER: Final = frozenset({Operator.GT, Operator.GTE, Operator.LT, Operator.LTE})
_NULLS: Final = frozenset({Operator.IS_NULL, Operator.NOT_NULL})
_LISTS: Final = frozenset({Operator.IN_LIST, Operator.NOT_IN_LIST})
_MULTIPLES: Final = _ORDER | {Operator.EQ, Operator.NE}
_NUMBERS: Final = _EQUALITY | _ORDER | _NULLS | {Operator.BETWEEN}

OPERATORS_OF: Final[Mapping[FieldType, frozenset[Operator]]] = {
    FieldType.STRING: _EQUALITY | _NULLS | _LISTS | {Operator.STARTS_WITH, Operator.CONTAINS},
    FieldType.MONEY: _NUMBERS,
    FieldType.NUMBER: _NUMBERS,
    FieldType.BOOLEAN: _NULLS | {Operator.EQ, Operator.NE},
    FieldType.WORDS: _NULLS | {Operator.CONTAINS},
}
"""The operators of each type of field or feature."""

OF_WORDS: Final = _EQUALITY | _NULLS
"""The operators of a STRING with a closed vocabulary."""

_GROUPS: Final = ("all", "any", "not")
_LEAF_KEYS: Final = ("field", "feature", "op", "value")


class ConditionReader:
    """Reads conditions over the fields and features that a policy may name."""

    def __init__(self, values: Values, names: Names, read_list: Callable[[Node], str | None]) -> None:
        """Take the readers of single values, of names, and of the name of a list."""
        self._values = values
        self._names = names
        self._read_list = read_list

    def read(self, node: Node, depth: int = 1) -> Condition | None:
        """Return a condition, or None after its problems were recorded."""
        values = self._values
        entries = values.open_mapping(node)
        if entries is None or not isinstance(node, MappingNode):
            return None
        group = next((key for key in _GROUPS if key in entries), None)
        if group is None:
            return self._leaf(node)
        values.mapping(node, Keys((group,)))
        if depth > MOST_DEPTH:
            message = f"At most {MOST_DEPTH} of `all`, `any` and `not` stand in one another."
            values.problems.add(PolicyFault.DEPTH, node, message)
            return None
        if group == "not":
            part = self.read(entries["not"], depth + 1)
            return None if part is None else Not(part)
        items = values.sequence(entries[group], MOST_PARTS, 1)
        parts = tuple(part for item in items if (part := self.read(item, depth + 1)) is not None)
        return AllOf(parts) if group == "all" else AnyOf(parts)

    def _leaf(self, node: MappingNode) -> Leaf | None:
        values = self._values
        known = _LEAF_KEYS if "field" in node.entries or "feature" in node.entries else _LEAF_KEYS + _GROUPS
        for key, place in node.keys.items():
            if key not in _LEAF_KEYS:
                values.problems.unknown(PolicyFault.KEY_UNKNOWN, place, "key of a condition", key, known)
        named = [key for key in ("field", "feature") if key in node.entries]
        if not named:
            message = "A condition names a `field` or a `feature`, or it is `all`, `any` or `not`."
            values.problems.add(PolicyFault.KEY_MISSING, node, message)
        elif len(named) > 1:
            message = "A condition names a `field` or a `feature`, not both."
            values.problems.add(PolicyFault.KEY_UNKNOWN, node.keys["feature"], message)
        spec = self._names.spec(node.entries[named[0]], is_feature=named[0] == "feature") if named else None
        op = self._operator(node, spec)
        value = self._value(node, op, spec)
        if not named or op is None:
            return None
        name = values.text(node.entries[named[0]]) if spec else None
        return None if name is None else Leaf(name, named[0] == "feature", op, value)

    def _operator(self, node: MappingNode, spec: FieldSpec | None) -> Operator | None:
        if "op" not in node.entries:
            self._values.problems.add(PolicyFault.KEY_MISSING, node, "The key `op` is missing.")
            return None
        place = node.entries["op"]
        op = self._values.word(place, Operator, "operator", PolicyFault.OP_UNKNOWN)
        if op is None or spec is None:
            return op
        here = OF_WORDS if spec.words and spec.type is FieldType.STRING else OPERATORS_OF[spec.type]
        if op in here:
            return op
        may = ", ".join(sorted(here))
        self._values.problems.add(PolicyFault.OP_TYPE, place, f"{op} does not fit here; these do: {may}.")
        return None

    def _value(
        self, node: MappingNode, op: Operator | None, spec: FieldSpec | None
    ) -> Literal | tuple[Literal, ...] | FeatureMultiple | None:
        if op is None or op in _NULLS:
            if op is not None and "value" in node.keys:
                message = f"{op} takes no `value`."
                self._values.problems.add(PolicyFault.KEY_UNKNOWN, node.keys["value"], message)
            return None
        place = node.entries.get("value")
        if place is None:
            self._values.problems.add(PolicyFault.KEY_MISSING, node, f"{op} needs the key `value`.")
            return None
        if op in _LISTS:
            return self._read_list(place)
        return None if spec is None else self._compared(place, op, spec)

    def _compared(
        self, place: Node, op: Operator, spec: FieldSpec
    ) -> Literal | tuple[Literal, ...] | FeatureMultiple | None:
        if isinstance(place, MappingNode):
            return self._multiple(place, op, spec)
        if op in {Operator.IN, Operator.NOT_IN}:
            return self._members(place, spec, MOST_MEMBERS)
        if op is Operator.BETWEEN:
            return self._bounds(place, spec)
        return self.literal(place, spec)

    def _bounds(self, place: Node, spec: FieldSpec) -> tuple[Literal, ...]:
        bounds = self._members(place, spec, 2, 2)
        match bounds:
            case (int() | Decimal() as low, int() | Decimal() as high) if low > high:
                message = "The first of the two is above the second."
                self._values.problems.add(PolicyFault.VALUE_RANGE, place, message)
        return bounds

    def _members(self, place: Node, spec: FieldSpec, most: int, least: int = 1) -> tuple[Literal, ...]:
        items = self._values.sequence(place, most, least)
        read = (self.literal(item, spec) for item in items)
        return tuple(value for value in read if value is not None)

    def literal(self, node: Node, spec: FieldSpec) -> Literal | None:
        """Return a value of the type of a field."""
        match spec.type:
            case FieldType.MONEY:
                return self._values.money(node)
            case FieldType.NUMBER:
                return self._values.number(node)
            case FieldType.BOOLEAN:
                return self._values.boolean(node)
            case FieldType.STRING | FieldType.WORDS:
                return self._words(node, spec)

    def _words(self, node: Node, spec: FieldSpec) -> str | None:
        text = self._values.text(node)
        if text is None:
            return None
        if spec.words and text not in spec.words:
            self._values.problems.unknown(
                PolicyFault.VALUE_RANGE, node, "value of it", text, sorted(spec.words)
            )
            return None
        if 0 < len(text) <= _MOST_TEXT_CHARS:
            return text
        message = f"A text of 1 to {_MOST_TEXT_CHARS} characters stands here."
        self._values.problems.add(PolicyFault.VALUE_RANGE, node, message)
        return None

    def _multiple(self, node: MappingNode, op: Operator, spec: FieldSpec) -> FeatureMultiple | None:
        entries = self._values.mapping(node, Keys(("feature", "times")))
        if spec.type not in {FieldType.MONEY, FieldType.NUMBER} or op not in _MULTIPLES:
            message = f"Only a number or money can be compared with a feature, and not with {op}."
            self._values.problems.add(PolicyFault.OP_TYPE, node, message)
        times = None
        if entries and "times" in entries:
            times = self._values.fraction(entries["times"], "0.000001", "1000000")
        name = self._values.text(entries["feature"]) if entries and "feature" in entries else None
        if not entries or name is None:
            return None
        known = self._names.feature(entries["feature"], name)
        if known and known.type not in {None, spec.type}:
            message = (
                f"The feature {show(name)} is of type {known.type}, what it is compared with {spec.type}."
            )
            self._values.problems.add(PolicyFault.VALUE_TYPE, entries["feature"], message)
        return None if times is None else FeatureMultiple(name, times)
