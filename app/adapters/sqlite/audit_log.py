"""Audit log in SQLite: every query has an index, and sealing is one transaction."""

import sqlite3
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import product
from typing import Any, Final

from typing_extensions import override

from app.adapters.security.key_versions import ChainKeyRing
from app.adapters.shared.columns import BEYOND, to_millis
from app.adapters.sqlite.audit_appending import SET_HEADS, chain_keys
from app.adapters.sqlite.audit_rows import COLUMNS, LINK, to_event, to_event_or_none, to_link
from app.adapters.sqlite.batching import write_rows
from app.adapters.sqlite.engine import Engine
from schemas.audit import AuditAction, AuditEvent, AuditFilter, ChainLink
from schemas.checkpoints import ChainHead
from schemas.ids import AuditEventId, TenantId
from streams.audit.rules import check_head, is_head, names, seal_head
from streams.ports.audit import AuditLog, ChainKeys, SealedRow
from streams.ports.errors import Damaged
from streams.ports.records import Position

_INDEX_OF: Final = (
    ("decision_id", "audit_by_decision"),
    ("correlation_id", "audit_by_correlation"),
    ("subject_id", "audit_by_subject"),
    ("actor_id", "audit_by_actor"),
    ("action", "audit_by_action"),
    ("livemode", "audit_by_time"),
)
"""Which index answers, the one that leaves the fewest rows first."""

_UNSEALED_TENANTS: Final = "SELECT DISTINCT tenant FROM audit_waiting"
_UNSEALED: Final = f"""
SELECT {COLUMNS} FROM audit_waiting w CROSS JOIN audit a ON a.seq = w.seq
WHERE w.tenant = ? ORDER BY w.seq LIMIT ?"""  # noqa: S608 - constants only
_HEAD: Final = f"SELECT {LINK}, c.seal FROM audit_heads c WHERE c.tenant = ?"  # noqa: S608 - constants only
_HEADS: Final = "SELECT position, prev_hash, hash, seal, tenant FROM audit_heads"
_LINK: Final = """
INSERT INTO audit_chain (seq, tenant, position, prev_hash, hash)
SELECT a.seq, a.tenant, asked.column3, asked.column4, asked.column5
FROM (VALUES (?, ?, ?, ?, ?)) asked
CROSS JOIN audit a ON a.tenant = asked.column1 AND a.event_id = asked.column2"""
_SEALED: Final = """
DELETE FROM audit_waiting WHERE tenant = ? AND seq IN
(SELECT seq FROM audit_chain WHERE tenant = ? AND position BETWEEN ? AND ?)"""
_WALK: Final = f"""
SELECT {LINK}, {COLUMNS} FROM audit_chain c LEFT JOIN audit a ON a.seq = c.seq AND a.tenant = c.tenant
WHERE c.tenant = ? AND c.position > ? ORDER BY c.position LIMIT ?"""  # noqa: S608 - constants only


@cache
def page_statement(equals: tuple[str, ...], *, bounded: bool) -> str:
    """Return the query for rows whose `equals` columns are given, newest first, from one index."""
    index = next(name for column, name in _INDEX_OF if column in equals)
    conditions = "".join(f" AND a.{column} = ?" for column in equals) + " AND a.created_at >= ?" * bounded
    return (
        f"SELECT {COLUMNS}, {LINK} FROM audit a INDEXED BY {index} "  # noqa: S608 - constants only
        "LEFT JOIN audit_chain c ON c.seq = a.seq AND c.tenant = a.tenant "
        f"WHERE a.tenant = ?{conditions} AND (a.created_at, a.event_id) < (?, ?) "
        "ORDER BY a.created_at DESC, a.event_id DESC LIMIT ?"
    )


def _branches(chosen: AuditFilter) -> Iterator[dict[str, Any]]:
    """Return the equalities whose answers make up the result: one per action, else one per mode."""
    fixed = chosen.model_dump(
        mode="json", exclude_none=True, exclude={"action", "since", "until", "livemode"}
    )
    modes = (False, True) if chosen.livemode is None else (chosen.livemode,)
    if chosen.action is not None:
        named = [action.value for action in AuditAction if names(chosen.action, action)]
        for action, mode in product(named, modes if chosen.livemode is not None else (None,)):
            yield {**fixed, "action": action} | ({} if mode is None else {"livemode": int(mode)})
        return
    if fixed.keys() - {"actor_type"} and chosen.livemode is None:
        yield fixed
        return
    for mode in modes:
        yield {**fixed, "livemode": int(mode)}


def page_queries(
    tenant_id: TenantId, chosen: AuditFilter, limit: int, before: Position | None
) -> list[tuple[str, list[Any]]]:
    """Return the statements and parameters whose merged answers are the page."""
    upper: tuple[int, str] = (BEYOND, "")
    if chosen.until is not None:
        upper = (to_millis(chosen.until), "")
    if before is not None:
        upper = min(upper, (to_millis(before.created_at), before.id))
    since = [] if chosen.since is None else [to_millis(chosen.since)]
    return [
        (
            page_statement(tuple(equal), bounded=bool(since)),
            [tenant_id, *equal.values(), *since, *upper, limit],
        )
        for equal in _branches(chosen)
    ]


class _Seal:
    """Links to append, as rows; called on the writer's thread."""

    def __init__(
        self, tenant_id: TenantId, rows: Sequence[tuple[AuditEventId, ChainLink]], ring: ChainKeyRing
    ) -> None:
        self._tenant_id = tenant_id
        self._rows = rows
        self._ring = ring

    def __call__(self, connection: sqlite3.Connection) -> bool:
        first, last = self._rows[0][1], self._rows[-1][1]
        keys = chain_keys(connection, self._ring)
        head = _read_head(connection, self._tenant_id, keys)
        standing = (0, first.prev_hash) if head is None else (head.position, head.hash)
        if standing != (first.position - 1, first.prev_hash):
            return False
        try:
            written = write_rows(connection, _LINK, [self._to_row(*row) for row in self._rows])
        except sqlite3.IntegrityError as error:
            raise Damaged("a row is in the chain already") from error
        if written != len(self._rows):
            raise Damaged("a row is not in the log")
        connection.execute(_SEALED, (self._tenant_id, self._tenant_id, first.position, last.position))
        seal = seal_head(last, keys.newest, self._tenant_id)
        connection.execute(SET_HEADS, (self._tenant_id, last.position, last.prev_hash, last.hash, seal))
        return True

    def _to_row(self, event_id: AuditEventId, link: ChainLink) -> tuple[str, str, int, str, str]:
        return self._tenant_id, event_id, link.position, link.prev_hash, link.hash


def _read_head(connection: sqlite3.Connection, tenant_id: TenantId, keys: ChainKeys) -> ChainLink | None:
    row = connection.execute(_HEAD, (tenant_id,)).fetchone()
    if row is None:
        return None
    head = to_link(row[:3])
    check_head(head, str(row[3]), keys, tenant_id)
    return head


class SqliteAuditLog(AuditLog):
    """Rows, links and the sealed head of each tenant's chain."""

    def __init__(self, engine: Engine, ring: ChainKeyRing) -> None:
        self._engine = engine
        self._ring = ring

    @override
    async def page(
        self, tenant_id: TenantId, chosen: AuditFilter, *, limit: int, before: Position | None = None
    ) -> Sequence[AuditEvent]:
        queries = page_queries(tenant_id, chosen, limit, before)

        def find(reader: sqlite3.Connection) -> list[Any]:
            return [row for statement, parameters in queries for row in reader.execute(statement, parameters)]

        rows = await self._engine.read(find)
        if len(queries) > 1:
            rows = sorted(rows, key=lambda row: (row[9], row[0]), reverse=True)[:limit]
        return [to_event(row, None if row[11] is None else to_link(row[11:])) for row in rows]

    @override
    async def unsealed_tenants(self) -> Sequence[TenantId]:
        rows = await self._engine.read(lambda reader: reader.execute(_UNSEALED_TENANTS).fetchall())
        return [TenantId(tenant) for (tenant,) in rows]

    @override
    async def unsealed(self, tenant_id: TenantId, limit: int) -> Sequence[AuditEvent]:
        rows = await self._engine.read(
            lambda reader: reader.execute(_UNSEALED, (tenant_id, limit)).fetchall()
        )
        return [to_event(row) for row in rows]

    @override
    async def keys(self) -> ChainKeys:
        return await self._engine.read(lambda reader: chain_keys(reader, self._ring))

    @override
    async def head(self, tenant_id: TenantId) -> ChainLink | None:
        return await self._engine.read(
            lambda reader: _read_head(reader, tenant_id, chain_keys(reader, self._ring))
        )

    @override
    async def heads(self) -> Sequence[ChainHead]:
        return await self._engine.read(self._read_heads)

    def _read_heads(self, reader: sqlite3.Connection) -> list[ChainHead]:
        """Check each seal on the reader's thread: of many tenants that takes a while."""
        keys = chain_keys(reader, self._ring)
        return [
            ChainHead(tenant_id=TenantId(tenant), position=head.position, hash=head.hash)
            for *columns, seal, tenant in reader.execute(_HEADS)
            if is_head(head := to_link(columns), str(seal), keys, TenantId(tenant))
        ]

    @override
    async def seal(self, tenant_id: TenantId, rows: Sequence[tuple[AuditEventId, ChainLink]]) -> bool:
        if not rows:
            return True
        return await self._engine.write(_Seal(tenant_id, rows, self._ring))

    @override
    async def walk(self, tenant_id: TenantId, after: int, limit: int) -> Sequence[SealedRow]:
        parameters = (tenant_id, after, limit)
        rows = await self._engine.read(lambda reader: reader.execute(_WALK, parameters).fetchall())
        return [SealedRow(to_event_or_none(row[3:]), to_link(row[:3])) for row in rows]
