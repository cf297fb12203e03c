"""Remove what is known of pictures whose evidence is not stored any more."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final

from schemas.ids import TenantId
from schemas.problems import NotFound
from streams.ports.records import Record, RecordKind
from streams.ports.stores import Stores
from streams.runtime.record_removal import (
    MONTHS_BACK,
    MONTHS_BACK_FIRST,
    MonthlyRecords,
    RemovalPace,
    remove_months,
    tenant_ids,
)
from streams.tenants.handler import TENANTS_INDEX
from streams.tenants.settings import read_settings
from streams.verification.known_images import PictureHolder
from streams.verification.records import seen_index

MARGIN: Final = timedelta(days=1)
"""How long after the period of its evidence a month is looked at; the evidence is gone by then."""


@dataclass(slots=True)
class PictureRemoval:
    """Sweeps the pictures of months whose evidence is past the tenant's longest period.

    A picture whose evidence is on legal hold stays.
    """

    stores: Stores
    now: Callable[[], datetime]
    pace: RemovalPace = field(default_factory=RemovalPace)
    _swept: bool = False

    async def sweep(self) -> int:
        """Remove what is past its period; return how many records.

        Raises:
            StoreUnavailable: Some may be removed; the next sweep removes the others.
        """
        now, removed = self.now(), 0
        async for tenant_id in tenant_ids(self.stores.records, TENANTS_INDEX, self.pace.page):
            removed += await self._sweep_tenant(tenant_id, now, self.pace.most - removed)
            if removed >= self.pace.most:
                return removed
        self._swept = True
        return removed

    async def _sweep_tenant(self, tenant_id: TenantId, now: datetime, most: int) -> int:
        retention = (await read_settings(self.stores.records, tenant_id)).retention
        period = timedelta(days=max(retention.document_days, retention.biometric_days))
        return await remove_months(
            self.stores,
            tenant_id,
            MonthlyRecords(RecordKind.PICTURE, seen_index, self._is_stored),
            now - period - MARGIN,
            MONTHS_BACK if self._swept else MONTHS_BACK_FIRST,
            replace(self.pace, most=most),
        )

    async def _is_stored(self, picture: Record) -> bool:
        holder = PictureHolder.from_bytes(picture.body)
        try:
            await self.stores.evidence.describe(picture.tenant_id, holder.evidence_id)
        except NotFound:
            return False
        return True
