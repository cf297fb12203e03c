"""What removals of old records have in common: pages of an index, and sweeps in the background."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Protocol

import structlog

from schemas.ids import PLATFORM, TenantId
from schemas.problems import StoreUnavailable
from streams.ports.records import Position, Record, RecordKind, Records
from streams.ports.stores import Stores
from streams.runtime.outbox_relay import beside

log = structlog.get_logger(__name__)

EVERY_S: Final = 600.0
"""Interval between two sweeps; short beside periods of days."""

NOT_YET_S: Final = 5.0
"""Interval in which a process looks whether it became responsible, as one that just started does."""


MOST_REMOVED: Final = 20_000
"""Records removed in one sweep; the next follows at once, so that no tenant and no kind waits for long."""


@dataclass(frozen=True, slots=True)
class RemovalPace:
    """How much one sweep reads and removes."""

    page: int = 256
    most: int = MOST_REMOVED


class Removal(Protocol):
    """Removes what is past its period."""

    async def sweep(self) -> int:
        """Remove what is past its period; return how much.

        Raises:
            StoreUnavailable: Some may be removed; the next sweep removes the others.
        """
        ...


async def pages(
    records: Records,
    tenant_id: TenantId,
    kind: RecordKind,
    index: tuple[str, str],
    *,
    limit: int,
    before: Position | None = None,
) -> AsyncIterator[Sequence[Record]]:
    """Yield the pages of an index, newest first; records of a page may be removed before the next is read."""
    while True:
        page = await records.page(tenant_id, kind, index, limit=limit, before=before)
        if page:
            yield page
        if len(page) < limit:
            return
        before = Position(page[-1].created_at, page[-1].id)


MONTHS_BACK_FIRST: Final = 24
"""How many months the first sweep of a process reads, in case none ran for so long."""

MONTHS_BACK: Final = 2
"""How many months every other sweep reads."""


@dataclass(frozen=True, slots=True)
class MonthlyRecords:
    """Records of one kind that may be taken over at any time, listed by the month in which they last were."""

    kind: RecordKind
    index: Callable[[datetime], tuple[str, str]]
    """The index of the month of a moment."""
    is_needed: Callable[[Record], Awaitable[bool]]


async def remove_months(
    stores: Stores,
    tenant_id: TenantId,
    monthly: MonthlyRecords,
    until: datetime,
    months: int,
    pace: RemovalPace,
) -> int:
    """Remove the records of the latest months that ended by the moment, unless needed; return how many."""
    removed = 0
    for month in _months(until, months):
        async for page in pages(
            stores.records, tenant_id, monthly.kind, monthly.index(month), limit=pace.page
        ):
            past = [record for record in page if not await monthly.is_needed(record)][: pace.most - removed]
            await stores.removal.remove_unchanged(past)
            removed += len(past)
            if removed >= pace.most:
                return removed
    return removed


def _months(moment: datetime, count: int) -> Sequence[datetime]:
    """Return the last day of each of so many months before the moment's, newest first."""
    found = []
    for _ in range(count):
        moment = moment.replace(day=1) - timedelta(days=1)
        found.append(moment)
    return found


async def tenant_ids(records: Records, index: tuple[str, str], limit: int) -> AsyncIterator[TenantId]:
    """Yield every tenant that the index of the platform lists."""
    async for page in pages(records, PLATFORM, RecordKind.TENANT, index, limit=limit):
        for tenant in page:
            yield TenantId(tenant.id)


@asynccontextmanager
async def removing_records(
    removals: Mapping[str, Removal], is_responsible: Callable[[], bool], every_s: float = EVERY_S
) -> AsyncIterator[None]:
    """Sweep in the background for the length of the context, while this process is responsible."""
    async with beside(lambda: _run(removals, is_responsible, every_s), "record-removal", every_s):
        yield


async def _run(removals: Mapping[str, Removal], is_responsible: Callable[[], bool], every_s: float) -> None:
    """Sweep until cancelled, again at once while much is left; a failed sweep is repeated later."""
    while True:
        if not is_responsible():
            await asyncio.sleep(min(every_s, NOT_YET_S))
            continue
        removed = [await _sweep(name, removal) for name, removal in removals.items()]
        await asyncio.sleep(0 if max(removed, default=0) >= MOST_REMOVED else every_s)


async def _sweep(name: str, removal: Removal) -> int:
    """Return how many records were removed, 0 when the sweep failed."""
    try:
        removed = await removal.sweep()
    except StoreUnavailable:
        log.warning("retention.removal_deferred", what=name)
        return 0
    if removed:
        log.info("retention.records_removed", what=name, records=removed)
    return removed
