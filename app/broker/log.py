"""Log of one partition on disk: append, read, find by time, recover, retain."""

import contextlib
import os
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Self

import structlog
from kio.schema.errors import ErrorCode
from kio.serial.errors import SerialError

from app.adapters.files.data_dir import make_private
from app.broker.batches import STAMP_BYTES, BatchHeader, accept, appended_at, records_of, stamp
from app.broker.errors import Refused
from app.broker.segments import Segment, segment_path
from app.broker.sequences import Sequences

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class LogLimits:
    """Size and age limits of a topic's logs; -1 is no limit."""

    segment_bytes: int
    segment_ms: int
    retention_ms: int
    retention_bytes: int
    max_message_bytes: int
    append_time: bool = False
    """Whether records carry the time of their append instead of their producer's (`LogAppendTime`)."""


@dataclass(frozen=True, slots=True)
class Mark:
    """The end of a log when a sync began."""

    segment: Segment
    size: int
    next_offset: int


class PartitionLog:
    """The only writer of one directory of segments.

    Offsets below `high_watermark` may be read. `append` leaves it alone: the flusher moves it with `reveal`,
    at once or after an fsync.
    """

    def __init__(self, directory: Path, limits: LogLimits, now_ms: Callable[[], int]) -> None:
        self.directory = directory
        self.limits = limits
        self.segments: list[Segment] = []
        self.sequences = Sequences()
        self.high_watermark = 0
        self.watchers: set[Callable[[], None]] = set()
        self.closed = False
        self.compact_to = 0
        self.appended_ms: int | None = None
        """The time given to the last batch; None when its producer's is used."""
        self._now_ms = now_ms
        self._unsynced: dict[Segment, bytes] = {}

    @classmethod
    def open(cls, directory: Path, limits: LogLimits, now_ms: Callable[[], int]) -> Self:
        """Open or make the log in `directory`; reads files, so not for the event loop."""
        make_private(directory)
        opened = cls(directory, limits, now_ms)
        opened._recover()
        return opened

    @property
    def start_offset(self) -> int:
        """The log start offset."""
        return self.segments[0].base_offset

    @property
    def next_offset(self) -> int:
        """The offset the next record gets."""
        return self.segments[-1].next_offset

    @property
    def size(self) -> int:
        """Bytes of all segments."""
        return sum(segment.size for segment in self.segments)

    def append(self, records: bytes) -> int:
        """Append one produced batch and return its base offset; a recognised repeat returns its first one.

        Raises `Refused`: with the batch's own fault, or KAFKA_STORAGE_ERROR when the disk does not take it,
        in which case the log is as before.
        """
        header = accept(records, self.limits.max_message_bytes)
        if header.idempotent:
            earlier = self.sequences.earlier(header)
            if earlier is not None:
                return earlier
        self.appended_ms = self._now_ms() if self.limits.append_time else None
        if self.appended_ms is not None:
            header, records = appended_at(header, records, self.appended_ms)
        elif header.append_time:
            raise Refused(ErrorCode.invalid_timestamp, "a producer may not set the time of the append")
        try:
            return self._write(header, records)
        except OSError as error:
            log.exception("broker.write_failed", directory=str(self.directory))
            raise Refused(ErrorCode.kafka_storage_error, f"the log cannot be written: {error}") from error

    def _write(self, header: BatchHeader, records: bytes) -> int:
        if self.closed:
            raise Refused(ErrorCode.unknown_topic_or_partition)
        active = self.segments[-1]
        if active.size and active.size + header.size > self.limits.segment_bytes:
            active = self.roll()
        base_offset = active.next_offset
        placed = header._replace(base_offset=base_offset)
        active.write(placed, b"".join((stamp(base_offset, header), memoryview(records)[STAMP_BYTES:])))
        if header.idempotent:
            self.sequences.remember(header, base_offset, self._now_ms())
        return base_offset

    def roll(self) -> Segment:
        """Close the active segment to writes and begin the next one; raises OSError."""
        closing = self.segments[-1]
        path = segment_path(self.directory, closing.next_offset)
        created = Segment.create(path, closing.next_offset, self._now_ms())
        self.segments.append(created)
        self._unsynced[closing] = self.sequences.dump()
        return created

    def read(self, offset: int, max_bytes: int) -> bytes:
        """Return revealed batches from the one holding `offset` on, at least one if there is any."""
        segments = self.segments
        at = len(segments) - 1
        if segments[at].base_offset > offset:
            at = max(bisect_right(segments, offset, key=_base_offset) - 1, 0)
        while at < len(segments):
            data = segments[at].read(offset, max_bytes)
            if data:
                return data
            at += 1
        return b""

    def find_time(self, timestamp_ms: int) -> tuple[int, int] | None:
        """Return (timestamp, offset) of the first record at or after the time, or None.

        Compressed batches are not opened: their first offset stands for them, never a later one.
        """
        for segment in self.segments:
            found = segment.find_time(timestamp_ms)
            if found is None:
                continue
            position, header = found
            if header.compressed:
                return header.max_timestamp, header.base_offset
            return _first_since(header, segment.batch(position, header), timestamp_ms)
        return None

    def latest_record(self) -> tuple[int, int] | None:
        """Return (timestamp, offset) of the newest timestamp in the log, or None when it is empty."""
        newest = max(segment.max_timestamp for segment in self.segments)
        return self.find_time(newest) if newest >= 0 else None

    def marks(self) -> list[Mark]:
        """Return what a sync must make durable: closed segments not yet synced, then the active one."""
        pending = [*self._unsynced, self.segments[-1]]
        return [Mark(segment, segment.size, segment.next_offset) for segment in pending]

    def reveal(self, marks: list[Mark]) -> None:
        """Make records visible to readers up to the marks."""
        for mark in marks:
            mark.segment.visible = max(mark.segment.visible, mark.size)
        self._advance(marks[-1].next_offset)

    def reveal_all(self) -> None:
        """Make all written records visible to readers."""
        active = self.segments[-1]
        for segment in self._unsynced:
            segment.visible = segment.size
        active.visible = active.size
        self._advance(active.next_offset)

    def _advance(self, offset: int) -> None:
        if offset > self.high_watermark:
            self.high_watermark = offset
            for wake in tuple(self.watchers):
                wake()

    def synced(self, marks: list[Mark]) -> list[tuple[Segment, bytes]]:
        """Note a finished sync; returns closed segments whose sidecars may now be written."""
        closed = [mark.segment for mark in marks if mark.segment in self._unsynced]
        return [(segment, self._unsynced.pop(segment)) for segment in closed]

    def take_back(self) -> None:
        """Drop what was written but never revealed, after an fsync failed: nobody may rely on it."""
        for segment in reversed(self.segments[1:]):
            if segment.base_offset < self.high_watermark or segment.visible:
                break
            self.segments.remove(segment)
            self._unsynced.pop(segment, None)
            segment.close()
            segment.path.unlink(missing_ok=True)
        last = self.segments[-1]
        last.cut(last.visible, self.high_watermark)
        self._unsynced.pop(last, None)
        self._rebuild_sequences()

    def _rebuild_sequences(self) -> None:
        self.sequences = Sequences()
        for segment in self.segments:
            for _, header in segment.headers():
                self._remember(header)

    def _remember(self, header: BatchHeader) -> None:
        if header.idempotent:
            self.sequences.remember(header, header.base_offset, self._now_ms())

    def retire(self, now_ms: int) -> list[Segment]:
        """Take segments that are too old or too many out of the log; the caller unlinks them.

        The active segment leaves only by age, after an empty one took its place. Raises OSError when that
        one cannot be made.
        """
        active = self.segments[-1]
        if active.size and self._expired(active, now_ms):
            self.roll()
        retired: list[Segment] = []
        size = self.size
        while len(self.segments) > 1 and self._due(self.segments[0], size, now_ms):
            oldest = self.segments.pop(0)
            size -= oldest.size
            self._unsynced.pop(oldest, None)
            retired.append(oldest)
        return retired

    def _due(self, segment: Segment, size: int, now_ms: int) -> bool:
        limit = self.limits.retention_bytes
        return (0 <= limit <= size - segment.size) or self._expired(segment, now_ms)

    def _expired(self, segment: Segment, now_ms: int) -> bool:
        newest = segment.max_timestamp
        if not 0 <= newest <= now_ms:  # producers may claim any time; then the file's own counts
            newest = segment.modified_ms()
        return 0 <= self.limits.retention_ms < now_ms - newest

    def closed_segments(self) -> list[Segment]:
        """Return the segments that are written no more and have been synced, oldest first."""
        closed = self.segments[:-1]
        return list(takewhile(lambda segment: segment not in self._unsynced and segment.sealed, closed))

    def rest(self) -> None:
        """Close the files of sealed segments that nobody reads: a week's log is thousands of them."""
        for segment in self.segments[:-1]:
            if segment not in self._unsynced:
                segment.rest()

    def roll_if_old(self, now_ms: int) -> bool:
        """Close the active segment once it is older than `segment_ms`; raises OSError."""
        active = self.segments[-1]
        if not active.size or now_ms - active.opened_ms <= self.limits.segment_ms:
            return False
        self.roll()
        return True

    def swap(self, sources: list[Path], replacement: Segment) -> bool:
        """Put a compacted segment in the place of its neighbouring sources; False if the log is gone."""
        if self.closed:
            return False
        paths = [segment.path for segment in self.segments]
        at = paths.index(sources[0])
        old = self.segments[at : at + len(sources)]
        self.segments[at : at + len(sources)] = [replacement]
        for segment in old:
            segment.close()
        return True

    def close(self) -> None:
        """Sync and seal everything so that the next start reads no batches, then let go of the files."""
        if self.closed:
            return
        self.closed = True
        self._unsynced[self.segments[-1]] = self.sequences.dump()
        for segment, remembered in self._unsynced.items():
            _seal_durably(segment, remembered)
        for segment in self.segments:
            segment.close()

    def abandon(self) -> None:
        """Close the files of a deleted topic and wake its readers."""
        self.closed = True
        for segment in self.segments:
            segment.close()
        for wake in tuple(self.watchers):
            wake()

    def _recover(self) -> None:
        for leftover in (*self.directory.glob("*.draft"), *self.directory.glob("*.cleaned")):
            leftover.unlink()
        paths = sorted(self.directory.glob("*.log"))
        for path in paths:
            if self.segments and int(path.stem) < self.next_offset:
                path.unlink()  # a compaction had merged it into the one before and was cut off here
                continue
            segment, remembered = Segment.load(path, self._remember, gapless=path == paths[-1])
            if remembered is not None:
                self.sequences.load(remembered)
            self.segments.append(segment)
        if not self.segments:
            self.segments.append(Segment.create(segment_path(self.directory, 0), 0, self._now_ms()))
        self.segments[-1].unseal()
        if self.segments[-1].repaired:
            self.roll()  # the next start expects no gaps in the last segment
        self.high_watermark = self.next_offset
        self.rest()


def _first_since(header: BatchHeader, batch: bytes, timestamp_ms: int) -> tuple[int, int]:
    records = () if header.compressed else records_of(header, batch)
    with contextlib.suppress(ValueError, SerialError):
        for record in records:
            if record.timestamp >= timestamp_ms:
                return record.timestamp, record.offset
    return header.max_timestamp, header.base_offset


def _seal_durably(segment: Segment, remembered: bytes) -> None:
    fd = segment.duplicate_fd()
    try:
        os.fsync(fd)
        segment.seal(remembered)
    except OSError as error:
        log.warning("broker.segment_seal_failed", segment=str(segment.path), error=str(error))
    finally:
        os.close(fd)


def _base_offset(segment: Segment) -> int:
    return segment.base_offset
