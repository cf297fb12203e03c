"""The rules of a decision as they are stored and shown, with everything they read.

They are structs of msgspec, for one payment may have hundreds of them; `ShownRule` and `ShownInput` describe
what they are written as.
"""

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

from msgspec import UNSET, Struct, UnsetType

from schemas.enums import DecisionOutcome
from schemas.policies import FieldValue, RuleMode, RuleOutcome, RuleResult
from streams.transactions.rules import Decided


class WrittenInput(Struct, frozen=True):
    """A value that a rule read; one the transaction does not have is written as null (G114)."""

    value: Any = None
    exact: bool = True


class WrittenRule(Struct, frozen=True):
    """A rule with what it read; see `ShownRule`."""

    id: str
    mode: RuleMode
    result: RuleOutcome
    decision: DecisionOutcome | UnsetType = UNSET
    score: int | UnsetType = UNSET
    inputs: dict[str, WrittenInput] = {}
    missing: tuple[str, ...] = ()
    suppressed_by: str | UnsetType = UNSET


def shown_rules(decided: Decided) -> tuple[WrittenRule, ...]:
    """Return the rules as they are stored and shown."""
    return tuple(_shown(decided.rules, decided.suppressed))


def _shown(results: Sequence[RuleResult], suppressed: Mapping[str, str]) -> Iterator[WrittenRule]:
    """Yield the rules as they are shown; what several rules read is made once."""
    values: dict[int, WrittenInput] = {}
    inputs: dict[int, dict[str, WrittenInput]] = {}
    for result in results:
        if id(result.inputs) not in inputs:
            for one in result.inputs.values():
                if id(one) not in values:
                    values[id(one)] = WrittenInput(_plain(one.value), one.exact)
            inputs[id(result.inputs)] = {name: values[id(one)] for name, one in result.inputs.items()}
        is_hit = result.result is RuleOutcome.HIT
        yield WrittenRule(
            result.id,
            result.mode,
            result.result,
            UNSET if result.decision is None else result.decision,
            result.score or UNSET,
            inputs[id(result.inputs)],
            result.missing,
            suppressed.get(result.id, UNSET) if is_hit else UNSET,
        )


def _plain(value: FieldValue) -> FieldValue:
    return f"{value:f}" if isinstance(value, Decimal) else value
