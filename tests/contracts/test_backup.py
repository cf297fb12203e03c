"""What a backup refuses, and what is left of one, or of a restore, that was killed."""

import asyncio
import base64
import hashlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer  # type: ignore[import-untyped]  # ships no types

from app.adapters.files.data_dir import (
    BLOBS_FOLDER,
    BROKER_FOLDER,
    DATABASE_FILE,
    RESTORED_FILE,
    ROOT_KEY_FILE,
)
from app.adapters.security.crypto import RootKey, load_root_key
from app.adapters.sqlite.stores import open_sqlite_stores
from app.backup import restoring, taking
from app.backup.manifest import MANIFEST_FILE
from app.backup.moment import pinned
from app.backup.restoring import activate_restored, restore_backup, verify_backup
from app.backup.segments_at import LogSnapshot, whole_bytes
from app.backup.taking import take_backup
from app.broker.server import Broker
from app.broker.settings import BrokerSettings
from app.cli import roles
from app.cli.backup import take
from app.composition.restore_marker import read_mark
from app.composition.stores import open_deployment
from app.process.startup import CannotStart
from app.settings import Settings
from tests.builders import ACME, build_evidence_draft
from tests.journeys.service import entries

LARGE: Final = b"large image" * 20_000
OTHER_KEY: Final = hashlib.sha256(b"another deployment").hexdigest()
TOPIC: Final = "idv.decisions.v1"
VALUES: Final = (b"first", b"second", b"third")

KILLED_AT: Final = """
import os, signal, sys
left, sync = int(sys.argv.pop(1)), os.fsync
def fsync(descriptor):
    global left
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    sync(descriptor)
os.fsync = fsync
from app.__main__ import main
main()
"""
"""Runs a command that is killed where it would make something durable for the nth time."""


@dataclass(frozen=True)
class Deployed:
    """A data folder with evidence in a file, a log of one topic, and a backup of it."""

    settings: Settings
    root_key: RootKey
    backup: Path


def silent(_: str) -> None:
    """Report nobody how far the work is."""


def back_up(settings: Settings, place: Path, root_key: RootKey) -> None:
    """Take a backup of a deployment."""
    with ThreadPoolExecutor(1) as pinning:
        take_backup(settings, place, root_key, silent, pinning)


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Deployed:
    """A deployment that does not run, and a backup that only tests of reading look at."""
    folder = tmp_path_factory.mktemp("deployed")
    settings = Settings(data_dir=folder / "data")
    asyncio.run(fill(settings))
    root_key = load_root_key(None, settings.data_dir / ROOT_KEY_FILE)
    back_up(settings, folder / "backup", root_key)
    return Deployed(settings, root_key, folder / "backup")


async def fill(settings: Settings) -> None:
    """Make a store with a piece of evidence, and a log with a topic."""
    async with open_deployment(settings) as deployment:
        await deployment.stores.evidence.put([build_evidence_draft(LARGE)])
    async with Broker(BrokerSettings(directory=settings.broker_dir)) as broker:
        producer = AIOKafkaProducer(bootstrap_servers=broker.address, enable_idempotence=True)
        async with producer:
            for value in VALUES:
                await producer.send_and_wait(TOPIC, value)


async def values_in(broker_dir: Path) -> list[bytes]:
    """Start a broker over a folder, write one more record, and return all that are in its log."""
    async with Broker(BrokerSettings(directory=broker_dir)) as broker:
        async with AIOKafkaProducer(bootstrap_servers=broker.address, enable_idempotence=True) as producer:
            await producer.send_and_wait(TOPIC, b"later")
        consumer = AIOKafkaConsumer(TOPIC, bootstrap_servers=broker.address, auto_offset_reset="earliest")
        async with consumer:
            return [(await consumer.getone()).value for _ in (*VALUES, "later")]


def keyed(deployed: Deployed, folder: Path) -> Settings:
    """Settings of an empty folder, with the deployment's root key."""
    return Settings(data_dir=folder, root_key=base64.b64encode(deployed.root_key.secret).decode())


def flip(path: Path, at: int = -1) -> None:
    """Change one bit of a file."""
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)


def copied(deployed: Deployed, folder: Path) -> Path:
    """Copy the backup, so that it can be damaged."""
    target = folder / "copied"
    for path in deployed.backup.rglob("*"):
        if path.is_file():
            (target / path.relative_to(deployed.backup)).parent.mkdir(parents=True, exist_ok=True)
            (target / path.relative_to(deployed.backup)).write_bytes(path.read_bytes())
    return target


def names(backup_folder: Path) -> list[str]:
    """Every file of a backup."""
    return sorted(
        path.relative_to(backup_folder).as_posix() for path in backup_folder.rglob("*") if path.is_file()
    )


def test_a_backup_has_no_root_key_and_is_its_owners_alone(deployed: Deployed) -> None:
    secret = deployed.root_key.secret
    forms = (secret, base64.b64encode(secret), secret.hex().encode())
    files = [path for path in deployed.backup.rglob("*") if path.is_file()]

    assert len(files) == 5
    assert not [path for path in files if any(form in path.read_bytes() for form in forms)]
    assert {path.stat().st_mode & 0o777 for path in files} == {0o600}
    folders = [deployed.backup, *(path for path in deployed.backup.rglob("*") if path.is_dir())]
    assert {path.stat().st_mode & 0o777 for path in folders} == {0o700}


def test_a_flipped_bit_in_any_file_is_refused_by_name_before_anything_is_written(
    deployed: Deployed, tmp_path: Path
) -> None:
    damaged = copied(deployed, tmp_path)
    for name in names(damaged):
        if not (damaged / name).stat().st_size:
            continue
        flip(damaged / name)
        with pytest.raises(CannotStart, match=name):
            restore_backup(keyed(deployed, tmp_path / "target"), damaged, silent)
        flip(damaged / name)

    assert not (tmp_path / "target").exists()
    restore_backup(keyed(deployed, tmp_path / "target"), damaged, silent)


def test_a_file_that_is_missing_or_was_added_is_named(deployed: Deployed, tmp_path: Path) -> None:
    damaged = copied(deployed, tmp_path)
    (damaged / "added").write_bytes(b"x")
    (damaged / DATABASE_FILE).unlink()
    _, faults = verify_backup(damaged, deployed.root_key, silent)

    assert faults == [f"{DATABASE_FILE} is missing", "added is not of this backup"]


def test_a_backup_whose_manifest_another_key_signed_is_refused(deployed: Deployed, tmp_path: Path) -> None:
    forged = copied(deployed, tmp_path)
    envelope = json.loads((forged / MANIFEST_FILE).read_text())
    envelope["hmac"] = "0" * 64
    (forged / MANIFEST_FILE).write_text(json.dumps(envelope))

    assert verify_backup(forged, None, silent)[1] == []
    assert len(verify_backup(forged, deployed.root_key, silent)[1]) == 1
    with pytest.raises(CannotStart, match="root key"):
        restore_backup(keyed(deployed, tmp_path / "target"), forged, silent)


@pytest.mark.parametrize("key", [None, OTHER_KEY], ids=["missing", "another"])
def test_a_restore_without_the_right_root_key_writes_nothing(
    deployed: Deployed, tmp_path: Path, key: str | None
) -> None:
    with pytest.raises(CannotStart, match="ROOT_KEY_FILE"):
        restore_backup(Settings(data_dir=tmp_path / "target", root_key=key), deployed.backup, silent)

    assert not (tmp_path / "target").exists()


def test_a_restore_overwrites_nothing_and_takes_a_folder_with_the_root_key_alone(
    deployed: Deployed, tmp_path: Path
) -> None:
    settings = Settings(data_dir=tmp_path / "target")
    settings.data_dir.mkdir()
    key = settings.data_dir / ROOT_KEY_FILE
    key.write_bytes((deployed.settings.data_dir / ROOT_KEY_FILE).read_bytes())
    key.chmod(0o600)
    (settings.data_dir / "notes").touch()
    with pytest.raises(CannotStart, match="not empty"):
        restore_backup(settings, deployed.backup, silent)
    (settings.data_dir / "notes").unlink()

    restore_backup(settings, deployed.backup, silent)
    with pytest.raises(CannotStart, match="not empty"):
        restore_backup(settings, deployed.backup, silent)


def test_a_second_backup_does_not_overwrite_the_first(deployed: Deployed) -> None:
    with pytest.raises(CannotStart, match="there already"):
        back_up(deployed.settings, deployed.backup, deployed.root_key)


def test_a_folder_that_is_no_deployment_is_not_backed_up(tmp_path: Path) -> None:
    with pytest.raises(CannotStart, match="veristream up"):
        take(Settings(data_dir=tmp_path / "none"), tmp_path / "backup", as_json=True)

    assert entries(tmp_path) == []


@pytest.mark.parametrize("module", [taking, restoring], ids=["backup", "restore"])
def test_a_disk_that_is_too_small_is_reported_before_anything_is_written(
    deployed: Deployed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: Any
) -> None:
    monkeypatch.setattr(module.shutil, "disk_usage", lambda _: SimpleNamespace(free=1 << 20))
    acts: dict[Any, Callable[[], object]] = {
        taking: lambda: back_up(deployed.settings, tmp_path / "target", deployed.root_key),
        restoring: lambda: restore_backup(keyed(deployed, tmp_path / "target"), deployed.backup, silent),
    }
    act = acts[module]
    with pytest.raises(CannotStart, match="too small"):
        act()

    assert entries(tmp_path) == []


def test_a_disk_that_fills_up_leaves_nothing_of_the_backup(
    deployed: Deployed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> Iterator[None]:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("app.backup.taking.sync_folders", full)
    with pytest.raises(CannotStart, match="No space left"):
        back_up(deployed.settings, tmp_path / "target", deployed.root_key)

    assert entries(tmp_path) == []


def killed(nth: int, *arguments: str) -> int:
    """Run a command that is killed at its nth sync; returns its exit status."""
    command = [sys.executable, "-c", KILLED_AT, str(nth), *arguments]
    return subprocess.run(command, check=False, capture_output=True, timeout=120).returncode  # noqa: S603


def test_a_backup_that_was_killed_leaves_nothing_that_looks_whole_and_can_be_taken_again(
    deployed: Deployed, tmp_path: Path
) -> None:
    target = tmp_path / "backup"
    ended = killed(4, "backup", str(target), "--data-dir", str(deployed.settings.data_dir))

    assert (ended, entries(tmp_path)) == (-signal.SIGKILL, [".backup.partial"])
    with pytest.raises(CannotStart, match=MANIFEST_FILE):
        verify_backup(tmp_path / ".backup.partial", None, silent)
    back_up(deployed.settings, target, deployed.root_key)
    assert entries(tmp_path) == ["backup"]
    assert verify_backup(target, deployed.root_key, silent)[1] == []


class PowerCut(BaseException):
    """Ends a restore where it stands."""


def test_a_restore_cut_off_at_any_write_starts_nothing_and_goes_on_when_it_is_run_again(
    deployed: Deployed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings, cuts = keyed(deployed, tmp_path / "target"), 0
    sync, left = os.fsync, 0

    def fsync(descriptor: int) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            raise PowerCut
        sync(descriptor)

    with monkeypatch.context() as patched:
        patched.setattr("os.fsync", fsync)
        for nth in range(1, 200):
            left = nth
            try:
                restore_backup(settings, deployed.backup, silent)
                break
            except PowerCut:
                cuts += 1
                mark = read_mark(settings.data_dir)
                if mark is not None and mark.complete:
                    break
                assert not can_activate(settings)
    assert cuts > len(names(deployed.backup))
    assert entries(settings.data_dir) == sorted([BLOBS_FOLDER, BROKER_FOLDER, RESTORED_FILE, DATABASE_FILE])
    activate_restored(settings)
    assert asyncio.run(evidence_of(settings, deployed.root_key)) == LARGE
    assert asyncio.run(values_in(settings.broker_dir)) == [*VALUES, b"later"]


@pytest.mark.parametrize("role", ["up", "front", "worker"])
async def test_a_restored_folder_starts_no_role_that_sends_or_consumes(
    deployed: Deployed, tmp_path: Path, role: str
) -> None:
    settings = keyed(deployed, tmp_path / "target")
    await asyncio.to_thread(restore_backup, settings, deployed.backup, silent)
    starts: dict[str, Callable[[], Awaitable[None]]] = {
        "up": lambda: roles.run_all(settings),
        "front": lambda: roles.run_front(settings),
        "worker": lambda: roles.run_worker(settings, ("webhooks", "deliveries")),
    }
    start = starts[role]

    with pytest.raises(CannotStart, match="veristream activate"):
        await start()
    with pytest.raises(CannotStart, match="veristream activate"):
        async with open_deployment(settings):
            pass


def can_activate(settings: Settings) -> bool:
    """Return whether a folder passes for a restored one; then it would have been."""
    try:
        activate_restored(settings)
    except CannotStart:
        return False
    return True


async def evidence_of(settings: Settings, root_key: RootKey) -> bytes:
    """The piece of evidence."""
    async with open_sqlite_stores(settings.data_dir, root_key) as stores:
        return await stores.evidence.get(ACME, build_evidence_draft(LARGE).row.evidence_id)


async def test_what_is_written_while_a_backup_copies_is_not_in_it(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path / "data")
    await fill(settings)
    with pinned(settings) as moment:
        with closing(sqlite3.connect(settings.data_dir / DATABASE_FILE)) as own:
            own.execute("DELETE FROM evidence")
            own.commit()
        assert len(list(moment.blobs())) == 1
        with closing(sqlite3.connect(":memory:")) as target:
            moment.store.backup(target, pages=1)
            assert target.execute("SELECT count(*) FROM evidence").fetchone() == (1,)


def test_a_segment_that_compaction_replaces_stays_what_it_was(tmp_path: Path) -> None:
    first, last = tmp_path / f"{0:020d}.log", tmp_path / f"{9:020d}.log"
    first.write_bytes(b"closed")
    first.with_suffix(".index").write_bytes(b"index")
    last.write_bytes(b"not a batch")
    segments = LogSnapshot([tmp_path])
    segments.refresh()
    (tmp_path / "draft").write_bytes(b"compacted")
    (tmp_path / "draft").replace(first)
    (closed, _), (growing, is_last) = segments.segments()

    assert (closed.size, closed.index, is_last) == (6, b"index", True)
    assert whole_bytes(growing) == 0
    segments.refresh()
    assert [segment.size for segment, _ in segments.segments()] == [9, 11]
    segments.close()


def test_a_backup_in_one_file_is_verified_and_restored_like_a_folder(
    deployed: Deployed, tmp_path: Path
) -> None:
    packed = tmp_path / "backup.tar"
    back_up(deployed.settings, packed, deployed.root_key)
    assert (entries(tmp_path), packed.stat().st_mode & 0o777) == (["backup.tar"], 0o600)
    restore_backup(keyed(deployed, tmp_path / "target"), packed, silent, activate=True)
    at = packed.read_bytes().rindex(b"SQLite format 3")
    flip(packed, at + 100)

    assert asyncio.run(evidence_of(keyed(deployed, tmp_path / "target"), deployed.root_key)) == LARGE
    assert verify_backup(packed, deployed.root_key, silent)[1] == [f"{DATABASE_FILE} was altered"]
    with packed.open("r+b") as file:
        file.truncate(at)
    with pytest.raises(CannotStart, match="backup"):
        verify_backup(packed, deployed.root_key, silent)
