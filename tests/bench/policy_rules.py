"""A policy of fifty rules beside the same rules as one zen-engine decision table.

`python -m tests.bench.policy_rules`: both say which rules hit; ours records the inputs of each rule as well.
Each round times both, in turns; the ratio of the medians is what travels. zen-engine is in the extra `bench`:
`pip install 'veristream[bench]'`.
"""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from decimal import Decimal
from importlib import import_module
from typing import Any, Final

from schemas.policies import FeatureValue, FieldValue, RuleOutcome
from streams.policies.compiling import CompiledPolicy, compile_policy
from streams.policies.loading import load
from tests.bench.fifty_rules import CURRENCY, FEATURES, policy_text, zen_table

AMOUNTS: Final = (30, 60, 95, 4_000)
BUSY: Final = {"COUNT": 45, "SUM": 4_500}
"""Of a customer who meets some of the rules in every condition."""


def main(rounds: int, calls: int) -> int:
    """Print the medians and their ratio; 1 when the two disagree about a rule."""
    policy, table = compile_policy(load(policy_text()), 1, "bench"), _open_table()
    if any(_hits(policy, amount) != _hits_of_table(table, amount) for amount in AMOUNTS):
        sys.stdout.write("the rules do not say the same\n")
        return 1
    timed: dict[str, Callable[[int], object]] = {
        "ours, inputs recorded": lambda amount: policy.evaluate(_fields(amount), _features(), {}),
        "zen-engine": lambda amount: table.evaluate(_context(amount)),
        "zen-engine with trace": lambda amount: table.evaluate(_context(amount), {"trace": True}),
    }
    taken: dict[str, list[float]] = {name: [] for name in timed}
    for _ in range(rounds):
        for name, call in timed.items():
            begun = time.process_time()
            for number in range(calls):
                call(AMOUNTS[number % len(AMOUNTS)])
            taken[name].append((time.process_time() - begun) / calls * 1e6)
    medians = {name: statistics.median(each) for name, each in taken.items()}
    ours = medians["ours, inputs recorded"]
    for name, median in medians.items():
        sys.stdout.write(f"{name:<24}{median:8.1f} us of CPU a transaction\n")
    sys.stdout.write(f"row: {medians['zen-engine'] / ours:.2f} x faster than zen-engine's decision table\n")
    return 0


def _open_table() -> Any:
    try:
        zen = import_module("zen")
    except ImportError:
        sys.exit("zen-engine is not installed: pip install 'veristream[bench]', or pip install zen-engine")
    return zen.ZenEngine().create_decision(json.dumps(zen_table()))


def _fields(amount: int) -> Mapping[str, FieldValue]:
    return {"amount": Decimal(amount), "currency": CURRENCY, "type": "PAYMENT"}


def _features() -> Mapping[str, FeatureValue]:
    values = {"COUNT": FeatureValue(BUSY["COUNT"]), "SUM": FeatureValue(Decimal(BUSY["SUM"]))}
    return {one.name: values[one.metric] for one in FEATURES}


def _context(amount: int) -> Mapping[str, object]:
    return {one.name: BUSY[one.metric] for one in FEATURES} | {"amount": amount, "currency": CURRENCY}


def _hits(policy: CompiledPolicy, amount: int) -> list[str]:
    results = policy.evaluate(_fields(amount), _features(), {})
    return [one.id for one in results if one.result is RuleOutcome.HIT]


def _hits_of_table(table: Any, amount: int) -> list[str]:
    return [one["hit"] for one in table.evaluate(_context(amount))["result"]]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--calls", type=int, default=200)
    given = parser.parse_args()
    sys.exit(main(given.rounds, given.calls))
