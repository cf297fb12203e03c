"""What the search among approved faces promises, over the stores of every adapter."""

import asyncio
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import pytest

from app.adapters.faces.search import InMemoryFaceSearch
from schemas.enums import VerificationStatus as Status
from schemas.ids import SubjectId, TenantId, VerificationId, derive_id
from schemas.problems import StoreUnavailable
from schemas.verifications import StoredVerification
from streams.ports.records import Change, RecordKind
from streams.ports.stores import Stores
from streams.reviews.events import verification_event, verification_record
from streams.verification import events, records
from streams.verification.face_search import FaceQuery, FaceSearch, pack_face
from streams.vision_ports import Embedding
from tests.builders import ACME, GLOBEX, NOW, build_record, build_stored, build_verification
from tests.handlers.verification_stage import Breaking

ENGINE = "engine@12345678"
FIRST, SECOND, THIRD = SubjectId("customer-1"), SubjectId("customer-2"), SubjectId("customer-3")


def face(*numbers: float) -> Embedding:
    """A vector of four numbers."""
    return np.array((*numbers, *(0.0,) * 4)[:4], np.float32)


async def decided(
    stores: Stores, name: str, subject: SubjectId, vector: Embedding, **changes: Any
) -> StoredVerification:
    """Commit a verification as the handler does, approved unless said otherwise."""
    tenant_id, livemode = changes.pop("tenant_id", ACME), changes.pop("livemode", True)
    at, status = changes.pop("at", NOW), changes.pop("status", Status.APPROVED)
    packed = pack_face(changes.pop("engine", ENGINE), vector)
    verification_id = VerificationId(derive_id("ver", name))
    label = records.face_label(verification_id)
    verification = build_verification(
        verification_id=verification_id, subject_id=subject, created_at=at, status=status
    )
    stored = build_stored(
        verification=verification,
        livemode=livemode,
        sealed_face=await stores.vault.seal(tenant_id, subject, label, packed),
    )
    record = build_record(
        tenant_id=tenant_id,
        id=verification_id,
        body=stored.to_bytes(),
        created_at=at,
        indexes=records.indexes(livemode, subject, status),
    )
    await stores.journal.commit(Change(tenant_id, (record,), events=events.events(tenant_id, stored)))
    return stored


async def concluded(stores: Stores, stored: StoredVerification, status: Status) -> None:
    """Commit what a reviewer makes of a verification."""
    before = stored.verification
    record = await stores.records.get(ACME, RecordKind.VERIFICATION, before.verification_id)
    update = {"status": status, "decision_id": derive_id("dec", before.decision_id)}
    after = stored.model_copy(update={"verification": before.model_copy(update=update)})
    event = verification_event(ACME, after, NOW, record.version + 1)
    await stores.journal.commit(Change(ACME, (verification_record(record, after),), events=(event,)))


async def nearest(
    search: FaceSearch,
    vector: Embedding,
    *,
    subject: SubjectId = THIRD,
    tenant_id: TenantId = ACME,
    livemode: bool = True,
    since: datetime = NOW - timedelta(days=30),
) -> tuple[int, str | None]:
    """Ask, and return how many faces were compared and whose verification is the nearest."""
    query = FaceQuery(tenant_id, livemode, ENGINE, subject, vector, NOW + timedelta(minutes=5), since)
    found = await search.nearest(query)
    return found.compared, found.nearest.verification_id if found.nearest else None


def name_of(stored: StoredVerification) -> str:
    """The id of a verification."""
    return stored.verification.verification_id


async def answers(search: FaceSearch, wanted: tuple[int, str | None], vector: Embedding) -> bool:
    """Ask until it is so: what a reviewer decides is reported by the feed, which may take its time."""
    while await nearest(search, vector) != wanted:  # noqa: ASYNC110 - the store has no event for it
        await asyncio.sleep(0.05)
    return True


@pytest.mark.parametrize("asked_before", [False, True], ids=["read at first", "followed"])
async def test_the_nearest_face_of_another_approved_subject_is_found(
    stores: Stores, *, asked_before: bool
) -> None:
    search = InMemoryFaceSearch(stores)
    if asked_before:
        assert await nearest(search, face(1)) == (0, None)
    await decided(stores, "far", FIRST, face(0, 1))
    near = await decided(stores, "near", SECOND, face(0.9), at=NOW + timedelta(seconds=1))
    await decided(stores, "own", THIRD, face(1), at=NOW + timedelta(seconds=2))

    assert await nearest(search, face(1)) == (2, name_of(near))


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"tenant_id": GLOBEX}, id="another tenant's"),
        pytest.param({"livemode": False}, id="the other mode's"),
        pytest.param({"status": Status.REVIEW_REQUIRED}, id="nobody approved it yet"),
        pytest.param({"status": Status.REJECTED}, id="it was rejected"),
        pytest.param({"engine": "another@1"}, id="another engine's vector"),
        pytest.param({"at": NOW - timedelta(days=31)}, id="past its time"),
    ],
)
@pytest.mark.parametrize("asked_before", [False, True], ids=["read at first", "followed"])
async def test_what_is_not_to_be_compared_is_not(
    stores: Stores, changes: dict[str, Any], *, asked_before: bool
) -> None:
    search = InMemoryFaceSearch(stores)
    if asked_before:
        await nearest(search, face(1))

    await decided(stores, "one", FIRST, face(1), **changes)

    assert await nearest(search, face(1)) == (0, None)


async def test_a_face_whose_time_ends_while_it_is_in_memory_is_dropped(stores: Stores) -> None:
    search = InMemoryFaceSearch(stores)
    await decided(stores, "one", FIRST, face(1))
    assert (await nearest(search, face(1)))[0] == 1

    later = await nearest(search, face(1), since=NOW + timedelta(milliseconds=1))

    assert (later, search.faces) == ((0, None), 0)


@pytest.mark.parametrize("asked_before", [False, True], ids=["read at first", "followed"])
async def test_what_a_reviewer_approves_is_compared_and_what_one_overturns_no_longer(
    stores: Stores, *, asked_before: bool
) -> None:
    search = InMemoryFaceSearch(stores)
    pending = await decided(stores, "one", FIRST, face(1), status=Status.REVIEW_REQUIRED)
    approved = await decided(stores, "two", SECOND, face(0.8))
    if asked_before:
        assert await nearest(search, face(1)) == (1, name_of(approved))

    await concluded(stores, pending, Status.APPROVED)
    await concluded(stores, approved, Status.REJECTED)

    assert await answers(search, (1, name_of(pending)), face(1))


async def test_a_reviewers_approval_of_an_old_verification_is_compared(stores: Stores) -> None:
    search = InMemoryFaceSearch(stores)
    old = NOW - timedelta(days=20)
    pending = await decided(stores, "old", FIRST, face(1), status=Status.REVIEW_REQUIRED, at=old)
    await nearest(search, face(1))
    for number in range(20):
        await decided(stores, f"new {number}", SECOND, face(0, 1))

    await concluded(stores, pending, Status.APPROVED)

    assert await answers(search, (21, name_of(pending)), face(1))


async def test_an_answered_approval_is_compared_before_the_feed_shows_it(stores: Stores) -> None:
    """Where many nodes must agree on an order, that takes seconds."""
    behind: Any = _FeedBehind(stores.feed)
    search = InMemoryFaceSearch(replace(stores, feed=behind))
    await nearest(search, face(1))
    for number in range(40):
        at = NOW + timedelta(milliseconds=number)
        await decided(stores, f"{number}", FIRST, face(0, number), at=at)

    assert (await nearest(search, face(1)))[0] == 40


class _FeedBehind:
    """A feed that shows nothing yet."""

    def __init__(self, feed: Any) -> None:
        self.place_at = feed.place_at

    async def page(self, _tenant_id: TenantId, **_asked: Any) -> list[Any]:
        return []


async def test_an_erased_subject_is_compared_with_nobody_who_destroyed_its_key(stores: Stores) -> None:
    mine, of_another_process = InMemoryFaceSearch(stores), InMemoryFaceSearch(stores)
    await decided(stores, "one", FIRST, face(1))
    other = await decided(stores, "two", SECOND, face(0.5))
    assert [await nearest(one, face(1)) for one in (mine, of_another_process)] == [
        (2, derive_id("ver", "one"))
    ] * 2

    await stores.vault.destroy(ACME, FIRST)

    searches = (mine, of_another_process, InMemoryFaceSearch(stores))
    assert [await nearest(one, face(1)) for one in searches] == [(1, name_of(other))] * 3
    assert [one.faces for one in searches] == [1] * 3


async def test_a_face_that_opens_after_its_erasure_does_not_come_back(stores: Stores) -> None:
    """Another process may remember a key for a moment, and meet an approval late."""
    search = InMemoryFaceSearch(stores)
    await nearest(search, face(1))
    late = await decided(stores, "one", FIRST, face(1))
    remembering: Any = _Remembering(stores.vault, late, face(1))
    slow = InMemoryFaceSearch(replace(stores, vault=remembering))

    await stores.vault.destroy(ACME, FIRST)

    assert [await nearest(one, face(1)) for one in (slow, slow, search)] == [(0, None)] * 3


class _Remembering:
    """Opens one face whatever became of its key; all else is the vault's."""

    def __init__(self, vault: Any, stored: StoredVerification, vector: Embedding) -> None:
        self._vault = vault
        self._label = records.face_label(stored.verification.verification_id)
        self._vector = vector

    def __getattr__(self, name: str) -> Any:
        return getattr(self._vault, name)

    async def open(self, tenant_id: TenantId, subject_id: SubjectId, label: str, sealed: str) -> bytes:
        if label == self._label:
            return pack_face(ENGINE, self._vector)
        opened: bytes = await self._vault.open(tenant_id, subject_id, label, sealed)
        return opened


async def test_one_altered_record_hides_no_other_face(stores: Stores) -> None:
    good = await decided(stores, "good", FIRST, face(0.5))
    await decided(stores, "bad", SECOND, face(1))
    stolen = await decided(stores, "third", SubjectId("customer-4"), face(1), status=Status.REJECTED)
    stored = await stores.records.get(ACME, RecordKind.VERIFICATION, derive_id("ver", "bad"))
    body = StoredVerification.from_bytes(stored.body).model_copy(update={"sealed_face": stolen.sealed_face})
    altered = replace(stored, body=body.to_bytes(), version=stored.version + 1)
    await stores.journal.commit(Change(ACME, (altered,)))

    assert await nearest(InMemoryFaceSearch(stores), face(1)) == (1, name_of(good))


async def test_more_faces_than_are_compared_leave_the_newest(stores: Stores) -> None:
    search = InMemoryFaceSearch(stores, most=5)
    made = [
        await decided(stores, f"{number}", FIRST, face(number), at=NOW + timedelta(seconds=number))
        for number in range(8)
    ]

    assert await nearest(search, face(0)) == (5, name_of(made[3]))
    newest = await decided(stores, "newest", FIRST, face(4.1), at=NOW + timedelta(seconds=9))
    assert await nearest(search, face(3)) == (5, name_of(made[4]))
    assert await nearest(search, face(4.2)) == (5, name_of(newest))


async def test_tenants_beyond_what_fits_in_memory_are_read_again_when_they_ask(stores: Stores) -> None:
    search = InMemoryFaceSearch(stores, most_in_memory=2)
    for tenant_id in (ACME, GLOBEX):
        for number in range(2):
            name = f"{tenant_id} {number}"
            await decided(stores, name, FIRST, face(number), tenant_id=tenant_id)

    asked = [(await nearest(search, face(1), tenant_id=one))[0] for one in (ACME, GLOBEX, ACME)]

    assert (asked, search.faces) == ([2, 2, 2], 2)


async def test_what_is_forgotten_or_idle_leaves_memory_and_is_read_again(stores: Stores) -> None:
    search = InMemoryFaceSearch(stores, idle_s=0.0)
    await decided(stores, "one", FIRST, face(1))
    assert await nearest(search, face(1)) == (1, derive_id("ver", "one"))
    while search.faces:  # noqa: ASYNC110 - a timer of the loop ends it
        await asyncio.sleep(0)
    stored = InMemoryFaceSearch(stores)
    await nearest(stored, face(1))

    stored.forget(ACME)

    assert stored.faces == 0
    assert [await nearest(one, face(1)) for one in (search, stored)] == [(1, derive_id("ver", "one"))] * 2


@pytest.mark.parametrize(
    ("port", "method"), [("records", "page"), ("feed", "page"), ("vault", "erased"), ("vault", "open")]
)
async def test_nothing_is_answered_while_the_store_is_away_and_all_of_it_later(
    stores: Stores, port: str, method: str
) -> None:
    await decided(stores, "one", FIRST, face(1))
    broken: Any = Breaking(getattr(stores, port), method, StoreUnavailable("away"))
    search = InMemoryFaceSearch(replace(stores, **{port: broken}))

    with pytest.raises(StoreUnavailable):
        await nearest(search, face(1))

    assert await nearest(search, face(1)) == (1, derive_id("ver", "one"))


async def test_questions_asked_at_once_are_all_answered(stores: Stores) -> None:
    search = InMemoryFaceSearch(stores)
    made = [await decided(stores, f"{number}", FIRST, face(number)) for number in range(4)]

    found = await asyncio.gather(*(nearest(search, face(number)) for number in range(4)))

    assert found == [(4, name_of(one)) for one in made]
