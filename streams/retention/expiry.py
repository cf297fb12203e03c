"""Remove records by age, from acts and tokens to transfers and events, and entries of no list any more."""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from schemas.dispositions import DispositionWatch, StoredDisposition
from schemas.ids import PLATFORM, TenantId
from schemas.people import OneTimeToken, ReviewerSession
from schemas.transaction_decisions import HoldWatch
from streams.contacts.details import SHARED_WINDOW
from streams.lists.storage import ListStorage
from streams.ports.records import BY_AGE, Position, Record, RecordKind
from streams.ports.stores import Stores
from streams.runtime.record_removal import RemovalPace, pages, tenant_ids
from streams.tenants.handler import TENANTS_INDEX
from streams.wallets.records import LOOKED_BACK

REMOVED_AFTER: Final = timedelta(days=31)
"""When an act and an event are removed; the feed promises 30 days, and clocks differ by less than a day."""

ENDED_REMOVED_AFTER: Final = timedelta(days=1)
"""How long after its end a reviewer session, a token, the use of a contact or a transfer is removed."""


BACKTESTS_STAY: Final = timedelta(days=400)
"""How long a backtest can be read."""
ENTRIES_REMOVED_AFTER: Final = timedelta(days=1)
"""How long entries stay at least; a load takes minutes, and so does who still reads the version before."""


@dataclass(frozen=True, slots=True)
class Expiring:
    """Records of one kind that end, listed by age."""

    kind: RecordKind
    stays: timedelta
    """How long after its creation a record stays at least."""
    is_over: Callable[[Record, datetime], bool] = lambda _, __: True
    """Whether a record that old has ended."""
    changes: bool = False
    """Whether somebody may write a record under the same id at any time."""


def _is_old_token(record: Record, now: datetime) -> bool:
    return OneTimeToken.from_bytes(record.body).expires_at <= now - ENDED_REMOVED_AFTER


def _is_old_session(record: Record, now: datetime) -> bool:
    return ReviewerSession.from_bytes(record.body).expires_at <= now - ENDED_REMOVED_AFTER


def _is_old_hold(record: Record, now: datetime) -> bool:
    return HoldWatch.from_bytes(record.body).due <= now - REMOVED_AFTER


def _is_old_disposition(record: Record, now: datetime) -> bool:
    one = StoredDisposition.from_bytes(record.body).disposition
    return (one.ended_at or one.expires_at) <= now - REMOVED_AFTER


def _is_old_disposition_watch(record: Record, now: datetime) -> bool:
    return DispositionWatch.from_bytes(record.body).due <= now - REMOVED_AFTER


EXPIRING: Final = (
    Expiring(RecordKind.DISPOSITION, REMOVED_AFTER, _is_old_disposition, changes=True),
    Expiring(RecordKind.DISPOSITION_WATCH, REMOVED_AFTER, _is_old_disposition_watch),
    Expiring(RecordKind.ACT, REMOVED_AFTER),
    Expiring(RecordKind.HISTORY_IMPORT, REMOVED_AFTER),
    Expiring(RecordKind.HOLD_WATCH, REMOVED_AFTER, _is_old_hold),
    Expiring(RecordKind.CONTACT_USE, SHARED_WINDOW + ENDED_REMOVED_AFTER),
    Expiring(RecordKind.TRANSFER, LOOKED_BACK + ENDED_REMOVED_AFTER),
    Expiring(RecordKind.BACKTEST, BACKTESTS_STAY),
    Expiring(RecordKind.BACKTEST_TEXT, BACKTESTS_STAY),
    Expiring(RecordKind.BACKTEST_WATCH, REMOVED_AFTER),
    Expiring(RecordKind.TOKEN, ENDED_REMOVED_AFTER, _is_old_token),
    Expiring(RecordKind.REVIEWER_SESSION, ENDED_REMOVED_AFTER, _is_old_session, changes=True),
)


@dataclass(frozen=True, slots=True)
class RecordExpiry:
    """Sweeps the platform and every tenant; a record is read only once it is old enough."""

    stores: Stores
    now: Callable[[], datetime]
    pace: RemovalPace = field(default_factory=RemovalPace)

    async def sweep(self) -> int:
        """Remove what is past its period; return how many records and events.

        Raises:
            StoreUnavailable: Some may be removed; the next sweep removes the others.
        """
        now, removed = self.now(), 0
        async for tenant_id in self._owners():
            for one in EXPIRING:
                removed += await self._sweep_kind(tenant_id, one, now, self.pace.most - removed)
            removed += await self._sweep_events(tenant_id, now, self.pace.most - removed)
            if removed >= self.pace.most:
                break
        return removed

    async def _owners(self) -> AsyncIterator[TenantId]:
        yield PLATFORM
        async for tenant_id in tenant_ids(self.stores.records, TENANTS_INDEX, self.pace.page):
            yield tenant_id

    async def _sweep_kind(self, tenant_id: TenantId, one: Expiring, now: datetime, most: int) -> int:
        removed, before = 0, Position(now - one.stays, "")
        remove = self.stores.removal.remove_unchanged if one.changes else self.stores.removal.remove
        async for page in pages(
            self.stores.records, tenant_id, one.kind, BY_AGE, limit=self.pace.page, before=before
        ):
            past = [record for record in page if one.is_over(record, now)][: most - removed]
            await remove(past)
            removed += len(past)
            if removed >= most:
                break
        return removed

    async def _sweep_events(self, tenant_id: TenantId, now: datetime, most: int) -> int:
        removed, until = 0, now - REMOVED_AFTER
        for livemode in (True, False):
            removed += await self.stores.removal.remove_events(
                tenant_id, livemode=livemode, until=until, limit=most - removed
            )
        return removed


@dataclass(frozen=True, slots=True)
class ListEntryRemoval:
    """Sweeps the platform and every tenant."""

    stores: Stores
    now: Callable[[], datetime]
    pace: RemovalPace = field(default_factory=RemovalPace)

    async def sweep(self) -> int:
        """Remove what no list names; return how many records.

        Raises:
            StoreUnavailable: Some may be removed; the next sweep removes the others.
        """
        removed = 0
        async for tenant_id in self._owners():
            removed += await self._sweep_tenant(tenant_id, self.pace.most - removed)
            if removed >= self.pace.most:
                break
        return removed

    async def _owners(self) -> AsyncIterator[TenantId]:
        yield PLATFORM
        async for tenant_id in tenant_ids(self.stores.records, TENANTS_INDEX, self.pace.page):
            yield tenant_id

    async def _sweep_tenant(self, tenant_id: TenantId, most: int) -> int:
        storage = ListStorage(self.stores.records, self.stores.journal, self.stores.vault)
        removed, before = 0, Position(self.now() - ENTRIES_REMOVED_AFTER, "")
        kind, limit = RecordKind.LIST_ENTRIES, self.pace.page
        async for page in pages(self.stores.records, tenant_id, kind, BY_AGE, limit=limit, before=before):
            lists, _ = await storage.load(tenant_id)
            places = {one.place for one in lists.lists}
            past = [one for one in page if one.id.rpartition(".")[0] not in places][: most - removed]
            await self.stores.removal.remove(past)
            removed += len(past)
            if removed >= most:
                break
        return removed
