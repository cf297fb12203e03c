"""Update the deployment's lists by themselves, where the operator asked for it (`SERVICE_LISTS_UPDATE`)."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

import structlog

from app.lists.downloading import ADDRESSES
from app.lists.publishing import LoadRefused, PublishList
from schemas.audit import Actor
from schemas.enums import ActorType
from schemas.ids import PLATFORM
from schemas.problems import StoreUnavailable
from streams.runtime.background import BackgroundTask

log = structlog.get_logger(__name__)

EVERY_S: Final = 60.0
"""Between two looks at how old the lists are."""

TRY_AGAIN_AFTER: Final = timedelta(hours=1)
"""After an attempt that failed; publishers are not asked oftener."""

_SYSTEM: Final = Actor(actor_type=ActorType.SYSTEM)

Fetch = Callable[[str, Path], Awaitable[None]]
"""Download the list of a name into a file; raises `LoadRefused`."""


@dataclass(slots=True)
class ListUpdates:
    """Downloads each list that is past the period: those of OFAC, UN, EU and UK, and others once loaded."""

    publish: PublishList
    fetch: Fetch
    period: timedelta
    is_responsible: Callable[[], bool]
    """One worker of a deployment is; the others copy what it loads."""
    clock: Callable[[], datetime]
    _tried: dict[str, datetime] = field(default_factory=dict)

    async def run(self) -> None:
        """Look and update until cancelled."""
        while True:
            if self.is_responsible():
                try:
                    await self.update_due()
                except StoreUnavailable:
                    log.warning("lists.update_failed", cause="store")
            await asyncio.sleep(EVERY_S)

    async def update_due(self) -> None:
        """Update what is due; a list that cannot be fetched or loaded does not keep the others from it.

        Raises:
            StoreUnavailable: How old the lists are cannot be read.
        """
        stored, _ = await self.publish.storage.load(PLATFORM)
        loaded_at = {one.name: one.loaded_at for one in stored.lists}
        for name in sorted(ADDRESSES.keys() | loaded_at.keys()):
            now = self.clock()
            if name in loaded_at and now - loaded_at[name] < self.period:
                continue
            if name in self._tried and now - self._tried[name] < min(TRY_AGAIN_AFTER, self.period):
                continue
            self._tried[name] = now
            await self._update(name)

    async def _update(self, name: str) -> None:
        with self.publish.folder() as folder:
            path = Path(folder) / name
            try:
                await self.fetch(name, path)
                await self.publish(name, [path], _SYSTEM)
            except LoadRefused as error:
                log.warning("lists.update_refused", list=name, cause=str(error))


@asynccontextmanager
async def updating_lists(updates: ListUpdates) -> AsyncIterator[None]:
    """Update lists for the length of the context."""
    task = BackgroundTask(updates.run, "lists-update")
    task.start()
    try:
        yield
    finally:
        await task.stop()
