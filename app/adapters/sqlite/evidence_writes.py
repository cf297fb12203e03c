"""Write evidence: large contents become files first, then all rows are inserted."""

import asyncio
import sqlite3
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from typing_extensions import override

from app.adapters.files.blobs import BlobFiles, BlobName
from app.adapters.security.keyring import KeyRing, SubjectKey
from app.adapters.sqlite.batching import BatchJob, each
from app.adapters.sqlite.engine import Engine
from app.adapters.sqlite.evidence_rows import Piece, clear_files, insert
from app.adapters.sqlite.keys import Owner, StoredKeys, read_key
from schemas.problems import VeristreamError
from streams.ports.errors import Erased
from streams.ports.evidence import EvidenceDraft

INLINE_BYTES: Final = 64 * 1024
"""Up to this size content lies in the database: a new file costs more than writing it twice."""


class Outrun(VeristreamError):
    """Another put gave the subject its key first, after this one had sealed with its own."""


@dataclass(frozen=True, slots=True)
class PutResult:
    """The result of a put."""

    keys: Sequence[SubjectKey]
    """To be cached now that they are stored."""
    complete: bool
    """False: some piece was stored already, so its new file may be spare."""


@dataclass(frozen=True, slots=True)
class _Sealed:
    pieces: Sequence[Piece]
    keys: Sequence[SubjectKey]


class Put(BatchJob[PutResult]):
    """One attempt to keep drafts; for `submit`, and `clear` when files of it may be spare."""

    touches = "evidence"

    def __init__(self, drafts: Sequence[EvidenceDraft], ring: KeyRing, blobs: BlobFiles) -> None:
        self._drafts = drafts
        self.ring = ring
        self._blobs = blobs
        self._keys: dict[Owner, SubjectKey] = {}
        self._contents: list[bytes | BlobName] = []

    def submit(self, engine: Engine) -> "asyncio.Future[PutResult]":
        """Submit the drafts: in one transaction when they are small, else after writing files.

        Raises:
            Erased: A subject was erased.
            Outrun: Try again.
        """
        if sum(len(draft.content) for draft in self._drafts) <= INLINE_BYTES // 2:
            return engine.write(self)
        return engine.stage_and_write(self._stage)

    @property
    def files(self) -> list[BlobName]:
        """Files written beside the database."""
        return [content for content in self._contents if isinstance(content, BlobName)]

    def clear(self, reader: sqlite3.Connection) -> int:
        """Remove the files no row names."""
        return clear_files(reader, self._blobs, self.files)

    @override
    @classmethod
    def run(
        cls, connection: sqlite3.Connection, jobs: Sequence["Put"]
    ) -> Sequence[PutResult | VeristreamError]:
        wanted: dict[Owner, SubjectKey] = {}
        for job in jobs:
            job.want(wanted)
        keys = StoredKeys(connection, jobs[0].ring, wanted.values())
        sealed = each(jobs, lambda job: job.seal(keys))
        good = [one for one in sealed if isinstance(one, _Sealed)]
        complete = insert(connection, [piece for one in good for piece in one.pieces])
        return [PutResult(one.keys, complete) if isinstance(one, _Sealed) else one for one in sealed]

    def _stage(self, reader: sqlite3.Connection) -> "Put":
        """Seal everything, and write what is large to files."""
        for draft in self._drafts:
            owner = _owner(draft)
            if owner not in self._keys:
                known = self.ring.recall(*owner) or read_key(reader, self.ring, *owner)
                self._keys[owner] = known or self.ring.make(*owner)
            self._contents.append(self._place(draft, _seal(draft, self._keys[owner])))
        return self

    def _place(self, draft: EvidenceDraft, sealed: bytes) -> bytes | BlobName:
        if len(sealed) <= INLINE_BYTES:
            return sealed
        return self._blobs.write(draft.row.tenant_id, draft.row.evidence_id, sealed)

    def want(self, wanted: dict[Owner, SubjectKey]) -> None:
        """Name a key for each subject nobody named one for: the one used already, or known, or new."""
        for owner in map(_owner, self._drafts):
            if owner not in wanted:
                wanted[owner] = self._keys.get(owner) or self._recall(owner) or self.ring.make(*owner)

    def _recall(self, owner: Owner) -> SubjectKey | None:
        with suppress(Erased):  # the row says so too, and answers everybody
            return self.ring.recall(*owner)
        return None

    def seal(self, keys: StoredKeys) -> _Sealed:
        """Return the rows, sealed under the keys that count; raises what `submit` does."""
        own = {owner: keys[owner] for owner in map(_owner, self._drafts)}
        if any(own[owner].wrapped != used.wrapped for owner, used in self._keys.items()):
            raise Outrun("the subject's key is another one")
        contents = self._contents or [_seal(draft, own[_owner(draft)]) for draft in self._drafts]
        rows = [draft.row for draft in self._drafts]
        return _Sealed(list(zip(rows, contents, strict=True)), list(own.values()))


def _owner(draft: EvidenceDraft) -> Owner:
    return draft.row.tenant_id, draft.row.subject_id


def _seal(draft: EvidenceDraft, key: SubjectKey) -> bytes:
    return key.seal(draft.row.evidence_id, draft.row.kind.value, draft.content)
