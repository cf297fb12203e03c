"""Subjects' wrapped keys in SQLite, and the vault over them."""

import base64
import binascii
import sqlite3
from typing import Final

from typing_extensions import override

from app.adapters.keyring import TOMBSTONE, KeyRing, SubjectKey
from app.adapters.sqlite.engine import Engine
from schemas.ids import SubjectId, TenantId
from streams.ports import Damaged, Vault

_SELECT: Final = "SELECT wrapped FROM subject_keys WHERE tenant = ? AND subject_id = ?"
_INSERT: Final = "INSERT OR IGNORE INTO subject_keys (tenant, subject_id, wrapped) VALUES (?, ?, ?)"
_BURY: Final = "INSERT OR REPLACE INTO subject_keys (tenant, subject_id, wrapped) VALUES (?, ?, ?)"

VALUE_KIND: Final = "VALUE"
"""The kind under which the vault seals, beside the kinds of evidence."""


def read_key(
    connection: sqlite3.Connection, ring: KeyRing, tenant: TenantId, subject: SubjectId
) -> SubjectKey | None:
    """Return the subject's key as its row stands now, None when there is none.

    Raises:
        Erased: The key was destroyed.
        Damaged: The row was altered.
    """
    row = connection.execute(_SELECT, (tenant, subject)).fetchone()
    return None if row is None else ring.unwrap(tenant, subject, row[0])


def keep_key(connection: sqlite3.Connection, ring: KeyRing, key: SubjectKey) -> SubjectKey:
    """Keep the key unless the subject has one, and return the one that counts; in a transaction.

    Raises:
        Erased: The subject's key was destroyed.
    """
    owner = (key.tenant_id, key.subject_id)
    if connection.execute(_INSERT, (*owner, key.wrapped)).rowcount:
        return key
    (wrapped,) = connection.execute(_SELECT, owner).fetchone()
    return key if wrapped == key.wrapped else ring.unwrap(*owner, wrapped)


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
            key = await self._engine.write(lambda writer: keep_key(writer, self._ring, fresh))
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
    async def destroy(self, tenant_id: TenantId, subject_id: SubjectId) -> None:
        await self._engine.write(
            lambda writer: writer.execute(_BURY, (tenant_id, subject_id, TOMBSTONE)).rowcount
        )
        self._ring.bury(tenant_id, subject_id)
        await self._engine.fold()

    async def _read(self, tenant_id: TenantId, subject_id: SubjectId) -> SubjectKey | None:
        return await self._engine.find(lambda reader: read_key(reader, self._ring, tenant_id, subject_id))
