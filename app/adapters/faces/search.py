"""Search among approved faces in memory, synchronised with the store before every query.

A tenant's faces of one mode are read when they are first asked for. Then, before every search, what became
approved is read from the newest approved verifications, which shows every answered commit at once, and from
the feed of decisions, which brings reviewers' approvals, overturned ones and whatever was committed late.
Last of all the vault says whose keys were destroyed since: what those had opened is overwritten, and never
read again, before anything is compared.
"""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from hashlib import blake2b
from typing import Final, TypeAlias

import structlog
from typing_extensions import override

from app.adapters.faces.vectors import FaceVectors
from app.adapters.shared.columns import to_millis
from schemas.enums import VerificationStatus
from schemas.events import EventType
from schemas.ids import SubjectId, TenantId, VerificationId
from schemas.problems import NotFound
from schemas.verifications import StoredVerification
from streams.ports.errors import Damaged, Erased
from streams.ports.records import Position, Record, RecordKind
from streams.ports.stores import Stores
from streams.verification import records as verification_records
from streams.verification.events import EVENT_OF
from streams.verification.face_search import FaceQuery, FaceSearch, Neighbour, Neighbours, unpack_face
from streams.vision_ports import Embedding

MOST_FACES: Final = 100_000
"""Faces of one tenant and mode that are compared, the newest: `tests.bench.duplicate_faces` measures them."""

MOST_IN_MEMORY: Final = 200_000
"""Faces of all tenants in sum; over it those of the least recently used tenant are dropped."""

READ_AT_ONCE: Final = 128
"""Records read and opened at once while all are read; some tens of milliseconds of the event loop."""

NEWEST_AT_ONCE: Final = 16
"""Records looked at before a search; further ones while they are as young as `LATE`."""

LATE: Final = timedelta(seconds=15)
"""How much younger than another a commit may be, and yet be made visible before it by the feed alone."""

CLOCKS: Final = timedelta(minutes=1)
"""How far the clocks of store and process may be apart; what is read twice does no harm."""

EVENTS_AT_ONCE: Final = 500

IDLE_S: Final = 600.0
"""So many seconds after a question faces are forgotten: none outlives its erasure in memory for longer."""

_MARK: Final = b'"sealed_face"'
"""In the record of every verification whose face is stored, whatever else is in it."""

_Key: TypeAlias = tuple[TenantId, bool, str]
"""Tenant, mode, engine."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _Face:
    """A stored face, decrypted."""

    verification_id: VerificationId
    subject: int
    created_at: int
    vector: Embedding = field(repr=False)


@dataclass(slots=True)
class _FaceSet:
    """The faces of one tenant, mode and engine, and up to where the store was followed."""

    key: _Key
    place: str
    """In the feed of decisions."""
    vectors: FaceVectors
    erasures: int = 0
    idle: asyncio.TimerHandle | None = None
    """Ends it when nobody asks any more."""
    erased: set[int] = field(default_factory=set)
    """Subjects of whom no face may come back, such as by a key remembered for a moment."""

    def put(self, faces: Sequence[_Face | None]) -> None:
        """Keep faces, but none of an erased subject."""
        for face in faces:
            if face is not None and face.subject not in self.erased:
                self.vectors.put(
                    face.verification_id, face.vector, subject=face.subject, created_at=face.created_at
                )

    def drop(self, subjects: Sequence[SubjectId]) -> None:
        """Remove the faces of erased subjects for good."""
        self.erasures += len(subjects)
        for number in map(_number_of, subjects):
            self.erased.add(number)
            self.vectors.remove_subject(number)


class InMemoryFaceSearch(FaceSearch):
    """Compares with every face, one matrix product a question; used from one event loop."""

    def __init__(
        self,
        stores: Stores,
        *,
        most: int = MOST_FACES,
        most_in_memory: int = MOST_IN_MEMORY,
        idle_s: float = IDLE_S,
    ) -> None:
        self._stores = stores
        self._most = most
        self._most_in_memory = most_in_memory
        self._idle_s = idle_s
        self._sets: OrderedDict[_Key, _FaceSet] = OrderedDict()
        self._turns: dict[_Key, asyncio.Lock] = {}

    @override
    async def nearest(self, query: FaceQuery) -> Neighbours:
        key = (query.tenant_id, query.livemode, query.model_version)
        async with self._turns.setdefault(key, asyncio.Lock()):
            face_set = self._sets.get(key) or await self._read_all(key, query)
            self._remember(face_set)
            await self._follow(face_set)
            face_set.vectors.remove_before(to_millis(query.since))
            subject = _number_of(query.subject_id)
            compared, found = await asyncio.to_thread(
                face_set.vectors.nearest, query.face, other_than=subject
            )
        if found is None:
            return Neighbours(compared, None)
        return Neighbours(compared, Neighbour(VerificationId(found[0]), found[1]))

    @override
    def forget(self, tenant_id: TenantId) -> None:
        for key in [key for key in self._sets if key[0] == tenant_id]:
            self._forget(key)

    @property
    def faces(self) -> int:
        """The number of faces in memory."""
        return sum(len(face_set.vectors) for face_set in self._sets.values())

    def _remember(self, face_set: _FaceSet) -> None:
        if face_set.idle is not None:
            face_set.idle.cancel()
        face_set.idle = asyncio.get_running_loop().call_later(self._idle_s, self._forget, face_set.key)
        self._sets[face_set.key] = face_set
        self._sets.move_to_end(face_set.key)
        while self.faces > self._most_in_memory and len(self._sets) > 1:
            self._forget(next(iter(self._sets)))

    def _forget(self, key: _Key) -> None:
        face_set = self._sets.pop(key, None)
        if face_set is not None and face_set.idle is not None:
            face_set.idle.cancel()

    async def _read_all(self, key: _Key, query: FaceQuery) -> _FaceSet:
        """Read the newest faces; the feed is followed from a moment before."""
        tenant_id, livemode, _ = key
        place = await self._stores.feed.place_at(tenant_id, livemode=livemode, moment=query.at - CLOCKS)
        face_set = _FaceSet(key, place, FaceVectors(query.face.size, self._most))
        async for page in self._approved(key, READ_AT_ONCE, query.since):
            face_set.put(await self._open_all(key, page))
            if face_set.vectors.full:
                log.warning("faces.limit_reached", tenant_id=tenant_id, most=self._most)
                break
        return face_set

    async def _follow(self, face_set: _FaceSet) -> None:
        await self._follow_newest(face_set)
        await self._follow_feed(face_set)
        while subjects := await self._erased(face_set):
            face_set.drop(subjects)

    async def _erased(self, face_set: _FaceSet) -> Sequence[SubjectId]:
        return await self._stores.vault.erased(face_set.key[0], after=face_set.erasures, limit=EVENTS_AT_ONCE)

    async def _follow_newest(self, face_set: _FaceSet) -> None:
        async for page in self._approved(face_set.key, NEWEST_AT_ONCE, None):
            face_set.put(
                await self._open_all(face_set.key, [one for one in page if one.id not in face_set.vectors])
            )

    async def _follow_feed(self, face_set: _FaceSet) -> None:
        tenant_id, livemode, _ = face_set.key
        full = True
        while full:
            page = await self._stores.feed.page(
                tenant_id, livemode=livemode, after=face_set.place, limit=EVENTS_AT_ONCE
            )
            full = len(page) == EVENTS_AT_ONCE
            decisions = [fed.event for fed in page if fed.event.type in _DECIDING]
            await self._renew(
                face_set,
                {
                    one.data.verification_id or "": one.type is EventType.VERIFICATION_APPROVED
                    for one in decisions
                },
            )
            if page:
                face_set.place = page[-1].place

    async def _renew(self, face_set: _FaceSet, approved: dict[str, bool]) -> None:
        """Read again what was approved, and remove what is not approved any more."""
        unknown = [one for one, stands in approved.items() if stands and one not in face_set.vectors]
        for one in (one for one, stands in approved.items() if not stands):
            face_set.vectors.remove(one)
        for start in range(0, len(unknown), READ_AT_ONCE):
            wanted = unknown[start : start + READ_AT_ONCE]
            found = await asyncio.gather(*(self._find(face_set.key[0], one) for one in wanted))
            face_set.put(
                await self._open_all(face_set.key, [record for record in found if record is not None])
            )

    async def _find(self, tenant_id: TenantId, verification_id: str) -> Record | None:
        try:
            return await self._stores.records.get(tenant_id, RecordKind.VERIFICATION, verification_id)
        except NotFound:
            return None

    async def _approved(
        self, key: _Key, at_once: int, since: datetime | None
    ) -> AsyncIterator[Sequence[Record]]:
        """Yield the approved verifications, newest first: back to a moment, or the last few."""
        tenant_id, livemode, _ = key
        index = verification_records.by_status(livemode, VerificationStatus.APPROVED)
        before: Position | None = None
        while True:
            page = await self._stores.records.page(
                tenant_id, RecordKind.VERIFICATION, index, limit=at_once, before=before
            )
            yield page
            if len(page) < at_once:
                return
            since = since or page[0].created_at - LATE
            before = Position(page[-1].created_at, page[-1].id)
            if before.created_at < since:
                return

    async def _open_all(self, key: _Key, records: Sequence[Record]) -> Sequence[_Face | None]:
        return await asyncio.gather(*(self._open(key, record) for record in records if _MARK in record.body))

    async def _open(self, key: _Key, record: Record) -> _Face | None:
        """Return the face of an approved verification; None when it has none of this engine."""
        stored = StoredVerification.from_bytes(record.body)
        shown, sealed = stored.verification, stored.sealed_face
        if shown.status is not VerificationStatus.APPROVED or sealed is None:
            return None
        label = verification_records.face_label(shown.verification_id)
        try:
            opened = await self._stores.vault.open(record.tenant_id, shown.subject_id, label, sealed)
            version, vector = unpack_face(opened)
        except Erased:
            return None
        except Damaged:
            log.warning("faces.record_damaged", tenant_id=record.tenant_id, verification_id=record.id)
            return None
        if version != key[2]:
            return None
        created_at = to_millis(shown.created_at)
        return _Face(shown.verification_id, _number_of(shown.subject_id), created_at, vector)


_DECIDING: Final = frozenset(EVENT_OF.values())
"""Events that change the status of a verification."""


def _number_of(subject_id: str) -> int:
    """Return a number for a subject, never 0; two of 100,000 share one with a likelihood of 3e-10."""
    return int.from_bytes(blake2b(subject_id.encode(), digest_size=8).digest(), "big") or 1
