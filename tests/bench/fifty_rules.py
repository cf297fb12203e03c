"""Fifty rules of three conditions over ten features, for our policy, for ezrules and for zen-engine."""

import json
import random
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from schemas.base import rfc3339

RULES: Final = 50

MOST_RULES: Final = 300
"""As many as a policy may have (G112)."""

WINDOWS: Final[Mapping[str, int]] = {
    "1h": 3_600,
    "24h": 86_400,
    "7d": 604_800,
    "30d": 2_592_000,
    "90d": 7_776_000,
}
"""In seconds, as ezrules wants them."""

METRICS: Final = ("COUNT", "SUM")
CURRENCY: Final = "USD"
CUSTOMERS: Final = 50_000
"""As many as ezrules' own load has."""

SUBJECT_KEYS: Final = ("subject_id",)
THREE_KEYS: Final = ("subject_id", "device.id", "device.ip")
"""The subject, and two keys that need a hop each."""


class BenchFeature(NamedTuple):
    """What is computed over a window of a key's earlier transactions."""

    metric: str
    window: str

    @property
    def name(self) -> str:
        """Its name in every engine."""
        return f"{self.metric}_{self.window}".lower()


class BenchRule(NamedTuple):
    """A rule that hits when a feature, the amount and the currency are as it says."""

    feature: BenchFeature
    least: int
    above: int


FEATURES: Final = tuple(BenchFeature(metric, window) for window in WINDOWS for metric in METRICS)


def bench_rules(rules: int = RULES) -> Iterator[BenchRule]:
    """Yield the rules; a quiet customer meets some of their conditions, and seldom all of them."""
    for number in range(rules):
        feature, step = FEATURES[number % len(FEATURES)], number % RULES
        least = 20 + step if feature.metric == "COUNT" else 2_000 + 100 * step
        yield BenchRule(feature, least, 25 + step)


def policy_text(keys: tuple[str, ...] = SUBJECT_KEYS, rules: int = RULES) -> bytes:
    """Return the policy, its features spread over the keys: every second one is the subject's."""
    features = []
    for number, feature in enumerate(FEATURES):
        key = keys[0] if number % 2 == 0 else keys[number // 2 % len(keys)]
        own = {"name": feature.name, "metric": feature.metric, "window": feature.window, "key": key}
        features.append(own | ({"field": "amount"} if feature.metric == "SUM" else {}))
    written = [_rule(number, rule) for number, rule in enumerate(bench_rules(rules))]
    policy = {"policy": "transactions", "features": features, "checks": [], "rules": written}
    return json.dumps(policy).encode()


def _rule(number: int, rule: BenchRule) -> dict[str, Any]:
    least = rule.least if rule.feature.metric == "COUNT" else f"{rule.least}.00"
    conditions: list[dict[str, Any]] = [
        {"feature": rule.feature.name, "op": "GTE", "value": least},
        {"field": "amount", "op": "GT", "value": f"{rule.above}.00"},
        {"field": "currency", "op": "EQ", "value": CURRENCY},
    ]
    reason = {"code": f"POLICY_BENCH_{number}", "message": "It is much."}
    then = {"decision": "FLAG", "reason": reason}
    return {"id": f"rule_{number}", "mode": "ACTIVE", "when": {"all": conditions}, "then": then}


def ezrules_logic(rule: BenchRule) -> str:
    """Return the rule in the language of ezrules, where the sum of nothing is None."""
    stat = f"stat[customer.{rule.feature.name}]"
    return (
        f"if {stat} is not None and {stat} >= {rule.least} and $amount > {rule.above} "
        f"and $currency == '{CURRENCY}':\n    return !HOLD\nreturn None"
    )


def zen_table() -> dict[str, Any]:
    """Return the rules as one decision table of zen-engine that collects every rule that hits."""
    names = [*(feature.name for feature in FEATURES), "amount", "currency"]
    inputs = [{"id": name, "name": name, "field": name} for name in names]
    rows = [
        {"_id": f"rule_{number}", rule.feature.name: f">= {rule.least}", "amount": f"> {rule.above}",
         "currency": f"'{CURRENCY}'", "hit": f"'rule_{number}'"}
        for number, rule in enumerate(bench_rules())
    ]  # fmt: skip
    table = {
        "hitPolicy": "collect",
        "inputs": inputs,
        "outputs": [{"id": "hit", "name": "hit", "field": "hit"}],
    }
    blank = dict.fromkeys(names, "")
    nodes: list[dict[str, Any]] = [
        {"id": "in", "type": "inputNode", "name": "in"},
        {"id": "rules", "type": "decisionTableNode", "name": "rules",
         "content": table | {"rules": [blank | row for row in rows]}},
        {"id": "out", "type": "outputNode", "name": "out"},
    ]  # fmt: skip
    edges = [
        {"id": "a", "sourceId": "in", "targetId": "rules", "type": "edge"},
        {"id": "b", "sourceId": "rules", "targetId": "out", "type": "edge"},
    ]
    return {"nodes": nodes, "edges": edges}


def payment(chance: random.Random, customer: int | None = None, at: datetime | None = None) -> bytes:
    """Return the body of a payment like those of ezrules' own load of low risk, of any customer and now."""
    if customer is None:
        customer = chance.randrange(CUSTOMERS)
    amount = {"value": f"{chance.uniform(25, 95):.2f}", "currency": CURRENCY}
    body = {
        "subject_id": f"customer-{customer}",
        "type": "PAYMENT",
        "direction": "OUTBOUND",
        "amount": amount,
        "occurred_at": rfc3339(at or datetime.now(UTC)),
        "device": {"id": f"device-{customer % 5_000}", "ip": f"198.51.{customer % 100}.{customer % 250 + 1}"},
    }
    return json.dumps(body).encode()
