"""Present stored transactions to callers: open what is sealed unless the subject was erased."""

from dataclasses import dataclass
from typing import Final

from pydantic import RootModel

from schemas.ids import TenantId
from schemas.transaction_decisions import (
    SealedParts,
    ShownRule,
    StoredTransaction,
    Transaction,
    TransactionDetail,
)
from streams.ports.errors import Erased
from streams.ports.stores import Stores
from streams.transactions.opening import open_parts

_SENT = ("counterparty", "subject", "wallet", "stream", "device", "metadata")
"""What a transaction shows of its request beside its amounts and times."""

_NULL: Final = RootModel[None](None)
"""Is written as `null`, where None is left out."""


@dataclass(frozen=True, slots=True)
class PresentedTransactions:
    """Opens the sealed parts of a transaction."""

    stores: Stores

    async def answer(self, tenant_id: TenantId, stored: StoredTransaction) -> bytes:
        """Return the decision as JSON, the same bytes each time.

        Raises:
            Damaged: The sealed parts are not what was sealed.
            StoreUnavailable: The vault cannot be reached.
        """
        return _with_parts(stored.transaction, await self._parts(tenant_id, stored)).to_bytes()

    async def detail(self, tenant_id: TenantId, stored: StoredTransaction) -> bytes:
        """Return the transaction as it stands, with what was sent about it.

        Raises:
            Damaged: The sealed parts are not what was sealed.
            StoreUnavailable: The vault cannot be reached.
        """
        parts = await self._parts(tenant_id, stored)
        shown = dict(_with_parts(stored.transaction, parts))
        sent = {} if parts is None else {name: getattr(parts.request, name) for name in _SENT}
        return TransactionDetail(**shown, decisions=stored.decisions, **sent).to_bytes()

    async def _parts(self, tenant_id: TenantId, stored: StoredTransaction) -> SealedParts | None:
        try:
            return await open_parts(self.stores, tenant_id, stored)
        except Erased:
            return None


def _with_parts(transaction: Transaction, parts: SealedParts | None) -> Transaction:
    if parts is None:
        return transaction
    rules = tuple([_with_nulls(rule) for rule in parts.rules])
    return transaction.model_copy(update={"rules": rules, "checks": parts.checks})


def _with_nulls(rule: ShownRule) -> ShownRule:
    """Return a rule whose inputs without a value show `null`: all it read is shown (G114)."""
    if all(one.value is not None for one in rule.inputs.values()):
        return rule
    inputs = {
        name: one.model_copy(update={"value": _NULL}) if one.value is None else one
        for name, one in rule.inputs.items()
    }
    return rule.model_copy(update={"inputs": inputs})
