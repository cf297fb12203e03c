"""Fetch sessions (KIP-227): a client that fetches many partitions names only those that changed.

A session ends with its connection, which has one at most.
"""

import secrets
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from kio.schema.errors import ErrorCode
from kio.schema.fetch.v12.request import FetchRequest

PartitionKey: TypeAlias = tuple[str, int]
"""Topic and partition."""

SESSIONLESS_EPOCH: Final = -1
FIRST_EPOCH: Final = 0
LAST_EPOCH: Final = 2**31 - 1

MAX_SESSION_PARTITIONS: Final = 10_000
"""As many as a broker has in all; who asks for more gets no session."""


@dataclass(frozen=True, slots=True)
class Asked:
    """From where to read one partition, and how much."""

    offset: int
    max_bytes: int


@dataclass(slots=True)
class FetchSession:
    """The partitions a client asked for, and what it knows of them."""

    id: int = field(default_factory=lambda: secrets.randbelow(LAST_EPOCH) + 1)
    epoch: int = FIRST_EPOCH + 1
    """Of the next request."""
    asked: dict[PartitionKey, Asked] = field(default_factory=dict)
    """Those that were read last are at the end, so that each has its turn."""
    known: dict[PartitionKey, tuple[int, int]] = field(default_factory=dict)
    """High watermark and start of each partition as they were answered."""

    def change(self, request: FetchRequest) -> None:
        """Add, change and forget what the request says."""
        for topic in request.forgotten_topics_data:
            for number in topic.partitions:
                self.asked.pop((topic.topic, number), None)
                self.known.pop((topic.topic, number), None)
        for key, asked in partitions_of(request):
            self.asked.pop(key, None)
            self.asked[key] = asked

    def next_epoch(self) -> None:
        """Expect the epoch that follows."""
        self.epoch = FIRST_EPOCH + 1 if self.epoch == LAST_EPOCH else self.epoch + 1


@dataclass(slots=True)
class FetchSessions:
    """The fetch session of one connection."""

    current: FetchSession | None = None

    def take(self, request: FetchRequest) -> "FetchSession | ErrorCode | None":
        """Return the session in which the request is answered, None without one, or why there is none."""
        session, epoch = self.current, getattr(request, "session_epoch", SESSIONLESS_EPOCH)
        if epoch in (SESSIONLESS_EPOCH, FIRST_EPOCH):  # whichever went before has ended
            session = None if epoch == SESSIONLESS_EPOCH else FetchSession()
        elif session is None or session.id != request.session_id:
            return ErrorCode.fetch_session_id_not_found
        elif session.epoch != epoch:
            return ErrorCode.invalid_fetch_session_epoch
        else:
            session.next_epoch()
        self.current = session
        if session is None:
            return None
        session.change(request)
        if len(session.asked) <= MAX_SESSION_PARTITIONS:
            return session
        self.current = None
        return None if epoch == FIRST_EPOCH else ErrorCode.fetch_session_id_not_found


def partitions_of(request: FetchRequest) -> Iterable[tuple[PartitionKey, Asked]]:
    """Yield the partitions that a request names."""
    for topic in request.topics:
        for part in topic.partitions:
            yield (topic.topic, part.partition), Asked(part.fetch_offset, part.partition_max_bytes)
