"""Read the transactions of a subject, or of another key."""

from collections.abc import AsyncIterator, Sequence
from typing import Final

from schemas.ids import SubjectId, TenantId
from streams.ports.records import Position, Record, RecordKind, Records
from streams.verification.records import Index, by_subject

PAGE: Final = 200


def transactions_of(
    records: Records, tenant_id: TenantId, subject_id: SubjectId, *, livemode: bool
) -> AsyncIterator[Record]:
    """Yield the subject's transactions of a mode, the newest first."""
    return listed(records, tenant_id, RecordKind.TRANSACTION, by_subject(livemode, subject_id))


def history_of(
    records: Records, tenant_id: TenantId, subject_id: SubjectId, *, livemode: bool
) -> AsyncIterator[Record]:
    """Yield the subject's imported transactions of a mode, those imported last first."""
    return listed(records, tenant_id, RecordKind.HISTORIC_TRANSACTION, by_subject(livemode, subject_id))


async def listed(
    records: Records, tenant_id: TenantId, kind: RecordKind, index: Index
) -> AsyncIterator[Record]:
    """Yield the transactions, decided or imported, that are listed under the index, the newest first."""
    async for page in listed_pages(records, tenant_id, kind, index):
        for record in page:
            yield record


async def listed_pages(
    records: Records, tenant_id: TenantId, kind: RecordKind, index: Index
) -> AsyncIterator[Sequence[Record]]:
    """Yield what `listed` does, page by page."""
    before = None
    page: Sequence[Record]
    while page := await records.page(tenant_id, kind, index, limit=PAGE, before=before):
        yield page
        if len(page) < PAGE:
            return
        before = Position(page[-1].created_at, page[-1].id)
