"""A transaction policy as it is written: checks, features, rules and tests (G112)."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from decimal import Decimal
from types import MappingProxyType
from typing import Final

from schemas.enums import CheckKind, DecisionOutcome, RiskLevel, TextEnum
from schemas.policies import Feature, FeatureValue, FieldValue, RuleMode
from schemas.policy_fields import CheckTarget, MetadataType
from schemas.reasons import ReasonCode
from schemas.transactions import TransactionType

PLACEHOLDER: Final = re.compile(r"\{([^{}]*)\}")
"""A placeholder of a message, such as `{amount}`; a brace that is none of them is an error of the policy."""


def names_in(message: str) -> list[str]:
    """Return the names of a message's placeholders, in their order."""
    return PLACEHOLDER.findall(message)


class Operator(TextEnum):
    """How a leaf compares a field or feature with its value."""

    EQ = "EQ"
    NE = "NE"
    GT = "GT"
    GTE = "GTE"
    LT = "LT"
    LTE = "LTE"
    BETWEEN = "BETWEEN"
    """Both ends included."""
    IN = "IN"
    NOT_IN = "NOT_IN"
    IN_LIST = "IN_LIST"
    NOT_IN_LIST = "NOT_IN_LIST"
    STARTS_WITH = "STARTS_WITH"
    CONTAINS = "CONTAINS"
    IS_NULL = "IS_NULL"
    NOT_NULL = "NOT_NULL"


Literal = str | int | Decimal | bool
"""A value written in a policy; money is a Decimal, so is a number with a fraction."""


@dataclass(frozen=True, slots=True)
class FeatureMultiple:
    """A multiple of a feature, as the value of a leaf."""

    feature: str
    times: Decimal


@dataclass(frozen=True, slots=True)
class Leaf:
    """A comparison of one field or feature."""

    name: str
    is_feature: bool
    op: Operator
    value: Literal | tuple[Literal, ...] | FeatureMultiple | None = None
    """None for IS_NULL and NOT_NULL; the name of the list for IN_LIST and NOT_IN_LIST."""


@dataclass(frozen=True, slots=True)
class AllOf:
    """A condition that holds when all of its parts do."""

    parts: "tuple[Condition, ...]"


@dataclass(frozen=True, slots=True)
class AnyOf:
    """A condition that holds when at least one of its parts does."""

    parts: "tuple[Condition, ...]"


@dataclass(frozen=True, slots=True)
class Not:
    """A condition that holds when its part does not."""

    part: "Condition"


Condition = Leaf | AllOf | AnyOf | Not


@dataclass(frozen=True, slots=True)
class Then:
    """What a rule gives when it hits: a decision, a score, or both."""

    reason_code: str
    message: str
    """With placeholders such as `{amount}`."""
    decision: DecisionOutcome | None = None
    score: int | None = None


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule: a condition and what follows from it."""

    id: str
    mode: RuleMode
    when: Condition
    then: Then
    types: tuple[TransactionType, ...] = ()
    """The types of transactions it is for; empty: every type."""


@dataclass(frozen=True, slots=True)
class Check:
    """A check of the subject or the counterparty, and what its results decide."""

    check: CheckKind
    targets: tuple[CheckTarget, ...]
    on_match: DecisionOutcome
    on_error: DecisionOutcome
    match: Decimal | None = None
    """The score from which a name is a MATCH; None for contacts, like the four below."""
    possible: Decimal | None = None
    on_possible: DecisionOutcome | None = None
    lists: tuple[str, ...] = ()
    """Empty: every list of the check."""
    max_list_age: timedelta | None = None
    corroborate: bool = True
    findings: tuple[ReasonCode, ...] = ()
    """Of contacts: which findings count; empty: all."""


@dataclass(frozen=True, slots=True)
class Hold:
    """How long a HOLD lasts and what becomes of it then."""

    expires_after: timedelta = timedelta(hours=24)
    on_expiry: DecisionOutcome = DecisionOutcome.REVIEW_REQUIRED


@dataclass(frozen=True, slots=True)
class WalletShares:
    """The tainted shares from which a wallet is BLOCK_RECOMMENDED or FLAG."""

    block_share: Decimal = Decimal("0.10")
    flag_share: Decimal = Decimal("0.01")


@dataclass(frozen=True, slots=True)
class PolicyTest:
    """An example inside a policy: what a transaction with these values must come to."""

    name: str
    decision: DecisionOutcome
    hits: tuple[str, ...] | None = None
    """The active rules that must hit, and no others; None: not compared."""
    fields: Mapping[str, FieldValue] = field(default_factory=dict)
    features: Mapping[str, FeatureValue] = field(default_factory=dict)
    lists: Mapping[str, frozenset[str]] = field(default_factory=dict)


DEFAULT_RISK: Final[Mapping[RiskLevel, int]] = MappingProxyType(
    {RiskLevel.MEDIUM: 25, RiskLevel.HIGH: 50, RiskLevel.CRITICAL: 80}
)
"""The risk score from which each level applies when the policy does not say."""


@dataclass(frozen=True, slots=True)
class PolicyDocument:
    """A policy that was read without an error."""

    policy: str
    features: tuple[Feature, ...]
    checks: tuple[Check, ...]
    rules: tuple[Rule, ...]
    description: str | None = None
    base_currency: str | None = None
    score: Mapping[DecisionOutcome, int] = field(default_factory=dict)
    """The sum of scores from which each decision applies, rising with their gravity."""
    risk: Mapping[RiskLevel, int] = field(default_factory=lambda: DEFAULT_RISK)
    hold: Hold = Hold()
    wallets: WalletShares = WalletShares()
    tests: tuple[PolicyTest, ...] = ()
    metadata: Mapping[str, MetadataType] = field(default_factory=dict)
