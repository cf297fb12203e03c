"""Links and head of a tenant's audit chain; the head moves by compare-and-set and carries its outbox.

The links that move the head are first of all part of the head, in the same lightweight transaction; only
then do they get rows of their own, and the rows they seal learn their place. Who finds links left in
the head writes them out before anything else, so a crash leaves neither a hole nor a row half sealed.
"""

import asyncio
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from app.adapters.cassandra.audit_rows import RowKey
from app.adapters.cassandra.keyspace import KEY_CHECK, read_setting
from app.adapters.cassandra.root_keys import read_keyset
from app.adapters.cassandra.session import Attempt, Session, Statement, Write
from app.adapters.security.key_versions import ChainKeyRing
from schemas.audit import ChainLink
from schemas.checkpoints import ChainHead
from schemas.ids import AuditEventId, TenantId
from streams.audit.rules import check_head, is_head, seal_head
from streams.ports.audit import ChainKeys
from streams.ports.errors import Damaged

BUCKET: Final = 10_000
"""Links in one partition: some 2.5 MB."""

WRITTEN_AT_ONCE: Final = 100
"""Links written in one request."""

_LINK_COLUMNS: Final = "position, event_id, created_at, livemode, prev_hash, hash"
_HEAD: Final = Statement("SELECT position, prev_hash, hash, seal, outbox FROM audit_heads WHERE tenant = ?")
_HEADS: Final = Statement("SELECT position, prev_hash, hash, seal, outbox, tenant FROM audit_heads")
_STANDING: Final = Statement("SELECT hash, outbox, sealer FROM audit_heads WHERE tenant = ?")
_MOVE: Final = Statement("""
UPDATE audit_heads SET position = ?, prev_hash = ?, hash = ?, seal = ?, outbox = ?, sealer = ?
WHERE tenant = ? IF position = ? AND hash = ? AND outbox = NULL""")
_EMPTY: Final = Statement("UPDATE audit_heads SET outbox = NULL WHERE tenant = ? IF hash = ?")
_LINK: Final = Statement("""
INSERT INTO audit_chain (tenant, bucket, position, event_id, created_at, livemode, prev_hash, hash)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)""")
_PLACE: Final = Statement("""
UPDATE audit SET position = ?
WHERE tenant = ? AND livemode = ? AND day = ? AND created_at = ? AND event_id = ?""")
_BEHIND: Final = Statement(
    f"SELECT {_LINK_COLUMNS} FROM audit_chain "  # noqa: S608 - constants only
    "WHERE tenant = ? AND bucket = ? AND position > ? LIMIT ?"
)
_AT: Final = Statement(
    f"SELECT {_LINK_COLUMNS} FROM audit_chain WHERE tenant = ? AND bucket = ? AND position IN ?"  # noqa: S608 - constants only
)


@dataclass(frozen=True, slots=True)
class StoredLink:
    """A link and which row it seals."""

    key: RowKey
    link: ChainLink


@dataclass(frozen=True, slots=True)
class Head:
    """The head as it stands, genuine or not."""

    link: ChainLink
    seal: str
    outbox: str | None


class Chains:
    """The chains of all tenants; `ring` has the versions of their key."""

    def __init__(self, session: Session, ring: ChainKeyRing, draw: Callable[[], str]) -> None:
        self._session = session
        self._ring = ring
        self._draw = draw

    async def keys(self) -> ChainKeys:
        """Return the versions of the chains' key up to that of the root key which stands in the store.

        Raises:
            StoreUnavailable: This process was not given that root key.
        """
        check = await read_setting(self._session, KEY_CHECK)
        if self._ring.follows(check):
            return self._ring.known
        keyset = await read_keyset(self._session)
        return await asyncio.to_thread(self._ring.follow, check, lambda: keyset)

    async def head(self, tenant_id: TenantId) -> ChainLink | None:
        """Return the head, None before the first, once all links up to it are written.

        Raises:
            Damaged: The head is not one that was sealed.
        """
        head = await self._read_head(tenant_id)
        if head is None:
            return None
        if not self._is_genuine(tenant_id, head):
            check_head(head.link, head.seal, await self.keys(), tenant_id)
        if head.outbox is not None:
            await self._write_out(tenant_id, head.link, _from_outbox(head))
        return head.link

    async def heads(self) -> Sequence[ChainHead]:
        """Return the heads that were sealed; links still in an outbox count, for the head has moved."""
        found: list[ChainHead] = []
        await self.keys()
        async for rows in self._session.pages(_HEADS, ()):
            for *columns, tenant in rows:
                head, tenant_id = _to_head(columns), TenantId(tenant)
                if head is not None and self._is_genuine(tenant_id, head):
                    link = head.link
                    found.append(ChainHead(tenant_id=tenant_id, position=link.position, hash=link.hash))
        return found

    async def move(
        self, tenant_id: TenantId, standing: ChainLink | None, links: Sequence[StoredLink]
    ) -> bool:
        """Move the head along the links and write them; False, and nothing written, when it moved before."""
        last = links[-1].link
        sealer = self._draw()
        seal = seal_head(last, self._ring.known.newest, tenant_id)
        moved = (last.position, last.prev_hash, last.hash, seal, _to_outbox(links), sealer, tenant_id)
        expected = (None, None) if standing is None else (standing.position, standing.hash)
        attempt = Attempt((_MOVE, (*moved, *expected)), (_STANDING, (tenant_id,)), {"sealer": sealer})
        if not (await self._session.lwt(attempt)).applied:
            return False
        await self._write_out(tenant_id, last, links)
        return True

    async def goes_on(self, tenant_id: TenantId, head: ChainLink | None) -> bool:
        """Return whether there are links behind the head, as there are when it was set back."""
        position = 0 if head is None else head.position
        return bool(await self._session.execute(_BEHIND, (tenant_id, _bucket(position + 1), position, 1)))

    async def walk(self, tenant_id: TenantId, after: int, limit: int) -> Sequence[StoredLink]:
        """Return at most `limit` links behind the position, in order, whatever the head is worth."""
        end = await self._end(tenant_id)
        found: list[StoredLink] = []
        bucket = _bucket(after + 1)
        while len(found) < limit:
            rows = await self._session.execute(_BEHIND, (tenant_id, bucket, after, limit - len(found)))
            found += map(_to_link, rows)
            if not rows and bucket >= end:
                break
            bucket += len(found) < limit
        return found

    async def find(self, tenant_id: TenantId, positions: Iterable[int]) -> dict[int, StoredLink]:
        """Return the links at those of the positions that have one."""
        buckets: dict[int, list[int]] = {}
        for position in dict.fromkeys(positions):
            buckets.setdefault(_bucket(position), []).append(position)
        answers = await asyncio.gather(
            *(self._session.execute(_AT, (tenant_id, bucket, named)) for bucket, named in buckets.items())
        )
        return {one.link.position: one for rows in answers for one in map(_to_link, rows)}

    async def _end(self, tenant_id: TenantId) -> int:
        """Return the bucket of the head; a head that nobody sealed promises nothing."""
        try:
            head = await self.head(tenant_id)
        except Damaged:
            return 0
        return 0 if head is None else _bucket(head.position)

    async def _read_head(self, tenant_id: TenantId) -> Head | None:
        rows = await self._session.execute(_HEAD, (tenant_id,))
        return _to_head(rows[0]) if rows else None

    def _is_genuine(self, tenant_id: TenantId, head: Head) -> bool:
        return is_head(head.link, head.seal, self._ring.known, tenant_id)

    async def _write_out(self, tenant_id: TenantId, head: ChainLink, links: Sequence[StoredLink]) -> None:
        """Give links rows of their own, write positions into the rows, and empty the outbox of the head."""
        await self._write([(_bucket(one.link.position), _link_write(tenant_id, one)) for one in links])
        await self._write([((one.key.livemode, one.key.day), _place_write(tenant_id, one)) for one in links])
        attempt = Attempt((_EMPTY, (tenant_id, head.hash)), (_STANDING, (tenant_id,)), {"outbox": None})
        await self._session.lwt(attempt)  # lost: the process that moved the head had emptied it

    async def _write(self, writes: Sequence[tuple[object, Write]]) -> None:
        """Write one partition per batch, which needs no batch log."""
        parts: dict[object, list[Write]] = {}
        for part, write in writes:
            parts.setdefault(part, []).append(write)
        for group in parts.values():
            for start in range(0, len(group), WRITTEN_AT_ONCE):
                await self._session.batch(group[start : start + WRITTEN_AT_ONCE])


def _to_head(columns: Sequence[Any]) -> Head | None:
    """Return the head of the columns, None where one was removed."""
    position, prev_hash, own, seal, outbox = columns
    if position is None:
        return None
    return Head(ChainLink(position=position, prev_hash=str(prev_hash), hash=str(own)), str(seal), outbox)


def _bucket(position: int) -> int:
    return (position - 1) // BUCKET


def _link_write(tenant_id: TenantId, one: StoredLink) -> Write:
    key, link = one.key, one.link
    place = (tenant_id, _bucket(link.position), link.position)
    return _LINK, (*place, key.event_id, key.created_at, key.livemode, link.prev_hash, link.hash)


def _place_write(tenant_id: TenantId, one: StoredLink) -> Write:
    key = one.key
    return _PLACE, (one.link.position, tenant_id, key.livemode, key.day, key.created_at, key.event_id)


def _to_link(row: Sequence[Any]) -> StoredLink:
    """Return the link of the columns; altered ones give a link that no check accepts."""
    position, event_id, created_at, livemode, prev_hash, own = row
    key = RowKey(created_at or 0, AuditEventId(event_id or ""), bool(livemode))
    return StoredLink(key, ChainLink(position=position, prev_hash=str(prev_hash), hash=str(own)))


def _to_outbox(links: Sequence[StoredLink]) -> str:
    rows = [[one.link.position, *_key_columns(one.key), one.link.prev_hash, one.link.hash] for one in links]
    return json.dumps(rows, separators=(",", ":"))


def _key_columns(key: RowKey) -> tuple[str, int, bool]:
    return key.event_id, key.created_at, key.livemode


def _from_outbox(head: Head) -> Sequence[StoredLink]:
    """Return the links in the head.

    Raises:
        Damaged: They are not those that moved the head.
    """
    try:
        links = [_to_link(row) for row in json.loads(head.outbox or "[]")]
    except (ValueError, TypeError) as error:
        raise Damaged("the links in the head of the audit chain cannot be read") from error
    if not links or links[-1].link != head.link:
        raise Damaged("the links in the head of the audit chain are not its own")
    return links
