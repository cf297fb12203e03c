"""State machine of one consumer group (classic protocol): members, generations and assignments.

The states and answers are those of Kafka's group coordinator (protocol guide; KIP-134, 345, 394).
"""

import asyncio
import math
from collections.abc import Callable, Mapping

import structlog
from kio.schema.errors import ErrorCode

from app.broker.errors import Refused
from app.broker.members import (
    Joined,
    JoinRequest,
    Member,
    MemberIdRequired,
    Subscription,
    answered,
    elect_protocol,
    longest_rebalance_s,
)
from schemas.enums import TextEnum

log = structlog.get_logger()


class GroupState(TextEnum):
    """Kafka's names, as its tools show them."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


class Group:
    """One consumer group; methods raise `Refused`, futures wait for the other members."""

    def __init__(
        self, name: str, initial_delay_s: float, max_members: int, fresh_id: Callable[[], str]
    ) -> None:
        self.name = name
        self.state = GroupState.EMPTY
        self.generation = 0
        self.protocol_type = ""
        self.protocol = ""
        self.members: dict[str, Member] = {}
        self._promised: dict[str, float] = {}
        self._leader = ""
        self._initial_delay_s = initial_delay_s
        self._max_members = max_members
        self._fresh_id = fresh_id
        self._timer: asyncio.TimerHandle | None = None
        self._awaiting_members = False

    @property
    def size(self) -> int:
        """The number of members, joined or expected to rejoin."""
        return len(self.members) + len(self._promised)

    @property
    def memory_bytes(self) -> int:
        """Bytes of what the members sent and were assigned."""
        return sum(member.memory_bytes for member in self.members.values())

    @property
    def idle(self) -> bool:
        """Whether it has no members and expects none."""
        return not self.members and not self._promised

    def join(self, request: JoinRequest, now: float) -> asyncio.Future[Joined]:
        """Take part in the next generation; done when everybody has joined or run out of time."""
        self._check_protocols(request)
        if request.member_id:
            member = self._returning(request, now)
        elif (twin := self._static(request.instance_id)) is not None:
            return self._replace(twin, request, now)
        else:
            member = self._newcomer(request, now)
        settled = self._settled(member) and member.protocols == request.protocols
        member.request = request
        member.seen(now)
        if settled:
            return answered(self._joined(member))
        waiting = self._wait_to_join(member)
        self._rebalance()
        return waiting

    def _check_protocols(self, request: JoinRequest) -> None:
        if not request.protocols or not request.protocol_type:
            raise Refused(ErrorCode.inconsistent_group_protocol)
        others = [member for member in self.members.values() if not member.is_author_of(request)]
        if not others:
            return
        common = set.intersection(*(set(member.protocols) for member in others))
        if request.protocol_type != self.protocol_type or not common & set(request.protocols):
            raise Refused(ErrorCode.inconsistent_group_protocol)

    def _returning(self, request: JoinRequest, now: float) -> Member:
        member_id = request.member_id
        if request.instance_id is not None and (twin := self._static(request.instance_id)) is not None:
            if twin.id != member_id:
                raise Refused(ErrorCode.fenced_instance_id)
            return twin
        if self._promised.pop(member_id, None) is not None:
            return self._admit(member_id, request, now, known=True)
        member = self.members.get(member_id)
        if member is None:
            raise Refused(ErrorCode.unknown_member_id)
        return member

    def _newcomer(self, request: JoinRequest, now: float) -> Member:
        if self.size >= self._max_members:
            raise Refused(ErrorCode.group_max_size_reached)
        member_id = f"{request.instance_id or request.client_id or 'member'}-{self._fresh_id()}"
        if request.needs_member_id and request.instance_id is None:
            self._promised[member_id] = now + request.session_timeout_s
            raise MemberIdRequired(member_id)
        return self._admit(member_id, request, now, known=False)

    def _admit(self, member_id: str, request: JoinRequest, now: float, *, known: bool) -> Member:
        member = Member(member_id, request, now + request.session_timeout_s, known=known)
        if not self.members:
            self.protocol_type = request.protocol_type
        self.members[member_id] = member
        return member

    def _replace(self, twin: Member, request: JoinRequest, now: float) -> asyncio.Future[Joined]:
        """Replace a static member by its restarted instance (KIP-345)."""
        twin.fail(Refused(ErrorCode.fenced_instance_id))
        del self.members[twin.id]
        member = self._admit(f"{request.instance_id}-{self._fresh_id()}", request, now, known=False)
        member.assignment, member.generation = twin.assignment, twin.generation
        former_leader = self._leader
        if former_leader == twin.id:
            self._leader = member.id
        if self.state is GroupState.STABLE and twin.protocols == request.protocols:
            member.known = True
            # Named as leader it would assign anew; under its former name it asks for what it had.
            return answered(self._joined(member)._replace(leader=former_leader, members=()))
        waiting = self._wait_to_join(member)
        self._rebalance()
        return waiting

    def _settled(self, member: Member) -> bool:
        """Whether a repeated join can be answered with the present generation."""
        if member.generation != self.generation:
            return False
        if self.state is GroupState.COMPLETING:
            return True
        return self.state is GroupState.STABLE and member.id != self._leader

    def _static(self, instance_id: str | None) -> Member | None:
        if instance_id is None:
            return None
        return next((m for m in self.members.values() if m.instance_id == instance_id), None)

    def _wait_to_join(self, member: Member) -> asyncio.Future[Joined]:
        member.fail(Refused(ErrorCode.rebalance_in_progress))
        waiting: asyncio.Future[Joined] = asyncio.get_running_loop().create_future()
        member.joining = waiting
        waiting.add_done_callback(lambda done: self._stopped_joining(member, done))
        return waiting

    def _stopped_joining(self, member: Member, done: asyncio.Future[Joined]) -> None:
        if not done.cancelled() or member.joining is not done:
            return
        member.joining = None
        member.seen(asyncio.get_running_loop().time())
        if not member.known:
            self._remove(member)

    def _rebalance(self) -> None:
        if self.state is GroupState.PREPARING:
            self._complete_if_ready()
            return
        self._awaiting_members = self.state is GroupState.EMPTY
        self.state = GroupState.PREPARING
        for member in self.members.values():
            if member.syncing is not None:
                member.fail(Refused(ErrorCode.rebalance_in_progress))
        longest_s = longest_rebalance_s(self.members.values())
        self._start_timer(self._initial_delay_s if self._awaiting_members else longest_s, self._complete)
        self._complete_if_ready()

    def _complete_if_ready(self) -> None:
        if self.state is not GroupState.PREPARING or self._awaiting_members or self._promised:
            return
        if all(member.joining is not None for member in self.members.values()):
            self._complete()

    def _complete(self) -> None:
        """Begin the next generation with all members that joined in time."""
        self._stop_timer()
        self._awaiting_members = False
        for member in [m for m in self.members.values() if m.joining is None and m.instance_id is None]:
            del self.members[member.id]
        self.generation += 1
        if not self.members:
            self._become_empty()
            return
        if self._leader not in self.members or self.members[self._leader].joining is None:
            joined = (member.id for member in self.members.values() if member.joining is not None)
            self._leader = next(joined, "")
        if not self._leader:
            self._start_timer(longest_rebalance_s(self.members.values()), self._complete)
            return
        self.protocol = elect_protocol(self.members.values())
        self.state = GroupState.COMPLETING
        self._answer_joins()
        self._start_timer(longest_rebalance_s(self.members.values()), self._drop_unsynced)

    def _answer_joins(self) -> None:
        now = asyncio.get_running_loop().time()
        for member in self.members.values():
            member.assignment = b""
            waiting, member.joining = member.joining, None
            if waiting is not None and not waiting.done():
                member.seen(now)
                member.known = True
                member.generation = self.generation
                waiting.set_result(self._joined(member))
        log.debug("broker.generation_started", group=self.name, generation=self.generation)

    def _joined(self, member: Member) -> Joined:
        leading = member.id == self._leader
        members = tuple(
            Subscription(m.id, m.instance_id, m.protocols[self.protocol]) for m in self.members.values()
        )
        seen = members if leading else ()
        return Joined(self.generation, self.protocol_type, self.protocol, self._leader, member.id, seen)

    def _drop_unsynced(self) -> None:
        if self.state is not GroupState.COMPLETING:
            return
        for member in [m for m in self.members.values() if m.syncing is None]:
            self._remove(member)

    def sync(
        self, member_id: str, generation: int, assignments: Mapping[str, bytes], now: float
    ) -> asyncio.Future[bytes]:
        """Return the member's assignment once the leader has given it."""
        member = self.check(member_id, generation, now)
        if self.state is GroupState.PREPARING:
            raise Refused(ErrorCode.rebalance_in_progress)
        if self.state is GroupState.STABLE:
            return answered(member.assignment)
        if member.syncing is not None:
            member.fail(Refused(ErrorCode.rebalance_in_progress))
        waiting: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        member.syncing = waiting
        waiting.add_done_callback(lambda done: self._stopped_syncing(member, done))
        if member_id == self._leader:
            self._assign(assignments, now)
        return waiting

    def _stopped_syncing(self, member: Member, done: asyncio.Future[bytes]) -> None:
        if done.cancelled() and member.syncing is done:
            member.syncing = None

    def _assign(self, assignments: Mapping[str, bytes], now: float) -> None:
        self._stop_timer()
        self.state = GroupState.STABLE
        for member in self.members.values():
            member.assignment = assignments.get(member.id, b"")
            waiting, member.syncing = member.syncing, None
            if waiting is not None and not waiting.done():
                member.seen(now)
                waiting.set_result(member.assignment)

    def check(self, member_id: str, generation: int, now: float, instance_id: str | None = None) -> Member:
        """Return the member if it may speak in this generation; hearing from it renews its session."""
        twin = self._static(instance_id)
        if twin is not None and twin.id != member_id:
            raise Refused(ErrorCode.fenced_instance_id)
        member = self.members.get(member_id)
        if member is None:
            raise Refused(ErrorCode.unknown_member_id)
        if generation != self.generation:
            raise Refused(ErrorCode.illegal_generation)
        member.seen(now)
        return member

    def heartbeat(self, member_id: str, generation: int, now: float, instance_id: str | None) -> None:
        """Renew a session; raises REBALANCE_IN_PROGRESS to call the member back."""
        self.check(member_id, generation, now, instance_id)
        if self.state is GroupState.PREPARING:
            raise Refused(ErrorCode.rebalance_in_progress)

    def leave(self, member_id: str, instance_id: str | None) -> None:
        """Remove a member that leaves, or a static one by its instance id."""
        if self._promised.pop(member_id, None) is not None:
            self._complete_if_ready()
            return
        member = self._static(instance_id) if instance_id is not None else self.members.get(member_id)
        if member is None:
            raise Refused(ErrorCode.unknown_member_id)
        if member_id and member.id != member_id:
            raise Refused(ErrorCode.fenced_instance_id)
        self._remove(member)

    def _remove(self, member: Member) -> None:
        if self.members.pop(member.id, None) is None:
            return
        member.fail(Refused(ErrorCode.unknown_member_id))
        if not self.members:
            self._stop_timer()
            if self.state is not GroupState.EMPTY:
                self.generation += 1
            self._become_empty()
        else:
            self._rebalance()

    def _become_empty(self) -> None:
        self.state = GroupState.EMPTY
        self._leader = self.protocol = ""

    @property
    def next_deadline(self) -> float:
        """When `expire` has something to do at the earliest, unless a member is heard of before."""
        sessions = [member.deadline for member in self.members.values() if not member.waiting]
        return min((*sessions, *self._promised.values()), default=math.inf)

    def expire(self, now: float) -> None:
        """Remove members not heard of in time and promised ids nobody came back with."""
        for member_id in [key for key, deadline in self._promised.items() if deadline < now]:
            del self._promised[member_id]
        for member in [m for m in self.members.values() if not m.waiting and m.deadline < now]:
            log.info("broker.member_expired", group=self.name, member=member.id)
            self._remove(member)
        self._complete_if_ready()

    def close(self) -> None:
        """Answer everybody who waits, for the broker stops."""
        self._stop_timer()
        self.state = GroupState.DEAD
        for member in self.members.values():
            member.fail(Refused(ErrorCode.coordinator_not_available))

    def _start_timer(self, delay_s: float, act: Callable[[], None]) -> None:
        self._stop_timer()
        self._timer = asyncio.get_running_loop().call_later(delay_s, act)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
