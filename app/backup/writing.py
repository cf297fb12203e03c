"""Write files of a backup or of a restored folder: private, flushed, with their digests."""

import hashlib
import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import BinaryIO, Final

from app.adapters.files.data_dir import make_private
from app.adapters.security.crypto import sync_folder
from app.backup.manifest import FileEntry

BLOCK_BYTES: Final = 1 << 20
"""Copied at a time."""

PAGES_AT_ONCE: Final = 256
"""Pages of a database copied at a time: 1 MiB."""

Counted = Callable[[int], None]
"""Called with the number of bytes that were written."""

Source = Callable[[int, int], bytes]
"""Returns so many bytes from a place on, fewer at the end."""


def of_descriptor(descriptor: int) -> Source:
    """Return an open file as a source."""
    return lambda position, length: os.pread(descriptor, length, position)


def of_bytes(content: bytes) -> Source:
    """Return bytes as a source."""
    return lambda position, length: content[position : position + length]


def of_stream(stream: BinaryIO) -> Source:
    """Return the rest of a stream as a source; it must be read sequentially."""
    return lambda _, length: stream.read(length)


class CutShort(Exception):
    """A source ended before it should."""


def write_file(root: Path, name: str, size: int, source: Source, counted: Counted) -> FileEntry:
    """Write a file below a folder and return its entry; an existing file is replaced.

    Raises:
        CutShort: The source has fewer bytes.
        OSError: The file cannot be written.
    """
    path = root / name
    make_private(path.parent)
    path.unlink(missing_ok=True)
    digest = hashlib.sha256()
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb", buffering=0) as file:
        position = 0
        while position < size:
            block = source(position, min(BLOCK_BYTES, size - position))
            if not block:
                raise CutShort(name)
            _write(file.fileno(), block)
            digest.update(block)
            position += len(block)
            counted(len(block))
        os.fsync(file.fileno())
    return FileEntry(name=name, size=size, sha256=digest.hexdigest())


def copy_database(root: Path, name: str, source: sqlite3.Connection, counted: Counted) -> Path:
    """Copy what a connection sees, whatever others write meanwhile; returns the new file.

    Raises:
        sqlite3.Error: It cannot be copied.
    """
    path = root / name
    make_private(path.parent)
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    page_bytes = source.execute("PRAGMA page_size").fetchone()[0]
    before = 0

    def progress(_: int, remaining: int, total: int) -> None:
        nonlocal before
        done = total - remaining
        counted((done - before) * page_bytes)
        before = done

    with closing(sqlite3.connect(path, isolation_level=None)) as target:
        source.backup(target, pages=PAGES_AT_ONCE, progress=progress)
    return path


def entry_of(root: Path, name: str) -> FileEntry:
    """Return the entry of a file that was written already, once it is flushed to the disk."""
    with (root / name).open("rb") as file:
        digest, size = hashlib.file_digest(file, "sha256"), file.tell()
        os.fsync(file.fileno())
    return FileEntry(name=name, size=size, sha256=digest.hexdigest())


def sync_folders(root: Path) -> None:
    """Make the names of all files below a folder durable."""
    for folder, _, _ in os.walk(root):
        sync_folder(Path(folder))


def remove_tree(root: Path) -> None:
    """Remove a folder and everything in it; missing parts are no error."""
    shutil.rmtree(root, ignore_errors=True)


def _write(descriptor: int, block: bytes) -> None:
    remaining = memoryview(block)
    while remaining:
        remaining = remaining[os.write(descriptor, remaining) :]
