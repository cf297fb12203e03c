"""Event feed by day, in the order of positions assigned by `feed_positions`."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from typing import Final

from typing_extensions import override

from app.adapters.cassandra.feed_positions import DAY_MICROS, SETTLE_S
from app.adapters.cassandra.server_clock import StoreClock
from app.adapters.cassandra.session import Row, Session, Statement
from app.adapters.shared.columns import read_place, to_micros, write_place
from schemas.events import DecisionEvent
from schemas.ids import EventId, TenantId
from schemas.problems import NotFound
from streams.ports.events import EventFeed, FedEvent

ROWS_AT_ONCE: Final = 1_000
"""Rows asked for in one request at most: a request brings no more than 5,000."""

EVENTS_AT_ONCE: Final = 25
"""Events asked for in one request."""

_DAYS: Final = Statement(
    "SELECT day FROM event_days WHERE tenant = ? AND livemode = ? AND day >= ? AND day <= ?"
)
_ROWS: Final = Statement(
    "SELECT at, id FROM event_feed WHERE tenant = ? AND livemode = ? AND day = ? "
    "AND (at, id) > (?, ?) AND (at, id) < (?, ?) LIMIT ?"
)
_EVENTS: Final = Statement("SELECT id, body, placed_at FROM events WHERE id IN ?")
_EVENT: Final = Statement("SELECT tenant, body, placed_at FROM events WHERE id = ?")


class CassandraEventFeed(EventFeed):
    """Shows an event once its place is older than `settle_s`: that is when it becomes visible.

    A place is a time at the store in microseconds, and the event's id.
    """

    def __init__(self, session: Session, settle_s: float = SETTLE_S) -> None:
        self._session = session
        self._clock = StoreClock(session)
        self._settle_micros = int(settle_s * 1_000_000)

    @override
    async def page(
        self, tenant_id: TenantId, *, livemode: bool, after: str, limit: int, until: datetime | None = None
    ) -> Sequence[FedEvent]:
        behind = read_place(after)
        latest = (await self._clock.read()).micros
        if until is not None:
            latest = min(latest, to_micros(until))
        found: dict[str, FedEvent] = {}
        if limit < 1:
            return []
        async for rows in self._walk((tenant_id, livemode), behind, latest - self._settle_micros, limit):
            for fed in await self._events(rows):
                found.pop(fed.event.id, None)  # one that has two places here is shown at the later
                found[fed.event.id] = fed
            if len(found) >= limit:
                break
        return list(found.values())[:limit]

    async def _walk(
        self, feed: tuple[TenantId, bool], behind: tuple[int, str], latest: int, limit: int
    ) -> AsyncIterator[Sequence[Row]]:
        """Yield rows behind a position and up to a moment, oldest first, at most `limit` at once."""
        at_once = min(limit, ROWS_AT_ONCE)
        first, last = behind[0] // DAY_MICROS, latest // DAY_MICROS
        async for days in self._session.pages(_DAYS, (*feed, first, last)):
            for (day,) in days:
                start: tuple[int, str] = behind
                while True:
                    asked = (*feed, day, *start, latest + 1, "", at_once)
                    rows = await self._session.execute(_ROWS, asked)
                    if rows:
                        yield rows
                    if len(rows) < at_once:
                        break
                    start = (rows[-1][0], rows[-1][1])

    async def _events(self, rows: Sequence[Row]) -> list[FedEvent]:
        """Return the events of rows; those whose batch is not all there stand at another place as well."""
        ids = list(dict.fromkeys(event_id for _, event_id in rows))
        chunks = [ids[start : start + EVENTS_AT_ONCE] for start in range(0, len(ids), EVENTS_AT_ONCE)]
        pages = await asyncio.gather(*(self._session.execute(_EVENTS, (chunk,)) for chunk in chunks))
        known = {event_id: (body, placed_at) for page in pages for event_id, body, placed_at in page}
        found: list[FedEvent] = []
        for at, event_id in rows:
            body, placed_at = known.get(event_id, (None, None))
            if body is not None and placed_at is not None and placed_at <= at:
                found.append(FedEvent(DecisionEvent.from_bytes(body), write_place(at, event_id)))
        return found

    @override
    async def place_of(self, tenant_id: TenantId, event_id: EventId, *, livemode: bool | None = None) -> str:
        for tenant, body, placed_at in await self._session.execute(_EVENT, (event_id,)):
            if tenant != tenant_id or body is None or placed_at is None:
                continue
            if livemode in {None, DecisionEvent.from_bytes(body).livemode}:
                return write_place(placed_at, event_id)
        raise NotFound(event_id)

    @override
    async def place_at(self, tenant_id: TenantId, *, livemode: bool, moment: datetime) -> str:
        return write_place(to_micros(moment) - self._settle_micros)
