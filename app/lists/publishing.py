"""Load a published list for the whole deployment: read and check it, serve it here, share it."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from app.adapters.files.list_snapshots import ListSnapshots
from app.lists.loading import LoadRefused, load_list
from app.lists.sharing import copy_missing, share, share_problem
from schemas.audit import Actor
from schemas.ids import PLATFORM
from schemas.tenant_lists import ListChanged, StoredList
from streams.audit.commit import Commit
from streams.lists.handler import Announce
from streams.lists.storage import ListStorage


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
