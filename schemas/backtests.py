"""Backtests, and how the decisions of two texts of a policy differ (G115)."""

from datetime import datetime
from typing import Annotated

from pydantic import Field

from schemas.base import Frozen, Timestamp
from schemas.enums import DecisionOutcome, TextEnum
from schemas.ids import BacktestId, SubjectId, TenantId, TransactionId
from schemas.policy_records import NullsWritten


class ChangedDecision(Frozen):
    """A transaction that another text decides otherwise."""

    transaction_id: TransactionId
    before: DecisionOutcome
    """The first answer that was given."""
    after: DecisionOutcome
    rules: tuple[str, ...]
    """The rules of the other text that hit."""


class ShadowRuleHits(Frozen):
    """How often a rule of a shadow hit."""

    id: str
    hits: int


class RuleHits(ShadowRuleHits):
    """How often a rule of the tested text hit, and how often the one of this name did before."""

    hits_before: int


Matrix = dict[DecisionOutcome, dict[DecisionOutcome, int]]
"""Transactions by the decision that was made and the one the other text makes."""


class ShadowReport(NullsWritten):
    """How the text beside the published one would have decided."""

    since: Timestamp
    """From when on transactions are counted."""
    evaluated: int
    changed: int
    matrix: Matrix
    rules: tuple[ShadowRuleHits, ...]
    examples: tuple[ChangedDecision, ...]


class BacktestStatus(TextEnum):
    """How far a backtest is."""

    QUEUED = "QUEUED"
    RUNNING = "RUNNING"
    DONE = "DONE"
    CANCELLED = "CANCELLED"
    FAILED = "FAILED"


UNFINISHED = frozenset({BacktestStatus.QUEUED, BacktestStatus.RUNNING})


class BacktestProgress(Frozen):
    """How many transactions of the span are decided again."""

    done: Annotated[int, Field(ge=0)] = 0
    total: int | None
    """Null until they are counted."""


class BacktestResult(Frozen):
    """How the tested text decides the transactions of the span."""

    evaluated: int
    changed: int
    unknown: int
    """Of those evaluated: a check, list or field the text names was not looked at then."""
    matrix: Matrix
    rules: tuple[RuleHits, ...]
    examples: tuple[ChangedDecision, ...]


class Backtest(NullsWritten):
    """A backtest as its tenant sees it."""

    backtest_id: BacktestId
    policy: str
    revision: int | None
    """Null: the draft as it was when the backtest was asked for."""
    sha256: str
    from_: Timestamp = Field(alias="from")
    to: Timestamp
    subject_id: SubjectId | None
    livemode: bool
    status: BacktestStatus
    progress: BacktestProgress
    created_at: Timestamp
    finished_at: Timestamp | None
    failure: str | None
    """Why it FAILED."""
    result: BacktestResult | None


class StoredBacktest(NullsWritten):
    """A backtest as it is stored; the tested text is in a record of its own."""

    backtest_id: BacktestId
    tenant_id: TenantId
    policy: str
    revision: int | None = None
    sha256: str
    since: Timestamp
    until: Timestamp
    subject_id: SubjectId | None = None
    livemode: bool
    status: BacktestStatus = BacktestStatus.QUEUED
    progress: BacktestProgress = BacktestProgress(total=None)
    created_at: Timestamp
    finished_at: Timestamp | None = None
    failure: str | None = None
    result: BacktestResult | None = None
    claimed_by: str | None = None
    """The worker that runs it."""
    claimed_until: Timestamp | None = None
    """When another worker may take it up, unless this one says that it still runs it."""

    def is_free(self, now: datetime) -> bool:
        """Return whether a worker may take it up."""
        if self.status not in UNFINISHED:
            return False
        return self.claimed_until is None or self.claimed_until <= now


class BacktestWatch(Frozen):
    """That a backtest is not finished; the platform's record, by which workers find those of every tenant."""

    tenant_id: TenantId
    backtest_id: BacktestId
