"""The checks of a transaction: which are due, what carries them out, and rules that people suppressed."""

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Protocol

from schemas.enums import CheckKind
from schemas.ids import TenantId
from schemas.policy_documents import Check, PolicyDocument
from schemas.policy_fields import NAME_CHECKS
from schemas.reasons import ReasonCode
from schemas.transaction_decisions import CheckOutcome, ScreenedTarget, ShownCheck, SuppressedRule
from schemas.transactions import Party, TransactionRequest
from streams.lists.loaded import ListState

_NEEDED: Final = {CheckKind.PHONE: "phone", CheckKind.EMAIL: "email", CheckKind.ADDRESS: "address"}
"""The part of a party that a contact check looks at; the others look at its name."""


@dataclass(frozen=True, slots=True)
class CheckContext:
    """Whose transaction is checked, and when."""

    tenant_id: TenantId
    livemode: bool
    subject_key: str
    """Of its commands; it names nobody."""
    at: datetime
    lists: ListState | None = None
    """The lists that all checks of the transaction are made against; None: as they are."""


class CheckProvider(Protocol):
    """Carries out one kind of check; it answers within the decision's deadline, or with ERROR."""

    async def __call__(
        self, check: Check, target: ScreenedTarget, party: Party, context: CheckContext
    ) -> ShownCheck:
        """Return what the check found about a party that has what the check looks at.

        A failure of the provider is an ERROR with its reason among the findings; it is not raised.

        Raises:
            StoreUnavailable: What the check needs cannot be read; the command is executed again.
        """
        ...


class Checks:
    """Carries the checks of a policy out; one without a provider is ERROR, and the policy decides."""

    def __init__(self, providers: Mapping[CheckKind, CheckProvider] | None = None) -> None:
        self._providers = providers or {}

    async def __call__(
        self, policy: PolicyDocument, request: TransactionRequest, context: CheckContext
    ) -> tuple[ShownCheck, ...]:
        """Return every check of the policy on each of its targets."""
        due = [self._one(*one, context) for one in _due(policy, request)]
        return tuple(await asyncio.gather(*due))

    async def _one(
        self, check: Check, target: ScreenedTarget, party: Party | None, context: CheckContext
    ) -> ShownCheck:
        if party is None or getattr(party, _NEEDED.get(check.check, "name")) is None:
            return ShownCheck(check=check.check, target=target, result=CheckOutcome.NOT_EVALUATED)
        provider = self._providers.get(check.check)
        if provider is None:
            return unavailable(check.check, target)
        return await provider(check, target, party, context)


def unavailable(check: CheckKind, target: ScreenedTarget) -> ShownCheck:
    """Return the result of a check that cannot be made: no list is loaded, or nothing can make it."""
    reason = ReasonCode.LIST_MISSING if check in NAME_CHECKS else ReasonCode.CHECK_UNAVAILABLE
    return ShownCheck(check=check, target=target, result=CheckOutcome.ERROR, findings=(reason,))


def _due(
    policy: PolicyDocument, request: TransactionRequest
) -> Iterator[tuple[Check, ScreenedTarget, Party | None]]:
    parties = {"counterparty": request.counterparty, "subject": request.subject}
    for check in policy.checks:
        for target in check.targets:
            yield check, ScreenedTarget(target), parties[target]


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
