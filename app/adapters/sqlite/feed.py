"""Event feed in SQLite: commits are sequential, so their order is the feed's."""

import sqlite3
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from typing_extensions import override

from app.adapters.shared.columns import BEYOND, read_numbered, to_millis, write_place
from app.adapters.sqlite.batching import write_rows
from app.adapters.sqlite.engine import Engine
from schemas.events import DecisionEvent
from schemas.ids import EventId, TenantId
from schemas.problems import NotFound
from streams.ports.events import EventFeed, FedEvent

_EVENT: Final = "INSERT OR IGNORE INTO events (id, tenant, livemode, seen_at, body) VALUES (?, ?, ?, ?, ?)"
_LATEST: Final = "SELECT seen_at FROM events WHERE seq = (SELECT max(seq) FROM events)"
_PAGE: Final = """
SELECT seen_at, seq, body FROM events
WHERE tenant = ? AND livemode = ? AND (seen_at, seq) > (?, ?) AND seen_at <= ?
ORDER BY seen_at, seq LIMIT ?"""
_PLACE: Final = "SELECT seen_at, seq, livemode FROM events WHERE id = ? AND tenant = ?"


def append_events(
    connection: sqlite3.Connection, events: Sequence[tuple[EventId, TenantId, bool, bytes]], millis: int
) -> None:
    """Write events that are not there yet behind all others, whatever the clocks of the writers say."""
    if not events:
        return
    row = connection.execute(_LATEST).fetchone()
    seen_at = millis if row is None else max(millis, row[0])
    write_rows(connection, _EVENT, [(*event[:3], seen_at, event[3]) for event in events])


class SqliteEventFeed(EventFeed):
    """A place is the moment of the commit and the row's number in the order of the commits."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @override
    async def page(
        self, tenant_id: TenantId, *, livemode: bool, after: str, limit: int, until: datetime | None = None
    ) -> Sequence[FedEvent]:
        latest = BEYOND if until is None else to_millis(until)
        asked = (tenant_id, livemode, *read_numbered(after), latest, max(limit, 0))
        rows: list[tuple[Any, ...]] = await self._engine.read(
            lambda reader: reader.execute(_PAGE, asked).fetchall()
        )
        return [
            FedEvent(DecisionEvent.from_bytes(body), write_place(seen_at, seq)) for seen_at, seq, body in rows
        ]

    @override
    async def place_of(self, tenant_id: TenantId, event_id: EventId, *, livemode: bool | None = None) -> str:
        row = await self._engine.read(lambda reader: reader.execute(_PLACE, (event_id, tenant_id)).fetchone())
        if row is None or livemode not in {None, bool(row[2])}:
            raise NotFound(event_id)
        return write_place(row[0], row[1])

    @override
    async def place_at(self, tenant_id: TenantId, *, livemode: bool, moment: datetime) -> str:
        return write_place(to_millis(moment))
