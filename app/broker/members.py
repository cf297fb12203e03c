"""Members of a consumer group and their pending responses."""

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from kio.schema.errors import ErrorCode

from app.broker.errors import Refused

T = TypeVar("T")


class Joined(NamedTuple):
    """The answer to a join: the generation, and for its leader everybody's subscription."""

    generation: int
    protocol_type: str
    protocol: str
    leader: str
    member_id: str
    members: tuple["Subscription", ...]


class Subscription(NamedTuple):
    """A member's metadata for the protocol the group chose."""

    member_id: str
    instance_id: str | None
    metadata: bytes


@dataclass(frozen=True, slots=True)
class JoinRequest:
    """A JoinGroup request; durations in seconds, protocols in the member's order of preference."""

    member_id: str
    instance_id: str | None
    protocol_type: str
    protocols: Mapping[str, bytes]
    session_timeout_s: float
    rebalance_timeout_s: float
    client_id: str
    client_host: str
    needs_member_id: bool
    """Whether a first join must be repeated with the id it is given (KIP-394, JoinGroup from version 4)."""

    @property
    def nbytes(self) -> int:
        """Bytes of names and subscriptions, which a group keeps of it."""
        names = len(self.member_id) + len(self.instance_id or "") + len(self.protocol_type)
        return names + sum(len(name) + len(metadata) for name, metadata in self.protocols.items())


@dataclass(slots=True, eq=False)
class Member:
    """One consumer; it is alive until `deadline`, a time of the event loop, or while it waits here."""

    id: str
    request: JoinRequest
    deadline: float
    assignment: bytes = b""
    joining: asyncio.Future[Joined] | None = None
    syncing: asyncio.Future[bytes] | None = None
    generation: int = -1
    """The last generation it was sent."""

    known: bool = False
    """Whether the client was ever sent this id; otherwise it cannot rejoin under it."""

    @property
    def instance_id(self) -> str | None:
        """The name of a static member (KIP-345)."""
        return self.request.instance_id

    @property
    def protocols(self) -> Mapping[str, bytes]:
        """The protocols it supports, best first."""
        return self.request.protocols

    @property
    def memory_bytes(self) -> int:
        """Bytes of memory it takes."""
        return self.request.nbytes + len(self.assignment)

    @property
    def waiting(self) -> bool:
        """Whether it has a pending response."""
        return self.joining is not None or self.syncing is not None

    def seen(self, now: float) -> None:
        """Start its session again."""
        self.deadline = now + self.request.session_timeout_s

    def is_author_of(self, request: JoinRequest) -> bool:
        """Return whether a request to join is its own, perhaps after a restart (KIP-345)."""
        if request.instance_id is not None and self.instance_id == request.instance_id:
            return True
        return self.id == request.member_id

    def fail(self, error: Exception) -> None:
        """Answer whatever it waits for with an error."""
        for waiting in (self.joining, self.syncing):
            if waiting is not None and not waiting.done():
                waiting.set_exception(error)
        self.joining = self.syncing = None


def elect_protocol(members: Collection[Member]) -> str:
    """Return the protocol that most members prefer among those that all of them support."""
    common = set.intersection(*(set(member.protocols) for member in members))
    votes = [next(name for name in member.protocols if name in common) for member in members]
    return max(votes, key=votes.count)


def longest_rebalance_s(members: Collection[Member]) -> float:
    """Return how long the most patient member lets the others rejoin, in seconds."""
    return max(member.request.rebalance_timeout_s for member in members)


def answered(value: T) -> asyncio.Future[T]:
    """Return a future that has its result."""
    future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
    future.set_result(value)
    return future


class MemberIdRequired(Refused):
    """A first join is answered with the id to join again with (KIP-394)."""

    def __init__(self, member_id: str) -> None:
        super().__init__(ErrorCode.member_id_required)
        self.member_id = member_id
