"""Point 13: every folder and file of the data folder is its owner's alone, whatever the umask was."""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from app.adapters.files.blobs import BlobFiles
from app.adapters.files.data_dir import (
    BLOBS_FOLDER,
    BROKER_FOLDER,
    CHECKPOINTS_FOLDER,
    DATABASE_FILE,
    ROOT_KEY_FILE,
    STREAMS_FOLDER,
)
from app.composition.stores import open_deployment
from app.doctor.checks import run_checks
from app.settings import Settings
from schemas.ids import EvidenceId, derive_id
from tests.agents.support import until
from tests.builders import ACME
from tests.journeys.service import Role, begin_deployment

EVIDENCE = EvidenceId(derive_id("evd", "private"))


@contextmanager
def careless() -> Iterator[None]:
    """The umask of somebody who lets everybody do everything."""
    before = os.umask(0)
    try:
        yield
    finally:
        os.umask(before)


def open_in(folder: Path) -> dict[str, str]:
    """Return what others may read, write or enter, with its mode."""
    modes = {path: stat.S_IMODE(path.lstat().st_mode) for path in (folder, *folder.rglob("*"))}
    return {str(path.relative_to(folder)): f"{mode:o}" for path, mode in modes.items() if mode & 0o077}


async def test_13_processes_make_nothing_that_others_can_read(tmp_path: Path) -> None:
    """A store, a broker, and agents; the folders above the data folder are made too."""
    folder = tmp_path / "new" / "data"

    async def written() -> bool:
        return (folder / CHECKPOINTS_FOLDER).exists()

    with careless():
        begin_deployment(folder)
        broker = await Role.start(folder, "broker")
        worker = await Role.start(folder, "worker", "--streams", "audit")
        await until(written)
    await worker.stop()
    await broker.stop()

    logs = {path.name for path in folder.glob("*.log")}  # the test's own
    made = {path.name for path in folder.iterdir()} - logs
    assert {DATABASE_FILE, BROKER_FOLDER, STREAMS_FOLDER, CHECKPOINTS_FOLDER, ROOT_KEY_FILE} <= made
    found = {path: mode for path, mode in open_in(folder).items() if path not in logs}
    assert found == {}
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o700


def test_13_evidence_lies_in_folders_for_its_owner(tmp_path: Path) -> None:
    folder = tmp_path / BLOBS_FOLDER

    with careless():
        BlobFiles(folder).write(ACME, EVIDENCE, b"sealed")

    assert len([path for path in folder.rglob("*") if path.is_file()]) == 1
    assert open_in(folder) == {}


async def test_13_what_an_older_version_left_open_is_closed_at_the_next_start(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path / "data")
    async with open_deployment(settings):
        pass
    (settings.data_dir / BLOBS_FOLDER).mkdir(mode=0o755)
    (settings.data_dir / DATABASE_FILE).chmod(0o644)

    async with open_deployment(settings):
        pass

    assert open_in(settings.data_dir) == {}


async def test_13_the_doctor_names_what_is_open_to_others(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path / "data")
    settings.data_dir.mkdir()
    settings.data_dir.chmod(0o755)  # a folder that was there stays as it is

    (found,) = [one for one in await run_checks(settings) if one.looked_at == "data folder"]
    settings.data_dir.chmod(0o700)
    (closed,) = [one for one in await run_checks(settings) if one.looked_at == "data folder"]

    assert (found.ok, str(settings.data_dir) in found.found) == (False, True)
    assert found.fix is not None
    assert "chmod" in found.fix
    assert closed.ok
