"""Look evidence up: from its id to its home, from there to its row; many pieces in one request."""

from collections.abc import Sequence
from typing import Final, TypeAlias

from app.adapters.cassandra.coalescing import Coalescer
from app.adapters.cassandra.evidence_rows import HOMES, ID, ROWS
from app.adapters.cassandra.session import Row, Session
from schemas.ids import EvidenceId, TenantId

AT_ONCE: Final = 25
"""Pieces asked for in one request at most; a coordinator asks their replicas side by side."""

Name: TypeAlias = tuple[TenantId, EvidenceId]
_Homed: TypeAlias = tuple[TenantId, str, EvidenceId]


class EvidenceLookup:
    """Every look-up reads what is stored after it was asked."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._homes = Coalescer(self._homes_of, most=AT_ONCE, group_of=lambda name: name[0])
        self._rows = Coalescer(self._rows_of, most=AT_ONCE, group_of=lambda name: name[0])

    async def home(self, tenant_id: TenantId, evidence_id: EvidenceId) -> str | None:
        """Return under which home a piece is to be found, if it is stored."""
        return await self._homes((tenant_id, evidence_id))

    async def row(self, tenant_id: TenantId, evidence_id: EvidenceId) -> Row | None:
        """Return the columns of a piece, for `to_stored`; None when there is none."""
        home = await self.home(tenant_id, evidence_id)
        return None if home is None else await self.row_at(tenant_id, home, evidence_id)

    async def row_at(self, tenant_id: TenantId, home: str, evidence_id: EvidenceId) -> Row | None:
        """Return the columns of a piece under this home; None when there is none."""
        return await self._rows((tenant_id, home, evidence_id))

    async def _homes_of(self, names: Sequence[Name]) -> Sequence[str | None]:
        """Return the homes of pieces of one tenant."""
        ids = list(dict.fromkeys(evidence_id for _, evidence_id in names))
        found: dict[str, str] = dict(await self._session.execute(HOMES, (names[0][0], ids)))
        return [found.get(evidence_id) for _, evidence_id in names]

    async def _rows_of(self, names: Sequence[_Homed]) -> Sequence[Row | None]:
        """Return the rows of pieces of one tenant."""
        homes = list(dict.fromkeys(home for _, home, _ in names))
        ids = list(dict.fromkeys(evidence_id for _, _, evidence_id in names))
        rows = await self._session.execute(ROWS, (names[0][0], homes, ids))
        found = {tuple(row[: ID + 1]): row for row in rows}
        return [found.get(name) for name in names]
