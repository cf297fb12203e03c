"""Folders and files for their owner alone, whatever the umask says; and those that are open to others."""

import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

PRIVATE_FOLDER: Final = 0o700
PRIVATE_FILE: Final = 0o600
PRIVATE_UMASK: Final = 0o077
"""What a process of ours takes from the mode of all that it, or a library, makes."""

_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


def make_private(folder: Path) -> None:
    """Make the folder and each missing parent for their owner alone; what is there stays. Blocking."""
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
