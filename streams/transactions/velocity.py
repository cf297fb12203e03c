"""The velocity row of a subject: from the table, or rebuilt from the stored transactions after a miss."""

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from operator import itemgetter
from typing import Final

from schemas.ids import SubjectId, TenantId
from schemas.policies import DistinctField
from schemas.transaction_decisions import TransactionCommandBase
from schemas.transactions import OutcomeClass, TransactionRequest
from streams.ports.errors import Erased
from streams.ports.records import Record, RecordKind
from streams.ports.stores import Stores, WorkingState
from streams.transactions import row as velocity_row
from streams.transactions.keyed_hashes import KeyedHashes
from streams.transactions.opening import open_counted
from streams.transactions.queries import listed_pages
from streams.transactions.row import Amount, VelocityEvent, VelocityRow
from streams.verification.records import Index, by_subject

REBUILT_FROM: Final = timedelta(days=92)
"""How far back a rebuilt row reads: the longest window, and the most a transaction may arrive late."""

_EPOCH: Final = datetime.fromtimestamp(0, UTC)

_Counted = tuple[datetime, str, VelocityEvent]
"""When a transaction was accepted, its id, and how features see it."""


@dataclass(frozen=True, slots=True)
class VelocityRows:
    """The rows of an agent's subjects."""

    stores: Stores
    hashes: KeyedHashes
    table: WorkingState[bytes]
    counts: Counter[str] = field(default_factory=Counter)
    """How often a row was in the table, or rebuilt."""

    async def load(
        self, command: TransactionCommandBase, subject_id: SubjectId, now: datetime
    ) -> VelocityRow:
        """Return the subject's row with everything that was decided of it before."""
        stored = self.table.get(command.subject_key)
        self.counts["subject_rebuilt" if stored is None else "subject_table"] += 1
        if stored is not None:
            return velocity_row.decode(stored)
        index = by_subject(command.livemode, subject_id)
        return await rebuilt_row(self.stores, self.hashes, command.tenant_id, index, now)

    def forget(self, command: TransactionCommandBase) -> None:
        """Replace the row by one that knows of nothing."""
        self.table.put(command.subject_key, velocity_row.encode(VelocityRow()))

    def add(
        self,
        command: TransactionCommandBase,
        row: VelocityRow,
        about: str,
        request: TransactionRequest,
        outcome: OutcomeClass,
    ) -> None:
        """Count a decided transaction, once, and write the row."""
        if velocity_row.add(row, about, event_of(self.hashes, command.tenant_id, request, outcome)):
            self.table.put(command.subject_key, velocity_row.encode(row))


async def rebuilt_row(
    stores: Stores, hashes: KeyedHashes, tenant_id: TenantId, index: Index, now: datetime
) -> VelocityRow:
    """Return the row of a key from the transactions, decided and imported, that are listed under it."""
    kinds = (RecordKind.TRANSACTION, RecordKind.HISTORIC_TRANSACTION)
    recent = (_recent(stores, hashes, tenant_id, kind, index, now) for kind in kinds)
    found = [one for counted in await asyncio.gather(*recent) for one in counted]
    row = VelocityRow()
    for _, about, event in sorted(found, key=itemgetter(0, 1)):
        velocity_row.add(row, about, event)
    return row


async def _recent(
    stores: Stores, hashes: KeyedHashes, tenant_id: TenantId, kind: RecordKind, index: Index, now: datetime
) -> list[_Counted]:
    """Return the transactions of a kind that a rebuilt row counts."""
    found = list[_Counted]()
    async for page in listed_pages(stores.records, tenant_id, kind, index):
        recent = [record for record in page if record.created_at >= now - REBUILT_FROM]
        opened = await asyncio.gather(*(_counted(stores, hashes, tenant_id, one) for one in recent))
        found += [one for one in opened if one is not None]
        if len(recent) < len(page):
            break
    return found


async def _counted(
    stores: Stores, hashes: KeyedHashes, tenant_id: TenantId, record: Record
) -> _Counted | None:
    """Return a stored transaction as features count it; None: its subject was erased."""
    try:
        request, outcome = await open_counted(stores, tenant_id, record)
    except Erased:
        return None
    return record.created_at, record.id, event_of(hashes, tenant_id, request, outcome)


def event_of(
    hashes: KeyedHashes, tenant_id: TenantId, request: TransactionRequest, outcome: OutcomeClass | None = None
) -> VelocityEvent:
    """Return a transaction as the features see it; without an outcome it is not decided yet."""
    amount, base = request.amount, request.base_amount
    hashed = {
        name: hashes.in_row(tenant_id, name, value) for name, value in _distinct(request).items() if value
    }
    return VelocityEvent(
        t_ms=(request.occurred_at - _EPOCH) // timedelta(milliseconds=1),
        type=request.type,
        direction=request.direction,
        amount=Amount(*amount.scaled, amount.currency),
        base_amount=None if base is None else Amount(*base.scaled, base.currency),
        outcome=outcome,
        hashes=hashed,
    )


def _distinct(request: TransactionRequest) -> dict[DistinctField, str | None]:
    return {name: _read(request, *name.split(".")) for name in DistinctField}


def _read(request: TransactionRequest, group: str, name: str) -> str | None:
    found: str | None = getattr(getattr(request, group), name, None)
    return found
