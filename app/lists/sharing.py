"""Share published lists between the machines of a deployment: the store has them, each machine a copy.

A backup of the store has them as well, and a machine that is restored or added copies what it lacks.
"""

import asyncio
from collections.abc import Callable, Iterator
from datetime import datetime

import structlog

from app.adapters.files.list_snapshots import ListSnapshots, Snapshot, SnapshotDamaged
from schemas.audit import Actor, AuditAction
from schemas.base import to_milliseconds
from schemas.ids import PLATFORM
from schemas.lists import ListKind
from schemas.tenant_lists import StoredList
from streams.aggregate import retry_conflicts
from streams.audit.commit import Commit
from streams.audit.rows import write_row
from streams.lists.storage import LISTS_ID, EntriesDamaged, ListStorage, Written, lists_record
from streams.ports.errors import Conflict
from streams.ports.records import Change

log = structlog.get_logger(__name__)


async def copy_missing(storage: ListStorage, snapshots: ListSnapshots) -> None:
    """Copy to this machine each list of which the store has a newer version.

    Raises:
        StoreUnavailable: Some may be copied; calling again copies the others.
    """
    shared, _ = await storage.load(PLATFORM)
    if not shared.lists:
        return
    try:
        current = await asyncio.to_thread(snapshots.current)
    except SnapshotDamaged:
        current = {}
    for stored in shared.lists:
        own = current.get(stored.name)
        if own is None or own.loaded_at < stored.loaded_at:
            try:
                await _copy(storage, snapshots, stored)
            except (EntriesDamaged, SnapshotDamaged):
                log.error("lists.damaged", list=stored.name)  # noqa: TRY400 - the name says it all


async def _copy(storage: ListStorage, snapshots: ListSnapshots, stored: StoredList) -> None:
    draft = await asyncio.to_thread(snapshots.open_draft, stored.name)
    async for lines in storage.parts(PLATFORM, stored):
        await asyncio.to_thread(draft.append, lines)
    await asyncio.to_thread(draft.activate, _snapshot(stored))


async def share(
    storage: ListStorage,
    commit: Commit,
    snapshots: ListSnapshots,
    snapshot: Snapshot,
    actor: Actor,
    clock: Callable[[], datetime],
    new_id: Callable[[str], str],
) -> StoredList:
    """Give the other machines the version that this one has loaded, and return it.

    Raises:
        SnapshotDamaged: What was loaded cannot be read.
        StoreUnavailable: This machine alone has it; loading it again shares it.
    """

    def lines() -> Iterator[bytes]:
        return (entry.to_bytes() for entry in snapshots.entries(snapshot))

    written = await storage.write(PLATFORM, new_id("lst"), lines(), to_milliseconds(clock()))

    stored = _stored(snapshot, written)

    async def store() -> None:
        shared, version = await storage.load(PLATFORM)
        now = to_milliseconds(clock())
        row = write_row(
            new_id("aud"),
            AuditAction.LIST_UPDATED,
            actor,
            snapshot.name,
            now,
            detail=f"The list {snapshot.name} of the deployment was updated.",
            changes={"version": stored.version, "entries": stored.entries},
        )
        record = lists_record(PLATFORM, shared.with_list(stored), version + 1, now)
        if not (await commit(Change(PLATFORM, (record,), (row,)))).won:
            raise Conflict(LISTS_ID)

    await retry_conflicts(store)
    return stored


async def share_problem(storage: ListStorage, commit: Commit, name: str, problem: str, now: datetime) -> None:
    """Note why a list could not be replaced, where readers of the list see it.

    Raises:
        StoreUnavailable: The store cannot be written for now.
    """

    async def store() -> None:
        shared, version = await storage.load(PLATFORM)
        stored = shared.named(name)
        if stored is None:
            return
        changed = shared.with_list(stored.model_copy(update={"problem": problem}))
        if not (await commit(Change(PLATFORM, (lists_record(PLATFORM, changed, version + 1, now),)))).won:
            raise Conflict(LISTS_ID)

    await retry_conflicts(store)


def _stored(snapshot: Snapshot, written: Written) -> StoredList:
    return StoredList(
        name=snapshot.name,
        kind=ListKind.NAMES,
        check=snapshot.check,
        entries=snapshot.entries,
        sha256=written.sha256,
        source_date=snapshot.source_date,
        loaded_at=snapshot.loaded_at,
        place=written.place,
        parts=written.parts,
        failed=snapshot.failed,
        filled=snapshot.filled,
    )


def _snapshot(stored: StoredList) -> Snapshot:
    if stored.check is None:
        raise EntriesDamaged(stored.name)
    return Snapshot(
        name=stored.name,
        check=stored.check,
        sha256=stored.sha256,
        source_date=stored.source_date,
        loaded_at=stored.loaded_at,
        entries=stored.entries,
        failed=stored.failed,
        filled=stored.filled,
    )
