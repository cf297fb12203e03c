"""Evidence and keys in Cassandra under what many processes do to them: deaths between writes, and rivals."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest
from typing_extensions import override

from app.adapters.cassandra.connection import Address
from app.adapters.cassandra.evidence import CassandraEvidenceStore
from app.adapters.cassandra.evidence_rows import COLUMNS, ID, EvidenceLookup
from app.adapters.cassandra.keys import CassandraVault, SubjectKeys, added_key
from app.adapters.cassandra.server_clock import StoreClock
from app.adapters.cassandra.session import Row, Session, Statement
from app.adapters.files.blobs import BlobFiles
from app.adapters.security.keyring import FRESH_S, TOMBSTONE, KeyRing
from schemas.enums import EvidenceKind
from schemas.ids import EvidenceId, TenantId, VerificationId, derive_id
from schemas.problems import NotFound, StoreUnavailable
from streams.ports.errors import Damaged, Erased
from streams.ports.evidence import EvidenceDraft, EvidenceStore, Vault
from tests.builders import ACME, NOW, SUBJECT, build_evidence_draft
from tests.contracts.adapters import ROOT_KEY
from tests.contracts.cassandra_adapter import open_cassandra, session_of
from tests.contracts.cassandra_deaths import dying

pytestmark = pytest.mark.engines

DOCUMENT = EvidenceId(derive_id("evd", "document"))
SELFIE = EvidenceId(derive_id("evd", "selfie"))
PUT_WRITES = 2
"""Key, rows."""
LATER = NOW + timedelta(days=36_500)


def drafts(content: bytes = b"image") -> tuple[EvidenceDraft, EvidenceDraft]:
    """A document and a selfie of one subject."""
    selfie = build_evidence_draft(content, evidence_id=SELFIE, kind=EvidenceKind.SELFIE)
    return build_evidence_draft(content, evidence_id=DOCUMENT), selfie


@pytest.fixture
async def session(contracts_keyspace: Address, tmp_path: Path) -> AsyncIterator[Session]:
    """A session to tables with nothing in them."""
    async with open_cassandra(contracts_keyspace, tmp_path):
        yield session_of(contracts_keyspace)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the evidence files lie."""
    return tmp_path / "blobs"


def open_evidence(session: Session, folder: Path) -> CassandraEvidenceStore:
    """The evidence as a process of its own has it open."""
    keys = SubjectKeys(session, KeyRing(ROOT_KEY))
    return CassandraEvidenceStore(session, keys, BlobFiles(folder, durable=False))


def files(folder: Path) -> int:
    """How many files there are."""
    return len(list(folder.glob("*/*/*")))


def break_files(folder: Path, gone: EvidenceId, altered: EvidenceId, unreadable: EvidenceId) -> None:
    """Remove one file, write another over, and put a folder in the place of the third."""
    places = {name: next(folder.glob(f"*/*/{name}.*")) for name in (gone, altered, unreadable)}
    places[gone].unlink()
    places[altered].write_bytes(bytes(64))
    places[unreadable].unlink()
    places[unreadable].mkdir()


async def is_stored(store: EvidenceStore, evidence_id: EvidenceId) -> bool:
    """Whether it can be read whole."""
    try:
        return await store.get(ACME, evidence_id) == b"image"
    except NotFound:
        return False


@pytest.mark.parametrize("unanswered", [False, True], ids=["unsent", "unanswered"])
@pytest.mark.parametrize("lives", range(PUT_WRITES))
async def test_a_put_that_died_anywhere_kept_all_or_nothing(
    session: Session, folder: Path, lives: int, *, unanswered: bool
) -> None:
    with pytest.raises(StoreUnavailable):
        await open_evidence(dying(session, lives, unanswered=unanswered), folder).put(drafts())

    store = open_evidence(session, folder)
    stored = [await is_stored(store, DOCUMENT), await is_stored(store, SELFIE)]
    assert stored == [unanswered and lives == PUT_WRITES - 1] * 2


@pytest.mark.parametrize("unanswered", [False, True], ids=["unsent", "unanswered"])
@pytest.mark.parametrize("lives", range(PUT_WRITES))
async def test_a_put_again_keeps_what_a_put_that_died_did_not(
    session: Session, folder: Path, lives: int, *, unanswered: bool
) -> None:
    with pytest.raises(StoreUnavailable):
        await open_evidence(dying(session, lives, unanswered=unanswered), folder).put(drafts())
    store = open_evidence(session, folder)

    await store.put(drafts())
    await store.sweep_orphans(LATER)

    assert [await is_stored(store, DOCUMENT), await is_stored(store, SELFIE)] == [True, True]
    assert files(folder) == 2


async def test_what_a_put_that_died_left_behind_is_swept(session: Session, folder: Path) -> None:
    with pytest.raises(StoreUnavailable):
        await open_evidence(dying(session, 1), folder).put(drafts())

    assert await open_evidence(session, folder).sweep_orphans(LATER) == 2
    assert files(folder) == 0


async def test_of_rivals_one_counts_and_a_sweep_leaves_no_file_that_nothing_names(
    session: Session, folder: Path
) -> None:
    store = open_evidence(session, folder)

    await asyncio.gather(*(open_evidence(session, folder).put(drafts(b"%d" % n)) for n in range(8)))
    await store.sweep_orphans(LATER)

    assert files(folder) == 2
    assert await store.get(ACME, DOCUMENT) == await store.get(ACME, SELFIE)


async def test_an_id_that_is_kept_stays_under_its_verification(session: Session, folder: Path) -> None:
    store = open_evidence(session, folder)
    await store.put(drafts())
    other = VerificationId(derive_id("ver", "another"))

    await store.put([build_evidence_draft(b"other", evidence_id=DOCUMENT, verification_id=other)])

    assert await store.describe(ACME, DOCUMENT) == drafts()[0].row


@pytest.mark.parametrize("unanswered", [False, True], ids=["unsent", "unanswered"])
async def test_a_discard_that_died_is_finished_by_the_next_and_a_sweep(
    session: Session, folder: Path, *, unanswered: bool
) -> None:
    store = open_evidence(session, folder)
    await store.put(drafts())
    with pytest.raises(StoreUnavailable):
        await open_evidence(dying(session, 0, unanswered=unanswered), folder).discard(ACME, [DOCUMENT])

    await store.discard(ACME, [DOCUMENT])
    await store.sweep_orphans(LATER)

    assert [await is_stored(store, DOCUMENT), await is_stored(store, SELFIE)] == [False, True]
    assert files(folder) == 1


async def test_what_was_discarded_can_be_put_again(session: Session, folder: Path) -> None:
    store = open_evidence(session, folder)
    await store.put(drafts())
    await store.discard(ACME, [DOCUMENT, SELFIE])

    await store.put(drafts())

    assert [await is_stored(store, DOCUMENT), await is_stored(store, SELFIE)] == [True, True]


async def test_what_was_discarded_can_be_put_again_although_it_was_put_by_a_clock_ahead(
    session: Session, folder: Path
) -> None:
    store = open_evidence(session, folder)
    await store.put(drafts())
    ahead = Statement(
        "UPDATE evidence USING TIMESTAMP ? SET media_type = ? "
        "WHERE tenant = ? AND home = ? AND evidence_id = ?"
    )
    soon = (await StoreClock(session).read()).micros + 200_000
    row = drafts()[0].row
    await session.execute(ahead, (soon, row.media_type, ACME, row.verification_id, DOCUMENT))
    await store.discard(ACME, [DOCUMENT])

    await store.put(drafts())

    assert [await is_stored(store, DOCUMENT), await is_stored(store, SELFIE)] == [True, True]
    assert files(folder) == 2


async def test_who_read_the_row_of_a_rival_that_lost_reads_the_one_that_counts(
    session: Session, folder: Path
) -> None:
    """Its file may be gone by then."""
    store = open_evidence(session, folder)
    await store.put(drafts(b"first"))
    outdated = [row for row in [await EvidenceLookup(session).row(ACME, DOCUMENT)] if row is not None]
    await store.discard(ACME, [DOCUMENT])
    await store.put(drafts(b"second"))

    class OutdatedOnce(EvidenceLookup):
        """Answers as if asked before, once."""

        @override
        async def row(self, tenant_id: TenantId, evidence_id: EvidenceId) -> Row | None:
            return outdated.pop() if outdated else await super().row(tenant_id, evidence_id)

    store._lookup = OutdatedOnce(session)
    assert await store.get(ACME, DOCUMENT) == b"second"


async def test_what_is_read_at_once_is_each_what_became_of_its_own_file(
    session: Session, folder: Path
) -> None:
    store = open_evidence(session, folder)
    names = [EvidenceId(derive_id("ev", str(n))) for n in range(8)]
    await store.put([build_evidence_draft(b"image", evidence_id=name) for name in names])
    break_files(folder, *names[:3])

    answers = await asyncio.gather(*(store.get(ACME, name) for name in names), return_exceptions=True)

    assert [type(answer) for answer in answers[:3]] == [Damaged, Damaged, StoreUnavailable]
    assert answers[3:] == [b"image"] * 5


@pytest.mark.parametrize(
    "altered",
    [
        "kind = 'SELFIE'",
        "kind = 'made up'",
        "subject_id = 'somebody'",
        "file = 'elsewhere'",
        "file = NULL",
        ", ".join(f"{name} = NULL" for name in COLUMNS.split(", ")[ID + 1 :]),
    ],
)
async def test_evidence_whose_row_was_altered_is_damaged_and_can_be_discarded(
    session: Session, folder: Path, altered: str
) -> None:
    store = open_evidence(session, folder)
    await store.put(drafts())
    home = drafts()[0].row.verification_id
    cql = f"UPDATE evidence SET {altered} WHERE tenant = ? AND home = ? AND evidence_id = ? IF EXISTS"  # noqa: S608 - of the test

    await session.execute(Statement(cql), (ACME, home, DOCUMENT))

    with pytest.raises(Damaged):
        await store.get(ACME, DOCUMENT)
    await store.sweep_orphans(LATER)
    await store.discard(ACME, [DOCUMENT])
    assert not await is_stored(store, DOCUMENT)


async def test_another_process_soon_knows_that_a_key_was_destroyed(session: Session) -> None:
    moment = 0.0

    def open_vault() -> Vault:
        return CassandraVault(SubjectKeys(session, KeyRing(ROOT_KEY, clock=lambda: moment)))

    here, there = open_vault(), open_vault()
    sealed = await there.seal(ACME, SUBJECT, "fields", b"plain")
    await here.destroy(ACME, SUBJECT)

    moment += FRESH_S

    with pytest.raises(Erased):
        await there.open(ACME, SUBJECT, "fields", sealed)


async def test_what_was_sealed_under_any_of_the_keys_made_at_once_is_opened(session: Session) -> None:
    vaults = [CassandraVault(SubjectKeys(session, KeyRing(ROOT_KEY))) for _ in range(10)]

    sealed = await asyncio.gather(*(vault.seal(ACME, SUBJECT, "fields", b"plain") for vault in vaults))

    for vault in (vaults[0], CassandraVault(SubjectKeys(session, KeyRing(ROOT_KEY)))):
        assert [await vault.open(ACME, SUBJECT, "fields", one) for one in sealed] == [b"plain"] * 10


async def test_a_process_makes_one_key_however_often_it_is_asked_at_once(session: Session) -> None:
    keys = SubjectKeys(session, KeyRing(ROOT_KEY))

    made = await asyncio.gather(*(keys.claim(ACME, SUBJECT) for _ in range(5)))

    assert {one.wrapped for one in made} == {one.wrapped for one in [await keys.find(ACME, SUBJECT)] if one}


async def test_a_key_that_is_added_after_the_destruction_is_never_stored(session: Session) -> None:
    late, ring = SubjectKeys(session, KeyRing(ROOT_KEY)), KeyRing(ROOT_KEY)
    await late.claim(ACME, SUBJECT)
    await SubjectKeys(session, ring).destroy(ACME, SUBJECT)

    await session.execute(*added_key(ACME, SUBJECT, ring.make(ACME, SUBJECT).wrapped))

    standing = Statement("SELECT wrapped, made FROM subject_keys WHERE tenant = ? AND subject_id = ?")
    assert await session.execute(standing, (ACME, SUBJECT)) == [(TOMBSTONE, None)]
    with pytest.raises(Erased):
        await SubjectKeys(session, KeyRing(ROOT_KEY)).claim(ACME, SUBJECT)


async def test_a_subject_whose_one_key_an_earlier_version_stored_keeps_it(session: Session) -> None:
    old = KeyRing(ROOT_KEY).make(ACME, SUBJECT)
    insert = Statement(
        "INSERT INTO subject_keys (tenant, subject_id, wrapped) VALUES (?, ?, ?) IF NOT EXISTS"
    )
    await session.execute(insert, (ACME, SUBJECT, old.wrapped))

    claimed = await SubjectKeys(session, KeyRing(ROOT_KEY)).claim(ACME, SUBJECT)

    assert claimed.open("name", "kind", old.seal("name", "kind", b"plain")) == b"plain"


@pytest.mark.parametrize("lives", [0, 1, 2])
@pytest.mark.parametrize("unanswered", [False, True], ids=["unsent", "unanswered"])
async def test_a_destruction_that_died_anywhere_is_finished_by_the_next(
    session: Session, lives: int, *, unanswered: bool
) -> None:
    """It writes the list, the tombstone, and that nothing is left beside it."""
    await SubjectKeys(session, KeyRing(ROOT_KEY)).claim(ACME, SUBJECT)
    dead = SubjectKeys(dying(session, lives, unanswered=unanswered), KeyRing(ROOT_KEY))
    with pytest.raises(StoreUnavailable):
        await dead.destroy(ACME, SUBJECT)

    await SubjectKeys(session, KeyRing(ROOT_KEY)).destroy(ACME, SUBJECT)

    standing = Statement("SELECT wrapped, made FROM subject_keys WHERE tenant = ? AND subject_id = ?")
    assert await session.execute(standing, (ACME, SUBJECT)) == [(TOMBSTONE, None)]
