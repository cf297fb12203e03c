"""Append the audit rows of commits, and link them to their tenants' chains in the same transaction.

A row waits for `SqliteAuditLog.seal` instead when this process was not given the key of the chains, when an
earlier row of its tenant waits, and when the chain's head is not one that was sealed here: a commit never
fails for a chain that somebody altered, and nothing is linked onto such a chain.
"""

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from app.adapters.security.key_versions import ChainKeyRing
from app.adapters.sqlite.audit_rows import AuditColumns, to_columns, to_link
from app.adapters.sqlite.batching import read_rows, write_rows
from app.adapters.sqlite.keys import read_check
from app.adapters.sqlite.root_keys import state_of
from schemas.audit import ChainLink
from schemas.ids import AuditEventId, TenantId
from schemas.problems import StoreUnavailable
from streams.audit.rules import chain_key, is_head, link_canonical, seal_head
from streams.ports.audit import ChainKeys
from streams.ports.records import Change

SET_HEADS: Final = (
    "INSERT OR REPLACE INTO audit_heads (tenant, position, prev_hash, hash, seal) VALUES (?, ?, ?, ?, ?)"
)

_INSERT: Final = """
INSERT OR IGNORE INTO audit (tenant, event_id, action, actor_type, actor_id, subject_id, correlation_id,
    decision_id, context, detail, created_at, livemode)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING tenant, event_id, seq"""
_WAIT: Final = "INSERT INTO audit_waiting (tenant, seq) VALUES (?, ?)"
_LINK: Final = "INSERT INTO audit_chain (seq, tenant, position, prev_hash, hash) VALUES (?, ?, ?, ?, ?)"
_LAST_LINKED: Final = "SELECT ifnull(max(seq), 0) FROM audit_chain"
_STANDING: Final = """
SELECT asked.column1, EXISTS (SELECT 1 FROM audit_waiting w WHERE w.tenant = asked.column1),
    (SELECT ifnull(max(c.position), 0) FROM audit_chain c WHERE c.tenant = asked.column1),
    h.position, h.prev_hash, h.hash, h.seal
FROM (VALUES (?)) asked LEFT JOIN audit_heads h ON h.tenant = asked.column1"""


@dataclass(frozen=True, slots=True)
class CommittedRow:
    """An audit row of a commit."""

    tenant_id: TenantId
    event_id: AuditEventId
    columns: AuditColumns
    canonical: bytes | None
    """None: it waits."""


def rows_of(change: Change) -> list[CommittedRow]:
    """Return the audit rows of a change."""
    forms: Sequence[bytes | None] = change.canonical or [None] * len(change.audit)
    return [
        CommittedRow(change.tenant_id, event.event_id, to_columns(change.tenant_id, event), form)
        for event, form in zip(change.audit, forms, strict=True)
    ]


def append_audit(
    connection: sqlite3.Connection, rows: Sequence[CommittedRow], ring: ChainKeyRing | None
) -> None:
    """Append the new ones among the rows to the log, and each to its chain or to what waits."""
    seqs: dict[tuple[str, str], int] = {
        (tenant, event_id): seq
        for tenant, event_id, seq in read_rows(connection, _INSERT, [row.columns for row in rows])
    }
    if not seqs:
        return
    new = {seqs.pop(name): row for row in rows if (name := (row.tenant_id, row.event_id)) in seqs}
    keys = None if ring is None else _keys(connection, ring)
    linked = set[int]() if keys is None else _link(connection, new, keys)
    waiting = [(row.tenant_id, seq) for seq, row in new.items() if seq not in linked]
    write_rows(connection, _WAIT, waiting)


def chain_keys(connection: sqlite3.Connection, ring: ChainKeyRing) -> ChainKeys:
    """Return the versions of the chains' key up to that of the root key which stands in the store.

    Raises:
        StoreUnavailable: This process was not given that root key.
    """
    return ring.follow(read_check(connection), lambda: state_of(connection).keyset)


def _keys(connection: sqlite3.Connection, ring: ChainKeyRing) -> ChainKeys | None:
    """Return the versions of the chains' key; None: this process was not given the newest."""
    try:
        keys = chain_keys(connection, ring)
    except StoreUnavailable:
        return None
    return keys if keys.versions else None


def _link(connection: sqlite3.Connection, rows: dict[int, CommittedRow], keys: ChainKeys) -> set[int]:
    """Link rows, in the order they were committed, to the chains that take them; return which these are."""
    ((last_linked,),) = connection.execute(_LAST_LINKED)
    if last_linked >= min(rows):
        return set()  # a row was removed from the log: its link names a new one
    tenants = dict.fromkeys(row.tenant_id for row in rows.values())
    linked: list[tuple[int, TenantId, ChainLink]] = []
    heads: list[tuple[TenantId, ChainLink, str]] = []
    for tenant, *standing in read_rows(connection, _STANDING, [(tenant_id,) for tenant_id in tenants]):
        tenant_id = TenantId(tenant)
        if _takes_links(standing, keys, tenant_id):
            chain = chain_key(keys.newest, tenant_id)
            head = None if standing[2] is None else to_link(standing[2:5])
            own = _links(head, [(seq, row) for seq, row in rows.items() if row.tenant_id == tenant], chain)
            linked += [(seq, tenant_id, one) for seq, one in own]
            heads += [(tenant_id, own[-1][1], seal_head(own[-1][1], keys.newest, tenant_id))] if own else []
    write_rows(connection, _LINK, [(seq, tenant_id, *_columns(one)) for seq, tenant_id, one in linked])
    write_rows(connection, SET_HEADS, [(tenant_id, *_columns(head), seal) for tenant_id, head, seal in heads])
    return {seq for seq, _, _ in linked}


def _links(
    head: ChainLink | None, rows: Sequence[tuple[int, CommittedRow]], chain: bytes
) -> list[tuple[int, ChainLink]]:
    """Return the links of a tenant's rows up to the first that has to wait."""
    links: list[tuple[int, ChainLink]] = []
    for seq, row in rows:
        if row.canonical is None:
            break
        head = link_canonical(head, row.canonical, chain)
        links.append((seq, head))
    return links


def _columns(one: ChainLink) -> tuple[int, str, str]:
    return one.position, one.prev_hash, one.hash


def _takes_links(standing: Sequence[Any], keys: ChainKeys, tenant_id: TenantId) -> bool:
    """Return whether no row of the tenant waits, and its head is genuine and the end of its chain."""
    waits, end, *columns, seal = standing
    if waits or end != (columns[0] or 0):
        return False
    return seal is None if columns[0] is None else is_head(to_link(columns), str(seal), keys, tenant_id)
