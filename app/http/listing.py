"""Pages of records for the list routes: both modes side by side, newest first."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from app.http.filters import Page
from schemas.ids import TenantId
from streams.ports import Record, RecordKind, Records


async def page_of(
    records: Records,
    tenant_id: TenantId,
    kind: RecordKind,
    modes: Sequence[bool],
    index_of: Callable[[bool], tuple[str, str]],
    page: Page,
    fragment: str = "",
) -> Sequence[Record]:
    """Return one record more than the page holds, if there is one.

    `index_of` names the list of one mode; the lists of several modes are merged by (created_at, id).
    With a fragment only those are listed whose searched text contains it.
    """
    if page.limit == 0:
        return ()

    def ask(index: tuple[str, str]) -> Awaitable[Sequence[Record]]:
        most, before = page.limit + 1, page.before
        if fragment:
            return records.search(tenant_id, kind, index, fragment, limit=most, before=before)
        return records.page(tenant_id, kind, index, limit=most, before=before)

    lists = await asyncio.gather(*(ask(index_of(livemode)) for livemode in modes))
    found = [record for listed in lists for record in listed]
    if len(lists) > 1:
        found.sort(key=lambda record: (record.created_at, record.id), reverse=True)
    return found[: page.limit + 1]
