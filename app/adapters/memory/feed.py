"""Event feed in memory: events in the order of their commits."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from typing_extensions import override

from app.adapters.shared.columns import read_numbered, to_millis, write_place
from schemas.events import DecisionEvent
from schemas.ids import EventId, TenantId
from schemas.problems import NotFound
from streams.ports.events import EventFeed, FedEvent


@dataclass(slots=True)
class FeedShelf:
    """Events with their times in milliseconds since 1970, in ascending order."""

    millis: Callable[[], int] = lambda: time.time_ns() // 1_000_000
    rows: list[tuple[int, int, DecisionEvent]] = field(default_factory=list)
    """When each became visible, its number, counted from 1, and the event."""
    added: int = 0

    def add(self, event: DecisionEvent) -> None:
        """Put an event at the end."""
        latest = self.rows[-1][0] if self.rows else 0
        self.added += 1
        self.rows.append((max(latest, self.millis()), self.added, event))


class MemoryEventFeed(EventFeed):
    """Event feed by linear scan; a position is a moment and the number of the row, counted from 1."""

    def __init__(self, shelf: FeedShelf) -> None:
        self._shelf = shelf

    @override
    async def page(
        self, tenant_id: TenantId, *, livemode: bool, after: str, limit: int, until: datetime | None = None
    ) -> Sequence[FedEvent]:
        behind = read_numbered(after)
        latest = None if until is None else to_millis(until)
        return [
            FedEvent(event, write_place(seen, number))
            for seen, number, event in self._shelf.rows
            if (event.tenant_id, event.livemode) == (tenant_id, livemode)
            and (seen, number) > behind
            and (latest is None or seen <= latest)
        ][: max(limit, 0)]

    @override
    async def place_of(self, tenant_id: TenantId, event_id: EventId, *, livemode: bool | None = None) -> str:
        for seen, number, event in self._shelf.rows:
            if (event.tenant_id, event.id) == (tenant_id, event_id) and livemode in {None, event.livemode}:
                return write_place(seen, number)
        raise NotFound(event_id)

    @override
    async def place_at(self, tenant_id: TenantId, *, livemode: bool, moment: datetime) -> str:
        return write_place(to_millis(moment))
