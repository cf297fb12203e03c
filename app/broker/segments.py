"""One segment file of a log: record batches and a sparse index."""

import contextlib
import errno
import mmap
import os
import struct
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, Self

import structlog
from crc32c import crc32c

from app.broker.batches import HEADER_BYTES, BatchHeader, intact, last_offset_at, read_header

log = structlog.get_logger()

INDEX_INTERVAL_BYTES: Final = 16 * 1024
"""One index entry per so many bytes: about 0.15 % of the log in memory, a dozen headers walked per read."""

_WINDOW_BYTES: Final = INDEX_INTERVAL_BYTES + 4096
"""Read to find a batch from its index entry; often all there is to read at the end of a log."""

_WALK_BYTES: Final = 64 * 1024
_SIDECAR: Final = struct.Struct(">8sqqqqq")
_SIDECAR_MAGIC: Final = b"VSINDEX1"

_RESTING: Final = -1
"""Stands for the descriptor of a segment that has none."""


def segment_path(directory: Path, base_offset: int) -> Path:
    """Return the name of the segment that begins with this offset."""
    return directory / f"{base_offset:020d}.log"


class Segment:
    """An append-only file named after its first offset; bytes past `size` are left of failed writes.

    One that is written no more can rest: it holds no descriptor and no index, and who reads it wakes it.
    """

    __slots__ = (
        "_bases",
        "_fd",
        "_peaks",
        "_positions",
        "_read",
        "base_offset",
        "max_timestamp",
        "next_offset",
        "opened_ms",
        "path",
        "repaired",
        "size",
        "visible",
    )  # fmt: skip

    def __init__(self, path: Path, fd: int, base_offset: int, opened_ms: int) -> None:
        self.path = path
        self.base_offset = base_offset
        self.next_offset = base_offset
        self.opened_ms = opened_ms
        self.size = 0
        self.visible = 0
        self.max_timestamp = -1
        self.repaired = False
        self._fd = fd
        self._read = False
        self._forget_index()

    def _forget_index(self) -> None:
        self._bases = array("q")
        self._positions = array("q")
        self._peaks = array("q")

    @classmethod
    def create(cls, path: Path, base_offset: int, now_ms: int) -> Self:
        """Make an empty segment, or raise OSError."""
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        return cls(path, fd, base_offset, now_ms)

    @classmethod
    def load(
        cls, path: Path, remember: Callable[[BatchHeader], None], *, gapless: bool = False
    ) -> tuple[Self, bytes | None]:
        """Open an existing segment; `remember` sees every batch unless its sidecar spares the reading.

        Returns the segment and what `seal` was given, if the sidecar fits. Without one every checksum is
        verified, a torn tail is cut off and batches damaged in the middle are taken out. The checksum does
        not cover offsets: `gapless` says that each batch must begin where the one before ended, which holds
        until compaction or a repair.
        """
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        status = os.fstat(fd)
        segment = cls(path, fd, int(path.stem), int(status.st_mtime * 1000))
        sealed = segment._read_sidecar(status.st_size)
        if sealed is None:
            segment._scan(status.st_size, remember, gapless=gapless)
        segment.visible = segment.size
        return segment, sealed

    def write(self, header: BatchHeader, batch: bytes) -> None:
        """Write one batch at the end; on OSError (disk full, short write) nothing has changed."""
        try:
            written = os.pwrite(self._fd, batch, self.size)
        except OSError:
            self._undo()
            raise
        if written != header.size:
            self._undo()
            raise OSError(errno.ENOSPC, f"only {written} of {header.size} bytes were written to {self.path}")
        self._add(header)

    def _undo(self) -> None:
        with contextlib.suppress(OSError):  # what stays behind is overwritten, or cut at the next start
            os.ftruncate(self._fd, self.size)

    def _add(self, header: BatchHeader) -> None:
        self.max_timestamp = max(self.max_timestamp, header.max_timestamp)
        if not self._positions or self.size - self._positions[-1] >= INDEX_INTERVAL_BYTES:
            self._bases.append(header.base_offset)
            self._positions.append(self.size)
            self._peaks.append(self.max_timestamp)
        self.size += header.size
        self.next_offset = header.last_offset + 1

    def read(self, offset: int, max_bytes: int) -> bytes:
        """Return visible bytes from the batch holding `offset` on; the first batch always whole.

        The last batch may be cut short, as Kafka's own answers may be.
        """
        self._wake()
        if not self._positions:
            return b""
        start = self._positions[max(bisect_right(self._bases, offset) - 1, 0)]
        window = self._pread(start, _WINDOW_BYTES)
        at = 0
        while len(window) - at >= HEADER_BYTES:
            last, size = last_offset_at(window, at)
            if last >= offset:
                wanted = min(max(size, max_bytes), self.visible - start - at)
                if at + wanted <= len(window):
                    return window[at : at + wanted]
                return self._pread(start + at, wanted)
            at += size
        return self._read_on(offset, start + at, max_bytes)

    def _read_on(self, offset: int, position: int, max_bytes: int) -> bytes:
        for found, header in self.headers(position):
            if header.last_offset >= offset:
                return self._pread(found, max(header.size, max_bytes))
        return b""

    def _pread(self, position: int, length: int) -> bytes:
        self._wake()
        return os.pread(self._fd, max(min(length, self.visible - position), 0), position)

    def headers(self, position: int = 0) -> Iterator[tuple[int, BatchHeader]]:
        """Yield (position, header) of every visible batch from `position` on."""
        while position < self.visible:
            chunk = self._pread(position, _WALK_BYTES)
            at = 0
            while (header := read_header(chunk, at)) is not None:
                yield position + at, header
                at += header.size
            if at == 0:
                return
            position += at

    def batch(self, position: int, header: BatchHeader) -> bytes:
        """Return one whole batch."""
        return self._pread(position, header.size)

    def find_time(self, timestamp_ms: int) -> tuple[int, BatchHeader] | None:
        """Return position and header of the first batch with a record at or after the time."""
        if self.max_timestamp < timestamp_ms:
            return None
        self._wake()
        if not self._positions:
            return None
        start = self._positions[max(bisect_left(self._peaks, timestamp_ms) - 1, 0)]
        return next((hit for hit in self.headers(start) if hit[1].max_timestamp >= timestamp_ms), None)

    def finish(self, next_offset: int) -> None:
        """Sync a segment that compaction wrote; the offsets it leaves out at its end count as its own."""
        os.fsync(self._fd)
        os.utime(self._fd, (self.opened_ms / 1000, self.opened_ms / 1000))
        self.visible = self.size
        self.next_offset = next_offset

    def cut(self, size: int, next_offset: int) -> None:
        """Forget everything from `size` on; the caller knows a batch begins there."""
        self._wake()
        with contextlib.suppress(OSError):
            os.ftruncate(self._fd, size)
        while self._positions and self._positions[-1] >= size:
            self._positions.pop()
            self._bases.pop()
            self._peaks.pop()
        self.size = size
        self.visible = min(self.visible, size)
        self.next_offset = next_offset

    def duplicate_fd(self) -> int:
        """Return an own descriptor for a thread that syncs; it outlives `close`."""
        self._wake()
        return os.dup(self._fd)

    def modified_ms(self) -> int:
        """Return when the file was last written, in milliseconds since 1970."""
        return int(self.path.stat().st_mtime * 1000)

    def close(self) -> None:
        """Give the descriptor back."""
        if self._fd != _RESTING:
            os.close(self._fd)
            self._fd = _RESTING

    def rest(self) -> None:
        """Close descriptor and index unless they were used since the last call; only once sealed."""
        if self._fd == _RESTING or not self.sealed:
            return
        if self._read:
            self._read = False
            return
        self.close()
        self._forget_index()

    def _wake(self) -> None:
        """Take descriptor and index up again; without its sidecar the batches are gone through once more."""
        self._read = True
        if self._fd != _RESTING:
            return
        self._fd = os.open(self.path, os.O_RDWR | os.O_CLOEXEC)
        if self._read_sidecar(self.size) is None:
            self._index_anew()

    def _index_anew(self) -> None:
        size, next_offset = self.size, self.next_offset
        self.size = 0
        for _, header in self.headers():
            self._add(header)
        self.size, self.next_offset = size, next_offset

    @property
    def sidecar(self) -> Path:
        """The index written beside a closed segment, so that opening it needs no reading."""
        return self.path.with_suffix(".index")

    @property
    def sealed(self) -> bool:
        """Whether its sidecar has been written."""
        return self.sidecar.exists()

    def seal(self, remembered: bytes) -> None:
        """Write the sidecar, with what the log wants back from `load`; call it after an fsync."""
        numbers = (self.size, self.next_offset, self.max_timestamp, len(self._positions), len(remembered))
        columns = (self._bases.tobytes(), self._positions.tobytes(), self._peaks.tobytes())
        body = _SIDECAR.pack(_SIDECAR_MAGIC, *numbers) + b"".join(columns) + remembered
        draft = self.path.with_suffix(".index.draft")
        draft.write_bytes(body + struct.pack(">I", crc32c(body)))
        draft.replace(self.sidecar)

    def unseal(self) -> None:
        """Remove the sidecar before the segment grows again."""
        self.sidecar.unlink(missing_ok=True)

    def _read_sidecar(self, file_size: int) -> bytes | None:
        try:
            body = self.sidecar.read_bytes()
        except FileNotFoundError:
            return None
        if len(body) < _SIDECAR.size + 4 or crc32c(body[:-4]).to_bytes(4, "big") != body[-4:]:
            return None
        magic, size, next_offset, max_timestamp, entries, remembered = _SIDECAR.unpack_from(body)
        if magic != _SIDECAR_MAGIC or size != file_size:
            return None
        self.size, self.next_offset, self.max_timestamp = size, next_offset, max_timestamp
        position = _SIDECAR.size
        for column in (self._bases, self._positions, self._peaks):
            column.frombytes(body[position : position + entries * 8])
            position += entries * 8
        return body[position : position + remembered]

    def _scan(self, file_size: int, remember: Callable[[BatchHeader], None], *, gapless: bool) -> None:
        damaged = False
        if file_size:
            with mmap.mmap(self._fd, file_size, prot=mmap.PROT_READ) as mapped, memoryview(mapped) as view:
                spans, damaged = _good_batches(view, self.base_offset, gapless=gapless)
                if damaged:
                    self._salvage(view, [span for span, _ in spans])
                for _, header in spans:
                    self._add(header)
                    remember(header)
        if self.size < file_size and not damaged:
            log.warning("broker.torn_tail_truncated", segment=str(self.path), cut_bytes=file_size - self.size)
            os.ftruncate(self._fd, self.size)

    def _salvage(self, view: memoryview, spans: list[slice]) -> None:
        self.repaired = True
        original = self.path.with_suffix(".damaged")
        draft = self.path.with_suffix(".draft")
        draft.write_bytes(b"".join(view[span] for span in spans))
        self.path.replace(original)
        draft.replace(self.path)
        os.close(self._fd)
        self._fd = os.open(self.path, os.O_RDWR | os.O_CLOEXEC)
        log.error("broker.damaged_batches_removed", segment=str(self.path), original=str(original))


def _good_batches(
    view: memoryview, expected: int, *, gapless: bool
) -> tuple[list[tuple[slice, BatchHeader]], bool]:
    """Return the intact batches and whether a damaged one lies between them."""
    good: list[tuple[slice, BatchHeader]] = []
    position, damaged, suspect = 0, False, False
    while (header := read_header(view, position)) is not None:
        span = slice(position, position + header.size)
        placed = header.base_offset == expected if gapless and not suspect else header.base_offset >= expected
        if placed and intact(header, view[span]):
            good.append((span, header))
            damaged, suspect = damaged or suspect, False
            expected = header.last_offset + 1
        elif suspect or span.stop >= len(view):
            break
        else:
            suspect = True
        position = span.stop
    return good, damaged
