"""Parse YAML or JSON to nodes within limits; nothing is constructed, resolved or expanded by PyYAML."""

import codecs
from dataclasses import dataclass, field
from typing import Any, Final

import yaml

from schemas.policies import PolicyFault
from schemas.problems import Refused
from streams.policies.reading.nodes import MappingNode, Node, ScalarNode, SequenceNode, escape, resolve_plain
from streams.policies.reading.problems import Problems, problem_at, refused, show

MOST_BYTES: Final = 256 * 1024
MOST_NODES: Final = 20_000
MOST_DEPTH: Final = 32
"""Deeper than any policy: its conditions have a limit of their own."""

_MOST_POINTER_CHARS: Final = 200
"""A pointer repeats keys of the text, which may be long."""

_MERGE: Final = "<<"
_ENCODINGS: Final = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


def parse(text: bytes, problems: Problems) -> Node:
    """Return the root of the one document of the text; what YAML features are refused is recorded.

    Raises:
        Refused: The text is too long, too deep, not YAML, or empty: nothing can be said of the rest.
    """
    if len(text) > MOST_BYTES:
        raise _at_start(PolicyFault.SIZE, f"A policy has at most {MOST_BYTES // 1024} KiB.")
    decoded = _decode(text)
    builder = _Builder(problems)
    try:
        for event in yaml.parse(decoded, Loader=yaml.CSafeLoader):
            builder.take(event)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        message = f"This is not YAML: {error.problem or error.context}."
        raise refused([problem_at(PolicyFault.YAML_SYNTAX, "", line, column, message)]) from None
    except yaml.YAMLError:
        line, column = _first_unprintable(decoded)
        message = "A character that YAML does not allow stands here."
        raise refused([problem_at(PolicyFault.YAML_SYNTAX, "", line, column, message)]) from None
    if builder.root is None:
        raise _at_start(PolicyFault.YAML_SYNTAX, "The text is empty.")
    return builder.root


def _at_start(fault: PolicyFault, message: str) -> Refused:
    return refused([problem_at(fault, "", 1, 1, message)])


def _decode(text: bytes) -> str:
    mark, encoding = next(
        ((mark, encoding) for mark, encoding in _ENCODINGS if text.startswith(mark)), (b"", "utf-8")
    )
    try:
        return text[len(mark) :].decode(encoding)
    except UnicodeDecodeError as error:
        read = text[len(mark) : len(mark) + error.start].decode(encoding, "replace")
        line, column = read.count("\n") + 1, len(read) - read.rfind("\n")
        message = f"The text is not {encoding.upper()}."
        raise refused([problem_at(PolicyFault.YAML_SYNTAX, "", line, column, message)]) from None


def _first_unprintable(text: str) -> tuple[int, int]:
    for number, line in enumerate(text.split("\n"), start=1):
        for column, character in enumerate(line, start=1):
            if not character.isprintable() and character not in "\t\r":
                return number, column
    return 1, 1


@dataclass(slots=True)
class _Open:
    """A list or mapping whose end was not read yet."""

    place: Node
    is_mapping: bool
    items: list[Node] = field(default_factory=list)
    entries: dict[str, Node] = field(default_factory=dict)
    keys: dict[str, Node] = field(default_factory=dict)
    key: str | None = None
    """The key whose value comes next, while `at_key` is False."""
    at_key: bool = True

    def next_pointer(self) -> str:
        if not self.is_mapping:
            return f"{self.place.pointer}/{len(self.items)}"
        return self.place.pointer if self.at_key else _under(self.place, self.key or "")


def _under(parent: Node, key: str) -> str:
    return f"{parent.pointer}/{escape(key)}"[:_MOST_POINTER_CHARS]


class _Builder:
    """Builds nodes from the events of a parser, without recursion."""

    def __init__(self, problems: Problems) -> None:
        self.root: Node | None = None
        self._problems = problems
        self._open: list[_Open] = []
        self._nodes = 0
        self._documents = 0

    def take(self, event: Any) -> None:
        """Take the next event of the text."""
        if isinstance(event, yaml.DocumentStartEvent):
            self._documents += 1
            if self._documents > 1:
                mark: Any = event.start_mark
                place = Node("", mark.line + 1, mark.column + 1)
                self._problems.add(PolicyFault.YAML_FORBIDDEN, place, "A policy is one document.")
                raise self._problems.refusal()
        elif isinstance(event, yaml.SequenceEndEvent | yaml.MappingEndEvent):
            self._close()
        elif isinstance(event, yaml.NodeEvent):
            self._take_node(event)

    def _take_node(self, event: Any) -> None:
        pointer = self._open[-1].next_pointer() if self._open else ""
        mark: Any = event.start_mark
        place = Node(pointer, mark.line + 1, mark.column + 1)
        self._limit(place)
        self._forbid(event, place)
        if isinstance(event, yaml.SequenceStartEvent | yaml.MappingStartEvent):
            self._open.append(_Open(place, isinstance(event, yaml.MappingStartEvent)))
        elif isinstance(event, yaml.ScalarEvent):
            value = resolve_plain(event.value) if event.implicit[0] else event.value
            self._place(ScalarNode(pointer, place.line, place.column, value), event.value)
        else:
            self._place(place, None)

    def _limit(self, place: Node) -> None:
        self._nodes += 1
        if self._nodes > MOST_NODES:
            self._problems.add(PolicyFault.SIZE, place, f"A policy has at most {MOST_NODES} values.")
            raise self._problems.refusal()
        if len(self._open) >= MOST_DEPTH:
            self._problems.add(PolicyFault.DEPTH, place, f"A policy is at most {MOST_DEPTH} levels deep.")
            raise self._problems.refusal()

    def _forbid(self, event: Any, place: Node) -> None:
        if isinstance(event, yaml.AliasEvent):
            what = "an alias"
        elif event.anchor is not None:
            what = "an anchor"
        elif event.tag is not None:
            what = "a tag"
        else:
            return
        self._problems.add(PolicyFault.YAML_FORBIDDEN, place, f"A policy may not hold {what}.")

    def _close(self) -> None:
        done = self._open.pop()
        place = done.place
        if done.is_mapping:
            self._place(MappingNode(place.pointer, place.line, place.column, done.entries, done.keys), None)
        else:
            self._place(SequenceNode(place.pointer, place.line, place.column, tuple(done.items)), None)

    def _place(self, node: Node, text: str | None) -> None:
        if not self._open:
            self.root = node
            return
        parent = self._open[-1]
        if not parent.is_mapping:
            parent.items.append(node)
        elif parent.at_key:
            self._take_key(parent, node, text)
        else:
            if parent.key is not None:
                parent.entries[parent.key] = node
            parent.at_key = True

    def _take_key(self, parent: _Open, node: Node, text: str | None) -> None:
        parent.at_key = False
        parent.key = text
        place = node if text is None else Node(_under(node, text), node.line, node.column)
        if text is None:
            self._problems.add(PolicyFault.VALUE_TYPE, node, "A key is a word.")
        elif text == _MERGE:
            parent.key = None
            self._problems.add(PolicyFault.YAML_FORBIDDEN, place, "A policy may not hold a merge (`<<`).")
        elif text in parent.keys:
            parent.key = None
            first = parent.keys[text].line
            message = f"The key {show(text)} stands already in line {first}."
            self._problems.add(PolicyFault.KEY_DUPLICATE, place, message)
        else:
            parent.keys[text] = place
