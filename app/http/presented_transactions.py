"""Present stored transactions to callers: open what is sealed unless the subject was erased."""

from dataclasses import dataclass
from typing import Final

import msgspec

from schemas.ids import TenantId
from schemas.transaction_decisions import StoredTransaction, Transaction, TransactionDetail
from schemas.transactions import TransactionRequest
from streams.ports.errors import Erased
from streams.ports.stores import Stores
from streams.transactions.opening import PartsToShow, open_shown

_SENT: Final = ("counterparty", "subject", "wallet", "stream", "device", "metadata")
"""What a transaction shows of its request beside its amounts and times."""

_OBJECT: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])


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
        return _with_parts(stored.transaction, await self._parts(tenant_id, stored))

    async def detail(self, tenant_id: TenantId, stored: StoredTransaction) -> bytes:
        """Return the transaction as it stands, with what was sent about it.

        Raises:
            Damaged: The sealed parts are not what was sealed.
            StoreUnavailable: The vault cannot be reached.
        """
        parts, sent = await self._parts(tenant_id, stored), {}
        if parts is not None:
            request = TransactionRequest.from_bytes(bytes(parts.request))
            sent = {name: getattr(request, name) for name in _SENT}
        detail = TransactionDetail(**dict(stored.transaction), decisions=stored.decisions, **sent)
        return _with_parts(detail, parts)

    async def _parts(self, tenant_id: TenantId, stored: StoredTransaction) -> PartsToShow | None:
        try:
            return await open_shown(self.stores, tenant_id, stored)
        except Erased:
            return None


def _with_parts(transaction: Transaction, parts: PartsToShow | None) -> bytes:
    """Return the transaction as JSON, with its rules and checks as they were written."""
    shown = transaction.to_bytes()
    if parts is None:
        return shown
    fields = _OBJECT.decode(shown)
    fields["rules"], fields["checks"] = parts.rules, parts.checks
    return msgspec.json.encode(fields)
