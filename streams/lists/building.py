"""Turn the stored entries of a tenant's list into what screenings, rules and wallets search."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from pydantic import ValidationError

from schemas.enums import CheckKind
from schemas.ids import TenantId
from schemas.lists import ListKind, ValueEntry, WalletEntry
from schemas.tenant_lists import DISPOSABLE_DOMAINS, StoredList
from schemas.wallets import Listing
from streams.lists.listed_names import EntriesInvalid, IndexNames, read_names
from streams.lists.loaded import ListedWallet, LoadedList, LoadedValues, LoadedWallets
from streams.lists.storage import ListStorage

Loaded = LoadedList | LoadedValues | LoadedWallets


@dataclass(frozen=True, slots=True)
class BuiltList:
    """A version of a list, ready to be searched."""

    stored: StoredList
    loaded: Loaded


@dataclass(frozen=True, slots=True)
class BuildList:
    """Reads the entries of a tenant's list from the store and makes them ready; seconds for many names."""

    storage: ListStorage
    index: IndexNames

    async def __call__(self, tenant_id: TenantId, stored: StoredList) -> BuiltList:
        """Build a list.

        Raises:
            EntriesDamaged: The entries are not those that were stored.
            EntriesInvalid: A line is no entry of the kind.
            NamesUnavailable: Names cannot be indexed for now.
            StoreUnavailable: The store cannot be read for now.
        """
        if stored.kind is ListKind.NAMES:
            return BuiltList(stored, await self._names(tenant_id, stored))
        lines = await self.storage.lines(tenant_id, stored)
        build = _values if stored.kind is ListKind.VALUES else _wallets
        try:
            return BuiltList(stored, await asyncio.to_thread(build, stored, lines))
        except ValidationError:
            raise EntriesInvalid(stored.name) from None

    async def _names(self, tenant_id: TenantId, stored: StoredList) -> LoadedList:
        entries = partial(self.storage.checked_parts, tenant_id, stored)
        names, with_wallets = await read_names(entries, self.index)
        return LoadedList(
            name=stored.name,
            owner=tenant_id,
            check=stored.check or CheckKind.SANCTIONS,
            version=stored.version,
            source_date=stored.source_date,
            loaded_at=stored.loaded_at,
            names=names,
            with_wallets=with_wallets,
        )


def _values(stored: StoredList, lines: Sequence[bytes]) -> LoadedValues:
    ends = {one.value: one.expires_at for one in (ValueEntry.from_bytes(line) for line in lines)}
    if stored.name == DISPOSABLE_DOMAINS:
        ends = {value.lower(): moment for value, moment in ends.items()}
    return LoadedValues(stored.name, stored.version, ends)


def _wallets(stored: StoredList, lines: Sequence[bytes]) -> LoadedWallets:
    sanctions = stored.check is CheckKind.SANCTIONS
    found = []
    for entry in (WalletEntry.from_bytes(line) for line in lines):
        listing = Listing(
            list=stored.name,
            category=entry.category,
            entity_id=entry.entity_id,
            entity_name=entry.entity,
            sanctions=sanctions,
            official=sanctions,
        )
        found.append(ListedWallet(entry.address, listing, entry.expires_at))
    return LoadedWallets(stored.name, stored.version, stored.loaded_at, tuple(found))
