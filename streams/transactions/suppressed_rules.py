"""Which rules do not count for the parties of a transaction, because a person judged so (G120)."""

from collections.abc import Mapping
from typing import Protocol

from schemas.ids import TenantId
from schemas.transaction_decisions import SuppressedRule
from schemas.transactions import TransactionRequest
from streams.transactions.checks import CheckContext


class RuleSuppressions(Protocol):
    """Looks up the rules whose hits persons judged to be false positives."""

    async def of_rules(
        self, tenant_id: TenantId, subject_key: str, counterparty_id: str | None, *, livemode: bool
    ) -> Mapping[str, SuppressedRule]:
        """Return those about a subject or a counterparty that count now, by rule id.

        Raises:
            StoreUnavailable: They cannot be read for now.
        """
        ...


async def rules_suppressed_for(
    suppressions: RuleSuppressions | None, request: TransactionRequest, context: CheckContext
) -> Mapping[str, SuppressedRule]:
    """Return the rules judged not to concern the subject or the counterparty; raises as `of_rules`."""
    if suppressions is None:
        return {}
    counterparty_id = None if request.counterparty is None else request.counterparty.id
    return await suppressions.of_rules(
        context.tenant_id, context.subject_key, counterparty_id, livemode=context.livemode
    )
