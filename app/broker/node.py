"""The parts of a running broker as its APIs use them, and the context of a call."""

import sqlite3
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol

from kio.schema.errors import ErrorCode

from app.broker.apis.fetch_sessions import FetchSessions
from app.broker.coordinator import Coordinator
from app.broker.errors import Refused
from app.broker.flusher import Flusher, Wakeups
from app.broker.settings import BrokerSettings
from app.broker.sign_in import SignIn
from app.broker.store import Store
from app.broker.topics import TopicDirectory
from app.broker.users import EVERYTHING, Access

NODE_ID: Final = 1
"""The only broker of its cluster."""

LEADER_EPOCH: Final = 0
"""Leadership never changes hands on one node."""

PRODUCER_ID_BLOCK: Final = 1000
"""Producer ids reserved with one write; what is left of a block at a restart is skipped."""


class ProducerIds:
    """Gives out ids of idempotent producers, each once in the life of the directory."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._next = 0
        self._end = 0

    async def fresh(self) -> int:
        """Return the next id; raises COORDINATOR_NOT_AVAILABLE when it cannot be reserved."""
        while self._next >= self._end:
            try:
                first = await self._store.reserve_producer_ids(PRODUCER_ID_BLOCK)
            except sqlite3.Error as error:
                raise Refused(ErrorCode.coordinator_not_available, str(error)) from error
            self._next, self._end = first, first + PRODUCER_ID_BLOCK
        self._next += 1
        return self._next - 1


@dataclass(frozen=True, slots=True)
class Node:
    """Everything an API may use."""

    settings: BrokerSettings
    cluster_id: str
    topics: TopicDirectory
    groups: Coordinator
    flusher: Flusher
    wakeups: Wakeups
    producer_ids: ProducerIds


class Call(NamedTuple):
    """One request's circumstances."""

    node: Node
    version: int
    client_id: str
    client_host: str
    host: str
    """The address the client should reach this broker at."""

    port: int
    access: Access = EVERYTHING
    """What the client may do."""

    sign_in: SignIn | None = None
    """The connection's sign-in; None where none is asked for."""

    sessions: FetchSessions | None = None
    """The connection's fetch session."""

    def group_error(self, group: str) -> ErrorCode:
        """Return GROUP_AUTHORIZATION_FAILED for a group that is not the client's."""
        return ErrorCode.none if self.access.may_use(group) else ErrorCode.group_authorization_failed

    def check_group(self, group: str) -> None:
        """Raise `Refused` for a group that is not the client's."""
        if not self.access.may_use(group):
            raise Refused(ErrorCode.group_authorization_failed)


Handler = Callable[[Call, Any], "object | Coroutine[Any, Any, object] | Parked"]
"""Answers a request: with an answer, a coroutine of one, a parked one, or None for no answer at all."""


class Parked(Protocol):
    """A request that waits for something to happen; lighter than a task, for the hot path."""

    def then(self, deliver: Callable[[object], None]) -> None:
        """Have `deliver` called once with the answer, never from within this call."""

    def cancel(self) -> None:
        """Forget it: the client is gone."""

    def finish(self) -> None:
        """Answer at once with the records at hand: the client sent its next request."""


@dataclass(frozen=True, slots=True)
class Api:
    """An API in the versions `low` to `high`; requests reach the handler in the class `words`, if any."""

    key: int
    low: int
    high: int
    handler: Handler
    words: type[Any] | None = None
    advertised_low: int | None = None
