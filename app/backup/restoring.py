"""Restore a backup into an empty folder, after all checks."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final

from app.adapters.files.data_dir import (
    BLOBS_FOLDER,
    BROKER_FOLDER,
    CHECKPOINTS_FOLDER,
    DATABASE_FILE,
    ROOT_KEY_FILE,
    USERS_FOLDER,
    make_private,
)
from app.adapters.security.crypto import RootKey, RootKeyRefused, load_root_key, sync_folder
from app.adapters.sqlite.schema import NEWEST
from app.backup.archive import Archive, opened, refuse_faults
from app.backup.manifest import FileEntry, Manifest, fits, is_signed
from app.backup.writing import CutShort, of_stream, sync_folders, write_file
from app.composition.restore_marker import DRAFT_FILE as MARK_DRAFT
from app.composition.restore_marker import Mark, read_mark, remove_mark, require_complete, write_mark
from app.observability.disk_space import LEAST_FREE_BYTES
from app.process.startup import CannotStart
from app.settings import PREFIX, Settings, blobs_dir_of, checkpoints_dir_of

DRAFT_FILE: Final = f"{DATABASE_FILE}.restoring"
"""The store has this name until all else is there: without it the folder holds no deployment."""

Report = Callable[[str], None]

OTHER_KEY: Final = "it is sealed under another root key than the one given"
"""The fault of a backup that the given root key does not open."""


def restore_backup(settings: Settings, path: Path, report: Report, *, activate: bool = False) -> Manifest:
    """Restore a backup into the folder that the settings name, which then rests until it is activated.

    One that was cut off goes on when it is asked for again. Blocking.

    Raises:
        CannotStart: The backup, the key or the folder cannot be used, or the copying failed.
    """
    with opened(path) as archive:
        manifest, envelope = archive.manifest()
        _refuse_newer(manifest)
        root_key = key_for(settings)
        _require_key(manifest, root_key)
        if not is_signed(envelope, root_key):
            raise CannotStart(f"{path}: its manifest was not written by a deployment with this root key")
        _refuse_full(settings, manifest)
        _refuse_small(settings, manifest)
        refuse_faults(archive, manifest, path, _Progress(report, "verified", manifest.size))
        try:
            _copy(settings, archive, manifest, report)
        except (OSError, CutShort) as error:
            raise CannotStart(
                f"the restore was cut off: {type(error).__name__}: {error}; run it again to go on"
            ) from error
    if activate:
        remove_mark(settings.data_dir)
    return manifest


def verify_backup(path: Path, root_key: RootKey | None, report: Report) -> tuple[Manifest, list[str]]:
    """Return the manifest of a backup and its faults. Reads all of it; blocking.

    Raises:
        CannotStart: It has no manifest that holds.
    """
    with opened(path) as archive:
        manifest, envelope = archive.manifest()
        faults = list(archive.faults(manifest, _Progress(report, "verified", manifest.size)))
        if root_key is not None and not fits(manifest, root_key):
            faults.append(OTHER_KEY)
        elif root_key is not None and not is_signed(envelope, root_key):
            faults.append("its manifest was not written by a deployment with this root key")
        return manifest, faults


def activate_restored(settings: Settings) -> Mark:
    """Activate a restored folder; return its marker.

    Raises:
        CannotStart: The folder holds no restored backup, or not all of one.
    """
    mark = read_mark(settings.data_dir)
    if mark is None:
        raise CannotStart(
            f"{settings.data_dir} holds no restored backup that waits; name its folder with --data-dir"
        )
    require_complete(settings.data_dir, mark)
    remove_mark(settings.data_dir)
    return mark


def key_for(settings: Settings) -> RootKey:
    """Return the configured root key or that of the folder; never creates one.

    Raises:
        CannotStart: There is none, or it cannot be used.
    """
    file = settings.data_dir / ROOT_KEY_FILE
    if settings.root_key is None and not file.exists():
        raise CannotStart(
            f"there is no root key, and a backup never holds one: set {PREFIX}ROOT_KEY_FILE to the "
            f"deployment's key, or put it at {file} (mode 0600) first; the folder is named with --data-dir"
        )
    try:
        return load_root_key(settings.root_key, file)
    except RootKeyRefused as error:
        raise CannotStart(str(error)) from error


def _require_key(manifest: Manifest, root_key: RootKey) -> None:
    if not fits(manifest, root_key):
        raise CannotStart(
            "the root key is not the one this backup is sealed under; nothing was written. Give the key "
            f"that the deployment had on {manifest.taken_at.date()}, with {PREFIX}ROOT_KEY_FILE"
        )


def _refuse_newer(manifest: Manifest) -> None:
    if manifest.store_schema > NEWEST:
        raise CannotStart(
            f"the backup's store has schema {manifest.store_schema}, this version knows {NEWEST}: "
            f"restore it with veristream {manifest.version} or newer"
        )


def _refuse_full(settings: Settings, manifest: Manifest) -> None:
    """Refuse folders that hold anything but the root key, or what an earlier try of this restore left."""
    mark = read_mark(settings.data_dir) if settings.data_dir.is_dir() else None
    if mark is not None and not mark.complete and mark.backup_id == manifest.backup_id:
        return
    for folder in (settings.data_dir, blobs_dir_of(settings), checkpoints_dir_of(settings)):
        there = {one.name for one in folder.iterdir()} if folder.is_dir() else set()
        if there - {ROOT_KEY_FILE, MARK_DRAFT} or (folder.exists() and not folder.is_dir()):
            raise CannotStart(
                f"{folder} is not empty, and a restore never overwrites; name an empty or new folder with "
                f"--data-dir (and {PREFIX}BLOBS_DIR, {PREFIX}AUDIT_CHECKPOINTS_DIR where they are set)"
            )


def _refuse_small(settings: Settings, manifest: Manifest) -> None:
    absolute = settings.data_dir.absolute()
    there = next(one for one in (absolute, *absolute.parents) if one.exists())
    free = shutil.disk_usage(there).free
    if manifest.size + LEAST_FREE_BYTES > free:
        raise CannotStart(
            f"the disk of {there} is too small: the backup holds {manifest.size / 2**20:,.0f} MiB, "
            f"{free / 2**20:,.0f} MiB are free"
        )


def _copy(settings: Settings, archive: Archive, manifest: Manifest, report: Report) -> None:
    """Mark the folder first, restore the store last, then mark the restore complete."""
    make_private(settings.data_dir)
    mark = Mark(backup_id=manifest.backup_id, taken_at=manifest.taken_at, complete=False)
    write_mark(settings.data_dir, mark)
    counted = _Progress(report, "restored", manifest.size)
    roots = {BLOBS_FOLDER: blobs_dir_of(settings), CHECKPOINTS_FOLDER: checkpoints_dir_of(settings)}
    for entry in manifest.files:
        top, _, rest = entry.name.partition("/")
        root, name = (roots[top], rest) if top in roots else (settings.data_dir, entry.name)
        _copy_one(archive, entry, root, DRAFT_FILE if entry.name == DATABASE_FILE else name, counted)
    for folder in (*roots.values(), settings.data_dir / BROKER_FOLDER, settings.data_dir / USERS_FOLDER):
        sync_folders(folder)
    (settings.data_dir / DRAFT_FILE).replace(settings.data_dir / DATABASE_FILE)
    sync_folder(settings.data_dir)
    write_mark(settings.data_dir, mark.model_copy(update={"complete": True}))


def _copy_one(
    archive: Archive, entry: FileEntry, root: Path, name: str, counted: Callable[[int], None]
) -> None:
    with archive.open(entry.name) as stream:
        written = write_file(root, name, entry.size, of_stream(stream), counted)
    if written.sha256 != entry.sha256:
        raise OSError(f"{entry.name} changed while it was restored")


class _Progress:
    """Report how much of a known number of bytes is done."""

    def __init__(self, report: Report, verb: str, total: int) -> None:
        self._report = report
        self._verb = verb
        self._total = max(total, 1)
        self._done = 0

    def __call__(self, written: int) -> None:
        self._done += written
        self._report(f"{self._verb} {self._done / 2**20:,.0f} MiB, {self._done / self._total:.0%}")
