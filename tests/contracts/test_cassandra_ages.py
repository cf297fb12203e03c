"""Evidence by age in Cassandra: removals that were cut short, and what was stored before there was a list."""

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from app.adapters.cassandra.connection import Address
from app.adapters.cassandra.evidence import CassandraEvidenceStore
from app.adapters.cassandra.evidence_ages import CassandraEvidenceAges
from app.adapters.cassandra.keys import SubjectKeys
from app.adapters.cassandra.keyspace import migrate
from app.adapters.cassandra.schema import NEWEST, WITH_AGES
from app.adapters.cassandra.session import Session, Statement
from app.adapters.files.blobs import BlobFiles
from app.adapters.security.keyring import KeyRing
from schemas.enums import RetentionPolicy
from schemas.ids import EvidenceId, derive_id
from schemas.problems import StoreUnavailable
from tests.builders import ACME, NOW, build_evidence_draft
from tests.contracts.adapters import ROOT_KEY
from tests.contracts.cassandra_adapter import DATACENTER, KEYSPACE, open_cassandra, session_of
from tests.contracts.cassandra_deaths import dying

pytestmark = pytest.mark.engines

DOCUMENT = EvidenceId(derive_id("evd", "document"))
LATER = NOW + timedelta(days=2)
HINTS = Statement("SELECT evidence_id FROM evidence_ages")
DAYS = Statement("SELECT day FROM evidence_days")
SET_VERSION = Statement("UPDATE settings SET value = ? WHERE name = 'schema_version' IF EXISTS")


@pytest.fixture
async def session(contracts_keyspace: Address, tmp_path: Path) -> AsyncIterator[Session]:
    """A session to tables with nothing in them."""
    async with open_cassandra(contracts_keyspace, tmp_path):
        yield session_of(contracts_keyspace)


def open_evidence(session: Session, folder: Path) -> CassandraEvidenceStore:
    """The evidence as a process of its own has it open."""
    keys = SubjectKeys(session, KeyRing(ROOT_KEY))
    return CassandraEvidenceStore(session, keys, BlobFiles(folder / "blobs", durable=False))


def open_ages(session: Session, folder: Path) -> CassandraEvidenceAges:
    """Its ages, as the same process has them open."""
    return CassandraEvidenceAges(session, open_evidence(session, folder))


async def oldest(session: Session, folder: Path) -> list[EvidenceId]:
    """What is listed."""
    policy = RetentionPolicy.DOCUMENT_P90D
    rows = await open_ages(session, folder).oldest(ACME, policy, created_until=LATER, limit=9)
    return [row.evidence_id for row in rows]


@pytest.mark.parametrize("unanswered", [False, True], ids=["unsent", "unanswered"])
@pytest.mark.parametrize("lives", range(2))
async def test_a_removal_that_was_cut_short_is_finished_later(
    session: Session, tmp_path: Path, lives: int, *, unanswered: bool
) -> None:
    await open_evidence(session, tmp_path).put([build_evidence_draft()])
    with pytest.raises(StoreUnavailable):
        await open_ages(dying(session, lives, unanswered=unanswered), tmp_path).remove(ACME, [DOCUMENT])

    found = await oldest(session, tmp_path)
    await open_ages(session, tmp_path).remove(ACME, found)

    assert found == ([DOCUMENT] if (lives, unanswered) == (0, False) else [])
    assert await oldest(session, tmp_path) == []
    assert await session.execute(HINTS) == []
    assert await session.execute(DAYS) == []


async def test_a_migration_lists_what_was_stored_before(
    contracts_keyspace: Address, session: Session, tmp_path: Path
) -> None:
    await open_evidence(session, tmp_path).put([build_evidence_draft()])
    for table in ("evidence_ages", "evidence_days"):
        await session.define(f"TRUNCATE {table}")
    before = await oldest(session, tmp_path)
    await session.execute(SET_VERSION, (str(WITH_AGES - 1).encode(),))

    done = await migrate(contracts_keyspace, KEYSPACE, {DATACENTER: 1})

    assert (before, done.before, done.after) == ([], WITH_AGES - 1, NEWEST)
    assert await oldest(session, tmp_path) == [DOCUMENT]
