"""Read the features of a policy (G112, G113)."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from schemas.policies import (
    AmountField,
    DistinctField,
    Feature,
    FeatureFilter,
    FeatureKey,
    Metric,
    PolicyFault,
    Window,
)
from schemas.policy_fields import FIELDS, FieldType
from schemas.transactions import Direction, OutcomeClass, TransactionType
from streams.policies.reading.nodes import Node
from streams.policies.reading.problems import show
from streams.policies.reading.values import Keys, Values

MOST_FEATURES: Final = 100
NAME_FORM: Final = re.compile(r"[a-z][a-z0-9_]{0,47}")
CURRENCY_FORM: Final = re.compile(r"[A-Z0-9]{2,12}")

_KEYS: Final = Keys(("name", "metric", "window", "key"), ("field", "where"))
_FILTER_KEYS: Final = Keys((), ("direction", "type", "currency", "outcome"))
_WITHOUT_FIELD: Final = frozenset({Metric.COUNT, Metric.SECONDS_SINCE_LAST, Metric.SECONDS_SINCE_FIRST})
_COUNTS: Final = _WITHOUT_FIELD | {Metric.COUNT_DISTINCT}


@dataclass(frozen=True, slots=True)
class KnownFeature:
    """A feature that rules may name; without a type when its own text has errors."""

    place: Node
    type: FieldType | None
    feature: Feature | None


def type_of(metric: Metric) -> FieldType:
    """Return the type of a feature's value: counts and seconds are numbers, the others money."""
    return FieldType.NUMBER if metric in _COUNTS else FieldType.MONEY


def read_features(values: Values, node: Node) -> dict[str, KnownFeature]:
    """Return the features by name, those with errors too, so that rules may still name them."""
    known: dict[str, KnownFeature] = {}
    for item in values.sequence(node, MOST_FEATURES):
        entries = values.mapping(item, _KEYS)
        if entries is None:
            continue
        name = _name(values, entries, known)
        metric = _metric(values, entries)
        feature = _feature(values, item, entries, name, metric)
        kind = None if metric is None else type_of(metric)
        if name is not None and name not in known:
            known[name] = KnownFeature(entries["name"], kind, feature)
    return known


def _name(values: Values, entries: Mapping[str, Node], known: Mapping[str, KnownFeature]) -> str | None:
    if "name" not in entries:
        return None
    node = entries["name"]
    name = values.matching(node, NAME_FORM, "a name of 1 to 48 of a-z, 0-9 and _, a letter first")
    if name is None:
        return None
    if name in FIELDS:
        values.problems.add(PolicyFault.FEATURE_DUPLICATE, node, f"{show(name)} is the name of a field.")
        return None
    if name in known:
        message = f"The feature {show(name)} stands already in line {known[name].place.line}."
        values.problems.add(PolicyFault.FEATURE_DUPLICATE, node, message)
    return name


def _metric(values: Values, entries: Mapping[str, Node]) -> Metric | None:
    if "metric" not in entries:
        return None
    return values.word(entries["metric"], Metric, "metric", PolicyFault.METRIC_UNKNOWN)


def _feature(
    values: Values, item: Node, entries: Mapping[str, Node], name: str | None, metric: Metric | None
) -> Feature | None:
    window = key = None
    if "window" in entries:
        window = values.word(entries["window"], Window, "window", PolicyFault.WINDOW_UNKNOWN)
    if "key" in entries:
        key = values.word(entries["key"], FeatureKey, "key of a feature", PolicyFault.FIELD_UNKNOWN)
    field = _field(values, item, entries.get("field"), metric)
    where = _filter(values, entries["where"]) if "where" in entries else FeatureFilter()
    if name is None or metric is None or window is None or key is None or where is None:
        return None
    return Feature(name=name, metric=metric, window=window, key=key, field=field, where=where)


def _field(
    values: Values, item: Node, node: Node | None, metric: Metric | None
) -> AmountField | DistinctField | None:
    if metric is None:
        return None
    if metric in _WITHOUT_FIELD:
        if node is not None:
            values.problems.add(PolicyFault.KEY_UNKNOWN, node, f"{metric} takes no `field`.")
        return None
    if node is None:
        values.problems.add(PolicyFault.KEY_MISSING, item, f"{metric} needs the key `field`.")
        return None
    what = f"field of {metric}"
    if metric is Metric.COUNT_DISTINCT:
        return values.word(node, DistinctField, what, PolicyFault.FIELD_UNKNOWN)
    return values.word(node, AmountField, what, PolicyFault.FIELD_UNKNOWN)


def _filter(values: Values, node: Node) -> FeatureFilter | None:
    entries = values.mapping(node, _FILTER_KEYS)
    if entries is None:
        return None
    direction = entries.get("direction")
    kind = entries.get("type")
    currency = entries.get("currency")
    outcome = entries.get("outcome")
    return FeatureFilter(
        direction=direction and values.word(direction, Direction, "direction"),
        type=kind and values.word(kind, TransactionType, "type of transaction"),
        currency=currency and values.matching(currency, CURRENCY_FORM, "a currency such as EUR"),
        outcome=outcome and values.word(outcome, OutcomeClass, "class of outcomes"),
    )
