"""Evidence store in Cassandra: metadata in rows, contents in sealed files.

The files must lie where every process of the service reaches them. A file is written and flushed before
the row that names it, and removed after it; what an interruption leaves over, the sweeper finds.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from itertools import islice
from operator import attrgetter
from typing import Final, TypeVar

from typing_extensions import override

from app.adapters.cassandra.coalescing import Coalescer, run_in_thread
from app.adapters.cassandra.evidence_rows import (
    AGE_DAY,
    DAY_MICROS,
    STANDING,
    EvidenceLookup,
    Place,
    StoredEvidence,
    deletion,
    insertion,
    standing,
    to_stored,
)
from app.adapters.cassandra.keys import SubjectKeys
from app.adapters.cassandra.server_clock import StoreClock
from app.adapters.cassandra.session import BATCH_BYTES, Part, Session, Write, part_of
from app.adapters.files.blobs import BlobFiles, BlobName
from app.adapters.security.keyring import SubjectKey
from schemas.ids import EvidenceId, SubjectId, TenantId
from schemas.problems import NotFound, StoreUnavailable
from streams.ports.errors import Damaged
from streams.ports.evidence import EvidenceDraft, EvidenceRow, EvidenceStore

_ATTEMPTS: Final = 5
"""A put that was outdone by the removal of what stood there before is made again, at a later moment."""

_PAUSE_S: Final = 0.1
"""Before that, in seconds; so far apart the store's clock is known to be later."""

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
        self._lookup = EvidenceLookup(session)
        self._clock = StoreClock(session)
        self._day = 0
        self._listed: set[Write] = set()
        """What lists `_day`, once written; while it lasts no sweep takes it away."""
        self._write_rows = Coalescer(self._write_many, most=BATCH_BYTES, size_of=attrgetter("size"))
        self._read = Coalescer[Callable[[], bytes], bytes | Exception](run_in_thread, most=4, at_once=4)
        """Read files: so many threads at once, each so many files."""

    @override
    async def put(self, drafts: Sequence[EvidenceDraft]) -> None:
        if len({draft.row.tenant_id for draft in drafts}) > 1:
            raise ValueError("evidence that is stored in one call is one tenant's")
        keys = {owner: await self._keys.claim(*owner) for owner in dict.fromkeys(map(_owner, drafts))}
        wanted = {draft.row.evidence_id: draft for draft in reversed(drafts)}
        homes = await self._homes(wanted.values())
        fresh = await self._without_stored(wanted, homes)
        if not fresh:
            return
        home = drafts[0].row.verification_id
        pieces = await _in_thread(lambda: [self._write(draft, keys[_owner(draft)], home) for draft in fresh])
        await self._keep(pieces, {evidence_id for evidence_id, found in homes.items() if found is not None})

    async def _homes(self, drafts: Collection[EvidenceDraft]) -> dict[EvidenceId, str | None]:
        """Return under which home each of the drafts was ever put."""
        found = await asyncio.gather(*(self._lookup.home(d.row.tenant_id, d.row.evidence_id) for d in drafts))
        return dict(zip((draft.row.evidence_id for draft in drafts), found, strict=True))

    async def _without_stored(
        self, drafts: Mapping[EvidenceId, EvidenceDraft], homes: Mapping[EvidenceId, str | None]
    ) -> Sequence[EvidenceDraft]:
        """Return the drafts of what is not stored yet."""
        put = [(drafts[evidence_id], home) for evidence_id, home in homes.items() if home is not None]
        rows = await asyncio.gather(
            *(self._lookup.row_at(d.row.tenant_id, home, d.row.evidence_id) for d, home in put)
        )
        stored = {d.row.evidence_id for (d, _), row in zip(put, rows, strict=True) if row is not None}
        return [draft for evidence_id, draft in drafts.items() if evidence_id not in stored]

    def _write(self, draft: EvidenceDraft, key: SubjectKey, home: str) -> StoredEvidence:
        row = draft.row
        sealed = key.seal(row.evidence_id, row.kind.value, draft.content)
        return StoredEvidence(row, home, self._blobs.write(row.tenant_id, row.evidence_id, sealed))

    async def _keep(self, pieces: Sequence[StoredEvidence], known: Collection[EvidenceId]) -> None:
        """Store the rows; of rivals the last counts.

        A `known` id was put before: what removed it may outdo this put, by a clock that was ahead, and its
        rival's file may be the one that counts. That is read back. Of two first puts at once the loser's file
        is left to the sweeper; and when nothing is known of a put its files stay, for they may be named.
        """
        for _ in range(_ATTEMPTS):
            at = self._session.write_time((await self._clock.read()).micros)
            await self._insert(pieces, at)
            doubtful = [piece for piece in pieces if piece.row.evidence_id in known]
            stored = await asyncio.gather(*map(self._named_file, doubtful))
            pairs = list(zip(doubtful, stored, strict=True))
            await self._remove([piece.file for piece, file in pairs if file not in {None, piece.file.token}])
            pieces = [piece for piece, file in pairs if file is None]
            if not pieces:
                return
            await asyncio.sleep(_PAUSE_S)
        raise StoreUnavailable("evidence is put and discarded at the same time")

    async def _insert(self, pieces: Sequence[StoredEvidence], at: int) -> None:
        """Write the rows of the pieces; what lists the day that it is only once."""
        today = at // DAY_MICROS
        if today != self._day:
            self._day, self._listed = today, set()
        writes = [write for write in insertion(pieces, at) if write not in self._listed]
        await self._write_rows(part_of(writes))
        days = (write for write in writes if write[0] is AGE_DAY)
        self._listed.update(write for write in days if write[1][2] == self._day)

    async def _write_many(self, puts: Sequence[Part]) -> Sequence[None]:
        await self._session.batch([write for put in puts for write in put.writes])
        return [None] * len(puts)

    async def _named_file(self, piece: StoredEvidence) -> str | None:
        """Return what names the file of the piece that stands under its home; None when there is none."""
        columns = await self._lookup.row_at(piece.row.tenant_id, piece.home, piece.row.evidence_id)
        return None if columns is None else str(columns[-1])

    @override
    async def get(self, tenant_id: TenantId, evidence_id: EvidenceId) -> bytes:
        stored = await self._find_or_raise(tenant_id, evidence_id)
        while True:
            try:
                return await self._open(stored)
            except FileNotFoundError as error:
                gone, stored = stored, await self._find_or_raise(tenant_id, evidence_id)
                if stored.file == gone.file:  # neither discarded meanwhile nor put again
                    raise Damaged("the content is gone") from error

    async def _open(self, stored: StoredEvidence) -> bytes:
        row = stored.row
        key = await self._keys.find(row.tenant_id, row.subject_id)
        if key is None:
            raise Damaged("the subject's key is gone")
        name, kind = row.evidence_id, row.kind.value
        return _given(await self._read(lambda: key.open(name, kind, self._blobs.read(stored.file))))

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
            await self._remove_row(place)
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
        columns = await self._lookup.row(file.tenant_id, file.evidence_id)
        return columns is not None and columns[-1] == file.token

    async def _find_or_raise(self, tenant_id: TenantId, evidence_id: EvidenceId) -> StoredEvidence:
        stored = await self.find(tenant_id, evidence_id)
        if stored is None:
            raise NotFound(evidence_id)
        return stored

    async def _place(self, tenant_id: TenantId, evidence_id: EvidenceId) -> Place | None:
        home = await self._lookup.home(tenant_id, evidence_id)
        if home is None:
            return None
        for columns in await self._session.execute(STANDING, (tenant_id, home, evidence_id)):
            return standing(tenant_id, home, evidence_id, columns)
        return None

    async def find(self, tenant_id: TenantId, evidence_id: EvidenceId) -> StoredEvidence | None:
        """Return the piece, None when there is none.

        Raises:
            Damaged: Its row was altered.
        """
        columns = await self._lookup.row(tenant_id, evidence_id)
        return None if columns is None else to_stored(columns)

    async def remove_whole(self, piece: StoredEvidence) -> None:
        """Remove a piece for good: its file, then its row, by which a removal that was cut short is known."""
        place = await self._place(piece.row.tenant_id, piece.row.evidence_id)
        await self._remove([piece.file])
        if place is not None and place.file == piece.file:
            await self._remove_row(place)

    async def _remove_row(self, place: Place) -> None:
        """Remove the row as it was seen; one that was altered until no column is left goes as it stands."""
        at = place.written_at or (await self._clock.read()).micros
        await self._session.execute(*deletion(place, at))

    async def _remove(self, files: Iterable[BlobName]) -> None:
        spare = list(files)
        if spare:
            await _in_thread(lambda: self._blobs.remove(*spare))


def _owner(draft: EvidenceDraft) -> tuple[TenantId, SubjectId]:
    return draft.row.tenant_id, draft.row.subject_id


async def _in_thread(work: Callable[[], _Result]) -> _Result:
    """Work with files beside the loop."""
    return _given((await run_in_thread([work]))[0])


def _given(result: _Result | Exception) -> _Result:
    """Return a result, or raise what came in its place; a disk that fails is a store that is away."""
    if isinstance(result, OSError) and not isinstance(result, FileNotFoundError):
        raise StoreUnavailable(f"evidence files: {result.strerror}") from result
    if isinstance(result, Exception):
        raise result
    return result
