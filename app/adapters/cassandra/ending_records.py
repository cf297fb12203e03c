"""List records that end by age and that earlier versions wrote before there was such a list."""

import asyncio
from datetime import UTC, datetime
from typing import Final

from app.adapters.cassandra.records import (
    COLUMNS,
    Pairs,
    key_of,
    month_of,
    month_write,
    place_writes,
    to_record,
)
from app.adapters.cassandra.session import Attempt, Session, Statement
from app.adapters.shared.columns import to_pairs_text
from app.adapters.shared.unlisted_records import LISTED_KINDS, missing_index
from streams.ports.records import Record

AT_ONCE: Final = 25
"""Records that are written at the same time."""

_EVERY: Final = Statement(f"SELECT {COLUMNS}, part FROM records")  # noqa: S608 - constants only
_LIST: Final = Statement(
    "UPDATE records SET indexes = ? WHERE tenant = ? AND kind = ? AND id = ? AND part = 0 IF version = ?"
)
_STANDING: Final = Statement(
    "SELECT indexes FROM records WHERE tenant = ? AND kind = ? AND id = ? AND part = 0"
)


async def list_ending(session: Session) -> None:
    """Walk all records once and list those that lack it; safe to repeat, nothing else is changed."""
    now = datetime.now(UTC)
    async for page in session.pages(_EVERY):
        found = [to_record(row[:-1]) for row in page if row[-1] == 0 and row[1] in LISTED_KINDS]
        for start in range(0, len(found), AT_ONCE):
            await asyncio.gather(*(_list(session, one, now) for one in found[start : start + AT_ONCE]))


async def _list(session: Session, record: Record, now: datetime) -> None:
    """Write the place first: until the record names it as well, it leads to nothing."""
    pair = missing_index(record.kind.value, record.tenant_id, record.indexes, record.body, now)
    if pair is None:
        return
    pairs: Pairs = (*record.indexes, pair)
    month = month_write((record.tenant_id, record.kind.value, *pair, month_of(record.created_at)))
    await session.batch([month, *place_writes(record, (pair,), ())])
    text, key = to_pairs_text(pairs), key_of(record)
    write = (_LIST, (text, *key, record.version))
    await session.lwt(Attempt(write, (_STANDING, key), {"indexes": text}))
