"""How assessments are sealed and listed, and the ledger: a record a transfer, by its node (G124)."""

from collections import defaultdict
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Context, Decimal
from typing import Final

from typing_extensions import override

from schemas.base import Frozen
from schemas.ids import AssessmentId, TenantId
from schemas.wallets import WalletAssessment
from streams.ports.records import BY_AGE, Position, Record, RecordKind, Records
from streams.verification.records import Index, by_mode, by_subject
from streams.wallets.ports import Edge, Inflow, Ledger, Node

LOOKED_BACK: Final = timedelta(days=365)
MAX_TRANSFERS: Final = 5_000
"""So many transfers into a node are read, the newest first; more count as cut."""
_PAGE: Final = 500
_EXACTLY: Final = Context(prec=60)


def address_label(about: AssessmentId) -> str:
    """Return the vault label under which the address is sealed."""
    return f"wallet-assessment:{about}"


def indexes(assessment: WalletAssessment) -> tuple[Index, ...]:
    """Return all indexes of an assessment."""
    livemode, subject_id = assessment.livemode, assessment.subject_id
    own = () if subject_id is None else (by_subject(livemode, subject_id),)
    return (by_mode(livemode), *own)


class Transfer(Frozen):
    """Money that moved from a node."""

    source: str
    base_amount: Decimal | None = None
    """In the tenant's base currency; without one the transfer is counted but weighs nothing."""


def transfer_record(
    tenant_id: TenantId,
    transfer_id: str,
    source: Node,
    destination: Node,
    base_amount: Decimal | None,
    occurred_at: datetime,
    *,
    livemode: bool,
) -> Record:
    """Return the record of a transfer; the same id again is the same transfer."""
    return Record(
        tenant_id,
        RecordKind.TRANSFER,
        transfer_id,
        Transfer(source=source, base_amount=base_amount).to_bytes(),
        occurred_at,
        indexes=(_into(destination, livemode=livemode), BY_AGE),
    )


def _into(node: Node, *, livemode: bool) -> tuple[str, str]:
    return "into", f"{'live' if livemode else 'test'}|{node}"


@dataclass(frozen=True, slots=True)
class StoredLedger(Ledger):
    """The ledger of one tenant and mode as it is at a time."""

    records: Records
    tenant_id: TenantId
    livemode: bool
    now: datetime

    @override
    async def into(self, node: Node, limit: int) -> Inflow:
        amounts: dict[str, Decimal] = defaultdict(Decimal)
        count, unweighted = 0, 0
        async for transfer in self._transfers(node):
            count += 1
            if transfer.base_amount is None:
                unweighted += 1
            else:
                weight = amounts[transfer.source]
                amounts[transfer.source] = _EXACTLY.add(weight, transfer.base_amount)
        edges = sorted(amounts.items(), key=lambda one: (-one[1], one[0]))
        total = Decimal(0)
        for weight in amounts.values():
            total = _EXACTLY.add(total, weight)
        followed = tuple(Edge(Node(source), weight) for source, weight in edges[:limit])
        return Inflow(followed, total, len(edges) > limit or count >= MAX_TRANSFERS, unweighted)

    async def _transfers(self, node: Node) -> AsyncIterator[Transfer]:
        index = _into(node, livemode=self.livemode)
        earliest = self.now - LOOKED_BACK
        before: Position | None = None
        for _ in range(0, MAX_TRANSFERS, _PAGE):
            page = await self.records.page(
                self.tenant_id, RecordKind.TRANSFER, index, limit=_PAGE, before=before
            )
            for record in page:
                if record.created_at < earliest:
                    return
                yield Transfer.from_bytes(record.body)
            if len(page) < _PAGE:
                return
            before = Position(page[-1].created_at, page[-1].id)
