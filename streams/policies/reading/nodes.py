"""The nodes of a YAML or JSON text, with their places and their YAML 1.2 values."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

ScalarValue = str | int | Decimal | bool | None


@dataclass(frozen=True, slots=True)
class BadNumber:
    """A plain scalar in the form of a number that is beyond any value of a policy."""


@dataclass(frozen=True, slots=True)
class Node:
    """A value of the text and where it stands; one that is no more than this was refused already."""

    pointer: str
    """JSON pointer (RFC 6901)."""
    line: int
    column: int


@dataclass(frozen=True, slots=True)
class ScalarNode(Node):
    """A text, number, boolean or null."""

    value: ScalarValue | BadNumber


@dataclass(frozen=True, slots=True)
class SequenceNode(Node):
    """A list."""

    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class MappingNode(Node):
    """A mapping; of a key that stands twice the first value."""

    entries: Mapping[str, Node]
    keys: Mapping[str, Node]
    """Where each key stands."""


_MOST_NUMBER_CHARS: Final = 40
_MOST_EXPONENT: Final = 40
_NULLS: Final = frozenset({"", "~", "null", "Null", "NULL"})
_BOOLEANS: Final = {
    "true": True, "True": True, "TRUE": True,
    "false": False, "False": False, "FALSE": False,
}  # fmt: skip
_INTEGER: Final = re.compile(r"[-+]?[0-9]+")
_BASED: Final = re.compile(r"0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_NOT_FINITE: Final = re.compile(r"[-+]?(?:\.inf|\.Inf|\.INF)|\.nan|\.NaN|\.NAN")


def resolve_plain(text: str) -> ScalarValue | BadNumber:
    """Return the value of a plain scalar by the core schema of YAML 1.2: `NO` and `1:30` are texts."""
    if text in _NULLS:
        return None
    if text in _BOOLEANS:
        return _BOOLEANS[text]
    if _FLOAT.fullmatch(text) or _BASED.fullmatch(text):
        return _number(text)
    return BadNumber() if _NOT_FINITE.fullmatch(text) else text


def _number(text: str) -> int | Decimal | BadNumber:
    exponent = text.lower().partition("e")[2] if not text.startswith("0x") else ""
    if len(text) > _MOST_NUMBER_CHARS or (exponent and abs(int(exponent)) > _MOST_EXPONENT):
        return BadNumber()
    if _INTEGER.fullmatch(text):
        return int(text)
    return int(text, 0) if _BASED.fullmatch(text) else Decimal(text)


def escape(key: str) -> str:
    """Return a key as a part of a JSON pointer."""
    return key.replace("~", "~0").replace("/", "~1")
