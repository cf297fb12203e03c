"""Names of files in the data folder, and permissions that leave files to their owner alone."""

import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

DATABASE_FILE: Final = "veristream.sqlite3"
"""Records, audit log, events, evidence metadata and wrapped keys."""

BLOBS_FOLDER: Final = "blobs"
"""Sealed evidence, one file each."""

BROKER_ADDRESS_FILE: Final = "address"
"""In the folder of the embedded broker: where clients on this machine find it."""

ROOT_KEY_FILE: Final = "root.key"
"""The root key when none is configured; readable by its owner alone."""

CHECKPOINTS_FOLDER: Final = "audit-checkpoints"
"""Signed checkpoints of the audit log, one file each month."""

SEALED_UNDER_ROOT_KEY: Final = (DATABASE_FILE, BLOBS_FOLDER)
"""What is lost without the root key; a folder that holds any of it is never given a new key."""

RESTORED_FILE: Final = "restored.json"
"""Marks a folder that a backup was restored into, until `veristream activate`."""

USERS_FOLDER: Final = "broker-users"
"""Who may sign in to the embedded broker."""

BROKER_FOLDER: Final = "broker"
"""The embedded broker's log."""

STREAMS_FOLDER: Final = "streams"
"""What the stream library keeps between two starts."""

LISTS_FOLDER: Final = "lists"
"""Snapshots of the deployment's lists, a folder each."""

OURS: Final = (
    DATABASE_FILE,
    f"{DATABASE_FILE}-wal",
    f"{DATABASE_FILE}-shm",
    BLOBS_FOLDER,
    BROKER_FOLDER,
    CHECKPOINTS_FOLDER,
    LISTS_FOLDER,
    STREAMS_FOLDER,
)
"""All that is made here, but for the root key, which is refused when it is open to others."""


PRIVATE_FOLDER: Final = 0o700
PRIVATE_FILE: Final = 0o600
PRIVATE_UMASK: Final = 0o077
"""What a process of ours takes from the mode of all that it, or a library, makes."""

_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


def make_private(folder: Path) -> None:
    """Create the folder and missing parents for their owner alone; existing ones stay. Blocking."""
    missing = [one for one in (folder, *folder.parents) if not one.exists()]
    for one in reversed(missing):
        one.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)


def tighten(paths: Iterable[Path]) -> None:
    """Take from others what they may do with files and folders; one of another owner stays. Blocking."""
    for path in paths:
        mode = _mode_of(path)
        if mode is not None and mode & _OTHERS:
            with suppress(OSError):  # `veristream doctor` names what stays open
                path.chmod(mode & ~_OTHERS)


def open_to_others(folder: Path) -> Iterator[Path]:
    """Return the folder if others may enter it, and the files in it that others may read. Blocking."""
    mode = _mode_of(folder)
    if mode is None or not mode & _OTHERS:
        return
    yield folder
    for path in sorted(folder.iterdir()):
        mode = _mode_of(path)
        if mode is not None and mode & _OTHERS:
            yield path


def _mode_of(path: Path) -> int | None:
    """Return the permissions of a file or folder of our own, None of anything else or where none is."""
    try:
        found = os.lstat(path)
    except OSError:
        return None
    if stat.S_ISLNK(found.st_mode) or found.st_uid != os.geteuid():
        return None
    return stat.S_IMODE(found.st_mode)
