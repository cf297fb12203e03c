"""Data folders that earlier versions made are brought up and read: nothing of them is lost.

Each archive in `data_folders` is what `veristream demo --once` left, without `tries` and the broker's address
and users, and without the image of the passport, which is large. Its root key and everything in it are of
tests. Add one when the schema changes.
"""

import sqlite3
import tarfile
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from app.adapters.files.data_dir import DATABASE_FILE
from app.adapters.shared.opening import SchemaRefused
from app.adapters.sqlite.engine import prepare
from app.adapters.sqlite.migration import plan_migration, try_migration
from app.adapters.sqlite.schema import APPLICATION_ID, MIGRATIONS, NEWEST, OLDEST, standing_version
from app.composition.stores import Deployment, every_record, every_tenant, open_existing
from app.doctor.audit_chains import verify_audit
from app.settings import Settings
from schemas.audit import AuditFilter
from schemas.enums import VerificationStatus
from schemas.people import Reviewer
from schemas.sessions import VerificationSession
from schemas.transaction_decisions import StoredTransaction
from schemas.verifications import StoredVerification
from streams.ports.errors import Damaged
from streams.ports.records import RecordKind
from streams.retention.expiry import RecordExpiry
from streams.sessions.removal import SessionRemoval
from streams.verification.removal import PictureRemoval
from streams.webhooks.removal import DeliveryRemoval
from tests.journeys.service import entries, run_preloaded

ARCHIVES = sorted((Path(__file__).parent / "data_folders").glob("schema_*.tar.xz"))

TESTED = ("mode", "test")
"""The index under which everything of a demonstration is listed."""

VERIFICATIONS, EVIDENCE = 9, 28
"""What every archive holds."""

AUDIT_ROWS = {"schema_3": 31, "schema_4": 31, "schema_5": 43}
"""What each holds; rows of later starts come on top."""

TRANSACTIONS = {"schema_3": 0, "schema_4": 0, "schema_5": 12}
"""The first two were made before there were transactions."""


@pytest.fixture(params=ARCHIVES, ids=lambda archive: archive.name)
def archive(request: pytest.FixtureRequest) -> Path:
    """The packed data folder of an earlier version, or of this one."""
    made: Path = request.param
    return made


@pytest.fixture
def folder(archive: Path, tmp_path: Path) -> Path:
    """The data folder, unpacked."""
    unpack(archive, tmp_path)
    return tmp_path


def unpack(packed: Path, folder: Path) -> None:
    """Put the data folder of an earlier version somewhere."""
    with tarfile.open(packed) as archive:
        archive.extractall(folder, filter="data")


@pytest.fixture
async def upgraded(folder: Path) -> AsyncIterator[Deployment]:
    """The folder, opened by this version."""
    async with open_existing(Settings(data_dir=folder)) as deployment:
        yield deployment


async def test_every_verification_and_session_is_readable(upgraded: Deployment) -> None:
    found = [
        StoredVerification.from_bytes(record.body).verification
        for tenant in await every_tenant(upgraded)
        async for record in every_record(upgraded, tenant, RecordKind.VERIFICATION, TESTED)
    ]
    sessions = [
        VerificationSession.from_bytes(record.body)
        for tenant in await every_tenant(upgraded)
        async for record in every_record(upgraded, tenant, RecordKind.SESSION, TESTED)
    ]

    assert len(found) == len(sessions) == VERIFICATIONS
    assert {one.status for one in found} == set(VerificationStatus)
    assert {one.verification_id for one in sessions} == {one.verification_id for one in found}


def test_there_is_an_archive_of_every_schema_since_the_third() -> None:
    """The newest is that of this version, so that the next migration finds its predecessor here."""
    assert [archive.name for archive in ARCHIVES] == [f"schema_{n}.tar.xz" for n in range(3, NEWEST + 1)]


async def test_every_transaction_is_readable(archive: Path, upgraded: Deployment) -> None:
    found = [
        StoredTransaction.from_bytes(record.body).transaction
        for tenant in await every_tenant(upgraded)
        async for record in every_record(upgraded, tenant, RecordKind.TRANSACTION, TESTED)
    ]

    assert len(found) == TRANSACTIONS[schema_of(archive)]


async def test_the_audit_chains_hold_up_to_every_checkpoint(archive: Path, folder: Path) -> None:
    report = await verify_audit(Settings(data_dir=folder))

    assert report.ok, report
    assert sum(chain.rows + chain.waiting for chain in report.chains) == AUDIT_ROWS[schema_of(archive)]
    assert report.checkpoints.newest is not None


async def test_all_evidence_opens_but_the_image_that_was_left_out(folder: Path, upgraded: Deployment) -> None:
    with closing(sqlite3.connect(folder / DATABASE_FILE)) as connection:
        rows = connection.execute("SELECT tenant, evidence_id FROM evidence").fetchall()
    opened, missing = 0, []
    for tenant, evidence in rows:
        try:
            opened += bool(await upgraded.stores.evidence.get(tenant, evidence))
        except Damaged:
            missing.append(evidence)

    assert (opened, len(missing)) == (EVIDENCE - 1, 1)


async def test_what_ends_by_age_ends_and_what_stays_stays(folder: Path, upgraded: Deployment) -> None:
    """Acts and sign-ins of a version that listed neither by age."""
    later = datetime.now(UTC) + timedelta(days=400)
    before = kinds_of(folder)
    for each in (DeliveryRemoval, SessionRemoval, PictureRemoval, RecordExpiry):
        await each(upgraded.stores, lambda: later).sweep()
    after = kinds_of(folder)

    assert {kind for kind in before if kind not in after} >= {"act", "reviewer_session", "delivery"}
    assert after["verification"] == after["session"] == VERIFICATIONS
    assert after["reviewer"] == before["reviewer"]


async def test_members_and_addresses_in_audit_rows_open(upgraded: Deployment) -> None:
    tenants = await every_tenant(upgraded)
    rows = [
        row
        for tenant in tenants
        for row in await upgraded.stores.audit_log.page(tenant, AuditFilter(), limit=100)
    ]
    members = [
        Reviewer.from_bytes(record.body)
        for tenant in tenants
        async for record in every_record(upgraded, tenant, RecordKind.REVIEWER, ("all", "reviewer"))
    ]

    assert {member.email for member in members} >= {"owner@demo-bank.example"}
    assert all(str(row.context.get("ip", "")).count("sealed") == 0 for row in rows)


def test_a_start_keeps_a_copy_of_an_older_file_and_the_copy_opens(tmp_path: Path) -> None:
    """The oldest schema, brought up in place; the copy beside it is still of the oldest."""
    file = tmp_path / DATABASE_FILE
    make_oldest(file)
    planned = plan_migration(file)

    prepare(file)

    copy = file.with_name(f"{DATABASE_FILE}.schema-{OLDEST}")
    assert planned.steps == tuple(f"schema {n} to {n + 1}" for n in range(OLDEST, NEWEST))
    assert (version_of(file), version_of(copy)) == (NEWEST, OLDEST)
    assert copy.stat().st_mode & 0o077 == 0
    assert rows_in(copy) == rows_in(file) == [("kept", b"value")]
    assert plan_migration(file).steps == ()


def test_a_new_file_has_no_copy_beside_it(tmp_path: Path) -> None:
    prepare(tmp_path / DATABASE_FILE)
    prepare(tmp_path / DATABASE_FILE)

    assert not list(tmp_path.glob("*.schema-*"))


def test_a_file_that_cannot_be_copied_is_not_migrated(tmp_path: Path) -> None:
    file = tmp_path / DATABASE_FILE
    make_oldest(file)
    (tmp_path / f"{DATABASE_FILE}.schema-{OLDEST}").mkdir()

    with pytest.raises(SchemaRefused, match="is not migrated"):
        prepare(file)
    assert version_of(file) == OLDEST
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.startswith(".")) == []


async def test_a_migration_can_be_tried_out_and_looked_at(tmp_path: Path) -> None:
    """`--status` and `--dry-run` leave the file as it is; then `migrate` takes every step."""
    file = tmp_path / DATABASE_FILE
    make_oldest(file)
    shown = [await run_preloaded(tmp_path, "migrate", word) for word in ("--status", "--dry-run")]
    assert (version_of(file), entries(tmp_path)) == (OLDEST, [DATABASE_FILE])

    migrated = await run_preloaded(tmp_path, "migrate")

    assert [status for status, *_ in (*shown, migrated)] == [0, 0, 0]
    assert all(f"schema {OLDEST} to {OLDEST + 1}" in out for _, out, _ in shown)
    assert version_of(file) == NEWEST


@pytest.mark.parametrize("words", [("--status",), ("--dry-run",), ()], ids=str)
async def test_a_newer_file_is_refused(tmp_path: Path, words: tuple[str, ...]) -> None:
    file = tmp_path / DATABASE_FILE
    prepare(file)
    with closing(sqlite3.connect(file)) as connection:
        connection.execute(f"PRAGMA user_version = {NEWEST + 1}")

    status, _, said = await run_preloaded(tmp_path, "migrate", *words)

    assert status == 2
    assert "upgrade" in said
    with pytest.raises(SchemaRefused):
        try_migration(file)


def schema_of(archive: Path) -> str:
    """The name of an archive's schema."""
    return archive.name.partition(".")[0]


def kinds_of(folder: Path) -> Counter[str]:
    """How many records of each kind there are."""
    with closing(sqlite3.connect(folder / DATABASE_FILE)) as connection:
        return Counter(kind for (kind,) in connection.execute("SELECT kind FROM records"))


def make_oldest(file: Path) -> None:
    """Make a file as the first release did, with something in it."""
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        connection.executescript(MIGRATIONS[0])
        connection.execute("INSERT INTO settings VALUES ('kept', ?)", (b"value",))
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {OLDEST}")


def version_of(file: Path) -> int:
    """The schema of a file."""
    with closing(sqlite3.connect(file)) as connection:
        return standing_version(connection)


def rows_in(file: Path) -> list[tuple[str, bytes]]:
    """What `make_oldest` put in."""
    with closing(sqlite3.connect(file)) as connection:
        return connection.execute("SELECT name, value FROM settings").fetchall()
