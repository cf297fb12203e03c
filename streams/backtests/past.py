"""Read the stored transactions of a span in the order in which they were accepted."""

from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from schemas.ids import TenantId
from schemas.transaction_decisions import SealedParts, StoredTransaction
from streams.ports.errors import Erased
from streams.ports.records import Position, Record, RecordKind
from streams.ports.stores import Stores
from streams.transactions.row import stands_for
from streams.transactions.velocity import open_parts
from streams.verification.records import Index

PAGE: Final = 200


@dataclass(frozen=True, slots=True)
class PastTransaction:
    """A stored transaction, opened."""

    record: Record
    stored: StoredTransaction
    parts: SealedParts


@dataclass(frozen=True, slots=True)
class StoredSpan:
    """The transactions of an index accepted in `[since, until)`, read twice, page by page."""

    stores: Stores
    tenant_id: TenantId
    index: Index
    since: datetime
    until: datetime

    async def pages(self, counted_from: datetime) -> tuple[list[Position], int]:
        """Return where each page begins, the newest first, and how many were accepted from a time on."""
        starts, counted = list[Position](), 0
        before = Position(self.until, "")
        while page := await self._page(before):
            starts.append(before)
            counted += sum(record.created_at >= counted_from for record in page)
            if len(page) < PAGE or page[-1].created_at < self.since:
                break
            before = Position(page[-1].created_at, page[-1].id)
        return starts, counted

    async def oldest_first(self, starts: Sequence[Position]) -> AsyncIterator[PastTransaction]:
        """Yield the transactions of the pages; those of erased subjects are left out."""
        waiting = list[PastTransaction]()
        for before in reversed(starts):
            for record in reversed(await self._page(before)):
                if record.created_at < self.since or (opened := await self._open(record)) is None:
                    continue
                if waiting and waiting[-1].record.created_at != record.created_at:
                    for one in in_order(waiting):
                        yield one
                    waiting.clear()
                waiting.append(opened)
        for one in in_order(waiting):
            yield one

    async def _page(self, before: Position) -> Sequence[Record]:
        records, kind = self.stores.records, RecordKind.TRANSACTION
        return await records.page(self.tenant_id, kind, self.index, limit=PAGE, before=before)

    async def _open(self, record: Record) -> PastTransaction | None:
        stored = StoredTransaction.from_bytes(record.body)
        try:
            return PastTransaction(record, stored, await open_parts(self.stores, self.tenant_id, stored))
        except Erased:
            return None


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
    circumstances = one.parts.circumstances
    return circumstances is not None and stands_for(bytes.fromhex(circumstances.after), other.record.id)
