"""Index to find records by a fragment of their text: some of its runs of three bytes.

Such a row is written once, with its record, and says nothing that changes: under which index a record is
listed now is looked up elsewhere. Two ways lead to a page, through what lies under a rare run of the
fragment, and through everything listed under the index; the first reader has all of it. For a fragment too
short to have a sampled run (`sampled_grams`) there is the second way only, and it ends after so many rows.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, TypeVar

from app.adapters.cassandra.session import Row, Session, Statement, Write
from app.adapters.shared.columns import from_micros, to_micros
from app.adapters.shared.trigrams import ASKED, is_window_or_longer, sampled_grams
from streams.ports.records import Found, Position, Record

Answer = TypeVar("Answer")

Find: TypeAlias = Callable[[Sequence[str]], Awaitable[list[Record]]]
"""Returns those of the ids' records that are there, in the order of the ids."""

LOOKED_AT: Final = 100
"""Rows of a run read at once: a few pages' worth."""

ASKED_FIRST: Final = 4
"""Runs whose rows are read first; only when each of them is common, the others are looked at as well."""

LISTED: Final = 1_000
"""Rows of an index read at once: they are many, and only the text is looked at."""

LISTED_AT_MOST: Final = 20_000
"""Rows of an index looked at for a fragment without a sampled run, before the search stops: about 0.2 s."""

_GRAM: Final = Statement(
    "INSERT INTO record_grams (tenant, kind, gram, month, created_at, id, searched) "
    "VALUES (?, ?, ?, ?, ?, ?, ?)"
)
_UNDER_GRAM: Final = Statement(
    "SELECT created_at, id, searched FROM record_grams WHERE tenant = ? AND kind = ? AND gram = ? "
    "AND month = ? AND (created_at, id) < (?, ?) LIMIT ?"
)
_UNDER_INDEX: Final = Statement(
    "SELECT created_at, id, searched FROM record_places WHERE tenant = ? AND kind = ? AND name = ? "
    "AND value = ? AND month = ? AND (created_at, id) < (?, ?) LIMIT ?"
)


def gram_writes(record: Record, month: int) -> Iterator[Write]:
    """Return what lets fragments find a record; only its first version has any."""
    if record.version > 1:
        return
    created_at = to_micros(record.created_at)
    for gram in sampled_grams(record.searched):
        where = (record.tenant_id, record.kind.value, gram, month)
        yield _GRAM, (*where, created_at, record.id, record.searched)


@dataclass(frozen=True, slots=True)
class Sought:
    """A search in some months, newest first."""

    session: Session
    place: tuple[str, str, str, str]
    """Tenant, kind, index name and value."""
    months: Sequence[int]
    bound: tuple[int, str]
    """Before which (created_at, id)."""
    fragment: str

    async def find(self, find: Find, limit: int) -> Found:
        """Return the records under the index whose text contains the fragment, newest first.

        `find` returns those of some ids that are there.
        """
        if not is_window_or_longer(self.fragment):
            return await self._among_listed(find, limit)
        ways = self.through_grams(), self.through_index()
        return Found(await first_of(*(self._collect(find, way, limit) for way in ways)))

    async def _collect(self, find: Find, way: AsyncIterator[list[str]], limit: int) -> list[Record]:
        found: list[Record] = []
        async for ids in way:
            found += filter(self._admits, await find(ids))
            if len(found) >= limit:
                break
        return found[:limit]

    async def _among_listed(self, find: Find, limit: int) -> Found:
        """Look at the newest that are listed, and tell where that ended."""
        found: list[Record] = []
        looked_at = 0
        async for rows in self._listed():
            found += filter(self._admits, await find(self._having(rows)))
            looked_at += len(rows)
            if len(found) >= limit:
                return Found(found[:limit])
            if looked_at >= LISTED_AT_MOST:
                created_at, record_id, _ = rows[-1]
                return Found(found, Position(from_micros(created_at), record_id))
        return Found(found)

    def _admits(self, record: Record) -> bool:
        """Return whether the record is one that is sought, as it stands now."""
        return self.place[2:] in record.indexes and self.fragment in record.searched

    async def through_index(self) -> AsyncIterator[list[str]]:
        """Yield the ids under the index whose text contains the fragment, newest first."""
        async for rows in self._listed():
            yield self._having(rows)

    async def _listed(self) -> AsyncIterator[Sequence[Row]]:
        for month in self.months:
            async for rows in self._walk(_UNDER_INDEX, (*self.place, month), LISTED):
                yield rows

    async def through_grams(self) -> AsyncIterator[list[str]]:
        """Yield the ids of the kind whose text contains the fragment, newest first; the index has the say."""
        grams = sampled_grams(self.fragment)[:ASKED]
        few = grams[:: -(-len(grams) // ASKED_FIRST)]
        more = tuple(gram for gram in grams if gram not in few)
        for month in self.months:
            firsts = await self._firsts(month, few)
            if all(len(rows) == LOOKED_AT for rows in firsts.values()):
                firsts |= await self._firsts(month, more)
            rarest = min(firsts, key=lambda gram: _spread(firsts[gram]))
            where = (*self.place[:2], rarest, month)
            async for rows in self._walk(_UNDER_GRAM, where, LOOKED_AT, firsts[rarest]):
                yield self._having(rows)

    def _having(self, rows: Sequence[Row]) -> list[str]:
        return [record_id for _, record_id, text in rows if self.fragment in (text or "")]

    async def _firsts(self, month: int, grams: Sequence[str]) -> dict[str, Sequence[Row]]:
        """Return the newest rows under each gram."""
        wheres = [(*self.place[:2], gram, month, *self.bound, LOOKED_AT) for gram in grams]
        asked = (self.session.execute(_UNDER_GRAM, where) for where in wheres)
        return dict(zip(grams, await asyncio.gather(*asked), strict=True))

    async def _walk(
        self,
        statement: Statement,
        where: tuple[object, ...],
        at_once: int,
        first: Sequence[Row] | None = None,
    ) -> AsyncIterator[Sequence[Row]]:
        rows = first
        if rows is None:
            rows = await self.session.execute(statement, (*where, *self.bound, at_once))
        while rows:
            yield rows
            if len(rows) < at_once:
                return
            rows = await self.session.execute(statement, (*where, *rows[-1][:2], at_once))


def _spread(rows: Sequence[Row]) -> tuple[bool, int]:
    """Return what is less for rarer grams: fewer rows than a page, or a page that reaches further back."""
    return (False, len(rows)) if len(rows) < LOOKED_AT else (True, rows[-1][0])


async def first_of(*ways: Coroutine[Any, Any, Answer]) -> Answer:
    """Return what the first of several ways comes to, and let the others be."""
    tasks = [asyncio.ensure_future(way) for way in ways]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        return next(task for task in tasks if task in done).result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
