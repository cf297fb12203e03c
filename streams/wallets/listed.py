"""The wallets on the loaded lists, by the normal form of their addresses, and the sandbox's (G41, G123)."""

import asyncio
import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterator
from datetime import datetime
from types import MappingProxyType
from typing import Final, NamedTuple

from typing_extensions import override

from schemas.enums import CheckKind
from schemas.ids import TenantId
from schemas.lists import ListKind, NameEntry
from schemas.transactions import Chain
from schemas.wallets import Listing
from streams.lists.loaded import ListedWallet, ListState, ListStates, LoadedList, MissingList
from streams.wallets import base58, bech32
from streams.wallets.formats import read, spellings
from streams.wallets.ports import ListedWallets, WalletLists

SANDBOX: Final = "sandbox"
SANDBOX_VERSION: Final = "1"
_SANDBOX_CATEGORY: Final = "sanctions"
_MAX_STATES: Final = 64
"""States of lists in memory at one time; tenants without lists of their own share one."""

_Key = tuple[bool, tuple[tuple[TenantId | None, str, str, datetime], ...], tuple[MissingList, ...]]


def listed_addresses() -> dict[Chain, str]:
    """Return the listed address of each chain; valid, and nobody's: its key is a hash of its name."""
    hashed = {chain: hashlib.sha256(f"veristream sandbox {chain}".encode()).digest() for chain in Chain}
    return {
        Chain.BTC: bech32.encode_segwit("bc", 0, hashed[Chain.BTC][:20]),
        Chain.EVM: read(f"0x{hashed[Chain.EVM][:20].hex()}").normalized,
        Chain.TRON: base58.encode_check(b"\x41" + hashed[Chain.TRON][:20]),
        Chain.SOL: base58.encode(hashed[Chain.SOL]),
        Chain.OTHER: "sandbox-listed-wallet",
    }


def sandbox_wallets() -> ListedWallets:
    """Return the sandbox's wallets as a state of lists."""
    listings = {
        address: (
            Listing(
                list=SANDBOX,
                category=_SANDBOX_CATEGORY,
                entity_id=f"sandbox-wallet-{chain.lower()}",
                entity_name=f"Invented owner of a {chain} wallet",
                sanctions=True,
            ),
        )
        for chain, address in listed_addresses().items()
    }
    return ListedWallets(MappingProxyType({SANDBOX: SANDBOX_VERSION}), MappingProxyType(listings))


class _Built(NamedTuple):
    wallets: ListedWallets
    ends: datetime | None
    """When the first entry ends, and others are to be built."""


class LoadedWalletLists(WalletLists):
    """Compares with every list that has a wallet; a list without one clears nothing, so it is left out."""

    def __init__(self, lists: ListStates, clock: Callable[[], datetime]) -> None:
        self._lists = lists
        self._clock = clock
        self._states: dict[_Key, _Built] = {}
        self._building = asyncio.Lock()

    @override
    async def current(
        self, tenant_id: TenantId, *, livemode: bool, state: ListState | None = None
    ) -> ListedWallets:
        if state is None:
            state = await self._lists.state_of(tenant_id)
        names = [one for one in state.names if one.belongs_to(tenant_id, livemode=livemode)]
        wallets = [(tenant_id, one.name, one.version, one.loaded_at) for one in state.wallets]
        parts = [(one.owner, one.name, one.version, one.loaded_at) for one in names]
        key = livemode, (*parts, *wallets), state.missing
        now = self._clock()
        async with self._building:
            built = self._states.pop(key, None)
            if built is None or (built.ends is not None and built.ends <= now):
                built = await asyncio.to_thread(_build, names, state, now, livemode=livemode)
            while len(self._states) >= _MAX_STATES:
                del self._states[next(iter(self._states))]
            self._states[key] = built
            return built.wallets


def _build(names: list[LoadedList], state: ListState, now: datetime, *, livemode: bool) -> _Built:
    base = ListedWallets() if livemode else sandbox_wallets()
    versions = dict(base.versions)
    listings: defaultdict[str, tuple[Listing, ...]] = defaultdict(tuple, base.listings)
    ends: list[datetime] = []
    for name, version, wallet in _wallets(names, state):
        if wallet.ends is not None and wallet.ends <= now:
            continue
        versions[name] = version
        for form in spellings(wallet.address):
            listings[form] += (wallet.listing,)
        if wallet.ends is not None:
            ends.append(wallet.ends)
    missing = any(one.kind is not ListKind.VALUES and one.asked(livemode=livemode) for one in state.missing)
    fixed = ListedWallets(MappingProxyType(versions), MappingProxyType(dict(listings)), missing)
    return _Built(fixed, min(ends, default=None))


def _wallets(names: list[LoadedList], state: ListState) -> Iterator[tuple[str, str, ListedWallet]]:
    for one in names:
        for entry in one.with_wallets:
            for address in entry.wallets:
                yield one.name, one.version, ListedWallet(address, _listing(one, entry), None)
    for list_ in state.wallets:
        for wallet in list_.wallets:
            yield list_.name, list_.version, wallet


def _listing(one: LoadedList, entry: NameEntry) -> Listing:
    sanctions = one.check is CheckKind.SANCTIONS
    return Listing(
        list=one.name,
        category=one.check.lower(),
        entity_id=entry.entity_id,
        entity_name=entry.names[0],
        sanctions=sanctions,
        official=sanctions,
    )
