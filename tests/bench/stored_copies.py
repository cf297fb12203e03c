"""Many stored transactions at once: copies of decided ones under ids and subjects of their own."""

from dataclasses import replace
from pathlib import Path
from typing import Final

from app.composition.stores import open_existing
from app.settings import Settings
from schemas.ids import TenantId, derive_id
from streams.ports.records import Change, Record, RecordKind
from streams.verification.records import by_mode

BATCH: Final = 500
SUBJECT: Final = "subject"
"""The name of the index of a subject's transactions."""


async def store_copies(data_dir: Path, tenant_id: TenantId, count: int) -> None:
    """Write so many copies of the tenant's newest transactions in test mode, by the port of the store."""
    async with open_existing(Settings(data_dir=data_dir)) as deployment:
        stores = deployment.stores
        of_test = by_mode(livemode=False)
        page = await stores.records.page(tenant_id, RecordKind.TRANSACTION, of_test, limit=200)
        for first in range(0, count, BATCH):
            numbers = range(first, min(first + BATCH, count))
            copies = tuple(_copy(page[number % len(page)], number) for number in numbers)
            await stores.journal.commit(Change(tenant_id, copies))


def _copy(record: Record, number: int) -> Record:
    """Return the record under an id of its own, listed under the subject of a number."""
    indexes = tuple(
        (name, f"{value}-{number % 50_000}" if name == SUBJECT else value) for name, value in record.indexes
    )
    return replace(
        record, id=derive_id("txn", record.id, str(number)), version=1, indexes=indexes, first_body=b""
    )
