"""The lists in memory: each is immutable and replaced whole, so that a screening sees one state of all."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from types import MappingProxyType
from typing import NamedTuple, Protocol

from typing_extensions import override

from schemas.enums import CheckKind
from schemas.ids import TenantId
from schemas.lists import SANDBOX, ListKind, NameEntry
from schemas.wallets import Listing
from streams.lists.listed_names import ListedNames
from streams.ports.screening import ScreeningState


@dataclass(frozen=True, slots=True)
class LoadedList:
    """A list of names, ready to be searched."""

    name: str
    owner: TenantId | None
    """None: the deployment's, for every tenant."""
    check: CheckKind
    version: str
    source_date: date
    loaded_at: datetime
    names: ListedNames
    with_wallets: tuple[NameEntry, ...] = ()
    """Those of the entries that have wallets."""

    def belongs_to(self, tenant_id: TenantId, *, livemode: bool) -> bool:
        """Return whether the tenant's screenings of the mode use the list unasked (G132)."""
        if self.name == SANDBOX and self.owner is None:
            return not livemode
        return livemode if self.owner is None else self.owner == tenant_id

    def may_be_named(self, tenant_id: TenantId, *, livemode: bool) -> bool:
        """Return whether the tenant may ask for the list by its name; live keys never see the sandbox."""
        if self.owner is None:
            return not (livemode and self.name == SANDBOX)
        return self.owner == tenant_id


@dataclass(frozen=True, slots=True)
class LoadedValues:
    """A list of values, each with the moment it ends, if it does."""

    name: str
    version: str
    ends: Mapping[str, datetime | None]

    def at(self, moment: datetime) -> "ValuesAt":
        """Return the values that have not ended."""
        return ValuesAt(self, moment)


@dataclass(frozen=True, slots=True)
class ValuesAt:
    """The values of a list that have not ended at a moment."""

    loaded: LoadedValues
    moment: datetime

    def __contains__(self, value: object) -> bool:
        """Return whether a value is on the list and has not ended."""
        try:
            ends = self.loaded.ends[value]  # type: ignore[index]
        except KeyError:
            return False
        return ends is None or self.moment < ends


class ListedWallet(NamedTuple):
    """That a wallet stands on a list, and until when."""

    address: str
    """As it was uploaded."""
    listing: Listing
    ends: datetime | None


@dataclass(frozen=True, slots=True)
class LoadedWallets:
    """A list of wallets."""

    name: str
    version: str
    loaded_at: datetime
    wallets: tuple[ListedWallet, ...]


class MissingList(NamedTuple):
    """A list that there is but that cannot be asked: it is being built, or its entries are damaged."""

    name: str
    check: CheckKind | None
    owner: TenantId | None = None
    kind: ListKind = ListKind.NAMES

    def asked(self, *, livemode: bool) -> bool:
        """Return whether screenings of the mode use the list unasked (G132)."""
        return livemode or self.owner is not None


@dataclass(frozen=True, slots=True)
class ListState(ScreeningState):
    """The lists of the deployment and of one tenant at one moment."""

    names: tuple[LoadedList, ...] = ()
    values: Mapping[str, LoadedValues] = field(default_factory=dict)
    wallets: tuple[LoadedWallets, ...] = ()
    missing: tuple[MissingList, ...] = ()


class ListStates(Protocol):
    """The lists as they are now; an answer uses one such state alone."""

    async def state_of(self, tenant_id: TenantId) -> ListState:
        """Return the lists of the deployment and of the tenant.

        Raises:
            StoreUnavailable: What the tenant's lists are cannot be read for now.
        """
        ...


ListKey = tuple[TenantId | None, str]


class LoadedLists(ListStates):
    """The current lists. A reader takes `current` once and sees no change in what it took."""

    def __init__(self, lists: Iterable[LoadedList] = ()) -> None:
        self.current: Mapping[ListKey, LoadedList] = MappingProxyType(
            {(one.owner, one.name): one for one in lists}
        )
        self.missing: Mapping[str, MissingList] = MappingProxyType({})

    @override
    async def state_of(self, tenant_id: TenantId) -> ListState:
        return ListState(
            names=tuple(one for one in self.current.values() if one.owner in {None, tenant_id}),
            missing=tuple(self.missing.values()),
        )

    def miss(self, name: str, check: CheckKind) -> None:
        """Note that a list of the deployment cannot be asked; nobody is clear of its check without it."""
        if (None, name) not in self.current:
            self.missing = MappingProxyType({**self.missing, name: MissingList(name, check)})

    async def versions(self, tenant_id: TenantId, livemode: bool) -> Mapping[str, str]:  # noqa: FBT001
        """Return the versions of the lists that the tenant's screenings of the mode use unasked."""
        lists = self.current.values()
        return {one.name: one.version for one in lists if one.belongs_to(tenant_id, livemode=livemode)}

    def replace(self, loaded: LoadedList) -> None:
        """Replace a list by its new version, or add it, at once for every screening that begins now."""
        self.current = MappingProxyType({**self.current, (loaded.owner, loaded.name): loaded})
        self.missing = MappingProxyType(
            {name: one for name, one in self.missing.items() if name != loaded.name}
        )

    def remove(self, owner: TenantId | None, name: str) -> None:
        """Remove a list; one that is not there is ignored."""
        self.current = MappingProxyType(
            {key: one for key, one in self.current.items() if key != (owner, name)}
        )
