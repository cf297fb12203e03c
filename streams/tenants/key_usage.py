"""Store when a key was last used, at most once a minute and in the background (G46, S30)."""

import asyncio
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

import structlog

from schemas.access import ApiKey
from schemas.problems import StoreUnavailable
from streams.audit.commit import Commit
from streams.ports.errors import Conflict
from streams.ports.records import Change, Record

EVERY: Final = timedelta(seconds=60)
"""Shortest interval between two stored uses."""

MOST_AT_ONCE: Final = 64
"""Largest number of writes in progress; a further use is not stored."""

MOST_REMEMBERED: Final = 10_000
"""Keys whose last write is remembered; all are forgotten when there are more."""

log = structlog.get_logger(__name__)


class NoteKeyUse:
    """Store the last use in the key's own record; a concurrent change of the key takes precedence."""

    def __init__(self, commit: Commit) -> None:
        self._commit = commit
        self._noted: dict[str, datetime] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def __call__(self, record: Record, key: ApiKey, now: datetime) -> None:
        """Record the use of a key that was just read; returns at once."""
        latest = max(filter(None, (key.last_used_at, self._noted.get(key.prefix))), default=None)
        if (latest is not None and now - latest < EVERY) or len(self._tasks) >= MOST_AT_ONCE:
            return
        if len(self._noted) >= MOST_REMEMBERED:
            self._noted.clear()
        self._noted[key.prefix] = now
        task = asyncio.create_task(self._write(record, key, now), name="note use of a key")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _write(self, record: Record, key: ApiKey, now: datetime) -> None:
        used = key.model_copy(update={"last_used_at": now})
        changed = replace(record, body=used.to_bytes(), version=record.version + 1)
        try:
            await self._commit(Change(key.tenant_id, (changed,)))
        except Conflict:
            return  # rotated, revoked or noted by another front just now
        except StoreUnavailable:
            log.warning("key.use_dropped", key_id=key.key_id)

    async def aclose(self) -> None:
        """Wait until every write in progress has ended."""
        await asyncio.gather(*self._tasks)
