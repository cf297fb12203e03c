"""A bounded window of a partition's records in progress: keys concurrently, one key's records in order."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final, cast

import structlog
from faust.types import EventT, Message

from streams.runtime.guard import trace

log = structlog.get_logger(__name__)

MOST_UNDER_WAY: Final = 64
"""Records of a partition that are executed at one time."""

MOST_UNACKNOWLEDGED: Final = 1_024
"""Records that one which takes long may hold back from being acknowledged; a kill delivers them again."""

MOST_BYTES: Final = 8 << 20
"""Bytes of keys and values above which no more records are taken; a larger record is taken alone."""

End = Callable[[Message], None]
"""Acknowledges or abandons a record."""


@dataclass(slots=True, eq=False)
class Entry:
    """A record that was taken and is not acknowledged yet."""

    event: EventT[Any]
    """A strong reference: Faust's tables find the event a task works for by a weak one."""
    size: int
    end: End | None = None
    """What becomes of its offset; None while the record is under way."""


class Window:
    """Execute a partition's records concurrently, those of one key one after another.

    Offsets are acknowledged in the order of the log: a settled record waits for those before it. A record
    whose handling raised or was cancelled is abandoned in its turn. `tasks` gets every task for as long as
    it runs.
    """

    def __init__(self, acknowledge: End, abandon: End, tasks: set[asyncio.Task[Any]]) -> None:
        self._acknowledge = acknowledge
        self._abandon = abandon
        self._tasks = tasks
        self._own: set[asyncio.Task[None]] = set()
        self._entries: deque[Entry] = deque()
        self._under_way = self._bytes = 0
        self._last: dict[bytes | None, asyncio.Task[None]] = {}
        """The task of the last record of each key."""
        self._room = asyncio.Event()

    def take(self, event: EventT[Any]) -> Entry:
        """Note the next record of the partition as under way."""
        message = cast("Any", event.message)
        entry = Entry(event, len(message.value or b"") + len(message.key or b""))
        self._entries.append(entry)
        self._under_way += 1
        self._bytes += entry.size
        return entry

    def settle(self, entry: Entry) -> None:
        """Mark the record as settled; it is acknowledged once every record before it is."""
        self._end(entry, self._acknowledge)

    def start(self, entry: Entry, work: Callable[[], Awaitable[None]]) -> None:
        """Run the work once the earlier records of the key have ended, then settle the record."""
        key = _key_of(entry)
        task = asyncio.create_task(_after(self._last.get(key), work))
        self._last[key] = task
        self._own.add(task)
        self._tasks.add(task)
        task.add_done_callback(lambda _: self._note_end(task, entry))

    async def wait_for_room(self) -> None:
        """Return once another record may be taken."""
        while self._is_full():
            self._room.clear()
            await self._room.wait()

    async def cut_short(self) -> None:
        """Cancel records in progress and wait for their end; unacknowledged ones are abandoned."""
        for entry in self._entries:
            self._abandon(entry.event.message)
        self._entries.clear()
        for task in self._own:
            task.cancel()
        if self._own:
            await asyncio.wait(self._own)

    def _note_end(self, task: asyncio.Task[None], entry: Entry) -> None:
        self._own.discard(task)
        self._tasks.discard(task)
        if self._last.get(_key_of(entry)) is task:
            del self._last[_key_of(entry)]
        error = None if task.cancelled() else task.exception()
        if error is not None:
            log.error("window.handler_failed", **trace(error))
        unsettled = task.cancelled() or error is not None
        self._end(entry, self._abandon if unsettled else self._acknowledge)

    def _end(self, entry: Entry, end: End) -> None:
        entry.end = end
        self._under_way -= 1
        while self._entries and (end_first := self._entries[0].end) is not None:
            first = self._entries.popleft()
            self._bytes -= first.size
            end_first(first.event.message)
        if not self._is_full():
            self._room.set()

    def _is_full(self) -> bool:
        taken = len(self._entries)
        return self._under_way >= MOST_UNDER_WAY or taken >= MOST_UNACKNOWLEDGED or self._bytes >= MOST_BYTES


def _key_of(entry: Entry) -> bytes | None:
    return entry.event.message.key


async def _after(before: asyncio.Task[None] | None, work: Callable[[], Awaitable[None]]) -> None:
    """Run the work once an earlier task has ended in any way."""
    if before is not None and not before.done():
        await asyncio.wait({before})
    await work()
