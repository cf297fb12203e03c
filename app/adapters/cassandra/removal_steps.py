"""Steps of a removal: the writes that take away what lists records, and the rests between them.

Neighbours in an index go with one range tombstone, for a reader of an index passes the tombstones on its
way for ten days at least, and Cassandra refuses to read over more than 100,000. The ranges of one removal
touch, and one that reaches the end of its month swallows all behind it. A record written later and dated
back into such a range is past its date, and not listed.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final

from app.adapters.cassandra.records import Month, key_of, month_of, place_writes
from app.adapters.cassandra.session import Session, Statement, Write
from app.adapters.shared.columns import to_micros
from streams.ports.records import Record

REST: Final = 4
"""Pause after a step, in multiples of what it took: a removal is under way a fifth of the time at most."""
NEIGHBOURS: Final = 4
"""How many records of one index are worth the look whether they are neighbours."""

BEFORE_ALL: Final = (-1, "")
"""Older than every place."""

_INDEX: Final = "tenant = ? AND kind = ? AND name = ? AND value = ? AND month = ?"
_LISTED: Final = Statement(
    f"SELECT created_at, id FROM record_places WHERE {_INDEX} AND (created_at, id) <= (?, ?) LIMIT ?"  # noqa: S608 - constants only
)
_UNPLACE_RANGE: Final = Statement(
    f"DELETE FROM record_places USING TIMESTAMP ? WHERE {_INDEX} "  # noqa: S608 - constants only
    "AND (created_at, id) <= (?, ?) AND (created_at, id) > (?, ?)"
)


@asynccontextmanager
async def resting() -> AsyncIterator[None]:
    """Carry out a step, and leave the cluster to others for a multiple of what it took."""
    begun = time.monotonic()
    yield
    await asyncio.sleep((time.monotonic() - begun) * REST)


async def unplacing(session: Session, records: Sequence[Record]) -> list[Write]:
    """Return the writes that take away whatever lists the records."""
    listed: dict[Month, list[Record]] = {}
    for record in records:
        for name, value in record.indexes:
            index = (*key_of(record)[:2], name, value, month_of(record.created_at))
            listed.setdefault(index, []).append(record)
    parts = await asyncio.gather(*(_unplace(session, *one) for one in listed.items()))
    return [write for part in parts for write in part]


async def _unplace(session: Session, index: Month, records: Sequence[Record]) -> Sequence[Write]:
    """Delete the range from the newest of them to the next older place, when nothing else is listed in it."""
    if len(records) >= NEIGHBOURS:
        places = {(to_micros(record.created_at), record.id) for record in records}
        newest, count = max(places), len(places)
        found = [tuple(row) for row in await session.execute(_LISTED, (*index, *newest, count + 1))]
        if set(found[:count]) == places:
            older = found[count] if len(found) > count else BEFORE_ALL
            version = max(record.version for record in records)
            return [(_UNPLACE_RANGE, (version, *index, *newest, *older))]
    pair = (index[2:4],)
    return [write for record in records for write in place_writes(record, (), pair)]
