"""Judge a wallet by the lists and by the tenant's own ledger (G41, G124)."""

from dataclasses import dataclass
from datetime import datetime

from schemas.ids import TenantId
from schemas.transactions import Chain
from schemas.wallets import WalletAddress, WalletRisk
from streams.ports.records import Records
from streams.wallets import rules
from streams.wallets.formats import spellings
from streams.wallets.ledger import Taint, trace
from streams.wallets.nodes import ListedNodes, NodeNames
from streams.wallets.ports import ListedWallets
from streams.wallets.transfers import StoredLedger


@dataclass(frozen=True, slots=True)
class Judged:
    """The risk of a wallet, and the taint it was concluded from."""

    risk: WalletRisk
    taint: Taint


class JudgeWallets:
    """Judges wallets; a state of the lists is turned into nodes of the ledger once."""

    def __init__(self, records: Records, names: NodeNames) -> None:
        self._records = records
        self._listed = ListedNodes(names)
        self.names = names

    async def __call__(
        self,
        tenant_id: TenantId,
        address: WalletAddress,
        written: str,
        lists: ListedWallets,
        now: datetime,
        thresholds: rules.Thresholds,
        *,
        livemode: bool,
    ) -> Judged:
        """Return what the lists and the tenant's ledger of the mode say of a wallet.

        Raises:
            StoreUnavailable: The ledger cannot be read.
        """
        forms = spellings(written) if address.chain is Chain.OTHER else (address.normalized,)
        direct = tuple(dict.fromkeys(listing for form in forms for listing in lists.of(form)))
        ledger = StoredLedger(self._records, tenant_id, livemode, now)
        node = self.names.wallet(address.normalized)
        taint = await trace(node, ledger, lambda source: self._listed.of(lists, source))
        return Judged(rules.assess(address.format, direct, taint, lists, thresholds), taint)
