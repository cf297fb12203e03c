"""The lists of the deployment and of each tenant that asks, as this process has built them.

A tenant's lists are read when something is first asked of it, and again when a notice says that one changed,
or after a second: the notice makes it quick, the second makes it sure.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

import structlog
from typing_extensions import override

from schemas.ids import TenantId
from schemas.problems import StoreUnavailable
from schemas.tenant_lists import StoredList, StoredLists
from streams.lists.building import BuildList, BuiltList
from streams.lists.listed_names import EntriesInvalid, IndexNames, NamesUnavailable, index_locally
from streams.lists.loaded import ListState, ListStates, LoadedList, LoadedValues, LoadedWallets, MissingList
from streams.lists.storage import EntriesDamaged, ListStorage

log = structlog.get_logger(__name__)

FRESH_S: Final = 1.0
"""How long a tenant's lists are used before the record that names them is read again."""

PATIENCE_S: Final = 1.0
"""How long a question waits for a list that is being built; half a decision's deadline (G134)."""

MOST_ENTRIES: Final = 2_000_000
"""Entries of tenants' lists in memory; those of the tenant asked about longest ago go first."""


@dataclass(slots=True)
class _TenantLists:
    read_at: float = float("-inf")
    """Monotonic, seconds: when the record was last read."""
    wanted: StoredLists = field(default_factory=StoredLists)
    built: dict[str, BuiltList] = field(default_factory=dict)
    """By name; of an older version while a newer one is being built."""
    reading: "asyncio.Task[None] | None" = None
    building: "asyncio.Task[None] | None" = None
    damaged: set[str] = field(default_factory=set)
    """Places whose entries cannot be read; the next load has another."""


class CurrentLists(ListStates):
    """Serves whole versions only: an answer sees a list as it was before a change, or as it is after it."""

    def __init__(
        self,
        deployment: ListStates,
        storage: ListStorage,
        monotonic: Callable[[], float] = time.monotonic,
        index: IndexNames = index_locally,
    ) -> None:
        self._deployment = deployment
        self._storage = storage
        self._build_list = BuildList(storage, index)
        self._monotonic = monotonic
        self._tenants: OrderedDict[TenantId, _TenantLists] = OrderedDict()

    @override
    async def state_of(self, tenant_id: TenantId) -> ListState:
        one = self._tenants.setdefault(tenant_id, _TenantLists())
        self._tenants.move_to_end(tenant_id)
        if self._monotonic() - one.read_at >= FRESH_S:
            await self._read(tenant_id, one)
        if one.building is not None:
            await asyncio.wait({one.building}, timeout=PATIENCE_S)
        deployment = await self._deployment.state_of(tenant_id)
        return _joined(deployment, tenant_id, one)

    async def versions(self, tenant_id: TenantId, livemode: bool) -> Mapping[str, str]:  # noqa: FBT001
        """Return the versions of the lists that the tenant's screenings of the mode use unasked."""
        names = (await self.state_of(tenant_id)).names
        return {one.name: one.version for one in names if one.belongs_to(tenant_id, livemode=livemode)}

    def forget(self, tenant_id: TenantId) -> None:
        """Let the next question about the tenant read its lists again."""
        if tenant_id in self._tenants:
            self._tenants[tenant_id].read_at = float("-inf")

    async def _read(self, tenant_id: TenantId, one: _TenantLists) -> None:
        """Read which lists there are; who asks meanwhile waits for the same read."""
        if one.reading is None:
            one.reading = asyncio.create_task(self._read_once(tenant_id, one))
        reading = one.reading
        try:
            await asyncio.shield(reading)
        finally:
            if reading.done() and one.reading is reading:
                one.reading = None

    async def _read_once(self, tenant_id: TenantId, one: _TenantLists) -> None:
        began = self._monotonic()
        one.read_at = began  # a notice that comes from here on is newer than what is read
        try:
            one.wanted, _ = await self._storage.load(tenant_id)
        except StoreUnavailable:
            one.read_at = float("-inf")
            raise
        one.built = {name: built for name, built in one.built.items() if one.wanted.named(name) is not None}
        if one.building is None and self._outdated(one):
            one.building = asyncio.create_task(self._build(tenant_id, one), name="tenant-lists")

    def _outdated(self, one: _TenantLists) -> list[StoredList]:
        return [
            stored
            for stored in one.wanted.lists
            if stored.place not in one.damaged
            and (stored.name not in one.built or one.built[stored.name].stored != stored)
        ]

    async def _build(self, tenant_id: TenantId, one: _TenantLists) -> None:
        """Build what is not as it should be, until everything is; a damaged list stays as it was."""
        try:
            while outdated := self._outdated(one):
                await self._build_one(tenant_id, one, outdated[0])
            self._make_room()
        except (StoreUnavailable, NamesUnavailable):
            log.warning("lists.read_failed", tenant_id=tenant_id)  # the next question tries again
        finally:
            one.building = None

    async def _build_one(self, tenant_id: TenantId, one: _TenantLists, stored: StoredList) -> None:
        try:
            built = await self._build_list(tenant_id, stored)
        except (EntriesDamaged, EntriesInvalid):
            one.damaged.add(stored.place)
            log.error("lists.damaged", tenant_id=tenant_id, list=stored.name)  # noqa: TRY400 - names it all
            return
        if one.wanted.named(stored.name) is not None:
            one.built[stored.name] = built

    def _make_room(self) -> None:
        entries = {
            tenant_id: sum(built.stored.entries for built in one.built.values())
            for tenant_id, one in self._tenants.items()
        }
        total = sum(entries.values())
        for tenant_id in list(self._tenants)[:-1]:
            if total <= MOST_ENTRIES:
                return
            if self._tenants[tenant_id].building is None:
                total -= entries[tenant_id]
                del self._tenants[tenant_id]


def _joined(deployment: ListState, tenant_id: TenantId, one: _TenantLists) -> ListState:
    built = [each.loaded for each in one.built.values()]
    missing = [
        MissingList(stored.name, stored.check, tenant_id, stored.kind)
        for stored in one.wanted.lists
        if stored.name not in one.built
    ]
    return ListState(
        names=(*deployment.names, *(each for each in built if isinstance(each, LoadedList))),
        values={each.name: each for each in built if isinstance(each, LoadedValues)},
        wallets=tuple(each for each in built if isinstance(each, LoadedWallets)),
        missing=(*deployment.missing, *missing),
    )
