"""Read pages of the audit log, newest first: day by day, from the index with the fewest candidates.

What a page costs is bounded by what it may have to look at: one read a day that has rows at all (a few
days at once, more the longer nothing is found), and the rows listed under the one value that is looked
up. Only when a filter gives several fields are rows read that it then leaves out, and then only rows with
the rarest of these values, in the period asked for. No table is ever scanned.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final

from app.adapters.cassandra.audit_rows import (
    AT_ONCE,
    BY_DAY,
    COLUMNS,
    DAY_MS,
    WHOLE,
    RowKey,
    StoredRow,
)
from app.adapters.cassandra.session import Session, Statement
from app.adapters.shared.columns import BEYOND, to_millis
from schemas.audit import AuditAction, AuditFilter
from schemas.ids import TenantId
from streams.audit.rules import is_chosen, names
from streams.ports.records import Position

BEFORE_ALL: Final = -(2**63)
"""Milliseconds; earlier than every row."""

DAYS: Final = 64
"""Days looked up at a time."""

DAYS_AT_ONCE: Final = 16
"""Days read at the same time, at most."""

LOOKED_AT: Final = 64
"""Rows read at a time when some of them may be left out, at least."""

NAMED_AT_ONCE: Final = 100
"""Rows asked for by their keys in one request."""

_BOUNDS: Final = "(created_at, event_id) < (?, ?) AND (created_at, event_id) >= (?, ?) LIMIT ?"
_DAYS: Final = Statement(
    "SELECT day FROM audit_days WHERE tenant = ? AND livemode = ? AND day <= ? AND day >= ? LIMIT ?"
)
_ROWS: Final = Statement(
    f"SELECT {COLUMNS} FROM audit WHERE tenant = ? AND livemode = ? AND day = ? AND {_BOUNDS}"  # noqa: S608 - constants only
)
_NAMED: Final = Statement(
    f"SELECT {COLUMNS} FROM audit WHERE tenant = ? AND livemode = ? AND day = ? "  # noqa: S608 - constants only
    "AND (created_at, event_id) IN ?"
)
_PLACES: Final = Statement(
    "SELECT created_at, event_id, livemode FROM audit_places "  # noqa: S608 - constants only
    f"WHERE tenant = ? AND livemode = ? AND name = ? AND value = ? AND day = ? AND {_BOUNDS}"
)


@dataclass(frozen=True, slots=True)
class _Listing:
    """One list of rows in time order."""

    livemode: bool
    name: str | None = None
    """The field whose value the rows share; None: all rows of the mode."""
    value: str = ""


@dataclass(frozen=True, slots=True)
class _Question:
    """The query of a page, as lists to merge and bounds."""

    tenant_id: TenantId
    chosen: AuditFilter
    listings: Sequence[_Listing]
    below: tuple[int, str]
    """Every row sought is before this."""
    since: int
    limit: int

    @property
    def by_day(self) -> bool:
        """Whether the lists are parted by days."""
        return self.listings[0].name not in AT_ONCE


async def find_rows(session: Session, tenant_id: TenantId, keys: Iterable[RowKey]) -> dict[RowKey, StoredRow]:
    """Return those of the rows that are there."""
    parts: dict[tuple[bool, int], list[RowKey]] = {}
    for key in dict.fromkeys(keys):
        parts.setdefault((key.livemode, key.day), []).append(key)
    asked = [
        (_NAMED, (tenant_id, *part, [key[:2] for key in named[start : start + NAMED_AT_ONCE]]))
        for part, named in parts.items()
        for start in range(0, len(named), NAMED_AT_ONCE)
    ]
    answers = await asyncio.gather(*(session.execute(*one) for one in asked))
    rows = [StoredRow(columns) for answer in answers for columns in answer]
    return {row.key: row for row in rows if row.is_row}


async def find_page(
    session: Session, tenant_id: TenantId, chosen: AuditFilter, limit: int, before: Position | None
) -> Sequence[StoredRow]:
    """Return at most `limit` rows that the filter chooses, newest first.

    Raises:
        Damaged: A row was altered so far that it cannot be read.
    """
    below: tuple[int, str] = (BEYOND, "")
    if chosen.until is not None:
        below = (to_millis(chosen.until), "")
    if before is not None:
        below = min(below, (to_millis(before.created_at), before.id))
    since = BEFORE_ALL if chosen.since is None else to_millis(chosen.since)
    listings = _listings(chosen)
    if not listings:
        return []
    return await _Reader(session, _Question(tenant_id, chosen, listings, below, since, limit)).read()


def _listings(chosen: AuditFilter) -> list[_Listing]:
    """Return the lists that contain every row sought: those of the field that leaves the fewest."""
    modes = (True, False) if chosen.livemode is None else (chosen.livemode,)
    values: Sequence[str]
    for name in (*AT_ONCE, *BY_DAY):
        value = getattr(chosen, name)
        if value is not None:
            values = (
                [action for action in AuditAction if names(value, action)] if name == "action" else [value]
            )
            return [_Listing(mode, name, value) for mode, value in product(modes, values)]
    return [_Listing(mode) for mode in modes]


class _Reader:
    """One page being read."""

    def __init__(self, session: Session, question: _Question) -> None:
        self._session = session
        self._asked = question
        self._seen: dict[RowKey, StoredRow] = {}

    async def read(self) -> Sequence[StoredRow]:
        """Go back in time, more days at once the longer nothing is found, until the page is full."""
        found: list[StoredRow] = []
        at_once = 1
        async for days in self._days():
            waiting = list(days)
            while waiting and len(found) < self._asked.limit:
                group, waiting = waiting[:at_once], waiting[at_once:]
                need = self._asked.limit - len(found)
                for rows in await asyncio.gather(*(self._read_day(day, need) for day in group)):
                    found += rows
                at_once = min(2 * at_once, DAYS_AT_ONCE)
            if len(found) >= self._asked.limit:
                break
        return found[: self._asked.limit]

    async def _days(self) -> AsyncIterator[Sequence[int]]:
        """Yield the days that have rows, newest first."""
        asked = self._asked
        if not asked.by_day:
            yield [WHOLE]
            return
        newest, oldest = asked.below[0] // DAY_MS, asked.since // DAY_MS
        modes = {listing.livemode for listing in asked.listings}
        while newest >= oldest:
            bounds = (newest, oldest, DAYS)
            answers = await asyncio.gather(
                *(self._session.execute(_DAYS, (asked.tenant_id, mode, *bounds)) for mode in modes)
            )
            lists = [[day for (day,) in answer] for answer in answers]
            reached = max((days[-1] for days in lists if len(days) == DAYS), default=oldest)
            yield sorted({day for days in lists for day in days if day >= reached}, reverse=True)
            newest = reached - 1

    async def _read_day(self, day: int, need: int) -> Sequence[StoredRow]:
        """Return at most `need` rows of the day."""
        found: list[StoredRow] = []
        below, most = self._asked.below, max(need, LOOKED_AT)
        while True:
            lists = [self._read_list(listing, day, below, most) for listing in self._asked.listings]
            keys = [key for keys in await asyncio.gather(*lists) for key in keys]
            keys = sorted(keys, reverse=True)[:most]
            found += await self._choose(keys)
            if len(found) >= need or len(keys) < most:
                return found[:need]
            below = keys[-1].created_at, keys[-1].event_id

    async def _read_list(
        self, listing: _Listing, day: int, below: tuple[int, str], most: int
    ) -> Sequence[RowKey]:
        """Return the keys of the next rows on the list; those of all rows come with the rows themselves."""
        bounds = (*below, self._asked.since, "", most)
        if listing.name is not None:
            named = (self._asked.tenant_id, listing.livemode, listing.name, listing.value, day)
            return [RowKey(*columns) for columns in await self._session.execute(_PLACES, (*named, *bounds))]
        whole = (self._asked.tenant_id, listing.livemode, day)
        rows = [StoredRow(columns) for columns in await self._session.execute(_ROWS, (*whole, *bounds))]
        self._seen.update((row.key, row) for row in rows if row.is_row)
        return [row.key for row in rows]

    async def _choose(self, keys: Sequence[RowKey]) -> Sequence[StoredRow]:
        """Return the rows under the keys that the filter lets through, in their order."""
        unseen = [key for key in keys if key not in self._seen]
        if self._asked.listings[0].name is not None:
            self._seen |= await find_rows(self._session, self._asked.tenant_id, unseen)
        there = [self._seen.pop(key) for key in keys if key in self._seen]
        return [row for row in there if is_chosen(row.to_event(), self._asked.chosen)]
