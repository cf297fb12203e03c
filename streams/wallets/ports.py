"""What an assessment asks for: which wallets are listed, and what money went into one."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import NewType, Protocol

from schemas.ids import TenantId
from schemas.wallets import Listing
from streams.lists.loaded import ListState


@dataclass(frozen=True, slots=True)
class ListedWallets:
    """The lists of one moment."""

    versions: Mapping[str, str] = field(default_factory=dict)
    """The version of each list that was loaded, by its name."""
    listings: Mapping[str, tuple[Listing, ...]] = field(default_factory=dict)
    """By the normal form of the address."""

    missing: bool = False
    """Whether there is a list that could not be asked."""

    @property
    def clears(self) -> bool:
        """Whether a wallet that stands on none of them may be called clear."""
        return bool(self.versions) and not self.missing

    def of(self, address: str) -> tuple[Listing, ...]:
        """Return where the wallet of this normal form stands."""
        return self.listings.get(address, ())


class WalletLists(Protocol):
    """The lists of wallets that a tenant's keys of one mode are screened against."""

    async def current(
        self, tenant_id: TenantId, *, livemode: bool, state: ListState | None = None
    ) -> ListedWallets:
        """Return all of them as they are now, or in a state; an answer uses one such moment alone.

        Raises:
            StoreUnavailable: What the tenant's lists are cannot be read for now.
        """
        ...


Node = NewType("Node", str)
"""A keyed hash of a wallet or of a subject (`nodes`): the ledger holds neither in the clear (G130)."""


@dataclass(frozen=True, slots=True)
class Edge:
    """The money that came from one node, of a year, in the base currency."""

    source: Node
    weight: Decimal


@dataclass(frozen=True, slots=True)
class Inflow:
    """The money that came into a node."""

    edges: tuple[Edge, ...] = ()
    """One a source, the heaviest first."""
    total: Decimal = Decimal(0)
    """Of all edges, those too that were cut."""
    cut: bool = False
    """Whether there are more edges than these."""
    unweighted: int = 0
    """Transfers without an amount in the base currency, which are in no edge."""


class Ledger(Protocol):
    """The crypto transfers of one tenant and mode whose money moved (G124)."""

    async def into(self, node: Node, limit: int) -> Inflow:
        """Return what came into the node in the last 365 days, at most `limit` edges."""
        ...
