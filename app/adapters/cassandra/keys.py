"""Subjects' wrapped keys in Cassandra, each row written by lightweight transactions only, and the vault."""

import base64
import binascii
from typing import Final

from typing_extensions import override

from app.adapters.cassandra.session import Attempt, Session, Statement, Write
from app.adapters.keyring import TOMBSTONE, KeyRing, SubjectKey
from schemas.ids import SubjectId, TenantId
from schemas.problems import StoreUnavailable
from streams.evidence_ports import Vault
from streams.ports import Damaged

_SELECT: Final = Statement("SELECT wrapped FROM subject_keys WHERE tenant = ? AND subject_id = ?")
_CLAIM: Final = Statement(
    "INSERT INTO subject_keys (tenant, subject_id, wrapped) VALUES (?, ?, ?) IF NOT EXISTS"
)
_BURY: Final = Statement(
    "UPDATE subject_keys SET wrapped = ? WHERE tenant = ? AND subject_id = ? IF wrapped != ?"
)

VALUE_KIND: Final = "VALUE"
"""The kind under which the vault seals, beside the kinds of evidence."""


class SubjectKeys:
    """The keys of all subjects; of two that are made at once for one subject the first kept counts."""

    def __init__(self, session: Session, ring: KeyRing) -> None:
        self._session = session
        self._ring = ring

    async def find(self, tenant_id: TenantId, subject_id: SubjectId) -> SubjectKey | None:
        """Return the subject's key as its row stands now, None when there is none.

        Raises:
            Erased: The key was destroyed.
            Damaged: The row was altered.
        """
        rows = await self._session.execute(_SELECT, (tenant_id, subject_id))
        return self._ring.unwrap(tenant_id, subject_id, bytes(rows[0][0] or b"")) if rows else None

    async def claim(self, tenant_id: TenantId, subject_id: SubjectId) -> SubjectKey:
        """Return the key as its row stands now, made when there is none; raises what `find` does."""
        known = await self.find(tenant_id, subject_id)
        if known is not None:
            return known
        fresh = self._ring.make(tenant_id, subject_id)
        write: Write = _CLAIM, (tenant_id, subject_id, fresh.wrapped)
        settled = await self._session.lwt(
            Attempt(write, (_SELECT, (tenant_id, subject_id)), {"wrapped": fresh.wrapped})
        )
        if settled.applied:
            self._ring.remember(fresh)
            return fresh
        for row in settled.rows:
            return self._ring.unwrap(tenant_id, subject_id, bytes(row["wrapped"] or b""))
        raise StoreUnavailable("the subject's key was there and is gone")

    async def recall(self, tenant_id: TenantId, subject_id: SubjectId) -> SubjectKey | None:
        """Return the key if it was seen a moment ago, else as its row stands; raises what `find` does."""
        return self._ring.recall(tenant_id, subject_id) or await self.find(tenant_id, subject_id)

    async def destroy(self, tenant_id: TenantId, subject_id: SubjectId) -> None:
        """Overwrite the key for good; there is no other way from a key to a key."""
        write: Write = _BURY, (TOMBSTONE, tenant_id, subject_id, TOMBSTONE)
        standing: Write = _SELECT, (tenant_id, subject_id)
        await self._session.lwt(Attempt(write, standing, {"wrapped": TOMBSTONE}))
        self._ring.bury(tenant_id, subject_id)


class CassandraVault(Vault):
    """Seals in the event loop with a remembered key; otherwise the key's row is one read away.

    A destroyed key is overwritten at once for whoever reads; Cassandra drops its old bytes from the disk
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
        return key.open(label, VALUE_KIND, raw)

    @override
    async def destroy(self, tenant_id: TenantId, subject_id: SubjectId) -> None:
        await self._keys.destroy(tenant_id, subject_id)
