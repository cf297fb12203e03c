"""Turn the stored entries of a tenant's list into what screenings, rules and wallets search."""

from collections.abc import Sequence
from dataclasses import dataclass

from schemas.enums import CheckKind
from schemas.ids import TenantId
from schemas.lists import ListKind, NameEntry, ValueEntry, WalletEntry
from schemas.tenant_lists import DISPOSABLE_DOMAINS, StoredList
from schemas.wallets import Listing
from streams.lists.loaded import ListedWallet, LoadedList, LoadedValues, LoadedWallets
from streams.names.index import NameIndex

Loaded = LoadedList | LoadedValues | LoadedWallets


@dataclass(frozen=True, slots=True)
class BuiltList:
    """A version of a list, ready to be searched."""

    stored: StoredList
    loaded: Loaded


def build_list(tenant_id: TenantId, stored: StoredList, lines: Sequence[bytes]) -> BuiltList:
    """Build a list from its entries. Blocking, for seconds where there are many names.

    Raises:
        pydantic.ValidationError: A line is no entry of the kind.
    """
    match stored.kind:
        case ListKind.NAMES:
            return BuiltList(stored, _names(tenant_id, stored, lines))
        case ListKind.VALUES:
            return BuiltList(stored, _values(stored, lines))
        case ListKind.WALLETS:
            return BuiltList(stored, _wallets(stored, lines))


def _names(tenant_id: TenantId, stored: StoredList, lines: Sequence[bytes]) -> LoadedList:
    return LoadedList(
        name=stored.name,
        owner=tenant_id,
        check=stored.check or CheckKind.SANCTIONS,
        version=stored.version,
        source_date=stored.source_date,
        loaded_at=stored.loaded_at,
        index=NameIndex(NameEntry.from_bytes(line) for line in lines),
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
