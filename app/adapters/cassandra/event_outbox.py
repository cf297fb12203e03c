"""Outbox of events that are not yet published."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from app.adapters.cassandra.change_outbox import EVENTS
from app.adapters.cassandra.feed_positions import FeedPositions
from app.adapters.cassandra.server_clock import StoreClock
from app.adapters.cassandra.session import Session, Statement, Write
from app.adapters.cassandra.time_slot_queue import Hint, cut_empty_slots, done_writes, oldest
from schemas.events import DecisionEvent
from schemas.ids import EventId

HINTS_AT_ONCE: Final = 100

EVENTS_AT_ONCE: Final = 25
"""Events asked for, or marked, in one request."""

_BY_ID: Final = Statement("SELECT id, body, waits_at, emitted FROM events WHERE id IN ?")
_EMITTED: Final = Statement("UPDATE events SET emitted = true WHERE id IN ?")


class Emitting:
    """The event outbox of the journal of one process, as `Journal` defines it."""

    def __init__(self, session: Session, positions: FeedPositions, clock: StoreClock) -> None:
        self._session = session
        self._positions = positions
        self._clock = clock
        self._coming: dict[EventId, asyncio.Future[None]] = {}

    @contextmanager
    def coming(self, events: Sequence[DecisionEvent]) -> Iterator[None]:
        """Make `mark` wait for events whose commit is under way in this process."""
        done = asyncio.get_running_loop().create_future()
        self._coming.update((event.id, done) for event in events)
        try:
            yield
        finally:
            done.set_result(None)
            for event in events:
                if self._coming.get(event.id) is done:
                    del self._coming[event.id]

    async def pending(self, limit: int) -> Sequence[DecisionEvent]:
        """Return what was not marked, oldest first; hints at what was are taken away on the way."""
        found: dict[str, DecisionEvent] = {}
        stale: list[Hint] = []
        if limit > 0:
            async for hints in oldest(self._session, EVENTS, HINTS_AT_ONCE):
                rows = {row[0]: row for row in await self._rows([hint.id for hint in hints])}
                for hint in hints:
                    _, body, _, emitted = rows.get(hint.id, (None, None, None, None))
                    if emitted:
                        stale.append(hint)
                    elif body is not None:
                        found.setdefault(hint.id, DecisionEvent.from_bytes(body))
                if len(found) >= limit:
                    break
        await self._write(done_writes(EVENTS, stale))
        await cut_empty_slots(self._session, EVENTS, (await self._clock.read()).micros)
        return list(found.values())[:limit]

    async def mark(self, event_ids: Sequence[EventId]) -> None:
        """Mark those of the events that are there, once each has a settled place in the feed."""
        for event_id in event_ids:
            if event_id in self._coming:
                await asyncio.wait([self._coming[event_id]])
        rows = await self._rows(event_ids)
        waiting = [DecisionEvent.from_bytes(body) for _, body, _, emitted in rows if body and not emitted]
        await self._positions.settle(waiting)
        hints = [Hint(waits_at, event_id) for event_id, _, waits_at, _ in rows if waits_at is not None]
        await self._write([(_EMITTED, (ids,)) for ids in chunks([hint.id for hint in hints])])
        await self._write(done_writes(EVENTS, hints))
        self._positions.forget(event_ids)

    async def _rows(self, event_ids: Sequence[str]) -> list[Sequence[Any]]:
        asked = (self._session.execute(_BY_ID, (ids,)) for ids in chunks(event_ids))
        pages = await asyncio.gather(*asked)
        return [row for page in pages for row in page]

    async def _write(self, writes: Sequence[Write]) -> None:
        await asyncio.gather(*(self._session.execute(*write) for write in writes))


def chunks(event_ids: Sequence[str]) -> list[Sequence[str]]:
    """Return ids in the parts that one request takes."""
    return [event_ids[start : start + EVENTS_AT_ONCE] for start in range(0, len(event_ids), EVENTS_AT_ONCE)]
