"""Follow listed wallets' money into a wallet: proportional taint over the tenant's own ledger (G124).

Of what came into a node each source has the share of its amount; a listed source is tainted as a whole,
another one by what came into it, as far as two hops. What was cut off counts as untainted, and is said.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final

from schemas.wallets import Listing
from streams.wallets.ports import Ledger, Node

MAX_HOPS: Final = 2
MAX_EDGES: Final = 500
"""So many edges of a node are followed, the heaviest first."""

Listed = Callable[[Node], tuple[Listing, ...]]
"""Returns where a node stands; a subject stands nowhere."""


@dataclass(frozen=True, slots=True)
class Path:
    """One way from a listed wallet."""

    listings: tuple[Listing, ...]
    hops: int
    share: Fraction


@dataclass(slots=True)
class Taint:
    """What part of a wallet's money came from listed ones, and by which ways."""

    paths: list[Path] = field(default_factory=list)
    cut: bool = False
    """Whether a node had more edges than were followed."""
    unweighted: int = 0
    """Transfers that were left out because they have no amount in the base currency."""

    def share(self, *, official: bool) -> Fraction:
        """Return the share of all listed wallets; with `official` of those alone that a list blocks."""
        counted = (path for path in self.paths if not official or _blocks(path))
        return sum((path.share for path in counted), Fraction(0))


async def trace(node: Node, ledger: Ledger, listed: Listed) -> Taint:
    """Return the taint of a wallet, which itself need not be listed."""
    taint = Taint()
    await _follow(node, Fraction(1), 1, taint, ledger, listed)
    return taint


async def _follow(
    node: Node, part: Fraction, hops: int, taint: Taint, ledger: Ledger, listed: Listed
) -> None:
    """Add the ways into the node, of whose money `part` is the wallet's."""
    inflow = await ledger.into(node, MAX_EDGES)
    taint.cut |= inflow.cut
    taint.unweighted += inflow.unweighted
    for edge in inflow.edges:
        if not edge.weight:
            continue
        share = part * Fraction(edge.weight) / Fraction(inflow.total)
        listings = listed(edge.source)
        if listings:
            taint.paths.append(Path(listings, hops, share))
        elif hops < MAX_HOPS:
            await _follow(edge.source, share, hops + 1, taint, ledger, listed)


def _blocks(path: Path) -> bool:
    return any(listing.official for listing in path.listings)
