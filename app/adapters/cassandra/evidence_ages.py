"""Evidence by age in Cassandra: hints by tenant, policy and day that lead to rows of evidence."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from typing import Final, TypeAlias

from typing_extensions import override

from app.adapters.cassandra.evidence import CassandraEvidenceStore
from app.adapters.cassandra.evidence_rows import DAY_MICROS, StoredEvidence, age_of
from app.adapters.cassandra.session import Session, Statement
from app.adapters.shared.columns import to_micros
from schemas.enums import RetentionPolicy
from schemas.ids import EvidenceId, TenantId
from streams.ports.errors import Damaged
from streams.ports.evidence import EvidenceRow
from streams.ports.records import Position
from streams.ports.retention import EvidenceAges

READ_AT_ONCE: Final = 100
"""Hints whose rows are read side by side."""

_DAYS: Final = Statement(
    "SELECT day FROM evidence_days WHERE tenant = ? AND policy = ? AND day >= ? AND day <= ?"
)
_HINTS: Final = Statement(
    "SELECT created_at, evidence_id FROM evidence_ages WHERE tenant = ? AND policy = ? AND day = ? "
    "AND (created_at, evidence_id) > (?, ?) LIMIT ?"
)
_TAKE_HINT: Final = Statement(
    "DELETE FROM evidence_ages WHERE tenant = ? AND policy = ? AND day = ? AND created_at = ? "
    "AND evidence_id = ?"
)
_TAKE_DAY: Final = Statement("DELETE FROM evidence_days WHERE tenant = ? AND policy = ? AND day = ?")

Hint: TypeAlias = tuple[int, str]
"""When a piece was created, in microseconds, and its id."""


class CassandraEvidenceAges(EvidenceAges):
    """Takes hints that lead to nothing away while it looks: their pieces were discarded long ago."""

    def __init__(self, session: Session, evidence: CassandraEvidenceStore) -> None:
        self._session = session
        self._evidence = evidence

    @override
    async def oldest(
        self,
        tenant_id: TenantId,
        policy: RetentionPolicy,
        *,
        created_until: datetime,
        limit: int,
        after: Position | None = None,
    ) -> Sequence[EvidenceRow]:
        found: list[EvidenceRow] = []
        until = to_micros(created_until)
        behind: Hint = (-1, "") if after is None else (to_micros(after.created_at), after.id)
        first = max(behind[0] // DAY_MICROS, 0)
        place = (tenant_id, policy.value)
        for (day,) in await self._session.execute(_DAYS, (*place, first, until // DAY_MICROS)):
            start: Hint = behind if day == first else (-1, "")
            any_left = start[0] >= 0
            async for hints in self._hints((*place, day), start, until):
                rows = await self._resolve((*place, day), hints)
                any_left = any_left or bool(rows)
                found += rows
                if len(found) >= limit:
                    return found[:limit]
            if not any_left and day < until // DAY_MICROS:
                await self._session.execute(_TAKE_DAY, (*place, day))
        return found

    async def _hints(
        self, place: tuple[str, str, int], start: Hint, until: int
    ) -> AsyncIterator[Sequence[Hint]]:
        """Yield the hints of a day up to the moment, oldest first."""
        while True:
            page = await self._session.execute(_HINTS, (*place, *start, READ_AT_ONCE))
            hints = [(created_at, evidence_id) for created_at, evidence_id in page if created_at <= until]
            if hints:
                yield hints
            if len(hints) < READ_AT_ONCE:
                return
            start = hints[-1]

    async def _resolve(self, place: tuple[str, str, int], hints: Sequence[Hint]) -> list[EvidenceRow]:
        """Return the rows that the hints lead to, and take away those that lead to none."""
        ids = [EvidenceId(evidence_id) for _, evidence_id in hints]
        finding = (self._evidence.find(TenantId(place[0]), one) for one in ids)
        pieces = await asyncio.gather(*finding, return_exceptions=True)
        rows: list[EvidenceRow] = []
        for hint, piece in zip(hints, pieces, strict=True):
            if isinstance(piece, Damaged):
                continue  # it can neither be judged nor opened; the invariants name it
            if isinstance(piece, BaseException):
                raise piece
            if piece is not None and _leads_to(place, hint, piece):
                rows.append(piece.row)
            else:
                await self._session.execute(_TAKE_HINT, (*place, *hint))
        return rows

    @override
    async def remove(self, tenant_id: TenantId, evidence_ids: Sequence[EvidenceId]) -> None:
        for evidence_id in evidence_ids:
            piece = await self._evidence.find(tenant_id, evidence_id)
            if piece is None:
                continue
            await self._evidence.remove_whole(piece)
            await self._session.execute(_TAKE_HINT, age_of(piece.row))


def _leads_to(place: tuple[str, str, int], hint: Hint, piece: StoredEvidence) -> bool:
    """Tell whether it is this piece that the hint was written for: an id may be put again later."""
    return age_of(piece.row) == (*place, *hint)
