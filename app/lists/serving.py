"""Keep the lists of this process current: build a new snapshot beside the old one and swap; look names up."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import date, datetime
from functools import partial
from importlib import resources
from typing import Any, Final

import structlog

from app.adapters.files.list_snapshots import ListSnapshots, Snapshot, SnapshotDamaged
from app.lists.sharing import copy_missing
from schemas.enums import CheckKind
from schemas.lists import SANDBOX, EntityKind, NameEntry
from schemas.problems import StoreUnavailable
from schemas.screenings import Match, ScreeningTarget
from streams.lists.listed_names import (
    EntriesInvalid,
    IndexNames,
    LocalNames,
    NamesUnavailable,
    index_locally,
    read_names,
)
from streams.lists.loaded import LoadedList, LoadedLists
from streams.lists.storage import ListStorage
from streams.names.index import NameIndex
from streams.names.matching import Thresholds, find_matches
from streams.runtime.background import BackgroundTask
from streams.runtime.supervisor import Figure

log = structlog.get_logger(__name__)

_LOOK_EVERY_S: Final = 2.0
"""A new version serves within five seconds everywhere (G116), where no notice says that there is one."""

_NOTIFIED_LOOK_EVERY_S: Final = 30.0
"""The same where notices are read and no list is missing: only what no notice says is found so late."""

_DAMAGED_PAUSE_S: Final = 30.0

_SANDBOX_DATE: Final = date(2026, 11, 23)


class DeploymentLists:
    """The deployment's lists as this process serves them; a new version replaces one within seconds."""

    def __init__(
        self,
        snapshots: ListSnapshots,
        clock: Callable[[], datetime],
        storage: ListStorage | None,
        index: IndexNames,
    ) -> None:
        self.lists = LoadedLists()
        self._snapshots = snapshots
        self._clock = clock
        self._storage = storage
        self._index = index
        self._served: dict[str, str] = {}
        self._damaged_until: dict[str, float] = {}
        """When a damaged list is read again, monotonic: another process may have replaced it meanwhile."""
        self._unindexed: set[str] = set()
        """Lists of which a newer version is to be indexed as soon as that is possible."""
        self._known = storage is None
        """Whether it was read which lists there are."""
        self.is_notified: Callable[[], bool] = lambda: False
        """Whether notices of new versions are read."""
        self._look = asyncio.Event()
        self._refreshing = asyncio.Lock()

    def look_now(self) -> None:
        """Look for new versions at once."""
        self._look.set()

    async def start(self) -> None:
        """Build all lists there are."""
        self.lists.replace(await asyncio.to_thread(sandbox_list, self._clock()))
        await self.refresh()

    async def watch(self) -> None:
        """Look for new versions, until cancelled."""
        while True:
            complete = self._known and not self.lists.missing and not self._unindexed
            quiet = self.is_notified() and complete
            every_s = _NOTIFIED_LOOK_EVERY_S if quiet else _LOOK_EVERY_S
            with suppress(TimeoutError):
                await asyncio.wait_for(self._look.wait(), every_s)
            self._look.clear()
            await self.refresh()

    async def probe(self) -> str | None:
        """Return which lists cannot be read and were not before, or None; their checks are ERROR (G134)."""
        if not self._known:
            return "which there are could not be read from the store yet"
        missing = sorted(self.lists.missing)
        return f"cannot be read: {', '.join(missing)}; load it again" if missing else None

    async def refresh(self) -> None:
        """Serve what is new; when it returns this process does."""
        async with self._refreshing:
            await self._refresh()

    async def _refresh(self) -> None:
        """Build what is not served yet; a damaged snapshot is logged, and what was served before stays."""
        if self._storage is not None:
            try:
                await copy_missing(self._storage, self._snapshots)
                self._known = True
            except StoreUnavailable:
                log.warning("lists.read_failed")  # what this machine has is served
        try:
            current = await asyncio.to_thread(self._snapshots.current)
        except SnapshotDamaged as error:
            log.error("lists.damaged", list=str(error))  # noqa: TRY400 - the name says it all
            return
        for name, snapshot in current.items():
            marked = snapshot.model_dump_json(exclude={"problem"})
            if self._served.get(name) != marked and time.monotonic() >= self._damaged_until.get(name, 0.0):
                await self._serve(snapshot, marked)

    async def _serve(self, snapshot: Snapshot, marked: str) -> None:
        try:
            loaded = await self._build(snapshot)
        except (SnapshotDamaged, EntriesInvalid):
            self.lists.miss(snapshot.name, snapshot.check)
            self._damaged_until[snapshot.name] = time.monotonic() + _DAMAGED_PAUSE_S
            log.error("lists.damaged", list=snapshot.name)  # noqa: TRY400 - the name says it all
            return
        except NamesUnavailable:
            self.lists.miss(snapshot.name, snapshot.check)
            self._unindexed.add(snapshot.name)
            log.warning("lists.not_indexed", list=snapshot.name)  # the next look tries again
            return
        self._served[snapshot.name] = marked
        self._unindexed.discard(snapshot.name)
        self.lists.replace(loaded)
        log.info("lists.served", list=snapshot.name, version=snapshot.version, entries=snapshot.entries)

    async def _build(self, snapshot: Snapshot) -> LoadedList:
        names, with_wallets = await read_names(partial(self._parts, snapshot), self._index)
        return LoadedList(
            name=snapshot.name,
            owner=None,
            check=snapshot.check,
            version=snapshot.version,
            source_date=snapshot.source_date,
            loaded_at=snapshot.loaded_at,
            names=names,
            with_wallets=with_wallets,
        )

    async def _parts(self, snapshot: Snapshot) -> AsyncIterator[Sequence[bytes]]:
        parts = self._snapshots.parts(snapshot)
        while (part := await asyncio.to_thread(next, parts, None)) is not None:
            yield part


@asynccontextmanager
async def serving_lists(
    snapshots: ListSnapshots,
    clock: Callable[[], datetime],
    storage: ListStorage | None = None,
    index: IndexNames = index_locally,
) -> AsyncIterator[DeploymentLists]:
    """Yield the deployment's lists, all built; new versions replace them within seconds."""
    served = DeploymentLists(snapshots, clock, storage, index)
    await served.start()
    watching = BackgroundTask(served.watch, "lists")
    watching.start()
    try:
        yield served
    finally:
        await watching.stop()


def list_figures(lists: LoadedLists, clock: Callable[[], datetime]) -> list[Figure]:
    """Return the entries and the age of each of the deployment's lists."""

    def entries() -> dict[str, float]:
        return {one.name: len(one.names) for one in published(lists)}

    def ages() -> dict[str, float]:
        return {one.name: (clock() - one.loaded_at).total_seconds() for one in published(lists)}

    return [
        Figure(
            "veristream_list_entries",
            "Entries of each list that names are screened against.",
            "list",
            entries,
        ),
        Figure("veristream_list_age_seconds", "Time since each list was loaded.", "list", ages),
    ]


def published(lists: LoadedLists) -> list[LoadedList]:
    """Return the lists that the operator loaded."""
    return [one for one in lists.current.values() if one.owner is None and one.name != SANDBOX]


def sandbox_entries() -> list[NameEntry]:
    """Return the invented entries that test keys are screened against (G132)."""
    text = resources.files("streams.lists").joinpath("sandbox.ndjson").read_text(encoding="utf-8")
    return [NameEntry.from_bytes(line) for line in text.splitlines()]


def sandbox_list(now: datetime) -> LoadedList:
    """Return the list of invented entries, ready to be searched."""
    entries = sandbox_entries()
    digest = NameEntry.digest(entries[0])[:8]
    return LoadedList(
        name=SANDBOX,
        owner=None,
        check=CheckKind.SANCTIONS,
        version=f"{_SANDBOX_DATE.isoformat()}#{digest}",
        source_date=_SANDBOX_DATE,
        loaded_at=now,
        names=LocalNames(entries),
    )


@dataclass(frozen=True, slots=True)
class ListsProbe:
    """The probe of `/readyz` over the lists of this process."""

    served: DeploymentLists
    clock: Callable[[], datetime]

    async def __call__(self) -> str | None:
        """Return why the lists cannot be used, or None."""
        return await self.served.probe()

    def shown(self) -> dict[str, Any]:
        """Return each list with its version and its age in whole seconds; null where it is not built."""
        now, lists = self.clock(), self.served.lists
        built = {
            one.name: {"version": one.version, "age_s": int((now - one.loaded_at).total_seconds())}
            for one in published(lists)
        }
        return {"lists": {name: built.get(name) for name in sorted(built.keys() | lists.missing.keys())}}


def look_up(snapshots: ListSnapshots, name: str, kind: EntityKind) -> list[Match]:
    """Return the matches of all lists, best first. Blocking: it reads every list."""
    target = ScreeningTarget(kind=kind, name=name)
    found = find_matches(target, NameIndex(sandbox_entries()), SANDBOX, Thresholds())
    for snapshot in snapshots.current().values():
        index = NameIndex(snapshots.entries(snapshot))
        found += find_matches(target, index, snapshot.name, Thresholds())
    return [one.match for one in sorted(found, key=lambda one: one.rank)]
