"""Read the values of a policy's text: mappings, lists, words, numbers, money, durations.

Every reader returns None after it recorded a problem, so that the caller goes on and finds the others.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from enum import StrEnum
from itertools import pairwise
from typing import Final, TypeVar

from schemas.enums import DecisionOutcome
from schemas.policies import PolicyFault
from streams.policies.reading.nodes import BadNumber, MappingNode, Node, ScalarNode, SequenceNode
from streams.policies.reading.problems import Problems, show

Word = TypeVar("Word", bound=StrEnum)

MONEY_FORM: Final = re.compile(r"(?:0|[1-9][0-9]{0,17})(?:\.[0-9]{1,18})?")
_DURATION: Final = re.compile(r"([1-9][0-9]{0,3})(m|h|d)")
_UNIT: Final = {"m": timedelta(minutes=1), "h": timedelta(hours=1), "d": timedelta(days=1)}


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys a mapping must and may have."""

    required: tuple[str, ...]
    optional: tuple[str, ...] = ()


class Values:
    """Readers of single values, which record their problems in one place."""

    def __init__(self, problems: Problems) -> None:
        self.problems = problems

    def mapping(self, node: Node, keys: Keys) -> Mapping[str, Node] | None:
        """Return the values of a mapping by key; unknown and missing keys are recorded."""
        entries = self.open_mapping(node)
        if entries is None or not isinstance(node, MappingNode):
            return None
        known = keys.required + keys.optional
        for key, place in node.keys.items():
            if key not in known:
                self.problems.unknown(PolicyFault.KEY_UNKNOWN, place, "key here", key, known)
        for key in keys.required:
            if key not in node.keys:
                self.problems.add(PolicyFault.KEY_MISSING, node, f"The key `{key}` is missing.")
        return entries

    def open_mapping(self, node: Node) -> Mapping[str, Node] | None:
        """Return the values of a mapping with any keys."""
        if isinstance(node, MappingNode):
            return node.entries
        self._wrong_type(node, "a mapping")
        return None

    def sequence(self, node: Node, most: int, least: int = 0) -> tuple[Node, ...]:
        """Return the items of a list; one that is too long is read as far as it may go."""
        if not isinstance(node, SequenceNode):
            self._wrong_type(node, "a list")
            return ()
        if len(node.items) > most:
            message = f"At most {most} may stand here, not {len(node.items)}."
            self.problems.add(PolicyFault.VALUE_RANGE, node.items[most], message)
        elif len(node.items) < least:
            self.problems.add(PolicyFault.VALUE_RANGE, node, f"At least {least} must stand here.")
        return node.items[:most]

    def text(self, node: Node) -> str | None:
        """Return a text."""
        if isinstance(node, ScalarNode) and isinstance(node.value, str):
            return node.value
        self._wrong_type(node, "a text")
        return None

    def matching(self, node: Node, form: re.Pattern[str], words: str) -> str | None:
        """Return a text of this form; `words` says what the form is."""
        text = self.text(node)
        if text is None or form.fullmatch(text):
            return text
        self.problems.add(PolicyFault.VALUE_RANGE, node, f"{show(text)} is not {words}.")
        return None

    def word(
        self, node: Node, vocabulary: type[Word], what: str, fault: PolicyFault = PolicyFault.VALUE_RANGE
    ) -> Word | None:
        """Return a word of a closed vocabulary."""
        return self.word_of(node, {str(word): word for word in vocabulary}, what, fault)

    def word_of(
        self,
        node: Node,
        vocabulary: Mapping[str, Word],
        what: str,
        fault: PolicyFault = PolicyFault.VALUE_RANGE,
    ) -> Word | None:
        """Return the word of a closed vocabulary under its name."""
        text = self.text(node)
        if text is not None and text not in vocabulary:
            self.problems.unknown(fault, node, what, text, vocabulary)
        return None if text is None else vocabulary.get(text)

    def decision(self, node: Node, here: Collection[DecisionOutcome], because: str) -> DecisionOutcome | None:
        """Return a decision that may be given here; `because` says why another may not."""
        found = self.word(node, DecisionOutcome, "decision", PolicyFault.DECISION_UNKNOWN)
        if found is None or found in here:
            return found
        self.problems.add(PolicyFault.DECISION_NOT_HERE, node, f"{found} cannot be decided here: {because}.")
        return None

    def boolean(self, node: Node) -> bool | None:
        """Return true or false."""
        if isinstance(node, ScalarNode) and isinstance(node.value, bool):
            return node.value
        self._wrong_type(node, "true or false")
        return None

    def integer(self, node: Node, low: int, high: int) -> int | None:
        """Return a whole number between two bounds, both included."""
        number = self.number(node)
        if number is None:
            return None
        if isinstance(number, int) and low <= number <= high:
            return number
        self.problems.add(PolicyFault.VALUE_RANGE, node, f"A whole number from {low} to {high} stands here.")
        return None

    def number(self, node: Node) -> int | Decimal | None:
        """Return a number written without quotes."""
        if isinstance(node, ScalarNode):
            if isinstance(node.value, BadNumber):
                self.problems.add(PolicyFault.VALUE_RANGE, node, "The number is out of range.")
                return None
            if isinstance(node.value, int | Decimal) and not isinstance(node.value, bool):
                return node.value
        self._wrong_type(node, "a number, without quotes")
        return None

    def fraction(self, node: Node, low: str, high: str) -> Decimal | None:
        """Return a number between two bounds, both included, as a decimal."""
        number = self.number(node)
        return None if number is None else self._between(node, Decimal(number), low, high)

    def share(self, node: Node) -> Decimal | None:
        """Return a share from 0 to 1, written as a decimal string."""
        money = self.money(node)
        return None if money is None else self._between(node, money, "0", "1")

    def _between(self, node: Node, number: Decimal, low: str, high: str) -> Decimal | None:
        if Decimal(low) <= number <= Decimal(high):
            return number
        self.problems.add(PolicyFault.VALUE_RANGE, node, f"A number from {low} to {high} stands here.")
        return None

    def money(self, node: Node) -> Decimal | None:
        """Return an amount, which is a decimal string."""
        if isinstance(node, ScalarNode) and isinstance(node.value, str):
            text = self.matching(node, MONEY_FORM, 'an amount such as "1500.50"')
            return None if text is None else Decimal(text)
        self._wrong_type(node, 'a decimal string in quotes, such as "1500.50"')
        return None

    def duration(self, node: Node, longest: timedelta) -> timedelta | None:
        """Return a duration such as `30m`, `24h` or `7d`."""
        text = self.matching(node, _DURATION, "a duration such as `30m`, `24h` or `7d`")
        found = None if text is None else _DURATION.fullmatch(text)
        if found is None:
            return None
        length = int(found[1]) * _UNIT[found[2]]
        if length <= longest:
            return length
        self.problems.add(PolicyFault.VALUE_RANGE, node, f"At most {longest.days} days.")
        return None

    def _wrong_type(self, node: Node, expected: str) -> None:
        if type(node) is not Node:
            message = f"This must be {expected}, not {_kind(node)}."
            self.problems.add(PolicyFault.VALUE_TYPE, node, message)


def in_order(values: Iterable[int | Decimal | None]) -> bool:
    """Return whether the values that are there rise, each above the one before."""
    there = [value for value in values if value is not None]
    return all(low < high for low, high in pairwise(there))


def _kind(node: Node) -> str:
    match node:
        case MappingNode():
            return "a mapping"
        case SequenceNode():
            return "a list"
        case ScalarNode(value=None):
            return "null"
        case ScalarNode(value=bool()):
            return "true or false"
        case ScalarNode(value=str()):
            return "a text"
        case _:
            return "a number"
