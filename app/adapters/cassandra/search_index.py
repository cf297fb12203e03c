"""Index to find records by a fragment of their text: every run of up to three bytes.

Such a row is written once, with its record, and says nothing that changes: under which index a record is
listed now is looked up elsewhere. Two ways lead to a page, through what lies under a rare run of the
fragment, and through everything listed under the index; the first reader has all of it.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from app.adapters.cassandra.session import Session, Statement, Write
from app.adapters.shared.columns import to_micros
from app.adapters.shared.trigrams import grams_for, runs_of
from streams.ports.records import Record

LOOKED_AT: Final = 100
"""Rows of a run read at once: a few pages' worth."""

ASKED_FIRST: Final = 4
"""Runs whose rows are read first; only when each of them is common, the others are looked at as well."""

LISTED: Final = 1_000
"""Rows of an index read at once: they are many, and only the text is looked at."""

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
    for gram in sorted(runs_of(record.searched)):
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

    async def through_index(self) -> AsyncIterator[list[str]]:
        """Yield the ids under the index whose text contains the fragment, newest first."""
        for month in self.months:
            async for ids in self._walk(_UNDER_INDEX, (*self.place, month), LISTED):
                yield ids

    async def through_grams(self) -> AsyncIterator[list[str]]:
        """Yield the ids of the kind whose text contains the fragment, newest first; the index has the say."""
        few = grams_for(self.fragment, ASKED_FIRST)
        more = tuple(gram for gram in grams_for(self.fragment) if gram not in few)
        for month in self.months:
            firsts = await self._firsts(month, few)
            if all(len(rows) == LOOKED_AT for rows in firsts.values()):
                firsts |= await self._firsts(month, more)
            rarest = min(firsts, key=lambda gram: _spread(firsts[gram]))
            where = (*self.place[:2], rarest, month)
            async for ids in self._walk(_UNDER_GRAM, where, LOOKED_AT, firsts[rarest]):
                yield ids

    async def _firsts(self, month: int, grams: Sequence[str]) -> dict[str, Sequence[Sequence[Any]]]:
        """Return the newest rows under each gram."""
        wheres = [(*self.place[:2], gram, month, *self.bound, LOOKED_AT) for gram in grams]
        asked = (self.session.execute(_UNDER_GRAM, where) for where in wheres)
        return dict(zip(grams, await asyncio.gather(*asked), strict=True))

    async def _walk(
        self,
        statement: Statement,
        where: tuple[object, ...],
        at_once: int,
        first: Sequence[Sequence[Any]] | None = None,
    ) -> AsyncIterator[list[str]]:
        rows = first
        if rows is None:
            rows = await self.session.execute(statement, (*where, *self.bound, at_once))
        while rows:
            yield [row[1] for row in rows if self.fragment in (row[2] or "")]
            if len(rows) < at_once:
                return
            rows = await self.session.execute(statement, (*where, *rows[-1][:2], at_once))


def _spread(rows: Sequence[Sequence[Any]]) -> tuple[bool, int]:
    """Return what is less for rarer grams: fewer rows than a page, or a page that reaches further back."""
    return (False, len(rows)) if len(rows) < LOOKED_AT else (True, rows[-1][0])
