"""Records in Cassandra: read by key, and in pages by index."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, TypeAlias

from typing_extensions import override

from app.adapters.cassandra.coalescing import Coalescer
from app.adapters.cassandra.search_index import Sought, gram_writes
from app.adapters.cassandra.session import Row, Session, Statement, Write
from app.adapters.shared.columns import BEYOND, from_micros, from_pairs_text, to_micros
from schemas.ids import TenantId
from schemas.problems import NotFound
from streams.ports.records import Found, Position, Record, RecordKind, Records

RecordKey: TypeAlias = tuple[str, str, str]
"""Tenant, kind, id."""

Pairs: TypeAlias = tuple[tuple[str, str], ...]
"""(index name, value)."""

Month: TypeAlias = tuple[str, str, str, str, int]
"""Tenant, kind, index name, value, month."""

COLUMNS: Final = "tenant, kind, id, body, created_at, version, fingerprint, indexes, first_body, searched"
"""What makes a record, in the order `to_record` reads it."""

_ID: Final = COLUMNS.split(", ").index("id")

AT_ONCE: Final = 25
"""Records asked for in one request; a coordinator asks their replicas side by side."""

MONTHS_AT_ONCE: Final = 4

BEYOND_MONTHS: Final = 999_912
"""Later than every month."""

PASSING: Final = frozenset({"due"})
"""Names of indexes whose values are moments: nothing is listed under one for long after it."""

PASSING_S: Final = 100 * 86_400
"""How long the months of such a value are known; a delivery is pending for days, a session for hours."""

_GET: Final = Statement(
    f"SELECT {COLUMNS}, part, settled, WRITETIME(outbox) FROM records "  # noqa: S608 - constants only
    "WHERE tenant = ? AND kind = ? AND id IN ?"
)
_MANY: Final = Statement(
    f"SELECT {COLUMNS} FROM records WHERE tenant = ? AND kind = ? AND id IN ? AND part = 0"  # noqa: S608 - constants only
)
_PLACE: Final = Statement(
    "INSERT INTO record_places (tenant, kind, name, value, month, created_at, id) "
    "VALUES (?, ?, ?, ?, ?, ?, ?) USING TIMESTAMP ?"
)
_PLACE_TEXT: Final = Statement(
    "INSERT INTO record_places (tenant, kind, name, value, month, created_at, id, searched) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?) USING TIMESTAMP ?"
)
_UNPLACE: Final = Statement(
    "DELETE FROM record_places USING TIMESTAMP ? WHERE tenant = ? AND kind = ? AND name = ? AND value = ? "
    "AND month = ? AND created_at = ? AND id = ?"
)
MONTH: Final = Statement(
    "INSERT INTO record_months (tenant, kind, name, value, month) VALUES (?, ?, ?, ?, ?)"
)
PASSING_MONTH: Final = Statement(
    "INSERT INTO record_months (tenant, kind, name, value, month) VALUES (?, ?, ?, ?, ?) USING TTL ?"
)
_MONTHS: Final = Statement(
    "SELECT month FROM record_months WHERE tenant = ? AND kind = ? AND name = ? AND value = ? AND month <= ?"
)
_PLACES: Final = Statement(
    "SELECT created_at, id FROM record_places WHERE tenant = ? AND kind = ? AND name = ? AND value = ? "
    "AND month = ? AND (created_at, id) < (?, ?) LIMIT ?"
)


def key_of(record: Record) -> RecordKey:
    """Return where the record stands."""
    return record.tenant_id, record.kind.value, record.id


def month_of(moment: datetime) -> int:
    """Return the month as a number, 202611."""
    return moment.year * 100 + moment.month


def to_record(row: Sequence[Any]) -> Record:
    """Return the record of the columns."""
    tenant, kind, record_id, body, created_at, version, fingerprint, indexes, first_body, searched = row
    return Record(
        tenant_id=TenantId(tenant),
        kind=RecordKind(kind),
        id=record_id,
        body=body,
        created_at=from_micros(created_at),
        version=version,
        fingerprint=fingerprint,
        indexes=from_pairs_text(indexes),
        first_body=body if first_body is None else first_body,
        searched=searched or "",
    )


def from_named(row: Mapping[str, Any]) -> Record:
    """Return the record of the columns by their names."""
    return to_record([row[name] for name in COLUMNS.split(", ")])


def place_writes(record: Record, added: Pairs, gone: Pairs) -> Iterator[Write]:
    """Return what lists a record under pairs, and under others no longer; later versions outdo earlier."""
    month, created_at = month_of(record.created_at), to_micros(record.created_at)
    for name, value in added:
        where = (*key_of(record)[:2], name, value, month, created_at, record.id)
        if record.searched:
            yield _PLACE_TEXT, (*where, record.searched, record.version)
        else:
            yield _PLACE, (*where, record.version)
    for name, value in gone:
        where = (*key_of(record)[:2], name, value, month, created_at, record.id)
        yield _UNPLACE, (record.version, *where)


def text_writes(record: Record) -> Iterator[Write]:
    """Return what lets a fragment of its text find a record."""
    return gram_writes(record, month_of(record.created_at))


def month_write(month: Month) -> Write:
    """Return what says that (tenant, kind, name, value) has records of the month."""
    return (PASSING_MONTH, (*month, PASSING_S)) if month[2] in PASSING else (MONTH, month)


def month_writes(record: Record) -> Iterator[Write]:
    """Return what says so wherever the record is listed."""
    month = month_of(record.created_at)
    for pair in record.indexes:
        yield month_write((*key_of(record)[:2], *pair, month))


class CassandraRecords(Records):
    """One read for a record; for a page the months, the positions in them, and the records at once."""

    def __init__(self, session: Session, finish: Callable[[RecordKey], Awaitable[None]]) -> None:
        self._session = session
        self._finish = finish
        self._rows = Coalescer(self._rows_of_many, most=AT_ONCE, group_of=lambda key: key[:2])

    @override
    async def get(self, tenant_id: TenantId, kind: RecordKind, record_id: str) -> Record:
        """Return it once all of its change is written: its writer may have died after the record.

        A reader of the record, such as a command delivered again, takes the whole change for done.
        """
        key = (tenant_id, kind.value, record_id)
        rows = {row[-3]: row for row in await self._rows(key)}
        if 0 not in rows:
            raise NotFound(record_id)
        *columns, _, _, outbox_written = rows[0]
        record = to_record(columns)
        if outbox_written is not None and (1 not in rows or rows[1][-2] < record.version):
            await self._finish(key)
        return record

    async def _rows_of_many(self, keys: Sequence[RecordKey]) -> Sequence[Sequence[Row]]:
        """Return the rows of records of one tenant and kind."""
        named = list(dict.fromkeys(record_id for _, _, record_id in keys))
        rows = await self._session.execute(_GET, (*keys[0][:2], named))
        return [[row for row in rows if row[_ID] == record_id] for _, _, record_id in keys]

    @override
    async def page(
        self,
        tenant_id: TenantId,
        kind: RecordKind,
        index: tuple[str, str],
        *,
        limit: int,
        before: Position | None = None,
    ) -> Sequence[Record]:
        listed: list[Record] = []
        if limit < 1:
            return listed
        async for ids in self._walk((tenant_id, kind.value, *index), limit, before):
            found = await self._find(tenant_id, kind, ids)
            listed += [record for record in found if index in record.indexes]
            if len(listed) >= limit:
                break
        return listed[:limit]

    @override
    async def search(
        self,
        tenant_id: TenantId,
        kind: RecordKind,
        index: tuple[str, str],
        fragment: str,
        *,
        limit: int,
        before: Position | None = None,
    ) -> Found:
        if limit < 1:
            return Found(())
        place = (tenant_id, kind.value, *index)
        months = await self._months(place, before)
        sought = Sought(self._session, place, months, _bound(before), fragment)

        return await sought.find(lambda ids: self._find(tenant_id, kind, ids), limit)

    async def _walk(
        self, place: tuple[str, str, str, str], limit: int, before: Position | None
    ) -> AsyncIterator[list[str]]:
        """Yield the ids listed at a place, newest first."""
        bound = _bound(before)
        months = await self._months(place, before)
        at_once = 1
        while months:
            asked, months = months[:at_once], months[at_once:]
            at_once = MONTHS_AT_ONCE
            pages = await asyncio.gather(*(self._places(place, month, bound, limit) for month in asked))
            for month, first in zip(asked, pages, strict=True):
                rows = first
                while rows:
                    yield [row[1] for row in rows]
                    full = len(rows) == limit
                    rows = await self._places(place, month, rows[-1], limit) if full else ()

    async def _months(self, place: tuple[str, str, str, str], before: Position | None) -> list[int]:
        newest = BEYOND_MONTHS if before is None else month_of(before.created_at)
        return [row[0] for row in await self._session.execute(_MONTHS, (*place, newest))]

    async def _places(
        self, place: tuple[str, str, str, str], month: int, bound: Sequence[Any], limit: int
    ) -> Sequence[Sequence[Any]]:
        return await self._session.execute(_PLACES, (*place, month, *bound, limit))

    async def _find(self, tenant_id: TenantId, kind: RecordKind, ids: Sequence[str]) -> list[Record]:
        """Return those of the records that are there, in the order of their ids."""
        chunks = [ids[start : start + AT_ONCE] for start in range(0, len(ids), AT_ONCE)]
        asked = (self._session.execute(_MANY, (tenant_id, kind.value, chunk)) for chunk in chunks)
        found = {row[2]: to_record(row) for rows in await asyncio.gather(*asked) for row in rows}
        return [found[record_id] for record_id in ids if record_id in found]


def _bound(before: Position | None) -> tuple[int, str]:
    return (BEYOND, "") if before is None else (to_micros(before.created_at), before.id)
