"""Judge a wallet by the lists and by the tenant's ledger, whose nodes are keyed hashes (G41, G124)."""

import hashlib
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from schemas.ids import SubjectId, TenantId
from schemas.transactions import Chain
from schemas.wallets import Listing, WalletAddress, WalletRisk
from streams.ports.records import Records
from streams.wallets import rules
from streams.wallets.formats import spellings
from streams.wallets.ledger import Taint, trace
from streams.wallets.ports import ListedWallets, Node
from streams.wallets.records import StoredLedger

_DIGEST_BYTES: Final = 16
_MAX_STATES: Final = 8
"""States of lists whose nodes are in memory at one time."""


@dataclass(frozen=True, slots=True)
class NodeNames:
    """Names nodes under the deployment's key."""

    key: bytes = field(repr=False)
    """32 secret bytes."""

    def wallet(self, normalized: str) -> Node:
        """Return the node of a wallet: the same for every tenant, as its address is."""
        return self._of("wallet", normalized)

    def subject(self, tenant_id: TenantId, subject_id: SubjectId) -> Node:
        """Return the node of a tenant's subject."""
        return self._of("subject", tenant_id, subject_id)

    def _of(self, *parts: str) -> Node:
        raw = [part.encode() for part in parts]
        framed = b"".join(len(part).to_bytes(4, "big") + part for part in raw)
        return Node(hashlib.blake2b(framed, key=self.key, digest_size=_DIGEST_BYTES).hexdigest())


class ListedNodes:
    """Finds the listings of nodes; the nodes of one state of the lists are computed once."""

    def __init__(self, names: NodeNames) -> None:
        self._names = names
        self._recent: dict[int, tuple[ListedWallets, dict[Node, tuple[Listing, ...]]]] = {}
        """By the identity of the state, which is stored beside and so is of nothing else."""

    def of(self, lists: ListedWallets, node: Node) -> tuple[Listing, ...]:
        """Return where the wallet of the node stands in this state of the lists."""
        if id(lists) not in self._recent:
            while len(self._recent) >= _MAX_STATES:
                del self._recent[next(iter(self._recent))]
            wallets = lists.listings.items()
            nodes = {self._names.wallet(address): found for address, found in wallets}
            self._recent[id(lists)] = (lists, nodes)
        return self._recent[id(lists)][1].get(node, ())


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
