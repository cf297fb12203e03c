"""Read the rules of a policy (G112)."""

import re
import unicodedata
from typing import Final

from schemas.enums import DecisionOutcome
from schemas.policies import PolicyFault, RuleMode
from schemas.policy_documents import PLACEHOLDER, Rule, Then
from schemas.policy_fields import FIELDS
from schemas.reasons import ReasonCode
from schemas.transactions import TransactionType
from streams.policies.reading.conditions import ConditionReader
from streams.policies.reading.names import Names
from streams.policies.reading.nodes import Node
from streams.policies.reading.problems import nearest, show
from streams.policies.reading.values import Keys, Values

MOST_RULES: Final = 300
MOST_SCORE: Final = 1_000
_MOST_MESSAGE_CHARS: Final = 300

_KEYS: Final = Keys(("id", "mode", "when", "then"), ("types",))
_THEN_KEYS: Final = Keys(("reason",), ("decision", "score"))
_REASON_KEYS: Final = Keys(("code", "message"))
_ID_FORM: Final = re.compile(r"[a-z][a-z0-9_-]{0,63}")
_CODE_FORM: Final = re.compile(r"POLICY_[A-Z0-9_]{1,48}")
_EVERY: Final = frozenset(DecisionOutcome)
_ONLY_STREAM: Final = (TransactionType.STREAM_TICK,)


class RuleReader:
    """Reads rules, with conditions over the features of the policy."""

    def __init__(self, values: Values, conditions: ConditionReader, names: Names) -> None:
        self._values = values
        self._conditions = conditions
        self._placeholders = {name for name, spec in FIELDS.items() if not spec.personal} | set(
            names.features
        )
        self._names = names
        self._lines: dict[str, int] = {}

    @property
    def ids(self) -> frozenset[str]:
        """The ids that were read so far, of rules with errors too."""
        return frozenset(self._lines)

    def read(self, node: Node) -> tuple[Rule, ...]:
        """Return the rules that have no error."""
        items = self._values.sequence(node, MOST_RULES)
        return tuple(rule for item in items if (rule := self._rule(item)) is not None)

    def _rule(self, item: Node) -> Rule | None:
        values = self._values
        entries = values.mapping(item, _KEYS)
        if entries is None:
            return None
        rule_id = self._id(entries["id"]) if "id" in entries else None
        mode = values.word(entries["mode"], RuleMode, "mode of a rule") if "mode" in entries else None
        when = self._conditions.read(entries["when"]) if "when" in entries else None
        types = self._types(entries["types"]) if "types" in entries else ()
        then = self._then(entries["then"], types) if "then" in entries else None
        if rule_id is None or mode is None or when is None or then is None:
            return None
        return Rule(rule_id, mode, when, then, types)

    def _id(self, node: Node) -> str | None:
        rule_id = self._values.matching(
            node, _ID_FORM, "an id of 1 to 64 of a-z, 0-9, _ and -, a letter first"
        )
        if rule_id is None:
            return None
        if rule_id in self._lines:
            message = f"The rule {show(rule_id)} stands already in line {self._lines[rule_id]}."
            self._values.problems.add(PolicyFault.RULE_DUPLICATE, node, message)
        self._lines.setdefault(rule_id, node.line)
        return rule_id

    def _types(self, node: Node) -> tuple[TransactionType, ...]:
        items = self._values.sequence(node, len(TransactionType), 1)
        read = (self._values.word(item, TransactionType, "type of transaction") for item in items)
        return tuple(dict.fromkeys(kind for kind in read if kind is not None))

    def _then(self, node: Node, types: tuple[TransactionType, ...]) -> Then | None:
        values = self._values
        entries = values.mapping(node, _THEN_KEYS)
        if entries is None:
            return None
        if "decision" not in entries and "score" not in entries:
            message = "A rule gives a `decision`, a `score` or both."
            values.problems.add(PolicyFault.KEY_MISSING, node, message)
        here = _EVERY if types == _ONLY_STREAM else _EVERY - {DecisionOutcome.END_STREAM}
        because = "END_STREAM needs `types: [STREAM_TICK]`"
        decision = values.decision(entries["decision"], here, because) if "decision" in entries else None
        score = values.integer(entries["score"], 1, MOST_SCORE) if "score" in entries else None
        reason = values.mapping(entries["reason"], _REASON_KEYS) if "reason" in entries else None
        if reason is None:
            return None
        code = self._code(reason["code"]) if "code" in reason else None
        message_text = self._message(reason["message"]) if "message" in reason else None
        return Then(code or "", message_text or "", decision, score)

    def _code(self, node: Node) -> str | None:
        code = self._values.text(node)
        if code is None:
            return None
        if code in {str(known) for known in ReasonCode} or not code.startswith("POLICY_"):
            message = f"{show(code)} is reserved; a policy's own codes begin with `POLICY_`."
            self._values.problems.add(PolicyFault.REASON_RESERVED, node, message)
            return None
        return self._values.matching(node, _CODE_FORM, "`POLICY_` and 1 to 48 of A-Z, 0-9 and _")

    def _message(self, node: Node) -> str | None:
        text = self._values.text(node)
        if text is None:
            return None
        if not 0 < len(text) <= _MOST_MESSAGE_CHARS or not _is_one_line(text):
            message = f"A message is one line of 1 to {_MOST_MESSAGE_CHARS} characters."
            self._values.problems.add(PolicyFault.VALUE_RANGE, node, message)
            return None
        for name in dict.fromkeys(PLACEHOLDER.findall(text)):
            self._placeholder(node, name)
        if set(PLACEHOLDER.sub("", text)) & {"{", "}"}:
            message = "A brace of the message belongs to no placeholder."
            self._values.problems.add(PolicyFault.PLACEHOLDER_UNKNOWN, node, message)
        return text

    def _placeholder(self, node: Node, name: str) -> None:
        if name in self._names.features:
            self._names.used.add(name)
        if name in self._placeholders:
            return
        if name in FIELDS or name.startswith("metadata."):
            message = f"{show(name)} can be personal data, which no reason repeats."
        else:
            near = nearest(name, sorted(self._placeholders))
            message = f"{show(name)} is no field or feature to show in a reason.{near}"
        self._values.problems.add(PolicyFault.PLACEHOLDER_UNKNOWN, node, message)


def _is_one_line(text: str) -> bool:
    return not any(unicodedata.category(character) in {"Cc", "Cs", "Zl", "Zp"} for character in text)
