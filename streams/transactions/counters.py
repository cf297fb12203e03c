"""Counts of what the agents of transactions did, for metrics; labels are closed sets, never a tenant."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from schemas.transaction_decisions import CheckOutcome, ShownCheck
from streams.transactions.rules import Decided


@dataclass(frozen=True, slots=True)
class TransactionCounters:
    """What happened since the process started."""

    decisions: Counter[str] = field(default_factory=Counter)
    """Transactions decided, by outcome."""
    check_errors: Counter[str] = field(default_factory=Counter)
    """Checks that ended ERROR, by cause."""
    key_questions: Counter[str] = field(default_factory=Counter)
    """Questions to the actors of keys for features: answered or unavailable."""
    rows: Counter[str] = field(default_factory=Counter)
    """Velocity rows needed, by whose they are and where they came from."""

    def note(self, decided: Decided) -> None:
        """Count a decision that was stored."""
        self.decisions[decided.decision] += 1
        self.check_errors.update(_causes(decided.checks))


def _causes(checks: Iterable[ShownCheck]) -> Iterable[str]:
    for check in checks:
        if check.result is CheckOutcome.ERROR:
            yield from check.findings or ("unknown",)
