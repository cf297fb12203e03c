"""The lists in memory: each is immutable and replaced whole, so that a screening sees one state of all."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from types import MappingProxyType

from schemas.enums import CheckKind
from schemas.ids import TenantId
from schemas.lists import SANDBOX
from streams.names.index import NameIndex


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
    index: NameIndex

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


ListKey = tuple[TenantId | None, str]


class LoadedLists:
    """The current lists. A reader takes `current` once and sees no change in what it took."""

    def __init__(self, lists: Iterable[LoadedList] = ()) -> None:
        self.current: Mapping[ListKey, LoadedList] = MappingProxyType(
            {(one.owner, one.name): one for one in lists}
        )

    async def versions(self, tenant_id: TenantId, livemode: bool) -> Mapping[str, str]:  # noqa: FBT001
        """Return the versions of the lists that the tenant's screenings of the mode use unasked."""
        lists = self.current.values()
        return {one.name: one.version for one in lists if one.belongs_to(tenant_id, livemode=livemode)}

    def replace(self, loaded: LoadedList) -> None:
        """Replace a list by its new version, or add it, at once for every screening that begins now."""
        self.current = MappingProxyType({**self.current, (loaded.owner, loaded.name): loaded})

    def remove(self, owner: TenantId | None, name: str) -> None:
        """Remove a list; one that is not there is ignored."""
        self.current = MappingProxyType(
            {key: one for key, one in self.current.items() if key != (owner, name)}
        )
