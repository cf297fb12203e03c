"""Removal of events in Cassandra: whole days of the feed, so that no reader meets their tombstones.

The events go first, then the places of their day, then the day, by which a removal that was cut short is
found again.
"""

import asyncio
from collections.abc import Sequence
from datetime import datetime
from typing import Final

from app.adapters.cassandra.feed_positions import DAY_MICROS
from app.adapters.cassandra.removal_steps import resting
from app.adapters.cassandra.schema import first_wins
from app.adapters.cassandra.session import Session, Statement
from app.adapters.shared.columns import to_micros
from schemas.ids import TenantId

EVENTS_AT_ONCE: Final = 25
"""Events asked for, and removed, in one step."""

_DAYS: Final = Statement("SELECT day FROM event_days WHERE tenant = ? AND livemode = ? AND day < ?")
_ROWS: Final = Statement("SELECT id FROM event_feed WHERE tenant = ? AND livemode = ? AND day = ?")
_EMITTED: Final = Statement("SELECT id, emitted FROM events WHERE id IN ?")
_REMOVE: Final = Statement("DELETE FROM events USING TIMESTAMP ? WHERE id = ?")
_REMOVE_PLACES: Final = Statement("DELETE FROM event_feed WHERE tenant = ? AND livemode = ? AND day = ?")
_REMOVE_DAY: Final = Statement("DELETE FROM event_days WHERE tenant = ? AND livemode = ? AND day = ?")


async def remove_days(session: Session, feed: tuple[TenantId, bool], until: datetime, limit: int) -> int:
    """Remove the published events of days that ended by the moment, oldest first; return how many.

    A day is begun only below the limit, and finished. A day with an event that waits keeps its places.
    """
    removed = 0
    async for days in session.pages(_DAYS, (*feed, to_micros(until) // DAY_MICROS)):
        for (day,) in days:
            if removed >= limit:
                return removed
            removed += await _remove_day(session, feed, day)
    return removed


async def _remove_day(session: Session, feed: tuple[TenantId, bool], day: int) -> int:
    removed, waiting = 0, False
    async for rows in session.pages(_ROWS, (*feed, day)):
        ids = list(dict.fromkeys(event_id for (event_id,) in rows))
        for start in range(0, len(ids), EVENTS_AT_ONCE):
            asked = ids[start : start + EVENTS_AT_ONCE]
            async with resting():
                found = {row[0]: row[1] for row in await session.execute(_EMITTED, (asked,))}
                published = [event_id for event_id, emitted in found.items() if emitted]
                await _remove_events(session, published)
            removed += len(published)
            waiting = waiting or len(published) < len(found)
    if not waiting:
        await session.execute(_REMOVE_PLACES, (*feed, day))
        await session.execute(_REMOVE_DAY, (*feed, day))
    return removed


async def _remove_events(session: Session, event_ids: Sequence[str]) -> None:
    """Remove events later than every write of theirs, so that no replay brings one back."""
    latest = first_wins(0)
    await asyncio.gather(*(session.execute(_REMOVE, (latest, event_id)) for event_id in event_ids))
