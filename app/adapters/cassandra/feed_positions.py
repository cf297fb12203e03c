"""Assign feed positions: at the write of an event, and again until the write is known to be in time.

A reader sees places that are older than `SETTLE_S`, and goes on behind the last it was given; what appears
behind that one is never met. So a place counts as settled only once its row was answered for within half
of that time, by the store's own clock; the other half is for clocks of nodes that differ. A batch that took
longer, or whose writer died, may be written late, or is replayed by Cassandra itself. Its event then
has a row nobody may have met, and is given another, as often as needed: it stays in the queue of events that
have to be published until one is settled (`Emitting.mark`), so a death in between changes nothing.

Rows are never taken away: an event may be met once at each. `placed_at` is the earliest of its places. To go
on behind an event is to go on behind that one, for nobody knows at which it was met; a row that stands
before it was written by a batch of which not all is there, and is passed over.
"""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from app.adapters.cassandra.schema import first_wins
from app.adapters.cassandra.server_clock import StoreClock
from app.adapters.cassandra.session import Session, Statement, Write
from schemas.events import DecisionEvent
from schemas.ids import EventId
from schemas.problems import StoreUnavailable

SETTLE_S: Final = 5.0
"""How old a place must be before it is shown, in seconds."""

DAY_MICROS: Final = 86_400_000_000
"""A partition of the feed holds one tenant's day of one mode (UTC): some 100 B an event."""

TRIES: Final = 3
"""How often places are taken anew before the store counts as unavailable."""

EVENTS_AT_ONCE: Final = 40
"""Places written in one batch, some 12 KiB."""

MOST_KNOWN: Final = 50_000
"""Days and settled events remembered; forgotten all at once when there are more, which costs writes only."""

_ROW: Final = Statement("INSERT INTO event_feed (tenant, livemode, day, at, id) VALUES (?, ?, ?, ?, ?)")
_DAY: Final = Statement("INSERT INTO event_days (tenant, livemode, day) VALUES (?, ?, ?)")
_PLACED: Final = Statement("UPDATE events USING TIMESTAMP ? SET placed_at = ? WHERE id = ?")

Day: TypeAlias = tuple[str, bool, int]
"""Tenant, mode, day counted from 1970."""


@dataclass(frozen=True, slots=True)
class ReservedPositions:
    """Places on their way."""

    events: tuple[EventId, ...]
    days: frozenset[Day]
    writes: tuple[Write, ...]
    """For logged batches; written again they change nothing."""
    until: float
    """In ticks: by then they must be answered for."""


class FeedPositions:
    """The places that the journal of one process takes."""

    def __init__(self, session: Session, settle_s: float = SETTLE_S) -> None:
        self._session = session
        self._clock = StoreClock(session)
        self._timely_s = settle_s / 2
        self._last = 0
        self._days: set[Day] = set()
        self._settled: set[EventId] = set()

    async def take(self, events: Sequence[DecisionEvent]) -> ReservedPositions:
        """Take the next places."""
        if not events:
            return ReservedPositions((), frozenset(), (), 0.0)
        begun = self._clock.ticks()
        reading = await self._clock.read()
        until = begun + self._timely_s - reading.doubt_s
        first = max(self._last + 1, reading.micros)
        self._last = first + len(events) - 1
        days: set[Day] = set()
        writes: list[Write] = []
        for at, event in enumerate(events, first):
            days.add((event.tenant_id, event.livemode, at // DAY_MICROS))
            writes += row_writes(event, at)
        new = frozenset(days - self._days)
        return ReservedPositions(
            tuple(event.id for event in events), new, (*((_DAY, day) for day in sorted(new)), *writes), until
        )

    def answered(self, taken: ReservedPositions) -> None:
        """Record that all of it was answered for just now."""
        if len(self._days) + len(self._settled) > MOST_KNOWN:
            self._days.clear()
            self._settled.clear()
        if self._clock.ticks() <= taken.until:
            self._days |= taken.days
            self._settled.update(taken.events)

    def forget(self, event_ids: Sequence[EventId]) -> None:
        """Forget events that have was published."""
        self._settled.difference_update(event_ids)

    async def settle(self, events: Sequence[DecisionEvent]) -> None:
        """Give the events settled places, unless they are known to have them.

        Raises:
            StoreUnavailable: The store answers too slowly for that, or not at all.
        """
        for _ in range(TRIES):
            left = [event for event in events if event.id not in self._settled]
            chunks = [left[start : start + EVENTS_AT_ONCE] for start in range(0, len(left), EVENTS_AT_ONCE)]
            await asyncio.gather(*map(self._place, chunks))
        if any(event.id not in self._settled for event in events):
            raise StoreUnavailable("Cassandra answers too slowly to put events into the feed")

    async def _place(self, events: Sequence[DecisionEvent]) -> None:
        taken = await self.take(events)
        await self._session.batch(taken.writes)
        self.answered(taken)


def row_writes(event: DecisionEvent, at: int) -> Iterator[Write]:
    """Return what gives an event a place, for one batch."""
    yield _ROW, (event.tenant_id, event.livemode, at // DAY_MICROS, at, event.id)
    yield _PLACED, (first_wins(at), at, event.id)
