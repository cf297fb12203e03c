"""Evidence in SQLite: its metadata, its subject's key, and small contents; larger ones are sealed files."""

import asyncio
import sqlite3
from collections.abc import Sequence
from datetime import datetime

from typing_extensions import override

from app.adapters.blobs import BlobFiles, BlobName
from app.adapters.keyring import KeyRing, SubjectKey
from app.adapters.sqlite.engine import Engine, Job
from app.adapters.sqlite.evidence_rows import clear_files, find, insert, remove
from app.adapters.sqlite.keys import keep_key, read_key
from schemas.ids import EvidenceId, SubjectId, TenantId
from schemas.problems import StoreUnavailable, VeristreamError
from streams.ports import Damaged, EvidenceDraft, EvidenceRow, EvidenceStore

INLINE_BYTES = 64 * 1024
"""Up to this size content lies in the database: a new file costs more than writing it twice."""

_ATTEMPTS = 3
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
        self._contents: list[bytes | BlobName] = []

    def run(self, engine: Engine) -> "asyncio.Future[bool]":
        """Let the engine keep the drafts: all in one transaction when they are small, else files first."""
        if sum(len(draft.content) for draft in self._drafts) <= INLINE_BYTES // 2:
            return engine.write(lambda writer: self.stage(writer)(writer))
        return engine.stage_and_write(self.stage)

    def stage(self, reader: sqlite3.Connection) -> Job[bool]:
        """Seal everything, and write what is large to files."""
        for draft in self._drafts:
            row = draft.row
            sealed = self._key(reader, row).seal(row.evidence_id, row.kind.value, draft.content)
            small = len(sealed) <= INLINE_BYTES
            self._contents.append(
                sealed if small else self._blobs.write(row.tenant_id, row.evidence_id, sealed)
            )
        return self.keep

    def keep(self, writer: sqlite3.Connection) -> bool:
        """Write the rows; False when some were not needed because the id is kept already."""
        for key in self._keys.values():
            if keep_key(writer, self._ring, key).wrapped != key.wrapped:
                raise _Outrun(key.subject_id)
        pairs = zip(self._drafts, self._contents, strict=True)
        written = [insert(writer, draft.row, content) for draft, content in pairs]
        return all(written)

    def remember(self) -> None:
        """Remember the keys, now that they are kept."""
        for key in self._keys.values():
            self._ring.remember(key)

    def clear(self, reader: sqlite3.Connection) -> int:
        """Remove the files no row names."""
        files = [content for content in self._contents if isinstance(content, BlobName)]
        return clear_files(reader, self._blobs, files)

    def _key(self, reader: sqlite3.Connection, row: EvidenceRow) -> SubjectKey:
        owner = (row.tenant_id, row.subject_id)
        if owner not in self._keys:
            known = self._ring.recall(*owner) or read_key(reader, self._ring, *owner)
            self._keys[owner] = known or self._ring.make(*owner)
        return self._keys[owner]


class SqliteEvidenceStore(EvidenceStore):
    """First the files, flushed; then one transaction with all rows. See `app.adapters.blobs`."""

    def __init__(self, engine: Engine, ring: KeyRing, blobs: BlobFiles) -> None:
        self._engine = engine
        self._ring = ring
        self._blobs = blobs

    @override
    async def put(self, drafts: Sequence[EvidenceDraft]) -> None:
        for _ in range(_ATTEMPTS):
            if await self._attempt(_Put(drafts, self._ring, self._blobs)):
                return
        raise StoreUnavailable("the subject's key changes while it is used")

    async def _attempt(self, put: _Put) -> bool:
        try:
            needed = await put.run(self._engine)
        except VeristreamError as error:
            await self._engine.read(put.clear)
            if isinstance(error, _Outrun):
                return False
            raise
        put.remember()
        if not needed:
            await self._engine.read(put.clear)
        return True

    @override
    async def get(self, tenant_id: TenantId, evidence_id: EvidenceId) -> bytes:
        def fetch(reader: sqlite3.Connection) -> bytes | Job[bytes]:
            row, content = find(reader, tenant_id, evidence_id)
            key = read_key(reader, self._ring, tenant_id, row.subject_id)
            if key is None:
                raise Damaged("the subject's key is gone")
            if isinstance(content, bytes):
                return key.open(evidence_id, row.kind.value, content)
            file = content
            return lambda later: key.open(evidence_id, row.kind.value, self._load(later, file))

        found = await self._engine.find(fetch)
        return found if isinstance(found, bytes) else await self._engine.read(found)

    def _load(self, reader: sqlite3.Connection, file: BlobName) -> bytes:
        try:
            return self._blobs.read(file)
        except FileNotFoundError as error:
            find(reader, file.tenant_id, file.evidence_id)  # discarded meanwhile: not found
            raise Damaged("the content is gone") from error

    @override
    async def describe(self, tenant_id: TenantId, evidence_id: EvidenceId) -> EvidenceRow:
        row, _ = await self._engine.find(lambda reader: find(reader, tenant_id, evidence_id))
        return row

    @override
    async def discard(self, tenant_id: TenantId, evidence_ids: Sequence[EvidenceId]) -> None:
        def forget(writer: sqlite3.Connection) -> list[BlobName]:
            removed = [remove(writer, tenant_id, evidence_id) for evidence_id in evidence_ids]
            return [file for file in removed if file is not None]

        files = await self._engine.write(forget)
        if files:
            await self._engine.read(lambda reader: clear_files(reader, self._blobs, files))

    @override
    async def sweep_orphans(self, older_than: datetime) -> int:
        def sweep(reader: sqlite3.Connection) -> int:
            return clear_files(reader, self._blobs, self._blobs.written_before(older_than))

        return await self._engine.read(sweep)
