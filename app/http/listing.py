"""Pages of records for the list routes: both modes side by side, newest first."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from app.http.filters import Page
from schemas.ids import TenantId
from streams.ports.records import Found, Position, Record, RecordKind, Records


@dataclass(frozen=True, slots=True)
class Listed:
    """A page of records, newest first, and where the next one begins; None: this is the last."""

    records: Sequence[Record]
    following: Position | None = None


async def page_of(
    records: Records,
    tenant_id: TenantId,
    kind: RecordKind,
    modes: Sequence[bool],
    index_of: Callable[[bool], tuple[str, str]],
    page: Page,
    fragment: str = "",
) -> Listed:
    """Return the page; a search that stopped on its way leaves it shorter than it might be.

    `index_of` names the list of one mode; the lists of several modes are merged by (created_at, id).
    With a fragment only those are listed whose searched text contains it.
    """
    if page.limit == 0:
        return Listed(())

    async def ask(index: tuple[str, str]) -> Found:
        most, before = page.limit + 1, page.before
        if fragment:
            return await records.search(tenant_id, kind, index, fragment, limit=most, before=before)
        return Found(await records.page(tenant_id, kind, index, limit=most, before=before))

    lists = await asyncio.gather(*(ask(index_of(livemode)) for livemode in modes))
    edge = max((one.further for one in lists if one.further is not None), default=None)
    found = sorted((record for one in lists for record in one.records), key=place_of, reverse=True)
    known = [record for record in found if edge is None or place_of(record) >= edge]
    if len(known) > page.limit:
        return Listed(known[: page.limit], place_of(known[page.limit - 1]))
    return Listed(known, edge)


def place_of(record: Record) -> Position:
    """Return where the record stands in every list it is in."""
    return Position(record.created_at, record.id)
