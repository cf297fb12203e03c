"""Wrapped subject keys in SQLite, and the vault."""

import base64
import binascii
import sqlite3
from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

from typing_extensions import override

from app.adapters.security.keyring import TOMBSTONE, KeyRing, SubjectKey
from app.adapters.sqlite.batching import BatchJob, each, read_rows, write_rows
from app.adapters.sqlite.engine import Engine
from schemas.ids import SubjectId, TenantId
from schemas.problems import VeristreamError
from streams.ports.errors import Damaged
from streams.ports.evidence import Vault

_SELECT: Final = """
SELECT tenant, subject_id, wrapped FROM subject_keys
WHERE (tenant, subject_id) IN (SELECT * FROM (VALUES (?, ?)) asked)"""
_CHECK: Final = "SELECT value FROM settings WHERE name = 'key_check'"
_INSERT: Final = "INSERT OR IGNORE INTO subject_keys (tenant, subject_id, wrapped) VALUES (?, ?, ?)"
_OTHERS: Final = """
SELECT k.tenant, k.subject_id, k.wrapped
FROM (VALUES (?, ?, ?)) asked
CROSS JOIN subject_keys k ON k.tenant = asked.column1 AND k.subject_id = asked.column2
WHERE k.wrapped <> asked.column3"""
_BURY: Final = """
INSERT INTO subject_keys (tenant, subject_id, wrapped) VALUES (?, ?, ?)
ON CONFLICT (tenant, subject_id) DO UPDATE SET wrapped = excluded.wrapped WHERE wrapped <> excluded.wrapped"""
_LIST: Final = """
INSERT INTO erasures (tenant, number, subject_id)
SELECT ?, coalesce((SELECT max(number) FROM erasures WHERE tenant = ?), 0) + 1, ?"""
_LISTED: Final = """
SELECT subject_id FROM erasures WHERE tenant = ? AND number > ? ORDER BY number LIMIT ?"""

Owner: TypeAlias = tuple[TenantId, SubjectId]
"""Whose key it is."""

VALUE_KIND: Final = "VALUE"
"""The kind under which the vault seals, beside the kinds of evidence."""


def read_check(connection: sqlite3.Connection) -> bytes | None:
    """Return what the store knows the current root key by; None: nobody opened the store yet."""
    rows = connection.execute(_CHECK).fetchall()
    return bytes(rows[0][0]) if rows else None


def read_key(
    connection: sqlite3.Connection, ring: KeyRing, tenant: TenantId, subject: SubjectId
) -> SubjectKey | None:
    """Return the subject's key as its row stands now, None when there is none.

    Raises:
        Erased: The key was destroyed.
        Damaged: The row was altered.
    """
    rows = connection.execute(_SELECT, (tenant, subject)).fetchall()
    return ring.unwrap(tenant, subject, rows[0][2]) if rows else None


class StoredKeys:
    """The keys that count for subjects: those stored already, else the ones made now; in a transaction."""

    def __init__(self, connection: sqlite3.Connection, ring: KeyRing, wanted: Iterable[SubjectKey]) -> None:
        self._keys: dict[Owner, SubjectKey] = {}
        self._errors: dict[Owner, VeristreamError] = {}
        ring.follow(read_check(connection))
        for key in wanted:
            self._keys.setdefault((key.tenant_id, key.subject_id), ring.renew(key))
        rows = [(*owner, key.wrapped) for owner, key in self._keys.items()]
        write_rows(connection, _INSERT, rows)
        for tenant, subject, wrapped in read_rows(connection, _OTHERS, rows):
            try:
                self._keys[tenant, subject] = ring.unwrap(tenant, subject, wrapped)
            except VeristreamError as error:
                self._errors[tenant, subject] = error

    def __getitem__(self, owner: Owner) -> SubjectKey:
        """Return the subject's key.

        Raises:
            Erased: The key was destroyed.
            Damaged: The row was altered.
        """
        if owner in self._errors:
            raise self._errors[owner]
        return self._keys[owner]


class _Keep(BatchJob[SubjectKey]):
    """A subject's new key, unless it has one."""

    touches = "evidence"

    def __init__(self, ring: KeyRing, fresh: SubjectKey) -> None:
        self.ring = ring
        self.fresh = fresh

    @override
    @classmethod
    def run(
        cls, connection: sqlite3.Connection, jobs: Sequence["_Keep"]
    ) -> Sequence[SubjectKey | VeristreamError]:
        stored = StoredKeys(connection, jobs[0].ring, [job.fresh for job in jobs])
        return each(jobs, lambda job: stored[job.fresh.tenant_id, job.fresh.subject_id])


class _Read(BatchJob["SubjectKey | None"]):
    """A question for one subject's key."""

    touches = "keys"

    def __init__(self, ring: KeyRing, owner: Owner) -> None:
        self.ring = ring
        self.owner = owner

    @override
    @classmethod
    def run(
        cls, connection: sqlite3.Connection, jobs: Sequence["_Read"]
    ) -> Sequence[SubjectKey | VeristreamError | None]:
        rows = read_rows(connection, _SELECT, list({job.owner: None for job in jobs}))
        found = {(tenant, subject): wrapped for tenant, subject, wrapped in rows}

        def answer(job: "_Read") -> SubjectKey | None:
            wrapped = found.get(job.owner)
            return None if wrapped is None else job.ring.unwrap(*job.owner, wrapped)

        return each(jobs, answer)


class SqliteVault(Vault):
    """Seals in the event loop with a remembered key; otherwise the key's row is one read away."""

    def __init__(self, engine: Engine, ring: KeyRing) -> None:
        self._engine = engine
        self._ring = ring

    @override
    async def seal(self, tenant_id: TenantId, subject_id: SubjectId, label: str, plain: bytes) -> str:
        key = self._ring.recall(tenant_id, subject_id) or await self._read(tenant_id, subject_id)
        if key is None:
            fresh = self._ring.make(tenant_id, subject_id)
            key = await self._engine.write(_Keep(self._ring, fresh))
            self._ring.remember(key)
        return base64.b64encode(key.seal(label, VALUE_KIND, plain)).decode()

    @override
    async def open(self, tenant_id: TenantId, subject_id: SubjectId, label: str, sealed: str) -> bytes:
        key = self._ring.recall(tenant_id, subject_id) or await self._read(tenant_id, subject_id)
        if key is None:
            raise Damaged("the subject has no key")
        try:
            raw = base64.b64decode(sealed, validate=True)
        except (binascii.Error, ValueError) as error:
            raise Damaged("no sealed value") from error
        return key.open(label, VALUE_KIND, raw)

    @override
    async def key_id(self, tenant_id: TenantId, subject_id: SubjectId) -> str | None:
        key = await self._read(tenant_id, subject_id)
        return None if key is None else key.key_id

    @override
    async def destroy(self, tenant_id: TenantId, subject_id: SubjectId) -> None:
        def bury(writer: sqlite3.Connection) -> None:
            if writer.execute(_BURY, (tenant_id, subject_id, TOMBSTONE)).rowcount:
                writer.execute(_LIST, (tenant_id, tenant_id, subject_id))

        await self._engine.write(bury)
        self._ring.bury(tenant_id, subject_id)
        await self._engine.fold()

    @override
    async def erased(self, tenant_id: TenantId, *, after: int, limit: int) -> Sequence[SubjectId]:
        asked = (tenant_id, after, max(limit, 0))
        rows = await self._engine.find(lambda reader: reader.execute(_LISTED, asked).fetchall())
        return [SubjectId(subject_id) for (subject_id,) in rows]

    async def _read(self, tenant_id: TenantId, subject_id: SubjectId) -> SubjectKey | None:
        return await self._engine.find(_Read(self._ring, (tenant_id, subject_id)))
