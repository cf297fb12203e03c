"""Write a policy as YAML in its normal form, and hash a rule's; reading it again gives the same policy."""

import hashlib
import json
import re
from collections.abc import Container, Mapping
from datetime import timedelta
from decimal import Decimal
from typing import Any, Final

import yaml
from typing_extensions import override

from schemas.policies import Feature, FieldValue
from schemas.policy_documents import (
    AllOf,
    AnyOf,
    Check,
    Condition,
    FeatureMultiple,
    Leaf,
    Not,
    PolicyDocument,
    PolicyTest,
    Rule,
)
from schemas.policy_fields import FieldType, MetadataType, field_spec
from streams.policies.compiling import leaves_of
from streams.policies.reading.features import type_of
from streams.policies.reading.nodes import resolve_plain

_PLAIN: Final = re.compile(r"[A-Za-z][A-Za-z0-9_.]*")
_UNITS: Final = (("d", timedelta(days=1)), ("h", timedelta(hours=1)), ("m", timedelta(minutes=1)))
_WIDTH: Final = 110


class _Dumper(yaml.SafeDumper):
    """Writes texts in quotes wherever a reader could take them for something else, and no aliases."""

    @override
    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    is_plain = _PLAIN.fullmatch(text) is not None and resolve_plain(text) == text
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=None if is_plain else '"')


def _number(dumper: yaml.SafeDumper, number: Decimal) -> yaml.ScalarNode:
    text = f"{number:f}"
    return dumper.represent_scalar(f"tag:yaml.org,2002:{'float' if '.' in text else 'int'}", text)


_Dumper.add_representer(str, _text)
_Dumper.add_representer(Decimal, _number)


def print_policy(document: PolicyDocument) -> bytes:
    """Return the YAML of a policy, with every value it has by default written out."""
    written: bytes = yaml.dump(
        plain_policy(document),
        Dumper=_Dumper,
        encoding="utf-8",
        allow_unicode=True,
        sort_keys=False,
        width=_WIDTH,
    )
    return written


def plain_policy(document: PolicyDocument) -> dict[str, Any]:
    """Return a policy as mappings, lists and values; numbers with a fraction are Decimal."""
    types = {feature.name: type_of(feature.metric) for feature in document.features}
    plain = {
        "policy": document.policy,
        "description": document.description,
        "base_currency": document.base_currency,
        "metadata": {key: str(declared) for key, declared in document.metadata.items()},
        "features": [_feature(feature) for feature in document.features],
        "checks": [_check(check) for check in document.checks],
        "rules": [_rule(rule, types, document.metadata) for rule in document.rules],
        "score": {str(decision): points for decision, points in document.score.items()},
        "risk": {str(level): points for level, points in document.risk.items()},
        "hold": {
            "expires_after": duration_text(document.hold.expires_after),
            "on_expiry": str(document.hold.on_expiry),
        },
        "wallets": {
            "block_share": f"{document.wallets.block_share:f}",
            "flag_share": f"{document.wallets.flag_share:f}",
        },
        "tests": [_test(test, types, document.metadata) for test in document.tests],
    }
    return _given(plain)


def plain_rule(document: PolicyDocument, rule: Rule, read: Container[str]) -> dict[str, Any]:
    """Return a rule of a policy, and those of its features that are named, as mappings, lists and values."""
    types = {feature.name: type_of(feature.metric) for feature in document.features}
    features = [_feature(feature) for feature in document.features if feature.name in read]
    return {"rule": _rule(rule, types, document.metadata), "features": features}


def duration_text(length: timedelta) -> str:
    """Return a duration as a policy writes it: `24h`, `7d`."""
    for unit, one in _UNITS:
        if length % one == timedelta(0):
            return f"{length // one}{unit}"
    raise ValueError("a policy's durations are whole minutes")


def _given(mapping: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in mapping.items() if value is not None}


def _feature(feature: Feature) -> dict[str, Any]:
    where = {name: str(value) for name, value in feature.where if value is not None}
    return _given(
        {
            "name": feature.name,
            "metric": str(feature.metric),
            "window": str(feature.window),
            "key": str(feature.key),
            "field": None if feature.field is None else str(feature.field),
            "where": where or None,
        }
    )


def _check(check: Check) -> dict[str, Any]:
    names = check.match is not None
    return _given(
        {
            "check": str(check.check),
            "targets": [str(target) for target in check.targets],
            "match": check.match,
            "possible": check.possible,
            "on_match": str(check.on_match),
            "on_possible": None if check.on_possible is None else str(check.on_possible),
            "on_error": str(check.on_error),
            "lists": list(check.lists) or None,
            "max_list_age": None if check.max_list_age is None else duration_text(check.max_list_age),
            "corroborate": check.corroborate if names else None,
            "findings": [str(code) for code in check.findings] or None,
        }
    )


_Types = Mapping[str, FieldType]
_Metadata = Mapping[str, MetadataType]


def _rule(rule: Rule, types: _Types, metadata: _Metadata) -> dict[str, Any]:
    then = rule.then
    return _given(
        {
            "id": rule.id,
            "mode": str(rule.mode),
            "types": [str(one) for one in rule.types] or None,
            "when": _condition(rule.when, types, metadata),
            "then": _given(
                {
                    "decision": None if then.decision is None else str(then.decision),
                    "score": then.score,
                    "reason": {"code": then.reason_code, "message": then.message},
                }
            ),
        }
    )


def _condition(condition: Condition, types: _Types, metadata: _Metadata) -> dict[str, Any]:
    match condition:
        case AllOf(parts):
            return {"all": [_condition(part, types, metadata) for part in parts]}
        case AnyOf(parts):
            return {"any": [_condition(part, types, metadata) for part in parts]}
        case Not(part):
            return {"not": _condition(part, types, metadata)}
        case Leaf():
            named = "feature" if condition.is_feature else "field"
            value = _value(condition, types, metadata)
            return _given({named: condition.name, "op": str(condition.op), "value": value})


def _value(leaf: Leaf, types: _Types, metadata: _Metadata) -> Any:
    match leaf.value:
        case FeatureMultiple(feature, times):
            return {"feature": feature, "times": times}
        case tuple() as members:
            return [_literal(leaf.name, member, types, metadata) for member in members]
        case value:
            return _literal(leaf.name, value, types, metadata)


def _literal(name: str, value: FieldValue, types: _Types, metadata: _Metadata) -> Any:
    spec = field_spec(name, metadata)
    kind = types[name] if spec is None else spec.type
    if kind is FieldType.MONEY and isinstance(value, Decimal):
        return f"{value:f}"
    return list(value) if isinstance(value, tuple) else value


def _test(test: PolicyTest, types: _Types, metadata: _Metadata) -> dict[str, Any]:
    fields = {name: _literal(name, value, types, metadata) for name, value in test.fields.items()}
    features = {name: _literal(name, one.value, types, metadata) for name, one in test.features.items()}
    lists = {name: sorted(values) for name, values in test.lists.items()}
    hits = None if test.hits is None else list(test.hits)
    return {
        "name": test.name,
        "fields": fields,
        "features": features,
        "lists": lists,
        "expect": _given({"decision": str(test.decision), "hits": hits}),
    }


def rule_sha256(document: PolicyDocument, rule_id: str) -> str | None:
    """Return the hash of a rule, whatever its mode is, or None when the policy has no such rule."""
    rule = next((rule for rule in document.rules if rule.id == rule_id), None)
    if rule is None:
        return None
    leaves = tuple(leaves_of(rule.when))
    read = {leaf.name for leaf in leaves if leaf.is_feature}
    read |= {leaf.value.feature for leaf in leaves if isinstance(leaf.value, FeatureMultiple)}
    plain = plain_rule(document, rule, read)
    plain["rule"]["mode"] = None
    canonical = json.dumps(plain, sort_keys=True, default=str)
    return hashlib.sha256(canonical.encode()).hexdigest()
