"""What only the store of one node promises: it survives a restart, a full disk and its neighbours."""

import asyncio
import fcntl
import os
import resource
import sqlite3
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from typing_extensions import override

from app.adapters.files.data_dir import BLOBS_FOLDER, DATABASE_FILE
from app.adapters.security.crypto import RootKey, RootKeyRefused
from app.adapters.shared.opening import SchemaRefused
from app.adapters.sqlite import engine
from app.adapters.sqlite.batch_thread import ALONG_EVERY
from app.adapters.sqlite.log_folding import FOLD_COMMITS, LogFolder
from app.adapters.sqlite.stores import open_sqlite_stores
from schemas.audit import AuditFilter
from schemas.ids import EvidenceId, SubjectId, VerificationId, derive_id
from schemas.problems import NotFound, StoreUnavailable
from streams.ports.errors import Damaged, Erased
from streams.ports.records import Change, RecordKind
from streams.ports.stores import Stores
from tests.builders import (
    ACME,
    NOW,
    SUBJECT,
    VERIFICATION,
    build_audit_event,
    build_decision_event,
    build_evidence_draft,
    build_record,
)
from tests.contracts.adapters import ROOT_KEY, SqliteBreaker

DOCUMENT = EvidenceId(derive_id("evd", "document"))
LARGE = bytes(300_000)
CHANGE = Change(ACME, (build_record(),), (build_audit_event(),), (build_decision_event(),))


def files(folder: Path) -> list[Path]:
    """The blobs in the folder."""
    return [path for path in (folder / BLOBS_FOLDER).rglob("*") if path.is_file()]


def list_folder(folder: Path) -> list[Path]:
    """The files right in the folder."""
    return [path for path in folder.iterdir() if path.is_file()]


def holding(folder: Path, secret: bytes) -> list[Path]:
    """The files of the store in which the bytes stand."""
    return [path for path in list_folder(folder) if secret in path.read_bytes()]


async def test_the_log_is_folded_into_the_file_beside_the_commits(tmp_path: Path) -> None:
    database = tmp_path / DATABASE_FILE
    async with open_sqlite_stores(tmp_path, ROOT_KEY) as stores:
        for number in range(FOLD_COMMITS):
            record = build_record(id=f"folded-{number}")
            await stores.journal.commit(Change(ACME, (record,)))

        async with asyncio.timeout(60):
            while "folded-0" not in rows_without_the_log(database):  # noqa: ASYNC110 - the file has no event
                await asyncio.sleep(0.01)


async def test_what_is_committed_while_the_log_is_folded_is_folded_right_afterwards(tmp_path: Path) -> None:
    """The next commit can then begin the log anew, which would otherwise grow as long as there is load."""
    database = tmp_path / DATABASE_FILE

    class Folding(sqlite3.Connection):
        """A connection beside which somebody commits when it has folded for the first time."""

        committed = False

        @override
        def execute(self, statement: str, *values: Any) -> sqlite3.Cursor:
            cursor = super().execute(statement, *values)
            if "wal_checkpoint" in statement and not Folding.committed:
                Folding.committed = True
                with closing(sqlite3.connect(database, isolation_level=None)) as other:
                    other.execute("UPDATE records SET id = 'committed-meanwhile'")
            return cursor

    async with open_sqlite_stores(tmp_path, ROOT_KEY) as stores:
        await stores.journal.commit(Change(ACME, (build_record(),)))
        folder = LogFolder(lambda: sqlite3.connect(database, isolation_level=None, factory=Folding))
        for _ in range(FOLD_COMMITS):
            folder.note_commit()
        async with asyncio.timeout(60):
            while not Folding.committed:  # noqa: ASYNC110 - the thread has no event
                await asyncio.sleep(0.01)
        await asyncio.to_thread(folder.close)

        assert rows_without_the_log(database) == {"committed-meanwhile"}


def rows_without_the_log(database: Path) -> set[str]:
    """The ids of the records that are in the file itself."""
    try:
        with closing(sqlite3.connect(f"file:{database}?immutable=1", uri=True)) as own:
            return {found for (found,) in own.execute("SELECT id FROM records")}
    except sqlite3.Error:  # it is being written
        return set()


async def test_everything_is_there_after_a_restart(tmp_path: Path) -> None:
    async with open_sqlite_stores(tmp_path, ROOT_KEY) as stores:
        await stores.journal.commit(CHANGE)
        await stores.evidence.put([build_evidence_draft(LARGE)])
        sealed = await stores.vault.seal(ACME, SUBJECT, "fields", b"plain")

    async with open_sqlite_stores(tmp_path, ROOT_KEY) as stores:
        record = await stores.records.get(ACME, RecordKind.VERIFICATION, VERIFICATION)
        assert record.body == build_record().body
        assert await stores.audit_log.unsealed(ACME, 9) == [build_audit_event()]
        assert await stores.journal.pending_events(9) == [build_decision_event()]
        assert await stores.evidence.get(ACME, DOCUMENT) == LARGE
        assert await stores.vault.open(ACME, SUBJECT, "fields", sealed) == b"plain"


async def test_an_erasure_is_there_after_a_restart(tmp_path: Path) -> None:
    async with open_sqlite_stores(tmp_path, ROOT_KEY) as stores:
        await stores.evidence.put([build_evidence_draft()])
        await stores.vault.destroy(ACME, SUBJECT)

    async with open_sqlite_stores(tmp_path, ROOT_KEY) as stores:
        with pytest.raises(Erased):
            await stores.evidence.get(ACME, DOCUMENT)


async def test_a_destroyed_key_leaves_no_trace_on_the_disk(tmp_path: Path) -> None:
    async with open_sqlite_stores(tmp_path, ROOT_KEY) as stores:
        await stores.vault.seal(ACME, SUBJECT, "fields", b"plain")
        wrapped = SqliteBreaker(tmp_path).run("SELECT wrapped FROM subject_keys")[0][0]
        assert isinstance(wrapped, bytes)
        assert holding(tmp_path, wrapped) != []

        await stores.vault.destroy(ACME, SUBJECT)

        assert holding(tmp_path, wrapped) == []


async def test_another_process_notices_an_erasure(tmp_path: Path) -> None:
    async with (
        open_sqlite_stores(tmp_path, ROOT_KEY) as one,
        open_sqlite_stores(tmp_path, ROOT_KEY) as other,
    ):
        await one.evidence.put([build_evidence_draft()])
        sealed = await other.vault.seal(ACME, SUBJECT, "fields", b"plain")

        await one.vault.destroy(ACME, SUBJECT)

        with pytest.raises(Erased):
            await other.evidence.get(ACME, DOCUMENT)
        with pytest.raises(Erased):
            await other.vault.open(ACME, SUBJECT, "fields", sealed)


async def test_two_processes_agree_on_a_new_subjects_key(tmp_path: Path) -> None:
    async with (
        open_sqlite_stores(tmp_path, ROOT_KEY) as one,
        open_sqlite_stores(tmp_path, ROOT_KEY) as other,
    ):
        subjects = [SubjectId(f"customer-{n}") for n in range(20)]
        asked = [(stores, subject) for subject in subjects for stores in (one, other)]
        sealed = await asyncio.gather(*(s.vault.seal(ACME, subject, "f", b"plain") for s, subject in asked))

        for (stores, subject), value in zip(asked, sealed, strict=True):
            reader = other if stores is one else one
            assert await reader.vault.open(ACME, subject, "f", value) == b"plain"


WRITER = """
import asyncio, sys
from pathlib import Path
from app.adapters.sqlite.stores import open_sqlite_stores
from streams.ports.records import Change
from tests.builders import *
from tests.contracts.adapters import ROOT_KEY

async def main(folder, name):
    async with open_sqlite_stores(Path(folder), ROOT_KEY) as stores:
        for n in range(40):
            shared = build_record(id=f"ver_{n}", body=name.encode())
            own = build_record(id=f"ver_{name}_{n}")
            draft = build_evidence_draft(name.encode() * 20_000, evidence_id=derive_id("evd", str(n)))
            row = build_audit_event(event_id=derive_id("aud", name, str(n)))
            await asyncio.gather(
                stores.journal.commit(Change(ACME, (shared,))),
                stores.journal.commit(Change(ACME, (own,), (row,))),
                stores.evidence.put([draft]),
            )

asyncio.run(main(*sys.argv[1:]))
"""


async def test_processes_that_open_and_write_at_once_lose_nothing(tmp_path: Path) -> None:
    names = ("one", "two", "three")
    writers = [
        await asyncio.create_subprocess_exec(sys.executable, "-c", WRITER, str(tmp_path), name)
        for name in names
    ]

    assert [await writer.wait() for writer in writers] == [0, 0, 0]

    async with open_sqlite_stores(tmp_path, ROOT_KEY) as stores:
        for n in range(40):
            shared = await stores.records.get(ACME, RecordKind.VERIFICATION, f"ver_{n}")
            assert shared.body.decode() in names
            for name in names:
                await stores.records.get(ACME, RecordKind.VERIFICATION, f"ver_{name}_{n}")
            content = await stores.evidence.get(ACME, EvidenceId(derive_id("evd", str(n))))
            assert content[:60_000].decode().strip("onetwhr") == ""
        assert len(await stores.audit_log.unsealed(ACME, 200)) == 120
    assert len(files(tmp_path)) <= 40


@contextmanager
def full_disk(free_bytes: int) -> Iterator[None]:
    """No file may grow beyond so many bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (free_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A data folder."""
    return tmp_path


async def test_a_full_disk_keeps_nothing_of_a_put(folder: Path) -> None:
    async with open_sqlite_stores(folder, ROOT_KEY) as stores:
        with full_disk(100_000), pytest.raises(StoreUnavailable):
            await stores.evidence.put([build_evidence_draft(LARGE)])

        assert files(folder) == []
        with pytest.raises(NotFound):
            await stores.evidence.describe(ACME, DOCUMENT)


async def test_a_disk_full_at_the_second_image_keeps_nothing_of_the_first(folder: Path) -> None:
    async with open_sqlite_stores(folder, ROOT_KEY) as stores:
        second = build_evidence_draft(LARGE, evidence_id=EvidenceId(derive_id("evd", "second")))
        first = build_evidence_draft(bytes(90_000))
        with full_disk(100_000), pytest.raises(StoreUnavailable):
            await stores.evidence.put([first, second])

        assert files(folder) == []
        with pytest.raises(NotFound):
            await stores.evidence.describe(ACME, DOCUMENT)


async def test_the_store_goes_on_once_the_disk_has_room_again(folder: Path) -> None:
    async with open_sqlite_stores(folder, ROOT_KEY) as stores:
        with full_disk(1), pytest.raises(StoreUnavailable):
            await stores.journal.commit(CHANGE)
        with pytest.raises(NotFound):
            await stores.records.get(ACME, RecordKind.VERIFICATION, VERIFICATION)

        committed = await stores.journal.commit(CHANGE)
        await stores.evidence.put([build_evidence_draft(LARGE)])

        assert committed.won
        assert await stores.evidence.get(ACME, DOCUMENT) == LARGE


async def test_a_full_disk_spares_what_was_committed_before(folder: Path) -> None:
    async with open_sqlite_stores(folder, ROOT_KEY) as stores:
        await stores.journal.commit(CHANGE)

        with full_disk(1), pytest.raises(StoreUnavailable):
            await stores.journal.commit(Change(ACME, (build_record(id="ver_2"),)))

        assert len(await stores.audit_log.page(ACME, AuditFilter(), limit=9)) == 1


async def test_a_store_locked_by_a_neighbour_is_unavailable_for_now(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "BUSY_TIMEOUT_MS", 20)
    async with open_sqlite_stores(folder, ROOT_KEY) as stores:
        with closing(sqlite3.connect(folder / DATABASE_FILE, isolation_level=None)) as neighbour:
            neighbour.execute("BEGIN IMMEDIATE")
            with pytest.raises(StoreUnavailable):
                await stores.journal.commit(CHANGE)

        assert (await stores.journal.commit(CHANGE)).won


async def test_who_writes_without_a_pause_lets_a_neighbour_write_in_its_turn(folder: Path) -> None:
    async with AsyncExitStack() as stack:
        busy, neighbour = [
            (await stack.enter_async_context(open_sqlite_stores(folder, ROOT_KEY))).journal._engine  # type: ignore[attr-defined]  # the engine is the adapter's own
            for _ in range(2)
        ]
        commits = 0

        def slow(_: sqlite3.Connection) -> None:
            nonlocal commits
            time.sleep(0.005)
            commits += 1

        async def write_on() -> None:
            while True:
                await busy.write(slow)

        writing = [asyncio.create_task(write_on()) for _ in range(2)]  # one waits while the other is written
        passed_by = list[int]()
        for _ in range(15):
            await asyncio.sleep(0.01)
            before = commits
            await neighbour.write(lambda _: None)
            passed_by.append(commits - before)
        for task in writing:
            task.cancel()
        await asyncio.wait(writing)

        assert sum(passed_by) <= 5 * len(passed_by), passed_by


@contextmanager
def turn_of_a_neighbour(folder: Path) -> Iterator[None]:
    """Have the lock that another process has while it waits for the database."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)


async def test_a_neighbour_that_is_stopped_in_its_turn_holds_nobody_up(folder: Path) -> None:
    async with open_sqlite_stores(folder, ROOT_KEY) as stores:
        with turn_of_a_neighbour(folder):
            assert (await stores.journal.commit(CHANGE)).won


async def test_look_ups_that_wait_at_once_for_a_locked_file_wait_once(folder: Path) -> None:
    async with open_sqlite_stores(folder, ROOT_KEY) as stores:
        find = stores.records._engine.find  # type: ignore[attr-defined]  # the engine is the adapter's own
        tries: list[str] = []

        def locked(_: sqlite3.Connection) -> None:
            tries.append("waited")
            raise sqlite3.OperationalError("database is locked")

        answers = await asyncio.gather(*(find(locked) for _ in range(5)), return_exceptions=True)

        assert [type(answer) for answer in answers] == [StoreUnavailable] * 5
        assert len(tries) == 1


async def test_a_defect_in_one_job_leaves_nobody_waiting(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_sqlite_stores(folder, ROOT_KEY) as stores:
        writes = stores.journal._engine.write  # type: ignore[attr-defined]  # the engine is the adapter's own

        def defective(_: sqlite3.Connection) -> None:
            raise RuntimeError("a defect")

        answers = await asyncio.gather(
            stores.journal.commit(CHANGE), writes(defective), return_exceptions=True
        )

        assert any(isinstance(answer, StoreUnavailable) for answer in answers)
        await stores.journal.commit(CHANGE)
        await stores.records.get(ACME, RecordKind.VERIFICATION, VERIFICATION)
    assert "batch thread of the store failed" in caplog.text


async def test_an_unexpected_error_while_a_write_is_prepared_reaches_the_caller(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_sqlite_stores(folder, ROOT_KEY) as stores:
        stage_and_write = stores.evidence._engine.stage_and_write  # type: ignore[attr-defined]  # the adapter's own

        def defective(_: sqlite3.Connection) -> None:
            raise RuntimeError("a defect")

        with pytest.raises(StoreUnavailable):
            async with asyncio.timeout(60):
                await stage_and_write(defective)
        assert (await stores.journal.commit(CHANGE)).won
    assert "batch thread of the store failed" in caplog.text


async def test_a_defect_while_images_are_sealed_reaches_the_asker(folder: Path) -> None:
    async with open_sqlite_stores(folder, ROOT_KEY) as stores:
        broken = build_evidence_draft(content=None)  # type: ignore[arg-type]  # a defect of the caller

        with pytest.raises(TypeError):
            await stores.evidence.put([broken])


async def test_a_closed_store_is_unavailable(folder: Path) -> None:
    async with open_sqlite_stores(folder, ROOT_KEY) as stores:
        pass

    with pytest.raises(StoreUnavailable):
        await stores.journal.commit(CHANGE)
    with pytest.raises(StoreUnavailable):
        await stores.records.get(ACME, RecordKind.VERIFICATION, VERIFICATION)


async def test_the_database_is_readable_by_its_owner_alone(folder: Path) -> None:
    async with open_sqlite_stores(folder, ROOT_KEY) as stores:
        await stores.journal.commit(CHANGE)

        assert {file.stat().st_mode & 0o077 for file in list_folder(folder)} == {0}


async def put_and_lose(stores: Stores, folder: Path) -> None:
    """Evidence whose file is gone."""
    await stores.evidence.put([build_evidence_draft(LARGE)])
    for file in files(folder):
        file.unlink()


async def test_evidence_whose_file_is_gone_is_damaged(folder: Path) -> None:
    async with open_sqlite_stores(folder, ROOT_KEY) as stores:
        await put_and_lose(stores, folder)

        with pytest.raises(Damaged):
            await stores.evidence.get(ACME, DOCUMENT)


async def test_evidence_whose_kind_was_altered_is_damaged(folder: Path) -> None:
    async with open_sqlite_stores(folder, ROOT_KEY) as stores:
        await stores.evidence.put([build_evidence_draft()])
        SqliteBreaker(folder).run("UPDATE evidence SET kind = 'SELFIE'")

        with pytest.raises(Damaged):
            await stores.evidence.get(ACME, DOCUMENT)


async def test_a_key_taken_from_another_subject_opens_nothing(folder: Path) -> None:
    async with open_sqlite_stores(folder, ROOT_KEY) as stores:
        await stores.evidence.put([build_evidence_draft()])
        SqliteBreaker(folder).run("UPDATE subject_keys SET subject_id = 'somebody'")
        SqliteBreaker(folder).run("UPDATE evidence SET subject_id = 'somebody'")

        with pytest.raises(Damaged):
            await stores.evidence.get(ACME, DOCUMENT)


async def test_the_sweeper_takes_what_an_interrupted_put_left(folder: Path) -> None:
    async with open_sqlite_stores(folder, ROOT_KEY) as stores:
        await stores.evidence.put([build_evidence_draft(LARGE)])
        (stored,) = files(folder)
        stored.with_name(f"{DOCUMENT}.0123456789abcdef").write_bytes(b"left behind")

        swept = await stores.evidence.sweep_orphans(datetime.now(UTC) + timedelta(minutes=1))

        assert (swept, files(folder)) == (1, [stored])


async def test_the_sweeper_spares_what_is_being_put(folder: Path) -> None:
    async with open_sqlite_stores(folder, ROOT_KEY) as stores:
        await stores.evidence.put([build_evidence_draft(LARGE)])
        (stored,) = files(folder)
        stored.with_name(f"{DOCUMENT}.0123456789abcdef").write_bytes(b"not yet named")

        assert await stores.evidence.sweep_orphans(datetime.now(UTC) - timedelta(hours=1)) == 0


async def test_discarded_evidence_leaves_no_file(folder: Path) -> None:
    async with open_sqlite_stores(folder, ROOT_KEY) as stores:
        await stores.evidence.put([build_evidence_draft(LARGE)])

        await stores.evidence.discard(ACME, [DOCUMENT])

        assert files(folder) == []


@pytest.mark.parametrize("evidence_id", ["../../../etc/passwd", "evd_1", "", derive_id("evd", "x") + "/.."])
async def test_no_file_is_named_after_anything_but_an_id(folder: Path, evidence_id: str) -> None:
    async with open_sqlite_stores(folder, ROOT_KEY) as stores:
        with pytest.raises(ValueError, match="form"):
            await stores.evidence.put([build_evidence_draft(LARGE, evidence_id=EvidenceId(evidence_id))])

    assert files(folder) == []


async def test_blobs_are_readable_by_their_owner_alone(folder: Path) -> None:
    async with open_sqlite_stores(folder, ROOT_KEY) as stores:
        await stores.evidence.put([build_evidence_draft(LARGE, verification_id=VerificationId("ver_1"))])

    assert [file.stat().st_mode & 0o077 for file in files(folder)] == [0]


async def test_another_root_key_is_refused_at_start(folder: Path) -> None:
    async with open_sqlite_stores(folder, ROOT_KEY):
        pass

    with pytest.raises(RootKeyRefused):
        async with open_sqlite_stores(folder, RootKey(bytes(32))):
            pass


async def test_a_newer_schema_is_refused(folder: Path) -> None:
    async with open_sqlite_stores(folder, ROOT_KEY):
        pass
    SqliteBreaker(folder).run("PRAGMA user_version = 99")

    with pytest.raises(SchemaRefused, match="upgrade"):
        async with open_sqlite_stores(folder, ROOT_KEY):
            pass


async def test_a_store_of_schema_2_gets_the_list_of_erasures_and_keeps_what_it_has(folder: Path) -> None:
    async with open_sqlite_stores(folder, ROOT_KEY) as stores:
        sealed = await stores.vault.seal(ACME, SUBJECT, "fields", b"plain")
    SqliteBreaker(folder).run("DROP TABLE erasures")
    SqliteBreaker(folder).run("DROP INDEX evidence_by_age")
    SqliteBreaker(folder).run("PRAGMA user_version = 2")

    async with open_sqlite_stores(folder, ROOT_KEY) as stores:
        assert await stores.vault.open(ACME, SUBJECT, "fields", sealed) == b"plain"
        await stores.vault.destroy(ACME, SUBJECT)
        assert list(await stores.vault.erased(ACME, after=0, limit=9)) == [SUBJECT]


async def test_a_schema_of_before_the_first_release_is_refused(folder: Path) -> None:
    async with open_sqlite_stores(folder, ROOT_KEY):
        pass
    SqliteBreaker(folder).run("PRAGMA user_version = 1")

    with pytest.raises(SchemaRefused, match="begin with an empty one"):
        async with open_sqlite_stores(folder, ROOT_KEY):
            pass


async def test_another_programs_database_is_refused(folder: Path) -> None:
    with closing(sqlite3.connect(folder / DATABASE_FILE)) as foreign:
        foreign.execute("CREATE TABLE theirs (a)")

    with pytest.raises(SchemaRefused):
        async with open_sqlite_stores(folder, ROOT_KEY):
            pass


async def test_a_file_that_is_no_database_is_unavailable(folder: Path) -> None:
    (folder / DATABASE_FILE).write_bytes(b"rubbish" * 1000)

    with pytest.raises(StoreUnavailable):
        async with open_sqlite_stores(folder, ROOT_KEY):
            pass


KILLED = """
import asyncio, os, sys
from pathlib import Path
from app.adapters.sqlite.stores import open_sqlite_stores
from streams.ports.records import Change
from tests.builders import *
from tests.contracts.adapters import ROOT_KEY

async def main(folder):
    async with open_sqlite_stores(Path(folder), ROOT_KEY) as stores:
        for n in range(10_000):
            draft = build_evidence_draft(bytes(80_000), evidence_id=derive_id("evd", str(n)))
            await stores.evidence.put([draft])
            row = build_audit_event(event_id=derive_id("aud", str(n)))
            await stores.journal.commit(Change(ACME, (build_record(id=f"ver_{n}"),), (row,)))
            print(n, flush=True)

asyncio.run(main(*sys.argv[1:]))
"""


async def test_whatever_was_answered_before_a_kill_is_there(folder: Path) -> None:
    victim = subprocess.Popen([sys.executable, "-c", KILLED, str(folder)], stdout=subprocess.PIPE, text=True)  # noqa: ASYNC220, S603 - the test waits for its lines anyway
    assert victim.stdout is not None
    answered = [int(victim.stdout.readline()) for _ in range(30)]
    victim.kill()
    answered += [int(line) for line in victim.stdout.read().splitlines() if line.isdigit()]
    victim.stdout.close()
    victim.wait()

    async with open_sqlite_stores(folder, ROOT_KEY) as stores:
        for n in answered:
            await stores.records.get(ACME, RecordKind.VERIFICATION, f"ver_{n}")
            assert len(await stores.evidence.get(ACME, EvidenceId(derive_id("evd", str(n))))) == 80_000
        assert len(await stores.audit_log.page(ACME, AuditFilter(since=NOW), limit=10_000)) >= len(answered)


@asynccontextmanager
async def opened_engine(folder: Path) -> AsyncIterator[engine.Engine]:
    """A store's engine alone."""
    engine.prepare(folder / DATABASE_FILE)
    opened = engine.Engine(folder / DATABASE_FILE, asyncio.get_running_loop())
    try:
        yield opened
    finally:
        await opened.aclose()


async def test_a_removal_goes_along_with_every_eighth_write_of_others(folder: Path) -> None:
    async with opened_engine(folder) as opened:
        await opened.write(lambda _: None)
        removed = opened.write_along(lambda _: "removed", quiet_s=3_600.0)
        for _ in range(ALONG_EVERY - 2):
            await opened.write(lambda _: None)
        early = removed.done()
        await opened.write(lambda _: None)

        assert (early, await removed) == (False, "removed")


async def test_a_removal_runs_by_itself_once_nobody_wrote_for_a_while(folder: Path) -> None:
    async with opened_engine(folder) as opened:
        await opened.write(lambda _: None)

        assert await opened.write_along(lambda _: "removed", quiet_s=0.05) == "removed"
        assert opened.is_quiet(0.05)
        assert not opened.is_quiet(3_600.0)


async def test_a_removal_that_waits_for_others_is_carried_out_before_the_file_is_closed(folder: Path) -> None:
    async with opened_engine(folder) as opened:
        await opened.write(lambda _: None)
        removed = opened.write_along(lambda _: "removed", quiet_s=3_600.0)

    assert await removed == "removed"
