"""Evidence: its metadata and its subject's key in SQLite, its content in a sealed file."""

import sqlite3
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final

from typing_extensions import override

from app.adapters.blobs import BlobFiles, BlobName
from app.adapters.keyring import KeyRing, SubjectKey
from app.adapters.sqlite.columns import from_micros, to_micros
from app.adapters.sqlite.engine import Engine, Job
from app.adapters.sqlite.keys import keep_key, read_key
from schemas.enums import EvidenceKind, RetentionPolicy
from schemas.ids import EvidenceId, SubjectId, TenantId, VerificationId
from schemas.problems import NotFound, StoreUnavailable, VeristreamError
from streams.ports import Damaged, EvidenceDraft, EvidenceRow, EvidenceStore

_INSERT: Final = """
INSERT OR IGNORE INTO evidence (tenant, evidence_id, subject_id, verification_id, kind, retention_policy,
    media_type, created_at, file)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"""
_ROW: Final = """
SELECT tenant, evidence_id, subject_id, verification_id, kind, retention_policy, media_type, created_at, file
FROM evidence WHERE tenant = ? AND evidence_id = ?"""
_FILE: Final = "SELECT file FROM evidence WHERE tenant = ? AND evidence_id = ?"
_DELETE: Final = "DELETE FROM evidence WHERE tenant = ? AND evidence_id = ?"

_ATTEMPTS: Final = 3
"""A subject gets its first key once; whoever was outrun seals again under the winner's."""


class _Outrun(VeristreamError):
    """Another put gave the subject its key first."""


class _Put:
    """One attempt to keep drafts: `stage` beside the writer, `keep` in its transaction, then `clear`."""

    def __init__(self, drafts: Sequence[EvidenceDraft], ring: KeyRing, blobs: BlobFiles) -> None:
        self._drafts = drafts
        self._ring = ring
        self._blobs = blobs
        self._keys: dict[tuple[TenantId, SubjectId], SubjectKey] = {}
        self._files: list[BlobName] = []

    def stage(self, reader: sqlite3.Connection) -> Job[int]:
        """Seal and write the files."""
        for draft in self._drafts:
            row = draft.row
            sealed = self._key(reader, row).seal(row.evidence_id, row.kind.value, draft.content)
            self._files.append(self._blobs.write(row.tenant_id, row.evidence_id, sealed))
        return self.keep

    def keep(self, writer: sqlite3.Connection) -> int:
        """Name the files in rows, and return how many were not needed because the id is kept already."""
        for key in self._keys.values():
            if keep_key(writer, self._ring, key).wrapped != key.wrapped:
                raise _Outrun(key.subject_id)
        rows = [_columns(draft.row, file) for draft, file in zip(self._drafts, self._files, strict=True)]
        return len(rows) - writer.executemany(_INSERT, rows).rowcount

    def remember(self) -> None:
        """Remember the keys, now that they are kept."""
        for key in self._keys.values():
            self._ring.remember(key)

    def clear(self, reader: sqlite3.Connection) -> int:
        """Remove the files no row names."""
        return _clear(reader, self._blobs, self._files)

    def _key(self, reader: sqlite3.Connection, row: EvidenceRow) -> SubjectKey:
        owner = (row.tenant_id, row.subject_id)
        if owner not in self._keys:
            known = self._ring.recall(*owner) or read_key(reader, self._ring, *owner)
            self._keys[owner] = known or self._ring.make(*owner)
        return self._keys[owner]


def _columns(row: EvidenceRow, file: BlobName) -> tuple[str | int, ...]:
    return (
        row.tenant_id,
        row.evidence_id,
        row.subject_id,
        row.verification_id,
        row.kind.value,
        row.retention_policy.value,
        row.media_type,
        to_micros(row.created_at),
        file.token,
    )


def _find(
    connection: sqlite3.Connection, tenant_id: TenantId, evidence_id: EvidenceId
) -> tuple[EvidenceRow, BlobName]:
    found = connection.execute(_ROW, (tenant_id, evidence_id)).fetchone()
    if found is None:
        raise NotFound(evidence_id)
    _, _, subject_id, verification_id, kind, retention_policy, media_type, created_at, token = found
    row = EvidenceRow(
        tenant_id=tenant_id,
        subject_id=SubjectId(subject_id),
        verification_id=VerificationId(verification_id),
        evidence_id=evidence_id,
        kind=EvidenceKind(kind),
        retention_policy=RetentionPolicy(retention_policy),
        media_type=media_type,
        created_at=from_micros(created_at),
    )
    return row, BlobName(tenant_id, evidence_id, token)


def _clear(connection: sqlite3.Connection, blobs: BlobFiles, files: Iterable[BlobName]) -> int:
    """Remove those files that no row names, and return how many."""
    removed = 0
    for file in files:
        row = connection.execute(_FILE, (file.tenant_id, file.evidence_id)).fetchone()
        if row is None or row[0] != file.token:
            blobs.remove(file)
            removed += 1
    return removed


class SqliteEvidenceStore(EvidenceStore):
    """First the files, flushed; then one transaction with all their rows. See `app.adapters.blobs`."""

    def __init__(self, engine: Engine, ring: KeyRing, blobs: BlobFiles) -> None:
        self._engine = engine
        self._ring = ring
        self._blobs = blobs

    @override
    async def put(self, drafts: Sequence[EvidenceDraft]) -> None:
        for _ in range(_ATTEMPTS):
            attempt = _Put(drafts, self._ring, self._blobs)
            if await self._attempt(attempt):
                return
        raise StoreUnavailable("the subject's key changes while it is used")

    @override
    async def get(self, tenant_id: TenantId, evidence_id: EvidenceId) -> bytes:
        def fetch(reader: sqlite3.Connection) -> bytes:
            row, file = _find(reader, tenant_id, evidence_id)
            key = read_key(reader, self._ring, tenant_id, row.subject_id)
            if key is None:
                raise Damaged("the subject's key is gone")
            try:
                sealed = self._blobs.read(file)
            except FileNotFoundError as error:
                _find(reader, tenant_id, evidence_id)  # discarded meanwhile: not found
                raise Damaged("the content is gone") from error
            return key.open(evidence_id, row.kind.value, sealed)

        return await self._engine.read(fetch)

    @override
    async def describe(self, tenant_id: TenantId, evidence_id: EvidenceId) -> EvidenceRow:
        row, _ = await self._engine.read(lambda reader: _find(reader, tenant_id, evidence_id))
        return row

    @override
    async def discard(self, tenant_id: TenantId, evidence_ids: Sequence[EvidenceId]) -> None:
        ids = [(tenant_id, evidence_id) for evidence_id in evidence_ids]

        def forget(writer: sqlite3.Connection) -> list[BlobName]:
            found = [(owner, writer.execute(_FILE, owner).fetchone()) for owner in ids]
            writer.executemany(_DELETE, ids)
            return [BlobName(*owner, row[0]) for owner, row in found if row is not None]

        files = await self._engine.write(forget)
        await self._engine.read(lambda reader: _clear(reader, self._blobs, files))

    @override
    async def sweep_orphans(self, older_than: datetime) -> int:
        def sweep(reader: sqlite3.Connection) -> int:
            return _clear(reader, self._blobs, self._blobs.written_before(older_than))

        return await self._engine.read(sweep)

    async def _attempt(self, put: _Put) -> bool:
        try:
            unused = await self._engine.stage_and_write(put.stage)
        except VeristreamError as error:
            await self._engine.read(put.clear)
            if isinstance(error, _Outrun):
                return False
            raise
        put.remember()
        if unused:
            await self._engine.read(put.clear)
        return True
