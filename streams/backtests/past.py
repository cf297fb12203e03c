"""Read the stored transactions of a span in the order in which they were accepted."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from heapq import heapify, heappop, heappush
from typing import Final

from schemas.ids import TenantId
from streams.ports.errors import Erased
from streams.ports.records import Position, Record, RecordKind
from streams.ports.stores import Stores
from streams.transactions.opening import OpenedTransaction, open_transaction
from streams.transactions.row import stands_for
from streams.verification.records import Index

PAGE: Final = 200

KINDS: Final = (RecordKind.TRANSACTION, RecordKind.HISTORIC_TRANSACTION)
"""What features count: what was decided, and what was imported (G119)."""

Starts = Mapping[RecordKind, Sequence[Position]]
"""Where the pages of each kind begin, the newest first."""


@dataclass(frozen=True, slots=True)
class PastTransaction:
    """A record of a transaction, opened."""

    record: Record
    opened: OpenedTransaction


@dataclass(frozen=True, slots=True)
class StoredSpan:
    """The transactions of an index accepted in `[since, until)`, read twice, page by page."""

    stores: Stores
    tenant_id: TenantId
    index: Index
    since: datetime
    until: datetime

    async def pages(self, counted_from: datetime) -> tuple[Starts, int]:
        """Return where each page begins, and how many were decided from a time on."""
        starts: dict[RecordKind, Sequence[Position]] = {}
        counted = 0
        for kind in KINDS:
            starts[kind], found = await self._pages(kind, counted_from)
            counted += found if kind is RecordKind.TRANSACTION else 0
        return starts, counted

    async def _pages(self, kind: RecordKind, counted_from: datetime) -> tuple[Sequence[Position], int]:
        starts, counted = list[Position](), 0
        before = Position(self.until, "")
        while page := await self._page(kind, before):
            starts.append(before)
            counted += sum(record.created_at >= counted_from for record in page)
            if len(page) < PAGE or page[-1].created_at < self.since:
                break
            before = Position(page[-1].created_at, page[-1].id)
        return starts, counted

    async def oldest_first(self, starts: Starts) -> AsyncIterator[PastTransaction]:
        """Yield the transactions of the pages; those of erased subjects are left out."""
        waiting = list[PastTransaction]()
        async for opened in _by_time([self._opened(kind, own) for kind, own in starts.items()]):
            if waiting and waiting[-1].record.created_at != opened.record.created_at:
                for one in in_order(waiting):
                    yield one
                waiting.clear()
            waiting.append(opened)
        for one in in_order(waiting):
            yield one

    async def _opened(self, kind: RecordKind, starts: Sequence[Position]) -> AsyncIterator[PastTransaction]:
        for before in reversed(starts):
            page = [one for one in reversed(await self._page(kind, before)) if one.created_at >= self.since]
            for opened in await asyncio.gather(*map(self._open_unless_erased, page)):
                if opened is not None:
                    yield opened

    async def _open_unless_erased(self, record: Record) -> PastTransaction | None:
        try:
            return PastTransaction(record, await open_transaction(self.stores, self.tenant_id, record))
        except Erased:
            return None

    async def _page(self, kind: RecordKind, before: Position) -> Sequence[Record]:
        return await self.stores.records.page(self.tenant_id, kind, self.index, limit=PAGE, before=before)


async def _by_time(streams: Sequence[AsyncIterator[PastTransaction]]) -> AsyncIterator[PastTransaction]:
    """Yield what streams that are in the order of time yield, in that order."""
    heads = [
        (one.record.created_at, at, one)
        for at, stream in enumerate(streams)
        if (one := await anext(stream, None))
    ]
    heapify(heads)
    while heads:
        _, at, one = heappop(heads)
        yield one
        if following := await anext(streams[at], None):
            heappush(heads, (following.record.created_at, at, following))


def in_order(found: Sequence[PastTransaction]) -> Iterator[PastTransaction]:
    """Yield transactions of one time in the order in which their subjects' actors decided them."""
    waiting = list(found)
    while waiting:
        first = next(
            (one for one in waiting if not any(_follows(one, other) for other in waiting)), waiting[0]
        )
        waiting.remove(first)
        yield first


def _follows(one: PastTransaction, other: PastTransaction) -> bool:
    decided = one.opened.decided
    circumstances = None if decided is None else decided.circumstances
    return circumstances is not None and stands_for(bytes.fromhex(circumstances.after), other.record.id)
