"""Pages of records for the list routes: both modes side by side, newest first."""

import asyncio
from collections.abc import Callable, Sequence

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
) -> Sequence[Record]:
    """Return one record more than the page holds, if there is one.

    `index_of` names the list of one mode; the lists of several modes are merged by (created_at, id).
    """
    if page.limit == 0:
        return ()
    lists = await asyncio.gather(
        *(
            records.page(tenant_id, kind, index_of(livemode), limit=page.limit + 1, before=page.before)
            for livemode in modes
        )
    )
    found = [record for listed in lists for record in listed]
    if len(lists) > 1:
        found.sort(key=lambda record: (record.created_at, record.id), reverse=True)
    return found[: page.limit + 1]
