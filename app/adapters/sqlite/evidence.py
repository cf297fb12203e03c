"""Evidence store in SQLite: metadata, subject keys and small contents; larger contents are sealed files."""

import sqlite3
from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import Final, TypeAlias

from typing_extensions import override

from app.adapters.files.blobs import BlobFiles, BlobName
from app.adapters.security.keyring import KeyRing
from app.adapters.sqlite.batching import BatchJob, Job, each
from app.adapters.sqlite.engine import Engine
from app.adapters.sqlite.evidence_rows import EvidenceKey, Whole, clear_files, describe, find_whole, remove
from app.adapters.sqlite.evidence_writes import Outrun, Put
from schemas.ids import EvidenceId, TenantId
from schemas.problems import NotFound, StoreUnavailable, VeristreamError
from streams.ports.errors import Damaged
from streams.ports.evidence import EvidenceDraft, EvidenceRow, EvidenceStore

_ATTEMPTS: Final = 3
"""A subject gets its first key once; the loser of a race seals again under the winner's."""

_Content: TypeAlias = bytes | Job[bytes]
"""What was asked for, or how to read it from its file on a thread for reads that take long."""


class _Get(BatchJob[_Content]):
    """A question for one content."""

    touches = "evidence"

    def __init__(self, key: EvidenceKey, ring: KeyRing, blobs: BlobFiles) -> None:
        self.key = key
        self._ring = ring
        self._blobs = blobs

    @override
    @classmethod
    def run(
        cls, connection: sqlite3.Connection, jobs: Sequence["_Get"]
    ) -> Sequence[_Content | VeristreamError]:
        found = find_whole(connection, list({job.key: None for job in jobs}))
        return each(jobs, lambda job: job.open(found.get(job.key)))

    def open(self, whole: Whole | None) -> _Content:
        if whole is None:
            raise NotFound(self.key[-1])
        if whole.wrapped is None:
            raise Damaged("the subject's key is gone")
        row = whole.row
        key = self._ring.unwrap(row.tenant_id, row.subject_id, whole.wrapped)
        unseal = partial(key.open, row.evidence_id, row.kind.value)
        if whole.content is None:
            raise Damaged("the content is gone")
        if isinstance(whole.content, bytes):
            return unseal(whole.content)
        file = whole.content
        return lambda reader: unseal(self._load(reader, file))

    def _load(self, reader: sqlite3.Connection, file: BlobName) -> bytes:
        try:
            return self._blobs.read(file)
        except FileNotFoundError as error:
            describe(reader, file.tenant_id, file.evidence_id)  # discarded meanwhile: not found
            raise Damaged("the content is gone") from error


class SqliteEvidenceStore(EvidenceStore):
    """First the files, flushed; then one transaction with all rows. See `app.adapters.files.blobs`."""

    def __init__(self, engine: Engine, ring: KeyRing, blobs: BlobFiles) -> None:
        self._engine = engine
        self._ring = ring
        self._blobs = blobs

    @override
    async def put(self, drafts: Sequence[EvidenceDraft]) -> None:
        for _ in range(_ATTEMPTS):
            if await self._attempt(Put(drafts, self._ring, self._blobs)):
                return
        raise StoreUnavailable("the subject's key changes while it is used")

    async def _attempt(self, put: Put) -> bool:
        try:
            result = await put.submit(self._engine)
        except VeristreamError as error:
            await self._clear(put)
            if isinstance(error, Outrun):
                return False
            raise
        for key in result.keys:
            self._ring.remember(key)
        if not result.complete:
            await self._clear(put)
        return True

    async def _clear(self, put: Put) -> None:
        if put.files:
            await self._engine.read(put.clear)

    @override
    async def get(self, tenant_id: TenantId, evidence_id: EvidenceId) -> bytes:
        found = await self._engine.find(_Get((tenant_id, evidence_id), self._ring, self._blobs))
        return found if isinstance(found, bytes) else await self._engine.read(found)

    @override
    async def describe(self, tenant_id: TenantId, evidence_id: EvidenceId) -> EvidenceRow:
        return await self._engine.find(lambda reader: describe(reader, tenant_id, evidence_id))

    @override
    async def discard(self, tenant_id: TenantId, evidence_ids: Sequence[EvidenceId]) -> None:
        keys = [(tenant_id, evidence_id) for evidence_id in evidence_ids]
        files = await self._engine.write(lambda writer: remove(writer, keys))
        if files:
            await self._engine.read(lambda reader: clear_files(reader, self._blobs, files))

    @override
    async def sweep_orphans(self, older_than: datetime) -> int:
        def sweep(reader: sqlite3.Connection) -> int:
            return clear_files(reader, self._blobs, self._blobs.written_before(older_than))

        return await self._engine.read(sweep)
