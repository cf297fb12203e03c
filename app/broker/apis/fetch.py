"""Fetch: read records, or wait until there are enough (long polling)."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Final, NamedTuple

from kio.schema.errors import ErrorCode
from kio.schema.fetch.v12.request import FetchPartition, FetchRequest
from kio.schema.fetch.v12.response import EpochEndOffset, LeaderIdAndEpoch, SnapshotId

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
    """The response to a Fetch request; session 0: fetch sessions are not supported (KIP-227)."""

    responses: tuple[FetchedTopic, ...]
    error_code: ErrorCode = ErrorCode.none
    session_id: int = 0
    throttle_time: timedelta = NO_THROTTLE


class _Wanted(NamedTuple):
    topic: str
    number: int
    partition: PartitionLog | None
    offset: int
    max_bytes: int
    error: ErrorCode
    """Why there is nothing to read."""


def fetch(call: Call, request: FetchRequest) -> object:
    """Answer at once on an error, with `min_bytes` or without a wait; else as soon as one applies."""
    if getattr(request, "session_id", 0):
        return Fetched((), ErrorCode.fetch_session_id_not_found)
    wanted = [_wanted(call, topic.topic, part) for topic in request.topics for part in topic.partitions]
    most = call.node.settings.max_fetch_bytes if call.access.unlimited else MAX_READER_FETCH_BYTES
    max_bytes = min(request.max_bytes, most)
    answer, found, urgent = _read(wanted, max_bytes)
    wait_s = _wait_s(call.node, request)
    if urgent or found >= request.min_bytes or wait_s <= 0 or not wanted:
        return answer
    return LongPoll(call.node.wakeups, wanted, request.min_bytes, max_bytes, wait_s)


def _wanted(call: Call, topic: str, part: FetchPartition) -> _Wanted:
    number, offset, most = part.partition, part.fetch_offset, part.partition_max_bytes
    if not call.access.may_read(topic):
        return _Wanted(topic, number, None, offset, most, ErrorCode.topic_authorization_failed)
    found = call.node.topics.partition(topic, number)
    return _Wanted(topic, number, found, offset, most, ErrorCode.unknown_topic_or_partition)


def _wait_s(node: Node, request: FetchRequest) -> float:
    asked = request.max_wait.total_seconds()
    cap = node.settings.max_fetch_wait_s
    return asked if cap is None else min(asked, cap)


def _read(wanted: list[_Wanted], max_bytes: int) -> tuple[Fetched, int, bool]:
    """Return the answer, how many bytes of records it has and whether it has an error."""
    topics: dict[str, list[FetchedPartition]] = {}
    found, urgent = 0, False
    for want in wanted:
        fetched = _read_one(want, max_bytes - found, first=found == 0)
        found += len(fetched.records)
        urgent = urgent or fetched.error_code is not ErrorCode.none
        topics.setdefault(want.topic, []).append(fetched)
    responses = tuple(FetchedTopic(name, tuple(parts)) for name, parts in topics.items())
    return Fetched(responses), found, urgent


def _read_one(want: _Wanted, budget: int, *, first: bool) -> FetchedPartition:
    partition = want.partition
    if partition is None or partition.closed:
        return FetchedPartition(want.number, want.error)
    high, start = partition.high_watermark, partition.start_offset
    if not start <= want.offset <= partition.next_offset:
        return FetchedPartition(want.number, ErrorCode.offset_out_of_range, high, high, start)
    records = b""
    if want.offset < high and (first or budget > 0):
        records = partition.read(want.offset, max(min(want.max_bytes, budget), 0))
        if not first and len(records) > budget:
            records = b""
    return FetchedPartition(want.number, ErrorCode.none, high, high, start, records)


class LongPoll:
    """A parked Fetch; its partitions wake it when they grow."""

    def __init__(
        self, wakeups: Wakeups, wanted: list[_Wanted], min_bytes: int, max_bytes: int, wait_s: float
    ) -> None:
        self._wakeups = wakeups
        self._wanted = wanted
        self._min_bytes = min_bytes
        self._max_bytes = max_bytes
        self._deliver: Callable[[object], None] | None = None
        self._timer = asyncio.get_running_loop().call_later(wait_s, self.finish)
        self._wake = self._woke
        for want in wanted:
            if want.partition is not None:
                want.partition.watchers.add(self._wake)

    def then(self, deliver: Callable[[object], None]) -> None:
        """Have `deliver` called once with the answer."""
        self._deliver = deliver

    def cancel(self) -> None:
        """Stop waiting; nothing is delivered any more."""
        self._deliver = None
        self._timer.cancel()
        for want in self._wanted:
            if want.partition is not None:
                want.partition.watchers.discard(self._wake)

    def _woke(self) -> None:
        self._wakeups.add(self._look)

    def _look(self) -> None:
        """Answer if there is enough now."""
        if self._deliver is not None:
            answer, found, urgent = _read(self._wanted, self._max_bytes)
            if urgent or found >= self._min_bytes:
                self._finish(answer)

    def finish(self) -> None:
        """Answer with the records at hand: the time is up, or the client sent its next request."""
        self._finish(_read(self._wanted, self._max_bytes)[0])

    def _finish(self, answer: Fetched) -> None:
        deliver = self._deliver
        self.cancel()
        if deliver is not None:
            deliver(answer)
