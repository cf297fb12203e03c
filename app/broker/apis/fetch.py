"""Fetch: read records, or wait until there are enough (long polling)."""

import asyncio
from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Final, NamedTuple

from kio.schema.errors import ErrorCode
from kio.schema.fetch.v12.request import FetchRequest
from kio.schema.fetch.v12.response import EpochEndOffset, LeaderIdAndEpoch, SnapshotId

from app.broker.apis.fetch_sessions import Asked, FetchSession, PartitionKey, partitions_of
from app.broker.flusher import Wakeups
from app.broker.log import PartitionLog
from app.broker.node import Call, Node
from app.broker.wire import NO_THROTTLE

MAX_READER_FETCH_BYTES: Final = 1024 * 1024
"""One answer to a user who may only read: what it does not read from its sockets stays in memory."""

_NO_DIVERGENCE: Final = EpochEndOffset()
_SAME_LEADER: Final = LeaderIdAndEpoch()
_NO_SNAPSHOT: Final = SnapshotId()


class FetchedPartition(NamedTuple):
    """Records of one partition; the field names are the wire's."""

    partition_index: int
    error_code: ErrorCode
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    records: bytes = b""
    aborted_transactions: tuple[()] = ()
    preferred_read_replica: int = -1
    diverging_epoch: EpochEndOffset = _NO_DIVERGENCE
    current_leader: LeaderIdAndEpoch = _SAME_LEADER
    snapshot_id: SnapshotId = _NO_SNAPSHOT


class FetchedTopic(NamedTuple):
    """The partitions of one topic."""

    topic: str
    partitions: tuple[FetchedPartition, ...]


class Fetched(NamedTuple):
    """The response to a Fetch request; session 0: there is none."""

    responses: tuple[FetchedTopic, ...]
    error_code: ErrorCode = ErrorCode.none
    session_id: int = 0
    throttle_time: timedelta = NO_THROTTLE


class _Wanted(NamedTuple):
    key: PartitionKey
    partition: PartitionLog | None
    offset: int
    max_bytes: int
    error: ErrorCode
    """Why there is nothing to read."""


def fetch(call: Call, request: FetchRequest) -> object:
    """Answer at once on an error, with `min_bytes` or without a wait; else as soon as one applies."""
    session = None if call.sessions is None else call.sessions.take(request)
    if isinstance(session, ErrorCode):
        return Fetched((), session)
    asked = partitions_of(request) if session is None else session.asked.items()
    reading = _Reading(_wanted(call, asked), _max_bytes(call, request), session)
    answer, found, urgent = reading.read()
    wait_s = _wait_s(call.node, request)
    if urgent or found >= request.min_bytes or wait_s <= 0 or not reading.wanted:
        return reading.answered(answer)
    return LongPoll(call.node.wakeups, reading, request.min_bytes, wait_s)


def _wanted(call: Call, asked: Iterable[tuple[PartitionKey, Asked]]) -> list[_Wanted]:
    """Look the partitions up, also those of a session: topics and rights may have changed since."""
    partition_of, may_read = call.node.topics.partition, call.access.may_read
    return [
        _Wanted(key, partition_of(*key), one.offset, one.max_bytes, ErrorCode.unknown_topic_or_partition)
        if may_read(key[0])
        else _Wanted(key, None, one.offset, one.max_bytes, ErrorCode.topic_authorization_failed)
        for key, one in asked
    ]


def _max_bytes(call: Call, request: FetchRequest) -> int:
    most = call.node.settings.max_fetch_bytes if call.access.unlimited else MAX_READER_FETCH_BYTES
    return min(request.max_bytes, most)


def _wait_s(node: Node, request: FetchRequest) -> float:
    asked = request.max_wait.total_seconds()
    cap = node.settings.max_fetch_wait_s
    return asked if cap is None else min(asked, cap)


class _Reading(NamedTuple):
    """What one request reads, and the session in which it is answered."""

    wanted: list[_Wanted]
    max_bytes: int
    session: FetchSession | None

    def read(self) -> tuple[Fetched, int, bool]:
        """Return the answer, how many bytes of records it has and whether it has an error."""
        topics: dict[str, list[FetchedPartition]] = {}
        found, urgent = 0, False
        for want in self.wanted:
            if self._is_known(want):
                continue
            fetched = _read_one(want, self.max_bytes - found, first=found == 0)
            found += len(fetched.records)
            urgent = urgent or fetched.error_code is not ErrorCode.none
            topics.setdefault(want.key[0], []).append(fetched)
        responses = tuple([FetchedTopic(name, tuple(parts)) for name, parts in topics.items()])
        session_id = 0 if self.session is None else self.session.id
        return Fetched(responses, session_id=session_id), found, urgent

    def answered(self, answer: Fetched) -> Fetched:
        """Note in the session what its client knows by the answer, and return it."""
        if self.session is not None:
            for topic, parts in answer.responses:
                for part in parts:
                    self.session.known[topic, part.partition_index] = (
                        part.high_watermark,
                        part.log_start_offset,
                    )
        return answer

    def _is_known(self, want: _Wanted) -> bool:
        """Return whether there is nothing to read, and nothing to tell that the session's client lacks."""
        partition = want.partition
        if self.session is None or partition is None or partition.closed:
            return False
        bounds = partition.high_watermark, partition.start_offset
        return want.offset == bounds[0] and self.session.known.get(want.key) == bounds


def _read_one(want: _Wanted, budget: int, *, first: bool) -> FetchedPartition:
    number, partition = want.key[1], want.partition
    if partition is None or partition.closed:
        return FetchedPartition(number, want.error)
    high, start = partition.high_watermark, partition.start_offset
    if not start <= want.offset <= partition.next_offset:
        return FetchedPartition(number, ErrorCode.offset_out_of_range, high, high, start)
    records = b""
    if want.offset < high and (first or budget > 0):
        records = partition.read(want.offset, max(min(want.max_bytes, budget), 0))
        if not first and len(records) > budget:
            records = b""
    return FetchedPartition(number, ErrorCode.none, high, high, start, records)


class LongPoll:
    """A parked Fetch; its partitions wake it when they grow."""

    def __init__(self, wakeups: Wakeups, reading: _Reading, min_bytes: int, wait_s: float) -> None:
        self._wakeups = wakeups
        self._reading = reading
        self._min_bytes = min_bytes
        self._deliver: Callable[[object], None] | None = None
        self._timer = asyncio.get_running_loop().call_later(wait_s, self.finish)
        self._wake = self._woke
        for want in reading.wanted:
            if want.partition is not None:
                want.partition.watchers.add(self._wake)

    def then(self, deliver: Callable[[object], None]) -> None:
        """Have `deliver` called once with the answer."""
        self._deliver = deliver

    def cancel(self) -> None:
        """Stop waiting; nothing is delivered any more."""
        self._deliver = None
        self._timer.cancel()
        for want in self._reading.wanted:
            if want.partition is not None:
                want.partition.watchers.discard(self._wake)

    def _woke(self) -> None:
        self._wakeups.add(self._look)

    def _look(self) -> None:
        """Answer if there is enough now."""
        if self._deliver is not None:
            answer, found, urgent = self._reading.read()
            if urgent or found >= self._min_bytes:
                self._finish(answer)

    def finish(self) -> None:
        """Answer with the records at hand: the time is up, or the client sent its next request."""
        self._finish(self._reading.read()[0])

    def _finish(self, answer: Fetched) -> None:
        deliver = self._deliver
        self.cancel()
        if deliver is not None:
            deliver(self._reading.answered(answer))
