"""Counts of what the agents of transactions did, for metrics; labels are closed sets, never a tenant."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from schemas.ids import TenantId
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

    without_policy: set[TenantId] = field(default_factory=set)
    """Tenants whose published policy did not load when it was last looked for."""

    def note_policy(self, tenant_id: TenantId, *, loads: bool) -> None:
        """Note whether a tenant's published policy loads."""
        if loads:
            self.without_policy.discard(tenant_id)
        else:
            self.without_policy.add(tenant_id)

    def note(self, decided: Decided) -> None:
        """Count a decision that was stored."""
        self.decisions[decided.decision] += 1
        self.check_errors.update(_causes(decided.checks))


def _causes(checks: Iterable[ShownCheck]) -> Iterable[str]:
    for check in checks:
        if check.result is CheckOutcome.ERROR:
            yield from check.findings or ("unknown",)
