"""Load a published list: read and check it, make a snapshot, serve it here, share it with the others."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from app.adapters.files.list_snapshots import ListSnapshots, Snapshot, Written
from app.lists.sharing import copy_missing, share, share_problem
from schemas.audit import Actor
from schemas.enums import CheckKind
from schemas.ids import PLATFORM
from schemas.lists import PUBLISHED_LIST_CHECKS
from schemas.problems import VeristreamError
from schemas.tenant_lists import ListChanged, StoredList
from streams.audit.commit import Commit
from streams.lists.formats import ofac_csv
from streams.lists.formats.reading import FormatUnreadable, Reading
from streams.lists.formats.recognising import read_published
from streams.lists.guard import Contents, objections
from streams.lists.handler import Announce
from streams.lists.storage import ListStorage


class LoadRefused(VeristreamError):
    """The new version may not replace the last one, which stays; the message says why."""


class GuardRefused(LoadRefused):
    """The file can be read, and differs too much from the last version."""


def check_of(name: str) -> CheckKind:
    """Return the check a published list belongs to."""
    return PUBLISHED_LIST_CHECKS.get(name, CheckKind.SANCTIONS)


def load_list(
    snapshots: ListSnapshots, name: str, files: Sequence[Path], now: datetime, *, force: bool = False
) -> Snapshot:
    """Read the files of a list and make them its current version. Blocking.

    `force` lets a list through that the guard refuses; one that cannot be read, or is empty, never.

    Raises:
        LoadRefused: The last version stays, and its status says why.
        OSError: A file cannot be opened.
    """
    previous = snapshots.current().get(name)
    try:
        with _reading(files) as reading:
            written = snapshots.write(name, reading.entries)
        return _replace(snapshots, name, previous, reading, written, now, force=force)
    except (FormatUnreadable, LoadRefused) as error:
        if previous:
            snapshots.describe(previous.model_copy(update={"problem": str(error)}))
        kind = GuardRefused if isinstance(error, GuardRefused) else LoadRefused
        raise kind(str(error)) from error


@contextmanager
def _reading(files: Sequence[Path]) -> Iterator[Reading]:
    """Open the files: one, or OFAC's `sdn.csv`, `alt.csv` and `add.csv` in this order."""
    with ExitStack() as stack:
        opened = [stack.enter_context(path.open("rb")) for path in files]
        yield ofac_csv.read(*opened) if len(opened) > 1 else read_published(opened[0])


def _replace(
    snapshots: ListSnapshots,
    name: str,
    previous: Snapshot | None,
    reading: Reading,
    written: Written,
    now: datetime,
    *,
    force: bool,
) -> Snapshot:
    found = Contents(written.entries, written.filled, reading.source_date, reading.failed)
    against = objections(previous.contents() if previous else None, found)
    if against and not (force and found.entries):
        snapshots.discard(written)
        raise GuardRefused("; ".join(against))
    snapshot = Snapshot(
        name=name,
        check=check_of(name),
        sha256=written.sha256,
        source_date=reading.source_date or now.date(),
        loaded_at=now,
        entries=written.entries,
        failed=reading.failed,
        filled=written.filled,
    )
    snapshots.activate(written, snapshot)
    return snapshot


@dataclass(frozen=True, slots=True)
class PublishList:
    """The use case of the command line, of the operator's route, and of updates by themselves."""

    snapshots: ListSnapshots
    storage: ListStorage
    commit: Commit
    clock: Callable[[], datetime]
    new_id: Callable[[str], str]
    announce: Announce
    serve: Callable[[], Awaitable[None]]
    """Build what is new in this process."""

    async def __call__(
        self, name: str, files: Sequence[Path], actor: Actor, *, force: bool = False
    ) -> StoredList:
        """Make the files the current version of a list, everywhere; the last one stays where that fails.

        Raises:
            LoadRefused: They cannot be read, or differ too much from the last version (`GuardRefused`).
            StoreUnavailable: This machine alone may have it; loading it again shares it.
        """
        await copy_missing(self.storage, self.snapshots)
        now = self.clock()
        try:
            snapshot = await asyncio.to_thread(load_list, self.snapshots, name, files, now, force=force)
        except LoadRefused as refused:
            await share_problem(self.storage, self.commit, name, str(refused), now)
            raise
        stored = await share(
            self.storage, self.commit, self.snapshots, snapshot, actor, self.clock, self.new_id
        )
        await self.serve()
        await self.announce(ListChanged(tenant_id=PLATFORM, list=name, version=stored.version))
        return stored

    def folder(self) -> TemporaryDirectory[str]:
        """Return a folder for a file on its way, on the disk of the lists; it is removed at its end."""
        return self.snapshots.temporary()
