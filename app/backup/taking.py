"""Take a backup of a deployment that may be running; `moment` explains the order that keeps it consistent."""

import fcntl
import os
import shutil
import sqlite3
import tarfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Final

from app.adapters.files.blobs import BlobFiles, BlobName
from app.adapters.files.data_dir import (
    BLOBS_FOLDER,
    BROKER_FOLDER,
    CHECKPOINTS_FOLDER,
    DATABASE_FILE,
    USERS_FOLDER,
)
from app.adapters.security.crypto import Purpose, RootKey, sync_folder
from app.backup.manifest import MANIFEST_FILE, FileEntry, Manifest, write_manifest
from app.backup.moment import BROKER_STORE_FILE, TOPICS_FOLDER, Moment, is_named, pinned
from app.backup.segments_at import LogUnsteady, whole_bytes
from app.backup.writing import (
    BLOCK_BYTES,
    CutShort,
    copy_database,
    entry_of,
    of_bytes,
    of_descriptor,
    remove_tree,
    sync_folders,
    write_file,
)
from app.broker.users import USERS_FILE
from app.composition.stores import new_id, now
from app.observability.disk_space import LEAST_FREE_BYTES
from app.process.startup import CannotStart, installed_version
from app.settings import Settings, blobs_dir_of, checkpoints_dir_of

TAR_SUFFIX: Final = ".tar"
"""A destination of this name is one file instead of a folder."""

SETTLED: Final = timedelta(minutes=1)
"""A file of evidence that is older is not being written any more."""

MOMENTS: Final = 5
"""So often a moment is pinned anew because evidence of the one before was removed while it was copied."""

PRODUCER_IDS_SKIPPED: Final = 1_000_000
"""The copied broker gives out later ids than any that was given out beside the backup: an id that came twice
would make a new record look like the repetition of an old one."""

BREATH_S: Final = 0.002
"""After each MiB the disk and the processor are left to the service for about as long as copying it took."""

LOW_PRIORITY: Final = 10
"""Of a process that takes a backup: beside busy ones it has about a tenth of a processor."""

Report = Callable[[str], None]


class _Moved(Exception):
    """Evidence of the moment was removed before it was copied."""


class Taker:
    """Fills one folder with one backup."""

    def __init__(self, settings: Settings, folder: Path, report: Report, pinning: Executor) -> None:
        self._settings = settings
        self._folder = folder
        self._report = report
        self._pinning = pinning
        self._expected = max(bytes_needed(settings), 1)
        self._written = 0
        self._blobs = BlobFiles(blobs_dir_of(settings))
        self._copies = BlobFiles(folder / BLOBS_FOLDER)
        self._evidence: dict[BlobName, FileEntry] = {}
        self._missing: list[str] = []

    def take(self, root_key: RootKey) -> Manifest:
        """Copy everything and write the manifest last.

        Raises:
            CannotStart: Evidence is removed faster than it is copied.
        """
        for name in self._blobs.written_before(now() - SETTLED):
            self._copy_blob(name)
        for _ in range(MOMENTS):
            with self._pinned() as moment:
                try:
                    self._copy_evidence(moment)
                except _Moved:
                    continue
                manifest = self._copy_moment(moment, root_key)
            self._finish(manifest, root_key)
            return manifest
        raise CannotStart("evidence is removed faster than it is copied; take the backup again later")

    @contextmanager
    def _pinned(self) -> Iterator[Moment]:
        with ExitStack() as stack:
            yield self._pinning.submit(stack.enter_context, pinned(self._settings)).result()

    def _copy_evidence(self, moment: Moment) -> None:
        """Complete the files of evidence, and remove those that the moment does not name."""
        named = set(moment.blobs())
        self._missing = []
        for name in named - self._evidence.keys():
            if not self._copy_blob(name):
                if not is_named(self._settings, name):
                    raise _Moved
                self._missing.append(name.evidence_id)
        for name in self._evidence.keys() - named:
            self._copies.remove(name)
            del self._evidence[name]

    def _copy_blob(self, name: BlobName) -> bool:
        try:
            descriptor = os.open(self._blobs.path(name), os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        try:
            size, place = os.fstat(descriptor).st_size, self._copies.path(name)
            relative = place.relative_to(self._folder).as_posix()
            source = of_descriptor(descriptor)
            self._evidence[name] = write_file(self._folder, relative, size, source, self._count)
        finally:
            os.close(descriptor)
        return True

    def _copy_moment(self, moment: Moment, root_key: RootKey) -> Manifest:
        copy_database(self._folder, DATABASE_FILE, moment.store, self._count)
        entries = [entry_of(self._folder, DATABASE_FILE), *self._evidence.values()]
        entries += self._copy_log(moment)
        entries += self._copy_checkpoints(moment)
        entries += self._copy_users()
        return Manifest(
            backup_id=new_id("bak"),
            taken_at=moment.taken_at,
            version=installed_version(),
            store_schema=moment.store_schema,
            key_check=root_key.derive(Purpose.KEY_CHECK).hex(),
            missing_evidence=tuple(self._missing),
            files=tuple(sorted(entries, key=lambda entry: entry.name)),
        )

    def _copy_log(self, moment: Moment) -> Iterator[FileEntry]:
        if moment.broker_store is None:
            return
        name = f"{BROKER_FOLDER}/{BROKER_STORE_FILE}"
        with closing(sqlite3.connect(copy_database(self._folder, name, moment.broker_store, _ignore))) as own:
            own.execute(
                "UPDATE fact SET value = value + ? WHERE name = 'next_producer_id'", (PRODUCER_IDS_SKIPPED,)
            )
            own.commit()
            own.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        yield entry_of(self._folder, name)
        root = self._settings.broker_dir
        for segment, is_last in moment.log.segments():
            place = Path(BROKER_FOLDER) / segment.path.relative_to(root)
            size = whole_bytes(segment) if is_last else segment.size
            source = of_descriptor(segment.descriptor)
            yield write_file(self._folder, place.as_posix(), size, source, self._count)
            if segment.index is not None and not is_last:
                index, beside = segment.index, place.with_suffix(".index").as_posix()
                yield write_file(self._folder, beside, len(index), of_bytes(index), self._count)

    def _copy_checkpoints(self, moment: Moment) -> Iterator[FileEntry]:
        for path, size in moment.checkpoints:
            with path.open("rb") as file:
                source = of_descriptor(file.fileno())
                yield write_file(self._folder, f"{CHECKPOINTS_FOLDER}/{path.name}", size, source, self._count)

    def _copy_users(self) -> Iterator[FileEntry]:
        """Copy the keys of the broker's users; the service's own password is drawn anew at a start."""
        path = self._settings.broker_users_dir / USERS_FILE
        if path.is_file():
            content = path.read_bytes()
            yield write_file(
                self._folder, f"{USERS_FOLDER}/{USERS_FILE}", len(content), of_bytes(content), self._count
            )

    def _finish(self, manifest: Manifest, root_key: RootKey) -> None:
        sync_folders(self._folder)
        raw = write_manifest(manifest, root_key)
        write_file(self._folder, MANIFEST_FILE, len(raw), of_bytes(raw), _ignore)
        sync_folder(self._folder)

    def _count(self, written: int) -> None:
        if self._written // BLOCK_BYTES < (self._written + written) // BLOCK_BYTES:
            time.sleep(BREATH_S)
        self._written += written
        share = min(self._written / self._expected, 1)
        self._report(f"copied {self._written / 2**20:,.0f} MiB, about {share:.0%}")


def _ignore(_: int) -> None:
    """Reports nothing."""


@contextmanager
def at_low_priority() -> Iterator[Executor]:
    """Leave the processor to the service from now on; yields a thread that still has the priority of before.

    The process keeps it: only root may raise a priority.
    """
    with ThreadPoolExecutor(1) as before:
        before.submit(os.getpid).result()  # a thread is started by its first work
        os.nice(LOW_PRIORITY)
        yield before


def take_backup(
    settings: Settings, destination: Path, root_key: RootKey, report: Report, pinning: Executor
) -> Manifest:
    """Write a backup to a new folder, or to one new file if its name ends with `.tar`. Blocking.

    The moment is pinned in a thread of the executor, since the store is locked meanwhile, the rest is copied
    in the caller's, which may have a low priority.

    Nothing that looks like a backup is left when it is cut off: it is made beside under a name that begins
    with a dot, and renamed once it is whole.

    Raises:
        CannotStart: There is something of that name, the room is too small, or the copying failed.
    """
    as_file = destination.suffix == TAR_SUFFIX
    _refuse(settings, destination, as_file=as_file)
    try:
        with _draft_beside(destination) as draft:
            manifest = Taker(settings, draft, report, pinning).take(root_key)
            if as_file:
                report("writing one file")
                packed = draft.with_name(f"{draft.name}{TAR_SUFFIX}")
                _pack(draft, packed, manifest)
                packed.rename(destination)
            else:
                draft.rename(destination)
            sync_folder(destination.parent)
    except (OSError, sqlite3.Error, LogUnsteady, CutShort) as error:
        raise CannotStart(
            f"the backup was not taken, and nothing of it is left: {type(error).__name__}: {error}"
        ) from error
    return manifest


def bytes_needed(settings: Settings) -> int:
    """Return about how many bytes a backup of the deployment takes now."""
    database = settings.data_dir / DATABASE_FILE
    wal = database.with_name(f"{DATABASE_FILE}-wal")
    own = sum(path.stat().st_size for path in (database, wal) if path.is_file())
    folders = (
        blobs_dir_of(settings),
        settings.broker_dir / TOPICS_FOLDER,
        checkpoints_dir_of(settings),
    )
    return own + sum(map(_bytes_below, folders))


def _bytes_below(folder: Path) -> int:
    total = 0
    for path, _, names in os.walk(folder):
        for name in names:
            try:
                total += (Path(path) / name).stat().st_size
            except FileNotFoundError:
                continue
    return total


def _refuse(settings: Settings, destination: Path, *, as_file: bool) -> None:
    if destination.exists() or destination.is_symlink():
        raise CannotStart(f"{destination} is there already and is not overwritten; name another one")
    parent = destination.absolute().parent
    if not parent.is_dir():
        raise CannotStart(f"the folder {parent} does not exist; make it first, for its owner alone")
    own = (settings.data_dir, blobs_dir_of(settings), checkpoints_dir_of(settings))
    if any(parent.resolve().is_relative_to(folder.resolve()) for folder in own):
        raise CannotStart(f"{destination} lies in the data folder itself; name a place on another disk")
    needed, free = bytes_needed(settings) * (2 if as_file else 1), shutil.disk_usage(parent).free
    if needed + LEAST_FREE_BYTES > free:
        raise CannotStart(
            f"the disk of {parent} is too small: the backup needs about {needed / 2**20:,.0f} MiB, "
            f"{free / 2**20:,.0f} MiB are free"
        )


@contextmanager
def _draft_beside(destination: Path) -> Iterator[Path]:
    """Yield a new folder beside the destination; remove it at the end if it is still there.

    Raises:
        CannotStart: Another backup is just being written to the same destination.
    """
    draft = destination.absolute().with_name(f".{destination.name}.partial")
    packed = draft.with_name(f"{draft.name}{TAR_SUFFIX}")
    draft.mkdir(mode=0o700, exist_ok=True)
    with ExitStack() as stack:
        descriptor = os.open(draft, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        stack.callback(os.close, descriptor)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise CannotStart(f"another backup is just being written to {destination}") from error
        for leftover in draft.iterdir():  # of one that was killed
            remove_tree(leftover) if leftover.is_dir() else leftover.unlink()
        stack.callback(packed.unlink, missing_ok=True)
        stack.callback(remove_tree, draft)
        yield draft


def _pack(folder: Path, packed: Path, manifest: Manifest) -> None:
    """Write the folder as one file, the manifest last."""
    packed.unlink(missing_ok=True)
    descriptor = os.open(packed, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb", buffering=BLOCK_BYTES) as file:
        with tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as tar:
            for name in (*(entry.name for entry in manifest.files), MANIFEST_FILE):
                tar.add(folder / name, arcname=name, recursive=False, filter=_anonymous)
        file.flush()
        os.fsync(file.fileno())


def _anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member
