"""Present stored transactions to callers: open what is sealed unless the subject was erased."""

from dataclasses import dataclass

from schemas.ids import TenantId
from schemas.transaction_decisions import SealedParts, StoredTransaction, Transaction, TransactionDetail
from streams.ports.errors import Erased
from streams.ports.stores import Stores
from streams.transactions.velocity import open_parts

_SENT = ("counterparty", "subject", "wallet", "stream", "device", "metadata")
"""What a transaction shows of its request beside its amounts and times."""


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
    return transaction.model_copy(update={"rules": parts.rules, "checks": parts.checks})
