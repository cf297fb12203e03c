"""Keep the lists of this process current: build a new snapshot beside the old one and swap."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from datetime import date, datetime
from importlib import resources
from typing import Final

import structlog

from app.adapters.files.list_snapshots import ListSnapshots, Snapshot, SnapshotDamaged
from schemas.enums import CheckKind
from schemas.lists import SANDBOX, NameEntry
from streams.lists.loaded import LoadedList, LoadedLists
from streams.names.index import NameIndex
from streams.runtime.supervisor import Figure

log = structlog.get_logger(__name__)

_LOOK_EVERY_S: Final = 2.0
"""A new version serves within five seconds everywhere (G116)."""

_SANDBOX_DATE: Final = date(2026, 11, 23)


@asynccontextmanager
async def serving_lists(
    snapshots: ListSnapshots, clock: Callable[[], datetime]
) -> AsyncIterator[LoadedLists]:
    """Yield the current lists, all built; new versions replace them within seconds."""
    lists = LoadedLists([await asyncio.to_thread(sandbox_list, clock())])
    served: dict[str, str] = {}
    changed_at_ns = await _refresh(snapshots, lists, served)
    task = asyncio.create_task(_watch(snapshots, lists, served, changed_at_ns), name="lists")
    try:
        yield lists
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def _watch(
    snapshots: ListSnapshots, lists: LoadedLists, served: dict[str, str], changed_at_ns: int
) -> None:
    while True:
        await asyncio.sleep(_LOOK_EVERY_S)
        if await asyncio.to_thread(snapshots.changed_at_ns) != changed_at_ns:
            changed_at_ns = await _refresh(snapshots, lists, served)


async def _refresh(snapshots: ListSnapshots, lists: LoadedLists, served: dict[str, str]) -> int:
    """Build what is not served yet; a damaged snapshot is logged, and what was served before stays."""
    changed_at_ns = await asyncio.to_thread(snapshots.changed_at_ns)
    try:
        current = await asyncio.to_thread(snapshots.current)
    except SnapshotDamaged as error:
        log.error("lists.damaged", list=str(error))  # noqa: TRY400 - the name says it all
        return changed_at_ns
    for name, snapshot in current.items():
        if served.get(name) == snapshot.model_dump_json(exclude={"problem"}):
            continue
        try:
            loaded = await asyncio.to_thread(_build, snapshots, snapshot)
        except SnapshotDamaged as error:
            log.error("lists.damaged", list=str(error))  # noqa: TRY400 - the name says it all
            continue
        lists.replace(loaded)
        served[name] = snapshot.model_dump_json(exclude={"problem"})
        log.info("lists.served", list=name, version=snapshot.version, entries=snapshot.entries)
    return changed_at_ns


def list_figures(lists: LoadedLists, clock: Callable[[], datetime]) -> list[Figure]:
    """Return the entries and the age of each of the deployment's lists."""

    def entries() -> dict[str, float]:
        return {one.name: len(one.index) for one in _published(lists)}

    def ages() -> dict[str, float]:
        return {one.name: (clock() - one.loaded_at).total_seconds() for one in _published(lists)}

    return [
        Figure(
            "veristream_list_entries",
            "Entries of each list that names are screened against.",
            "list",
            entries,
        ),
        Figure("veristream_list_age_seconds", "Time since each list was loaded.", "list", ages),
    ]


def _published(lists: LoadedLists) -> list[LoadedList]:
    return [one for one in lists.current.values() if one.owner is None and one.name != SANDBOX]


def _build(snapshots: ListSnapshots, snapshot: Snapshot) -> LoadedList:
    return LoadedList(
        name=snapshot.name,
        owner=None,
        check=snapshot.check,
        version=snapshot.version,
        source_date=snapshot.source_date,
        loaded_at=snapshot.loaded_at,
        index=NameIndex(snapshots.entries(snapshot)),
    )


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
        index=NameIndex(entries),
    )
