"""Audit log in Cassandra: pages by day, a queue of rows to seal, and a hash chain."""

from collections.abc import Callable, Sequence
from secrets import token_hex
from typing import Final

from typing_extensions import override

from app.adapters.cassandra.audit_chain import Chains, StoredLink
from app.adapters.cassandra.audit_pages import find_page, find_rows
from app.adapters.cassandra.audit_queue import READ_AT_ONCE, Hint, WaitingRows
from app.adapters.cassandra.audit_rows import RowKey, StoredRow
from app.adapters.cassandra.session import Session
from app.adapters.security.key_versions import ChainKeyRing
from schemas.audit import AuditEvent, AuditFilter, ChainLink
from schemas.checkpoints import ChainHead
from schemas.ids import AuditEventId, TenantId
from streams.ports.audit import AuditLog, ChainKeys, SealedRow
from streams.ports.errors import Damaged
from streams.ports.records import Position

_SEALER_BYTES: Final = 8


def _draw_sealer() -> str:
    return token_hex(_SEALER_BYTES)


class CassandraAuditLog(AuditLog):
    """Rows are written by the journal (`audit_statements`); `draw` distinguishes attempts to seal."""

    def __init__(self, session: Session, ring: ChainKeyRing, draw: Callable[[], str] = _draw_sealer) -> None:
        self._session = session
        self._chains = Chains(session, ring, draw)
        self._waiting = WaitingRows(session)

    @override
    async def page(
        self, tenant_id: TenantId, chosen: AuditFilter, *, limit: int, before: Position | None = None
    ) -> Sequence[AuditEvent]:
        rows = await find_page(self._session, tenant_id, chosen, limit, before)
        places = [row.position for row in rows if row.position is not None]
        links = await self._chains.find(tenant_id, places)
        return [row.to_event(_own_link(row, links)) for row in rows]

    @override
    async def unsealed_tenants(self) -> Sequence[TenantId]:
        return await self._waiting.tenants()

    @override
    async def unsealed(self, tenant_id: TenantId, limit: int) -> Sequence[AuditEvent]:
        found: dict[RowKey, StoredRow] = {}
        if limit <= 0:
            return []
        async for hints in self._waiting.read(tenant_id, min(limit, READ_AT_ONCE)):
            rows = await find_rows(self._session, tenant_id, [hint.key for hint in hints])
            found.update((key, row) for key, row in _in_order(hints, rows) if row.position is None)
            await self._waiting.remove(tenant_id, [hint for hint in hints if _is_spent(hint, rows)])
            if len(found) >= limit:
                break
        return [row.to_event() for row in list(found.values())[:limit]]

    @override
    async def keys(self) -> ChainKeys:
        return await self._chains.keys()

    @override
    async def head(self, tenant_id: TenantId) -> ChainLink | None:
        return await self._chains.head(tenant_id)

    @override
    async def heads(self) -> Sequence[ChainHead]:
        return await self._chains.heads()

    @override
    async def seal(self, tenant_id: TenantId, rows: Sequence[tuple[AuditEventId, ChainLink]]) -> bool:
        if not rows:
            return True
        head = await self._chains.head(tenant_id)
        first = rows[0][1]
        standing = (0, first.prev_hash) if head is None else (head.position, head.hash)
        if standing != (first.position - 1, first.prev_hash):
            return False
        hints = await self._waiting.find(tenant_id, {event_id for event_id, _ in rows})
        links = await self._join(tenant_id, rows, hints)
        if links is None or await self._chains.goes_on(tenant_id, head):
            if await self._chains.head(tenant_id) != head:
                return False  # another sealer was faster
            raise Damaged("a row is unknown or in the chain already")
        if not await self._chains.move(tenant_id, head, links):
            return False
        await self._waiting.remove(tenant_id, hints)
        return True

    async def _join(
        self, tenant_id: TenantId, rows: Sequence[tuple[AuditEventId, ChainLink]], hints: Sequence[Hint]
    ) -> Sequence[StoredLink] | None:
        """Return the links with the keys of their rows; None when a row does not wait."""
        stored = await find_rows(self._session, tenant_id, [hint.key for hint in hints])
        waiting = {key.event_id: key for key, row in stored.items() if row.position is None}
        if any(event_id not in waiting for event_id, _ in rows):
            return None
        return [StoredLink(waiting[event_id], link) for event_id, link in rows]

    @override
    async def walk(self, tenant_id: TenantId, after: int, limit: int) -> Sequence[SealedRow]:
        links = await self._chains.walk(tenant_id, after, limit)
        rows = await find_rows(self._session, tenant_id, [stored.key for stored in links])
        return [SealedRow(_event_of(rows.get(stored.key)), stored.link) for stored in links]


def _own_link(row: StoredRow, links: dict[int, StoredLink]) -> ChainLink | None:
    """Return the row's link when the chain agrees that it is sealed there."""
    stored = links.get(row.position) if row.position is not None else None
    return stored.link if stored is not None and stored.key == row.key else None


def _in_order(hints: Sequence[Hint], rows: dict[RowKey, StoredRow]) -> Sequence[tuple[RowKey, StoredRow]]:
    return [(hint.key, rows[hint.key]) for hint in hints if hint.key in rows]


def _is_spent(hint: Hint, rows: dict[RowKey, StoredRow]) -> bool:
    """Return whether the row was sealed; one that is not there yet is about to be written."""
    return hint.key in rows and rows[hint.key].position is not None


def _event_of(row: StoredRow | None) -> AuditEvent | None:
    return None if row is None else row.to_event_or_none()
