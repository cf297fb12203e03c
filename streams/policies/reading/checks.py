"""Read the checks of a policy (G112)."""

import re
from collections.abc import Callable, Mapping
from datetime import timedelta
from decimal import Decimal
from typing import Final, TypeVar

from schemas.enums import CheckKind, DecisionOutcome
from schemas.policies import PolicyFault
from schemas.policy_documents import Check
from schemas.policy_fields import NAME_CHECKS, POLICY_CHECKS, CheckTarget, findings_of
from schemas.reasons import ReasonCode
from streams.policies.reading.nodes import MappingNode, Node
from streams.policies.reading.problems import show
from streams.policies.reading.values import Keys, Values

MOST_CHECKS: Final = 40
MOST_LISTS: Final = 100
_LONGEST_LIST_AGE: Final = timedelta(days=400)
_LIST_FORM: Final = re.compile(r"[a-z][a-z0-9_]{1,63}")

_ALWAYS: Final = ("check", "targets", "on_match", "on_error")
_NAME_KEYS: Final = Keys(
    (*_ALWAYS, "match", "possible", "on_possible"), ("lists", "max_list_age", "corroborate")
)
_CONTACT_KEYS: Final = Keys(_ALWAYS, ("findings",))
_ANY_KEYS: Final = Keys(_ALWAYS, (*_NAME_KEYS.required[4:], *_NAME_KEYS.optional, *_CONTACT_KEYS.optional))

_OF_CHECKS: Final = frozenset(DecisionOutcome) - {DecisionOutcome.END_STREAM}
_OF_ERRORS: Final = _OF_CHECKS - {DecisionOutcome.ALLOW, DecisionOutcome.SUSPEND}
_NO_STREAM: Final = "only a rule for STREAM_TICK alone ends a stream"
_NOT_CHECKED: Final = "what was not checked is neither allowed nor the subject's fault"

_Read = TypeVar("_Read")


class CheckReader:
    """Reads checks; `known_lists` are the lists that a policy may name, or None when that is not known."""

    def __init__(self, values: Values, known_lists: frozenset[str] | None) -> None:
        self._values = values
        self._known_lists = known_lists

    def read(self, node: Node) -> tuple[Check, ...]:
        """Return the checks that have no error."""
        items = self._values.sequence(node, MOST_CHECKS)
        return tuple(check for item in items if (check := self._check(item)) is not None)

    def list_name(self, node: Node) -> str | None:
        """Return the name of a list that exists."""
        name = self._values.text(node)
        if name is None:
            return None
        if self._known_lists is None and _LIST_FORM.fullmatch(name):
            return name
        if self._known_lists is not None and name in self._known_lists:
            return name
        self._values.problems.unknown(PolicyFault.LIST_UNKNOWN, node, "list", name, self._known_lists or ())
        return None

    def _check(self, item: Node) -> Check | None:
        values = self._values
        kind = self._kind(item)
        entries = values.mapping(item, _keys_of(kind))
        if entries is None:
            return None
        on_match = self._decision(entries.get("on_match"), _OF_CHECKS, _NO_STREAM)
        on_error = self._decision(entries.get("on_error"), _OF_ERRORS, _NOT_CHECKED)
        on_possible = self._decision(entries.get("on_possible"), _OF_CHECKS, _NO_STREAM)
        match, possible = self._thresholds(entries)
        age, corroborate = entries.get("max_list_age"), entries.get("corroborate")
        check = Check(
            check=kind or CheckKind.SANCTIONS,
            targets=self._each(entries.get("targets"), len(CheckTarget), self._target, least=1),
            on_match=on_match or DecisionOutcome.HOLD,
            on_error=on_error or DecisionOutcome.HOLD,
            match=match,
            possible=possible,
            on_possible=on_possible,
            lists=self._each(entries.get("lists"), MOST_LISTS, self.list_name, least=1),
            max_list_age=None if age is None else values.duration(age, _LONGEST_LIST_AGE),
            corroborate=corroborate is None or values.boolean(corroborate) is not False,
            findings=self._findings(entries.get("findings"), kind),
        )
        return None if kind is None else check

    def _kind(self, item: Node) -> CheckKind | None:
        node = item.entries.get("check") if isinstance(item, MappingNode) else None
        if node is None:
            return None
        known = {str(kind): kind for kind in CheckKind}
        kind = self._values.word_of(node, known, "check", PolicyFault.CHECK_UNKNOWN)
        if kind is None or kind in POLICY_CHECKS:
            return kind
        message = f"{kind} is a check of verifications; a policy may name {', '.join(POLICY_CHECKS)}."
        self._values.problems.add(PolicyFault.CHECK_NOT_HERE, node, message)
        return None

    def _decision(
        self, node: Node | None, here: frozenset[DecisionOutcome], because: str
    ) -> DecisionOutcome | None:
        return None if node is None else self._values.decision(node, here, because)

    def _thresholds(self, entries: Mapping[str, Node]) -> tuple[Decimal | None, Decimal | None]:
        match, possible = (
            self._values.fraction(entries[key], "0.5", "1") if key in entries else None
            for key in ("match", "possible")
        )
        if match is not None and possible is not None and possible > match:
            message = "`possible` is above `match`."
            self._values.problems.add(PolicyFault.THRESHOLDS_ORDER, entries["possible"], message)
        return match, possible

    def _target(self, node: Node) -> CheckTarget | None:
        return self._values.word(node, CheckTarget, "target of a check")

    def _findings(self, node: Node | None, kind: CheckKind | None) -> tuple[ReasonCode, ...]:
        known = {str(code): code for code in (findings_of(kind) if kind else ())}
        if not known:
            return ()
        return self._each(
            node, len(known), lambda item: self._values.word_of(item, known, f"finding of {kind}"), least=1
        )

    def _each(
        self, node: Node | None, most: int, read: Callable[[Node], _Read | None], least: int
    ) -> tuple[_Read, ...]:
        """Return each item of a list once; one that stands twice is a problem."""
        found: list[_Read] = []
        for item in () if node is None else self._values.sequence(node, most, least):
            value = read(item)
            if value is not None and value in found:
                message = f"{show(value)} stands here twice."
                self._values.problems.add(PolicyFault.VALUE_RANGE, item, message)
            elif value is not None:
                found.append(value)
        return tuple(found)


def _keys_of(kind: CheckKind | None) -> Keys:
    if kind is None:
        return _ANY_KEYS
    return _NAME_KEYS if kind in NAME_CHECKS else _CONTACT_KEYS
