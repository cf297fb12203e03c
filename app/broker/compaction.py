"""Compact a log with `cleanup.policy=compact`: keep the last record of every key, at its offset."""

import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Final, NamedTuple

from kio.serial.errors import SerialError

from app.broker.batches import PREFIX_BYTES, BatchHeader, BatchRecord, intact, records_of, rewrite
from app.broker.segments import Segment

MAX_KEYS: Final = 500_000
"""Keys one run keeps in memory (about 180 bytes each); what is over waits for the next run."""

DIGEST_BYTES: Final = 16
"""Keys are compared by digest; Kafka uses 16 bytes of MD5."""

BREATH_S: Final = 0.0002
"""How long the compacting thread leaves the interpreter to the event loop after each portion."""

PORTION_RECORDS: Final = 100
"""About 0.3 ms of work, the longest the event loop should wait."""


@dataclass(frozen=True, slots=True)
class CompactionTask:
    """One run over a log's closed and synced segments, oldest first."""

    sources: Sequence[Path]
    dirty_from: int
    """Offset up to which an earlier run has already compacted."""

    tombstone_ms: int
    now_ms: int
    segment_bytes: int


class Rewritten(NamedTuple):
    """A segment that takes the place of its sources; still under a `.cleaned` name."""

    sources: list[Path]
    segment: Segment
    remembered: bytes | None
    """What the last source's sidecar knew of producers; None leaves that to the next start's reading."""

    def take_name(self) -> None:
        """Give the new file the name of its first source. Not for the event loop; raises OSError."""
        self.sources[0].with_suffix(".index").unlink(missing_ok=True)
        self.segment.path.replace(self.sources[0])
        self.segment.path = self.sources[0]

    def remove_sources(self) -> None:
        """Remove the other sources, oldest first, so that a crash in between restores no removed record.

        The next start knows leftovers by their overlap with the new segment. Not for the event loop.
        """
        for path in self.sources[1:]:
            path.unlink(missing_ok=True)
            path.with_suffix(".index").unlink(missing_ok=True)
        if self.remembered is not None:
            self.segment.seal(self.remembered)

    def discard(self) -> None:
        """Leave the sources as they are."""
        self.segment.close()
        self.segment.path.unlink(missing_ok=True)


class CompactionOutcome(NamedTuple):
    """The segments a run wrote, and the offset up to which the log is compact."""

    rewritten: list[Rewritten]
    compact_to: int


class _Stopped(Exception):
    """The broker ends."""


def compact(task: CompactionTask, stop: threading.Event) -> CompactionOutcome | None:
    """Write compacted segments beside the old ones; None when stopped. Blocking.

    Records without a key, and batches that are compressed or not well formed, stay as they are; while
    there are such batches no tombstone is removed, for it may be what hides one of their records.
    """
    made: list[Rewritten] = []
    try:
        return _Run(task, stop, made).outcome()
    except (_Stopped, OSError) as error:
        for rewritten in made:
            rewritten.discard()
        if isinstance(error, OSError):
            raise
        return None


class _Run:
    def __init__(self, task: CompactionTask, stop: threading.Event, made: list[Rewritten]) -> None:
        self._task = task
        self._stop = stop
        self._made = made
        self._latest: dict[bytes, int] = {}
        self._compact_to = task.dirty_from
        self._opaque = False
        self._worked = 0

    def outcome(self) -> CompactionOutcome:
        self._survey()
        for group in _groups(self._task):
            self._rewrite(group)
        return CompactionOutcome(self._made, self._compact_to)

    def _survey(self) -> None:
        """Learn the last offset of every key in the dirty part, as far as memory allows."""
        for path in self._task.sources:
            segment, _ = Segment.load(path, _ignore)
            try:
                if segment.next_offset > self._task.dirty_from and not self._learn(segment):
                    return
            finally:
                segment.close()

    def _learn(self, segment: Segment) -> bool:
        for header, _, records in self._batches(segment):
            if len(self._latest) >= MAX_KEYS:
                return False
            for record in records or ():
                if record.key is not None:
                    self._latest[_digest(record.key)] = record.offset
            self._compact_to = max(self._compact_to, header.last_offset + 1)
        self._compact_to = max(self._compact_to, segment.next_offset)
        return True

    def _batches(self, segment: Segment) -> Iterator[tuple[BatchHeader, bytes, list[BatchRecord] | None]]:
        for position, header in segment.headers():
            batch = segment.batch(position, header)
            yield header, batch, _readable(header, batch)
            self._breathe(header.record_count)

    def _rewrite(self, group: list[Path]) -> None:
        loaded = [Segment.load(path, _ignore) for path in group]
        sources = [segment for segment, _ in loaded]
        path = group[0].with_suffix(".cleaned")
        try:
            target = Segment.create(path, sources[0].base_offset, sources[-1].opened_ms)
            self._made.append(Rewritten(group, target, loaded[-1][1]))
            removed = sum(self._copy(source, target) for source in sources)
            if not removed and len(group) == 1:
                self._made.pop().discard()
                return
            target.finish(sources[-1].next_offset)
        finally:
            for source in sources:
                source.close()

    def _copy(self, source: Segment, target: Segment) -> int:
        """Copy what stays; return how many records did not."""
        removed = 0
        expired = source.modified_ms() + self._task.tombstone_ms < self._task.now_ms
        for header, batch, records in self._batches(source):
            if records is None:
                self._opaque = True
                target.write(header, batch)
                continue
            remaining = [record for record in records if self._stays(record, expired=expired)]
            removed += len(records) - len(remaining)
            if len(remaining) == len(records):
                target.write(header, batch)
            elif remaining:
                smaller = rewrite(header, remaining)
                target.write(header._replace(length=len(smaller) - PREFIX_BYTES), smaller)
        return removed

    def _stays(self, record: BatchRecord, *, expired: bool) -> bool:
        if record.key is None:
            return True
        if self._latest.get(_digest(record.key), -1) > record.offset:
            return False
        removable = expired and not self._opaque and record.offset < self._compact_to
        return not (record.tombstone and removable)

    def _breathe(self, records: int) -> None:
        self._worked += records
        if self._worked >= PORTION_RECORDS:
            self._worked = 0
            if self._stop.is_set():
                raise _Stopped
            time.sleep(BREATH_S)


def _groups(task: CompactionTask) -> list[list[Path]]:
    """Merge adjacent segments that fit into one, so that small leftovers do not pile up."""
    groups: list[list[Path]] = []
    room = 0
    for path in task.sources:
        size = path.stat().st_size
        if not groups or size > room:
            groups.append([])
            room = task.segment_bytes
        groups[-1].append(path)
        room -= size
    return groups


def _readable(header: BatchHeader, batch: bytes) -> list[BatchRecord] | None:
    if header.compressed or not intact(header, batch):
        return None
    try:
        return list(records_of(header, batch))
    except (ValueError, SerialError):
        return None


def _digest(key: bytes) -> bytes:
    return blake2b(key, digest_size=DIGEST_BYTES).digest()


def _ignore(_: BatchHeader) -> None:
    """Do nothing: sources are sealed, and their sidecars have the producers."""
