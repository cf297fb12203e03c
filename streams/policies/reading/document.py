"""Read a whole policy from its nodes; every part is read, whatever was wrong with another (G111, G112)."""

import re
from collections.abc import Mapping
from datetime import timedelta
from decimal import Decimal
from typing import Final

from schemas.enums import DecisionOutcome, RiskLevel
from schemas.policies import PolicyFault
from schemas.policy_documents import DEFAULT_RISK, Hold, PolicyDocument, WalletShares
from schemas.policy_fields import WALLET_CHECK_FIELD, MetadataType
from schemas.transactions import OUTCOME_CLASS
from streams.policies.examples import failure_of
from streams.policies.reading.checks import CheckReader
from streams.policies.reading.conditions import ConditionReader
from streams.policies.reading.examples import ExampleReader
from streams.policies.reading.features import CURRENCY_FORM, KnownFeature, read_features
from streams.policies.reading.names import Names
from streams.policies.reading.nodes import MappingNode, Node
from streams.policies.reading.problems import Problems
from streams.policies.reading.rules import RuleReader
from streams.policies.reading.values import Keys, Values, in_order

POLICY: Final = "transactions"
"""The one policy so far (G110)."""

_KEYS: Final = Keys(
    ("policy", "features", "checks", "rules"),
    ("description", "base_currency", "score", "risk", "hold", "wallets", "tests", "metadata"),
)
_HOLD_KEYS: Final = Keys((), ("expires_after", "on_expiry"))
_WALLET_KEYS: Final = Keys((), ("block_share", "flag_share"))
_RISK_KEYS: Final = Keys((), tuple(DEFAULT_RISK))
_NAME: Final = re.compile(POLICY)
_METADATA_FORM: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_MOST_METADATA: Final = 32
_MOST_TOTAL: Final = 100_000
_LONGEST_HOLD: Final = timedelta(days=30)

_OF_SCORES: Final = frozenset(DecisionOutcome) - {DecisionOutcome.ALLOW, DecisionOutcome.END_STREAM}
_OF_EXPIRY: Final = frozenset(DecisionOutcome) - {
    DecisionOutcome.HOLD,
    DecisionOutcome.END_STREAM,
    DecisionOutcome.SUSPEND,
}


def read_document(root: Node, problems: Problems, known_lists: frozenset[str] | None) -> PolicyDocument:
    """Return the document.

    Raises:
        Refused: It has problems; with every one of them.
    """
    reader = _DocumentReader(Values(problems), known_lists)
    document = reader.read(root)
    if problems or document is None:
        raise problems.refusal()
    reader.run_tests(document)
    if problems:
        raise problems.refusal()
    return document


class _DocumentReader:
    """Reads the parts of a policy in the order in which they need one another."""

    def __init__(self, values: Values, known_lists: frozenset[str] | None) -> None:
        self._values = values
        self._problems = values.problems
        self._checks = CheckReader(values, known_lists)
        self._expected: tuple[Node, ...] = ()

    def read(self, root: Node) -> PolicyDocument | None:
        """Return the document as far as it could be read."""
        values = self._values
        entries = values.mapping(root, _KEYS)
        if entries is None:
            return None
        if "policy" in entries:
            values.matching(entries["policy"], _NAME, f"the name of a policy, which is `{POLICY}`")
        known = read_features(values, entries["features"]) if "features" in entries else {}
        metadata = self._metadata(entries.get("metadata"))
        checks = self._checks.read(entries["checks"]) if "checks" in entries else ()
        checked = {f"checks.{check.check}.{target}" for check in checks for target in check.targets}
        whole = len(checks) == len(getattr(entries.get("checks"), "items", ()))
        may_read = frozenset(checked | {WALLET_CHECK_FIELD}) if whole else None
        names = Names(values, known, metadata, may_read)
        conditions = ConditionReader(values, names, self._checks.list_name)
        rules = RuleReader(values, conditions, names)
        read_rules = rules.read(entries["rules"]) if "rules" in entries else ()
        self._unused(known, names.used)
        examples = ExampleReader(values, conditions, names, rules.ids)
        tests = examples.read(entries["tests"]) if "tests" in entries else ()
        self._expected = tuple(place for _, place in tests)
        return PolicyDocument(
            policy=POLICY,
            features=tuple(each.feature for each in known.values() if each.feature is not None),
            checks=checks,
            rules=read_rules,
            description=self._description(entries.get("description")),
            base_currency=self._currency(entries.get("base_currency")),
            score=self._scores(entries.get("score")),
            risk=self._risk(entries.get("risk")),
            hold=self._hold(entries.get("hold")),
            wallets=self._wallets(entries.get("wallets")),
            tests=tuple(test for test, _ in tests),
            metadata=metadata,
        )

    def run_tests(self, document: PolicyDocument) -> None:
        """Run the tests inside the document and record those that fail."""
        for test, place in zip(document.tests, self._expected, strict=True):
            failure = failure_of(document, test)
            if failure is not None:
                self._problems.add(PolicyFault.TEST_FAILED, place, f"{test.name}: {failure}")

    def _unused(self, known: Mapping[str, KnownFeature], used: set[str]) -> None:
        for name, feature in known.items():
            if name not in used:
                message = f"No rule uses the feature `{name}`."
                self._problems.add(PolicyFault.FEATURE_UNUSED, feature.place, message)

    def _description(self, node: Node | None) -> str | None:
        form = re.compile(r"(?s).{0,2000}")
        return (
            None if node is None else self._values.matching(node, form, "a text of at most 2000 characters")
        )

    def _currency(self, node: Node | None) -> str | None:
        return None if node is None else self._values.matching(node, CURRENCY_FORM, "a currency such as EUR")

    def _metadata(self, node: Node | None) -> dict[str, MetadataType]:
        found: dict[str, MetadataType] = {}
        if node is None or self._values.open_mapping(node) is None or not isinstance(node, MappingNode):
            return found
        if len(node.entries) > _MOST_METADATA:
            message = f"A transaction has at most {_MOST_METADATA} keys of metadata."
            self._problems.add(PolicyFault.VALUE_RANGE, node, message)
        for key, value in node.entries.items():
            if not _METADATA_FORM.fullmatch(key):
                message = "A key of metadata has 1 to 64 of letters, digits, _ and -."
                self._problems.add(PolicyFault.VALUE_RANGE, node.keys[key], message)
            declared = self._values.word(value, MetadataType, "type of metadata")
            found[key] = declared or MetadataType.STRING
        return found

    def _scores(self, node: Node | None) -> dict[DecisionOutcome, int]:
        found: dict[DecisionOutcome, int] = {}
        if node is None or self._values.open_mapping(node) is None or not isinstance(node, MappingNode):
            return found
        for key, value in node.entries.items():
            points = self._values.integer(value, 1, _MOST_TOTAL)
            place = node.keys[key]
            if key not in set(DecisionOutcome):
                self._problems.unknown(PolicyFault.DECISION_UNKNOWN, place, "decision", key, _OF_SCORES)
            elif key not in _OF_SCORES:
                message = f"{key} cannot be decided by a score."
                self._problems.add(PolicyFault.DECISION_NOT_HERE, place, message)
            elif points is not None:
                found[DecisionOutcome(key)] = points
        self._order(node, [found.get(outcome) for outcome in OUTCOME_CLASS], "the gravity of its decision")
        return found

    def _risk(self, node: Node | None) -> Mapping[RiskLevel, int]:
        entries = self._values.mapping(node, _RISK_KEYS) if node else None
        if node is None or entries is None:
            return DEFAULT_RISK
        read = {
            level: self._values.integer(entries[level], 1, _MOST_TOTAL)
            for level in DEFAULT_RISK
            if level in entries
        }
        levels = {level: read.get(level) or usual for level, usual in DEFAULT_RISK.items()}
        self._order(node, list(levels.values()), "its level, LOW first; a level left out has its usual score")
        return levels

    def _order(self, node: Node, scores: list[int | None], what: str) -> None:
        if not in_order(scores):
            message = f"Each score must be above the one before, in the order of {what}."
            self._problems.add(PolicyFault.THRESHOLDS_ORDER, node, message)

    def _hold(self, node: Node | None) -> Hold:
        entries = self._values.mapping(node, _HOLD_KEYS) if node else None
        if entries is None:
            return Hold()
        after, then = entries.get("expires_after"), entries.get("on_expiry")
        because = "a hold that expired must end, and only itself"
        return Hold(
            (after and self._values.duration(after, _LONGEST_HOLD)) or Hold().expires_after,
            (then and self._values.decision(then, _OF_EXPIRY, because)) or Hold().on_expiry,
        )

    def _wallets(self, node: Node | None) -> WalletShares:
        entries = self._values.mapping(node, _WALLET_KEYS) if node else None
        if node is None or entries is None:
            return WalletShares()
        shares = WalletShares(
            *(self._share(entries.get(key), getattr(WalletShares(), key)) for key in _WALLET_KEYS.optional)
        )
        if shares.flag_share > shares.block_share:
            message = "`flag_share` is above `block_share`."
            self._problems.add(PolicyFault.THRESHOLDS_ORDER, node, message)
        return shares

    def _share(self, node: Node | None, usual: Decimal) -> Decimal:
        share = None if node is None else self._values.share(node)
        return usual if share is None else share
