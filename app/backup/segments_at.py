"""Snapshot of the embedded broker's log: its files at one moment, open so that none disappears.

Segments that are closed never change, but compaction and retention put others in their place; an open file
stays what it was. The last segment of a partition only grows, so its size at the moment says what belongs to
it; what is cut off is the part of a batch that was being written just then.
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from app.broker.batches import HEADER_BYTES, intact, read_header

ATTEMPTS: Final = 100
"""So often a folder is listed again because compaction renamed something in it meanwhile."""

_LARGEST_BATCH: Final = 64 << 20
"""A header that announces more is none."""


class LogUnsteady(Exception):
    """The files of a partition change faster than they can be listed."""


@dataclass(slots=True)
class SegmentSnapshot:
    """One segment: its open file, how much of it counts, and its index if it is closed."""

    path: Path
    descriptor: int
    inode: int
    size: int
    index: bytes | None = None

    @property
    def index_path(self) -> Path:
        """The path of its index."""
        return self.path.with_suffix(".index")


class LogSnapshot:
    """Segments of some partitions' folders; `refresh` brings them up to the present, `close` lets go."""

    def __init__(self, folders: Iterable[Path]) -> None:
        self._folders = tuple(folders)
        self._open: dict[Path, list[SegmentSnapshot]] = {}

    def refresh(self) -> None:
        """Take every segment as it is now; fast for those that are open already.

        Raises:
            LogUnsteady: A folder keeps changing.
            OSError: A file cannot be opened.
        """
        for folder in self._folders:
            self._open[folder] = self._refreshed(folder)

    def segments(self) -> Iterator[tuple[SegmentSnapshot, bool]]:
        """Return every segment, and whether it is the last one of its partition."""
        for opened in self._open.values():
            for segment in opened:
                yield segment, segment is opened[-1]

    def close(self) -> None:
        """Close all files."""
        for opened in self._open.values():
            _close(opened)
        self._open.clear()

    def _refreshed(self, folder: Path) -> list[SegmentSnapshot]:
        known = {(one.path, one.inode): one for one in self._open.pop(folder, [])}
        try:
            for _ in range(ATTEMPTS):
                paths = _listed(folder)
                with suppress(FileNotFoundError):
                    found = [_open_segment(path, known, is_last=path == paths[-1]) for path in paths]
                    if _stand(found, folder):
                        self._open[folder] = found
                        return found
        finally:
            still_open = {(one.path, one.inode) for one in self._open.get(folder, [])}
            _close(one for place, one in known.items() if place not in still_open)
        raise LogUnsteady(f"{folder} changes while it is listed")


def _listed(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.log")) if folder.is_dir() else []


def _open_segment(
    path: Path, known: dict[tuple[Path, int], SegmentSnapshot], *, is_last: bool
) -> SegmentSnapshot:
    status = path.stat()
    opened = known.get((path, status.st_ino))
    if opened is None:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        inode = os.fstat(descriptor).st_ino
        opened = known[path, inode] = SegmentSnapshot(path, descriptor, inode, 0)
    opened.size = os.fstat(opened.descriptor).st_size
    if opened.index is None and not is_last:
        with suppress(FileNotFoundError):
            opened.index = opened.index_path.read_bytes()
    return opened


def _stand(found: list[SegmentSnapshot], folder: Path) -> bool:
    """Return whether the folder still has just these files, so that each index is of its segment."""
    return [(one.path, one.inode) for one in found] == [(p, p.stat().st_ino) for p in _listed(folder)]


def _close(opened: Iterable[SegmentSnapshot]) -> None:
    for one in opened:
        os.close(one.descriptor)


def whole_bytes(segment: SegmentSnapshot) -> int:
    """Return the bytes of a growing segment up to the end of its last whole batch. Reads it through."""
    position = 0
    while position < segment.size:
        header = read_header(os.pread(segment.descriptor, HEADER_BYTES, position))
        if header is None or header.size > min(segment.size - position, _LARGEST_BATCH):
            break
        if not intact(header, os.pread(segment.descriptor, header.size, position)):
            break
        position += header.size
    return position
