"""Wrapped subject keys in Cassandra, and the vault.

A new key is added to those of its subject (`made`), which is a plain write: who finds none makes one, and of
several that are made at the same moment none is lost, for what each sealed is opened by trying all. A
destroyed key leaves a tombstone in `wrapped` by a lightweight transaction, and takes `made` away as of a
moment that never comes, so that no addition is seen any more, however late it arrives. Versions before
schema 6 kept a subject's one key in `wrapped`.
"""

import asyncio
import base64
import binascii
from collections.abc import Collection, Sequence
from typing import Final, TypeAlias
from weakref import WeakValueDictionary

from typing_extensions import override

from app.adapters.cassandra.coalescing import Coalescer
from app.adapters.cassandra.keyspace import KEY_CHECK, read_setting
from app.adapters.cassandra.schema import first_wins
from app.adapters.cassandra.session import Attempt, Session, Statement, Write
from app.adapters.security.keyring import TOMBSTONE, KeyRing, SubjectKey
from schemas.ids import SubjectId, TenantId
from streams.ports.errors import Damaged
from streams.ports.evidence import Vault

_SELECT: Final = Statement("SELECT wrapped FROM subject_keys WHERE tenant = ? AND subject_id = ?")
_MANY: Final = Statement(
    "SELECT subject_id, wrapped, made FROM subject_keys WHERE tenant = ? AND subject_id IN ?"
)
_ADD: Final = Statement("UPDATE subject_keys SET made = made + ? WHERE tenant = ? AND subject_id = ?")
_EMPTY: Final = Statement(
    "DELETE made FROM subject_keys USING TIMESTAMP ? WHERE tenant = ? AND subject_id = ?"
)
_BURY: Final = Statement(
    "UPDATE subject_keys SET wrapped = ? WHERE tenant = ? AND subject_id = ? IF wrapped != ?"
)

_LAST: Final = Statement("SELECT number FROM erasures WHERE tenant = ? ORDER BY number DESC LIMIT 1")
_LIST: Final = Statement("INSERT INTO erasures (tenant, number, subject_id) VALUES (?, ?, ?) IF NOT EXISTS")
_LISTED_AT: Final = Statement("SELECT subject_id FROM erasures WHERE tenant = ? AND number = ?")
_LISTED: Final = Statement("SELECT subject_id FROM erasures WHERE tenant = ? AND number > ? LIMIT ?")

AT_ONCE: Final = 100
"""Keys asked for in one request at most; a row has some 100 bytes."""

ADDED_AT_ONCE: Final = 25
"""Keys added in one request at most."""

_Owner: TypeAlias = tuple[TenantId, SubjectId]

VALUE_KIND: Final = "VALUE"
"""The kind under which the vault seals, beside the kinds of evidence."""


def stored_keys(wrapped: bytes | None, made: Collection[bytes] | None) -> tuple[bytes, ...]:
    """Return the wrapped keys of a row; one without any was altered, and has an empty one."""
    old = () if wrapped is None and made else (wrapped or b"",)
    return (*old, *sorted(made or ()))


def added_key(tenant_id: TenantId, subject_id: SubjectId, wrapped: bytes) -> Write:
    """Return what adds a key to those of its subject."""
    return _ADD, ({wrapped}, tenant_id, subject_id)


class SubjectKeys:
    """The keys of all subjects; all of those that are made at once for one subject count."""

    def __init__(self, session: Session, ring: KeyRing) -> None:
        self._session = session
        self._ring = ring
        self._find = Coalescer(self._find_many, most=AT_ONCE, group_of=lambda owner: owner[0])
        self._current = Coalescer(self._read_current, most=AT_ONCE)
        self._add = Coalescer(self._add_many, most=ADDED_AT_ONCE)
        self._turns: WeakValueDictionary[_Owner, asyncio.Lock] = WeakValueDictionary()

    async def find(self, tenant_id: TenantId, subject_id: SubjectId) -> SubjectKey | None:
        """Return the subject's key as its row stands now, None when there is none.

        Raises:
            Erased: The key was destroyed.
            Damaged: The row was altered.
        """
        stored = await self._find((tenant_id, subject_id))
        return None if stored is None else self._ring.unwrap(tenant_id, subject_id, *stored)

    async def _find_many(self, owners: Sequence[_Owner]) -> Sequence[tuple[bytes, ...] | None]:
        """Return the wrapped keys of subjects of one tenant."""
        named = list(dict.fromkeys(subject_id for _, subject_id in owners))
        rows = await self._session.execute(_MANY, (owners[0][0], named))
        found = {subject_id: stored_keys(wrapped, made) for subject_id, wrapped, made in rows}
        return [found.get(subject_id) for _, subject_id in owners]

    async def _add_many(self, writes: Sequence[Write]) -> Sequence[None]:
        await self._session.batch(writes)
        return [None] * len(writes)

    async def _read_current(self, askers: Sequence[None]) -> Sequence[bytes | None]:
        """Return by what the store names the current root key, to all who ask."""
        return [await read_setting(self._session, KEY_CHECK)] * len(askers)

    async def claim(self, tenant_id: TenantId, subject_id: SubjectId) -> SubjectKey:
        """Return the key as its row stands now, made when there is none; raises what `find` does."""
        known = await self.find(tenant_id, subject_id)
        if known is not None:
            return known
        turn = self._turns.setdefault((tenant_id, subject_id), asyncio.Lock())
        async with turn:  # one process makes one
            return self._ring.recall(tenant_id, subject_id) or await self._make(tenant_id, subject_id)

    async def _make(self, tenant_id: TenantId, subject_id: SubjectId) -> SubjectKey:
        self._ring.follow(await self._current(None))
        fresh = self._ring.make(tenant_id, subject_id)
        await self._add(added_key(tenant_id, subject_id, fresh.wrapped))
        self._ring.remember(fresh)
        return fresh

    async def recall(self, tenant_id: TenantId, subject_id: SubjectId) -> SubjectKey | None:
        """Return the key if it was seen a moment ago, else as its row stands; raises what `find` does."""
        return self._ring.recall(tenant_id, subject_id) or await self.find(tenant_id, subject_id)

    async def destroy(self, tenant_id: TenantId, subject_id: SubjectId) -> None:
        """Overwrite the key for good; there is no other way from a key to a key.

        The holder is listed first: who read the list before caches nothing that only this key opened,
        whenever this process dies. It may be listed twice, by processes that destroy its key at once.
        """
        rows = await self._session.execute(_SELECT, (tenant_id, subject_id))
        if not rows or bytes(rows[0][0] or b"") != TOMBSTONE:
            await self._list(tenant_id, subject_id)
        write: Write = _BURY, (TOMBSTONE, tenant_id, subject_id, TOMBSTONE)
        standing: Write = _SELECT, (tenant_id, subject_id)
        await self._session.lwt(Attempt(write, standing, {"wrapped": TOMBSTONE}))
        await self._session.execute(_EMPTY, (first_wins(0), tenant_id, subject_id))
        self._ring.bury(tenant_id, subject_id)

    async def erased(self, tenant_id: TenantId, after: int, limit: int) -> Sequence[SubjectId]:
        """Return the holders listed behind the first `after`."""
        if limit < 1:
            return []
        rows = await self._session.execute(_LISTED, (tenant_id, after, limit))
        return [SubjectId(subject_id) for (subject_id,) in rows]

    async def _list(self, tenant_id: TenantId, subject_id: SubjectId) -> None:
        """Take the next number of the list; of several that want one the losers take the next."""
        rows = await self._session.execute(_LAST, (tenant_id,))
        number = rows[0][0] if rows else 0
        applied = False
        while not applied:
            number += 1
            write: Write = _LIST, (tenant_id, number, subject_id)
            standing: Write = _LISTED_AT, (tenant_id, number)
            applied = (await self._session.lwt(Attempt(write, standing, {"subject_id": subject_id}))).applied


class CassandraVault(Vault):
    """Seals in the event loop with a remembered key; otherwise the key's row is one read away.

    A destroyed key is overwritten at once for every reader; Cassandra drops its old bytes from the disk
    when it next compacts the table.
    """

    def __init__(self, keys: SubjectKeys) -> None:
        self._keys = keys

    @override
    async def seal(self, tenant_id: TenantId, subject_id: SubjectId, label: str, plain: bytes) -> str:
        key = await self._keys.recall(tenant_id, subject_id) or await self._keys.claim(tenant_id, subject_id)
        return base64.b64encode(key.seal(label, VALUE_KIND, plain)).decode()

    @override
    async def open(self, tenant_id: TenantId, subject_id: SubjectId, label: str, sealed: str) -> bytes:
        key = await self._keys.recall(tenant_id, subject_id)
        if key is None:
            raise Damaged("the subject has no key")
        try:
            raw = base64.b64decode(sealed, validate=True)
        except (binascii.Error, ValueError) as error:
            raise Damaged("no sealed value") from error
        try:
            return key.open(label, VALUE_KIND, raw)
        except Damaged:
            found = await self._keys.find(tenant_id, subject_id)
            if found is None or found.stored == key.stored:
                raise
            return found.open(label, VALUE_KIND, raw)  # under a key that was added since it was remembered

    @override
    async def key_id(self, tenant_id: TenantId, subject_id: SubjectId) -> str | None:
        key = await self._keys.find(tenant_id, subject_id)
        return None if key is None else key.key_id

    @override
    async def destroy(self, tenant_id: TenantId, subject_id: SubjectId) -> None:
        await self._keys.destroy(tenant_id, subject_id)

    @override
    async def erased(self, tenant_id: TenantId, *, after: int, limit: int) -> Sequence[SubjectId]:
        return await self._keys.erased(tenant_id, after, limit)
