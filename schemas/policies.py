"""Transaction policies: the vocabularies of the document, of its features and of its faults (G111-G113)."""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from types import MappingProxyType
from typing import Final, NamedTuple

from schemas.base import Frozen
from schemas.enums import DecisionOutcome, TextEnum
from schemas.transactions import Direction, OutcomeClass, TransactionType


class Metric(TextEnum):
    """What a feature computes over the earlier transactions of its key."""

    COUNT = "COUNT"
    COUNT_DISTINCT = "COUNT_DISTINCT"
    SUM = "SUM"
    AVG = "AVG"
    MIN = "MIN"
    MAX = "MAX"
    STDDEV = "STDDEV"
    SECONDS_SINCE_LAST = "SECONDS_SINCE_LAST"
    SECONDS_SINCE_FIRST = "SECONDS_SINCE_FIRST"


class Window(TextEnum):
    """How far back a feature looks."""

    MINUTE_1 = "1m"
    MINUTES_5 = "5m"
    MINUTES_15 = "15m"
    HOUR_1 = "1h"
    HOURS_6 = "6h"
    HOURS_24 = "24h"
    DAYS_7 = "7d"
    DAYS_30 = "30d"
    DAYS_90 = "90d"


_MINUTE_MS: Final = 60_000
_HOUR_MS: Final = 60 * _MINUTE_MS
_DAY_MS: Final = 24 * _HOUR_MS

WINDOW_MS: Final[Mapping[Window, int]] = MappingProxyType(
    {
        Window.MINUTE_1: _MINUTE_MS,
        Window.MINUTES_5: 5 * _MINUTE_MS,
        Window.MINUTES_15: 15 * _MINUTE_MS,
        Window.HOUR_1: _HOUR_MS,
        Window.HOURS_6: 6 * _HOUR_MS,
        Window.HOURS_24: _DAY_MS,
        Window.DAYS_7: 7 * _DAY_MS,
        Window.DAYS_30: 30 * _DAY_MS,
        Window.DAYS_90: 90 * _DAY_MS,
    }
)
"""The length of each window in milliseconds."""


class FeatureKey(TextEnum):
    """Whose earlier transactions a feature looks at: those with the same value here."""

    SUBJECT_ID = "subject_id"
    SUBJECT_ACCOUNT = "subject.account"
    COUNTERPARTY_ID = "counterparty.id"
    COUNTERPARTY_ACCOUNT = "counterparty.account"
    DEVICE_ID = "device.id"
    DEVICE_IP = "device.ip"
    WALLET_ADDRESS = "wallet.address"


class AmountField(TextEnum):
    """The money a feature sums."""

    AMOUNT = "amount"
    """Of the same currency only."""
    BASE_AMOUNT = "base_amount"
    """Of the same base currency only; a transaction without one is left out."""


class DistinctField(TextEnum):
    """What COUNT_DISTINCT counts."""

    COUNTERPARTY_ID = "counterparty.id"
    COUNTERPARTY_ACCOUNT = "counterparty.account"
    COUNTERPARTY_COUNTRY = "counterparty.country"
    DEVICE_ID = "device.id"
    DEVICE_IP = "device.ip"
    WALLET_ADDRESS = "wallet.address"


class FeatureFilter(Frozen):
    """Which of the earlier transactions count; None: all."""

    direction: Direction | None = None
    type: TransactionType | None = None
    currency: str | None = None
    outcome: OutcomeClass | None = None
    """Of the transaction's first answer."""


class Feature(Frozen):
    """A feature of a policy: a metric over the earlier transactions of a key in a window."""

    name: str
    metric: Metric
    window: Window
    key: FeatureKey
    field: AmountField | DistinctField | None = None
    """None for COUNT and seconds; a distinct field for COUNT_DISTINCT; an amount for the others."""
    where: FeatureFilter = FeatureFilter()


@dataclass(frozen=True, slots=True)
class FeatureValue:
    """The value of a feature for one transaction; None: there is nothing to compute it from (G113)."""

    value: int | Decimal | None
    """A count or seconds as int, money as Decimal."""
    exact: bool = True
    """Whether every transaction of the window was known one by one."""
    available: bool = True
    """False: what knows the earlier transactions did not answer, and nothing is known of the value."""


FieldValue = str | int | Decimal | bool | tuple[str, ...] | None
"""The value of a field of a transaction; None: the transaction does not have it."""


class RuleMode(TextEnum):
    """Whether a rule is applied."""

    ACTIVE = "ACTIVE"
    SHADOW = "SHADOW"
    """Evaluated and shown, never applied."""
    DISABLED = "DISABLED"
    """Neither evaluated nor shown."""


class RuleOutcome(TextEnum):
    """What the evaluation of a rule came to."""

    HIT = "HIT"
    MISS = "MISS"
    SKIPPED = "SKIPPED"
    """The transaction lacks a value that the rule compares."""
    ERROR = "ERROR"
    """A list that the rule names is not loaded; counts as HOLD (G114)."""


class RuleInput(NamedTuple):
    """A value that a rule read."""

    value: FieldValue
    exact: bool = True


@dataclass(frozen=True, slots=True)
class RuleReason:
    """The reason a rule gives, its placeholders filled."""

    code: str
    message: str


class RuleResult(NamedTuple):
    """What one rule came to, and everything it read."""

    id: str
    mode: RuleMode
    result: RuleOutcome
    inputs: Mapping[str, RuleInput]
    """By the name of the field or feature, in the order in which the rule names them."""
    decision: DecisionOutcome | None = None
    """Of a HIT alone."""
    score: int = 0
    """Of a HIT alone; 0: the rule gives none."""
    reason: RuleReason | None = None
    """Of a HIT alone."""
    missing: tuple[str, ...] = ()
    """What was null, of a SKIPPED rule; the lists that are not loaded, of an ERROR."""


class PolicyFault(TextEnum):
    """The rule of the policy language that a text breaks."""

    YAML_SYNTAX = "YAML_SYNTAX"
    YAML_FORBIDDEN = "YAML_FORBIDDEN"
    """An anchor, an alias, a tag, a merge or a second document."""
    SIZE = "SIZE"
    DEPTH = "DEPTH"
    KEY_UNKNOWN = "KEY_UNKNOWN"
    KEY_MISSING = "KEY_MISSING"
    KEY_DUPLICATE = "KEY_DUPLICATE"
    VALUE_TYPE = "VALUE_TYPE"
    VALUE_RANGE = "VALUE_RANGE"
    CHECK_UNKNOWN = "CHECK_UNKNOWN"
    CHECK_NOT_HERE = "CHECK_NOT_HERE"
    """A check of verifications."""
    OP_UNKNOWN = "OP_UNKNOWN"
    OP_TYPE = "OP_TYPE"
    """An operator that the type of the field or feature does not have."""
    METRIC_UNKNOWN = "METRIC_UNKNOWN"
    WINDOW_UNKNOWN = "WINDOW_UNKNOWN"
    FIELD_UNKNOWN = "FIELD_UNKNOWN"
    FEATURE_UNKNOWN = "FEATURE_UNKNOWN"
    FEATURE_UNUSED = "FEATURE_UNUSED"
    FEATURE_DUPLICATE = "FEATURE_DUPLICATE"
    LIST_UNKNOWN = "LIST_UNKNOWN"
    DECISION_UNKNOWN = "DECISION_UNKNOWN"
    DECISION_NOT_HERE = "DECISION_NOT_HERE"
    RULE_DUPLICATE = "RULE_DUPLICATE"
    THRESHOLDS_ORDER = "THRESHOLDS_ORDER"
    PLACEHOLDER_UNKNOWN = "PLACEHOLDER_UNKNOWN"
    REASON_RESERVED = "REASON_RESERVED"
    TEST_FAILED = "TEST_FAILED"
