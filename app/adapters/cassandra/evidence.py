"""Evidence store in Cassandra: metadata in rows, contents in sealed files.

The files must lie where every process of the service reaches them. A file is written and flushed before
the row that names it, and removed after it; what an interruption leaves over, the sweeper finds.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from itertools import islice
from typing import Final, TypeVar

from typing_extensions import override

from app.adapters.cassandra.evidence_rows import (
    FILE,
    HOME,
    HOME_WRITTEN,
    ROW,
    TAKE_HOME,
    Place,
    StoredEvidence,
    deletion,
    homing,
    insertion,
    to_stored,
)
from app.adapters.cassandra.keys import SubjectKeys
from app.adapters.cassandra.session import Session
from app.adapters.files.blobs import BlobFiles, BlobName
from app.adapters.security.keyring import SubjectKey
from schemas.ids import EvidenceId, SubjectId, TenantId
from schemas.problems import NotFound, StoreUnavailable
from streams.ports.errors import Damaged
from streams.ports.evidence import EvidenceDraft, EvidenceRow, EvidenceStore

_ATTEMPTS: Final = 5
"""A put is outrun at most once by each piece of it that another keeps first."""

SWEPT_AT_ONCE: Final = 100
"""Files whose rows are looked up at once."""

_Result = TypeVar("_Result")


class CassandraEvidenceStore(EvidenceStore):
    """What is stored in one call belongs to one tenant, and appears at once: its rows share a partition.

    An id belongs to one verification (it derives from it). Two who put the same id at once under
    different verifications are both answered; one content counts.
    """

    def __init__(self, session: Session, keys: SubjectKeys, blobs: BlobFiles) -> None:
        self._session = session
        self._keys = keys
        self._blobs = blobs

    @override
    async def put(self, drafts: Sequence[EvidenceDraft]) -> None:
        if len({draft.row.tenant_id for draft in drafts}) > 1:
            raise ValueError("evidence that is stored in one call is one tenant's")
        keys = {owner: await self._keys.claim(*owner) for owner in dict.fromkeys(map(_owner, drafts))}
        fresh = await self._without_stored({draft.row.evidence_id: draft for draft in reversed(drafts)})
        if not fresh:
            return
        home = drafts[0].row.verification_id
        pieces = await _in_thread(lambda: [self._write(draft, keys[_owner(draft)], home) for draft in fresh])
        stored = await self._keep(pieces)
        await self._remove([piece.file for piece in pieces if piece not in stored])

    async def _without_stored(self, drafts: dict[EvidenceId, EvidenceDraft]) -> Sequence[EvidenceDraft]:
        """Return the drafts of what is not stored yet."""
        found = await asyncio.gather(
            *(self._place(d.row.tenant_id, d.row.evidence_id) for d in drafts.values())
        )
        stored = {place.evidence_id for place in found if place is not None}
        return [draft for evidence_id, draft in drafts.items() if evidence_id not in stored]

    def _write(self, draft: EvidenceDraft, key: SubjectKey, home: str) -> StoredEvidence:
        row = draft.row
        sealed = key.seal(row.evidence_id, row.kind.value, draft.content)
        return StoredEvidence(row, home, self._blobs.write(row.tenant_id, row.evidence_id, sealed))

    async def _keep(self, pieces: Sequence[StoredEvidence]) -> Sequence[StoredEvidence]:
        """Keep all pieces that nobody keeps first, and return them.

        When that is not known their files stay, for they may be named by now.
        """
        for _ in range(_ATTEMPTS):
            await self._session.batch(homing(pieces))
            settled = await self._session.lwt(insertion(pieces))
            if settled.applied:
                return pieces
            there = {row["evidence_id"] for row in settled.rows}
            pieces = [piece for piece in pieces if piece.row.evidence_id not in there]
            if not pieces:
                return ()
        raise StoreUnavailable("evidence is put and discarded at the same time")

    @override
    async def get(self, tenant_id: TenantId, evidence_id: EvidenceId) -> bytes:
        stored = await self._find_or_raise(tenant_id, evidence_id)
        row = stored.row
        key = await self._keys.find(tenant_id, row.subject_id)
        if key is None:
            raise Damaged("the subject's key is gone")
        try:
            return await _in_thread(
                lambda: key.open(evidence_id, row.kind.value, self._blobs.read(stored.file))
            )
        except FileNotFoundError as error:
            await self._find_or_raise(tenant_id, evidence_id)  # discarded meanwhile: not found
            raise Damaged("the content is gone") from error

    @override
    async def describe(self, tenant_id: TenantId, evidence_id: EvidenceId) -> EvidenceRow:
        return (await self._find_or_raise(tenant_id, evidence_id)).row

    @override
    async def discard(self, tenant_id: TenantId, evidence_ids: Sequence[EvidenceId]) -> None:
        for evidence_id in evidence_ids:
            await self._discard(tenant_id, evidence_id)

    async def _discard(self, tenant_id: TenantId, evidence_id: EvidenceId) -> None:
        place = await self._place(tenant_id, evidence_id)
        if place is not None:
            await self._session.lwt(deletion(place))
            await self._remove([place.file] if place.file is not None else [])

    @override
    async def sweep_orphans(self, older_than: datetime) -> int:
        files = self._blobs.written_before(older_than)
        removed = 0
        while group := await _in_thread(lambda: list(islice(files, SWEPT_AT_ONCE))):
            named = await asyncio.gather(*(self._is_named(file) for file in group))
            orphans = [file for file, is_named in zip(group, named, strict=True) if not is_named]
            await self._remove(orphans)
            removed += len(orphans)
        return removed

    async def _is_named(self, file: BlobName) -> bool:
        place = await self._place(file.tenant_id, file.evidence_id)
        return place is not None and place.file == file

    async def _find_or_raise(self, tenant_id: TenantId, evidence_id: EvidenceId) -> StoredEvidence:
        stored = await self.find(tenant_id, evidence_id)
        if stored is None:
            raise NotFound(evidence_id)
        return stored

    async def _place(self, tenant_id: TenantId, evidence_id: EvidenceId) -> Place | None:
        for (home,) in await self._session.execute(HOME, (tenant_id, evidence_id)):
            for (token,) in await self._session.execute(FILE, (tenant_id, home, evidence_id)):
                return Place(tenant_id, home, evidence_id, token)
        return None

    async def find(self, tenant_id: TenantId, evidence_id: EvidenceId) -> StoredEvidence | None:
        """Return the piece, None when there is none.

        Raises:
            Damaged: Its row was altered.
        """
        for (home,) in await self._session.execute(HOME, (tenant_id, evidence_id)):
            for columns in await self._session.execute(ROW, (tenant_id, home, evidence_id)):
                return to_stored(columns)
        return None

    async def remove_whole(self, piece: StoredEvidence) -> None:
        """Remove a piece for good: its file, then its row, by which a removal that was cut short is known."""
        await self._remove([piece.file])
        row = piece.row
        await self._session.lwt(deletion(Place(row.tenant_id, piece.home, row.evidence_id, piece.file.token)))
        await self.remove_home(row.tenant_id, row.evidence_id)

    async def remove_home(self, tenant_id: TenantId, evidence_id: EvidenceId) -> None:
        """Remove what leads to the home of a piece that is gone; one that is written later stays."""
        key = (tenant_id, evidence_id)
        for (written_at,) in await self._session.execute(HOME_WRITTEN, key):
            await self._session.execute(TAKE_HOME, (written_at, *key))

    async def _remove(self, files: Iterable[BlobName]) -> None:
        spare = list(files)
        if spare:
            await _in_thread(lambda: self._remove_now(spare))

    def _remove_now(self, files: Iterable[BlobName]) -> None:
        for file in files:
            self._blobs.remove(file)


def _owner(draft: EvidenceDraft) -> tuple[TenantId, SubjectId]:
    return draft.row.tenant_id, draft.row.subject_id


async def _in_thread(work: Callable[[], _Result]) -> _Result:
    """Work with files beside the loop; a disk that fails is a store that is away."""
    try:
        return await asyncio.to_thread(work)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise StoreUnavailable(f"evidence files: {error.strerror}") from error
