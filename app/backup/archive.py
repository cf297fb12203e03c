"""Read a backup, a folder or a tar file, and verify every file against its digest."""

import hashlib
import os
import tarfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import BinaryIO, Final

from typing_extensions import override

from app.backup.manifest import MANIFEST_FILE, Envelope, FileEntry, Manifest, ManifestRefused, read_manifest
from app.backup.writing import BLOCK_BYTES, Counted
from app.process.startup import CannotStart

MANIFEST_BYTES_MAX: Final = 1 << 30
"""Some six million files; more is no manifest of ours."""


class Archive(ABC):
    """A backup that was opened: its manifest can be read, and its files by their names."""

    @abstractmethod
    def sizes(self) -> dict[str, int]:
        """Return the size of every existing file, by name."""

    @abstractmethod
    def open(self, name: str) -> AbstractContextManager[BinaryIO]:
        """Open an existing file."""

    def manifest(self) -> tuple[Manifest, Envelope]:
        """Return the manifest after checking its digest.

        Raises:
            ManifestRefused: There is none, or it was altered.
        """
        size = self.sizes().get(MANIFEST_FILE)
        if size is None or size > MANIFEST_BYTES_MAX:
            raise ManifestRefused(f"it is no whole backup: it has no {MANIFEST_FILE}, which is written last")
        with self.open(MANIFEST_FILE) as file:
            return read_manifest(file.read())

    def faults(self, manifest: Manifest, counted: Counted) -> Iterator[str]:
        """Name every file that is missing, altered or not of the backup. Reads all of it."""
        sizes = self.sizes()
        for entry in manifest.files:
            if not entry.is_inside:
                yield f"{entry.name} leads out of the folder"
            elif entry.name not in sizes:
                yield f"{entry.name} is missing"
            elif sizes[entry.name] != entry.size or self._digest(entry, counted) != entry.sha256:
                yield f"{entry.name} was altered"
        for name in sorted(sizes.keys() - {entry.name for entry in manifest.files} - {MANIFEST_FILE}):
            yield f"{name} is not of this backup"

    def _digest(self, entry: FileEntry, counted: Counted) -> str:
        digest = hashlib.sha256()
        with self.open(entry.name) as file:
            while block := file.read(BLOCK_BYTES):
                digest.update(block)
                counted(len(block))
        return digest.hexdigest()


class _Folder(Archive):
    def __init__(self, root: Path) -> None:
        self._root = root

    @override
    def sizes(self) -> dict[str, int]:
        found = {}
        for folder, _, names in os.walk(self._root):
            for name in names:
                path = Path(folder) / name
                found[path.relative_to(self._root).as_posix()] = path.lstat().st_size
        return found

    @override
    def open(self, name: str) -> AbstractContextManager[BinaryIO]:
        descriptor = os.open(self._root / name, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        return os.fdopen(descriptor, "rb")


class _Packed(Archive):
    def __init__(self, tar: tarfile.TarFile) -> None:
        self._tar = tar
        self._members = {member.name: member for member in tar.getmembers() if member.isreg()}

    @override
    def sizes(self) -> dict[str, int]:
        return {name: member.size for name, member in self._members.items()}

    @override
    @contextmanager
    def open(self, name: str) -> Iterator[BinaryIO]:
        file = self._tar.extractfile(self._members[name])
        if file is None:
            raise OSError(f"{name} cannot be read")
        with file:
            yield file  # type: ignore[misc]  # a reader of bytes, without the methods that write


@contextmanager
def opened(path: Path) -> Iterator[Archive]:
    """Open a backup. Blocking.

    Raises:
        CannotStart: Nothing is there, or it cannot be read; what is wrong with its contents is named as well.
    """
    try:
        if path.is_dir():
            yield _Folder(path)
        elif path.is_file():
            with tarfile.open(path, mode="r:") as tar:
                yield _Packed(tar)
        else:
            raise CannotStart(
                f"{path} is no backup: nothing is there; make one with: veristream backup {path} --data-dir …"
            )
    except ManifestRefused as error:
        raise CannotStart(f"{path}: {error}") from error
    except (OSError, tarfile.TarError) as error:
        raise CannotStart(f"{path} cannot be read as a backup: {error}") from error


def refuse_faults(archive: Archive, manifest: Manifest, path: Path, counted: Callable[[int], None]) -> None:
    """Return if every file holds.

    Raises:
        CannotStart: Some do not; they are named.
    """
    faults = list(archive.faults(manifest, counted))
    if faults:
        more = f"; and {len(faults) - SHOWN} more" if len(faults) > SHOWN else ""
        raise CannotStart(f"{path} is damaged and was not used: {'; '.join(faults[:SHOWN])}{more}")


SHOWN: Final = 5
"""Files named in one message."""
