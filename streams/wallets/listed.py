"""The wallets that stand on the loaded lists, by the normal form of their addresses (G41, G123)."""

import asyncio
from collections import defaultdict
from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Final

from typing_extensions import override

from schemas.enums import CheckKind
from schemas.ids import TenantId
from schemas.lists import NameEntry
from schemas.wallets import Listing
from streams.lists.loaded import LoadedList, LoadedLists
from streams.wallets.formats import spellings
from streams.wallets.ports import ListedWallets, WalletLists
from streams.wallets.sandbox import sandbox_wallets

_MAX_STATES: Final = 64
"""States of lists in memory at one time; tenants without lists of their own share one."""

_State = tuple[tuple[TenantId | None, str, str, datetime], ...]


class LoadedWalletLists(WalletLists):
    """Compares with every list that has a wallet; a list without one clears nothing, so it is left out."""

    def __init__(self, lists: LoadedLists) -> None:
        self._lists = lists
        self._states: dict[tuple[bool, _State], ListedWallets] = {}
        self._building = asyncio.Lock()

    @override
    async def current(self, tenant_id: TenantId, *, livemode: bool) -> ListedWallets:
        lists = self._lists.current.values()
        own = [one for one in lists if one.belongs_to(tenant_id, livemode=livemode)]
        state = tuple((one.owner, one.name, one.version, one.loaded_at) for one in own)
        async with self._building:
            if (livemode, state) not in self._states:
                while len(self._states) >= _MAX_STATES:
                    del self._states[next(iter(self._states))]
                self._states[livemode, state] = await asyncio.to_thread(_listed, own, livemode=livemode)
            return self._states[livemode, state]


def _listed(lists: list[LoadedList], *, livemode: bool) -> ListedWallets:
    base = ListedWallets() if livemode else sandbox_wallets()
    versions = dict(base.versions)
    listings: defaultdict[str, tuple[Listing, ...]] = defaultdict(tuple, base.listings)
    for one in lists:
        for address, listing in _wallets_of(one):
            versions[one.name] = one.version
            listings[address] += (listing,)
    fixed: Mapping[str, tuple[Listing, ...]] = MappingProxyType(dict(listings))
    return ListedWallets(MappingProxyType(versions), fixed)


def _wallets_of(one: LoadedList) -> list[tuple[str, Listing]]:
    return [
        (form, _listing(one, entry))
        for entry in one.index
        for address in entry.wallets
        for form in spellings(address)
    ]


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
