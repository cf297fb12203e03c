"""Admit verifications that need models: a fair queue over tenants, bounded by time."""

import asyncio
import math
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Final

from uuid_utils.compat import uuid7

from schemas.ids import TenantId, VerificationId, encode_id
from schemas.problems import DecisionPending, Overloaded, StoreUnavailable
from schemas.topics import Topic
from streams.runtime.tables import partition_of

FIRST_ESTIMATE_S: Final = 2.0
"""What a decision is taken to last before one was measured; a passport and two faces on one core of 2024."""

WEIGHT: Final = 0.2
"""Share of the newest decision in the moving average: about the last ten count."""

DRAWS: Final = 16
"""Fresh ids drawn in search of a free partition; with half of the partitions busy all miss once in 65,000."""

LOOK_EVERY_S: Final = 1.0
"""How often an overdue decision is looked for."""

Decided = Callable[[], Awaitable[bool]]
"""Returns whether a verification has ended; raises `StoreUnavailable`."""


@dataclass(slots=True, eq=False)
class Place:
    """Room for one verification in the log, from its release to its decision."""

    tenant_id: TenantId
    verification_id: VerificationId
    partition: int
    released_at: float
    waited_s: float
    """How long the request waited for it."""
    decided: Decided | None = None
    """Called when the place is free again, where the request is answered before its decision."""
    goes_on: bool = False
    """Whether the decision is still to come when the request was answered well."""


@dataclass(slots=True, eq=False)
class _Waiting:
    verification_id: VerificationId | None
    """None: any id will do, and one is drawn whose partition is free."""
    since: float
    place: asyncio.Future[Place]


class Admission:
    """Releases verifications into the log, few at a time, and refuses those that would wait too long.

    At most `places` are released at one time; the rest wait here, where their order can still be chosen.
    The next place goes to the tenant with the fewest places, among equals to the one served longest ago,
    and within a tenant to the oldest request. So a tenant has all places while it is alone, and its share
    while others wait. A tenant that has fewer places than another, or none, need not wait for a decision to
    end: as long as fewer than twice `places` are taken it gets one at once, and nobody else does until the
    excess is gone.

    Each worker has some partitions of the log. So that the workers share what is released, a tenant with the
    most places gets none in a partition in which a verification of this front is under way. The others do: a
    worker carries a partition's records out side by side.

    A request that would wait longer than `longest_wait_s` is refused at once. The estimate is the number of
    requests released before it, times the moving average of a decision's duration, over the places.
    A tenant that has nothing waiting is not refused by the estimate, only after having waited so long.

    Each front counts, orders and measures its own requests. Two fronts on the same workers release twice
    `places` in common and both see the longer decisions; shares are fair within each front. Set `places`
    to the vision workers of the deployment over the number of its fronts, and two: the models then hardly
    wait while images are decoded and decisions are stored. A capture session takes its place when it is
    handed in, and leaves it when it has its outcome.
    """

    def __init__(
        self,
        places: int,
        longest_wait_s: float,
        partition_of: Callable[[str], int],
        draw_id: Callable[[], VerificationId],
        now: Callable[[], float],
        late_s: float = 60.0,
    ) -> None:
        self._places = places
        self._longest_wait_s = longest_wait_s
        self._partition_of = partition_of
        self._draw_id = draw_id
        self._now = now
        self._late_s = late_s
        self._queues: dict[TenantId, deque[_Waiting]] = {}
        self._released: set[Place] = set()
        self._share: Counter[TenantId] = Counter()
        self._served: dict[TenantId, int] = {}
        """When each tenant with requests here last got a place, as a running number."""
        self._turn = 0
        self._busy: Counter[int] = Counter()
        self._overdue: set[asyncio.Task[None]] = set()
        self.decision_s = FIRST_ESTIMATE_S
        """Moving average of the time from a release to its decision."""

    @property
    def waiting(self) -> int:
        """The number of queued requests."""
        return sum(len(queue) for queue in self._queues.values())

    @property
    def released(self) -> int:
        """The number of verifications under way, overdue ones included."""
        return len(self._released)

    @asynccontextmanager
    async def place(
        self, tenant_id: TenantId, verification_id: VerificationId | None
    ) -> AsyncIterator[Place]:
        """Wait for a place; release it at the end, or when its late decision arrives.

        Without an id the place brings one, whose partition is free.

        Raises:
            Overloaded: The request would wait too long, or did; it says when to come back.
        """
        place = await self._wait(tenant_id, verification_id)
        try:
            yield place
        except DecisionPending:
            self._leave_overdue(place)
            raise
        except BaseException:
            self._give_back(place, measured=False)
            raise
        if place.goes_on:
            self._leave_overdue(place)
        else:
            self._give_back(place, measured=True)

    def has_released(self, verification_id: VerificationId) -> bool:
        """Return whether a verification has a place, so that a repeated request needs none."""
        return any(place.verification_id == verification_id for place in self._released)

    async def aclose(self) -> None:
        """Stop looking for overdue decisions."""
        for task in self._overdue:
            task.cancel()
        await asyncio.gather(*self._overdue, return_exceptions=True)

    def free_partition(self, verification_id: VerificationId) -> bool:
        """Return whether no verification of this front is under way in the partition of an id."""
        return not self._busy or not self._busy[self._partition_of(verification_id)]

    def fresh_id(self) -> VerificationId:
        """Draw an id, of an idle partition if one is found soon."""
        drawn = self._draw_id()
        for _ in range(DRAWS):
            if self.free_partition(drawn):
                break
            drawn = self._draw_id()
        return drawn

    def estimate_s(self, tenant_id: TenantId) -> float:
        """Return the expected wait of a new request of a tenant when no place is free."""
        own = len(self._queues.get(tenant_id, ()))
        others = (len(queue) for name, queue in self._queues.items() if name != tenant_id)
        ahead = own + sum(min(count, own + 1) for count in others)
        return (ahead + 1) * self.decision_s / self._places

    async def _wait(self, tenant_id: TenantId, verification_id: VerificationId | None) -> Place:
        waiting = _Waiting(verification_id, self._now(), asyncio.get_running_loop().create_future())
        first = tenant_id not in self._queues
        estimate_s = self.estimate_s(tenant_id)
        self._queues.setdefault(tenant_id, deque()).append(waiting)
        self._release()
        if not waiting.place.done() and estimate_s > self._longest_wait_s and not first:
            self._forget(tenant_id, waiting)
            raise _overloaded(estimate_s)
        try:
            async with asyncio.timeout(self._longest_wait_s):
                return await waiting.place
        except BaseException as error:
            if waiting.place.done() and not waiting.place.cancelled():  # released as it was given up
                self._give_back(waiting.place.result(), measured=False)
            self._forget(tenant_id, waiting)
            if isinstance(error, TimeoutError):
                raise _overloaded(max(self.estimate_s(tenant_id), self._longest_wait_s)) from None
            raise

    def _forget(self, tenant_id: TenantId, waiting: _Waiting) -> None:
        queue = self._queues.get(tenant_id)
        if queue is not None and waiting in queue:
            queue.remove(waiting)
            if not queue:
                del self._queues[tenant_id]
        self._forget_turn(tenant_id)

    def _forget_turn(self, tenant_id: TenantId) -> None:
        if tenant_id not in self._queues and not self._share[tenant_id]:
            self._served.pop(tenant_id, None)

    def _release(self) -> None:
        while (found := self._next()) is not None:
            tenant_id, waiting = found
            self._forget(tenant_id, waiting)
            waiting.place.set_result(self._take(tenant_id, waiting))

    def _next(self) -> tuple[TenantId, _Waiting] | None:
        """Return the request to release now, None when there is none or no room for it."""
        for tenant_id in sorted(self._queues, key=self._rank):
            if not self._has_room(tenant_id):
                return None  # those that follow have as many places, or more
            for waiting in self._queues[tenant_id]:
                if not waiting.place.done() and self._may_start(tenant_id, waiting):
                    return tenant_id, waiting
        return None

    def _rank(self, tenant_id: TenantId) -> tuple[int, int]:
        return self._share[tenant_id], self._served.get(tenant_id, 0)

    def _has_room(self, tenant_id: TenantId) -> bool:
        most = 2 * self._places if self._comes_first(tenant_id) else self._places
        return len(self._released) < most

    def _comes_first(self, tenant_id: TenantId) -> bool:
        """Return whether a tenant has no place, or fewer than another."""
        own = self._share[tenant_id]
        return not own or own < max(self._share.values())

    def _may_start(self, tenant_id: TenantId, waiting: _Waiting) -> bool:
        if waiting.verification_id is None or self._comes_first(tenant_id):
            return True
        return self.free_partition(waiting.verification_id)

    def _take(self, tenant_id: TenantId, waiting: _Waiting) -> Place:
        now, name = self._now(), waiting.verification_id or self.fresh_id()
        place = Place(tenant_id, name, self._partition_of(name), now, now - waiting.since)
        self._released.add(place)
        self._turn += 1
        self._served[tenant_id] = self._turn
        self._share[tenant_id] += 1
        self._busy[place.partition] += 1
        return place

    def _give_back(self, place: Place, *, measured: bool) -> None:
        self._released.remove(place)
        self._share -= Counter((place.tenant_id,))  # what is at nothing then is forgotten
        self._busy -= Counter((place.partition,))
        self._forget_turn(place.tenant_id)
        if measured:
            took_s = self._now() - place.released_at
            self.decision_s += WEIGHT * (took_s - self.decision_s)
        self._release()

    def _leave_overdue(self, place: Place) -> None:
        """Leave the place taken: its command is in the log, and one more would make the log longer."""
        task = asyncio.create_task(self._await_overdue(place), name="admission-overdue")
        self._overdue.add(task)
        task.add_done_callback(self._overdue.discard)

    async def _await_overdue(self, place: Place) -> None:
        try:
            async with asyncio.timeout(self._late_s):
                while not await _is_decided(place.decided):  # noqa: ASYNC110 - it comes from elsewhere
                    await asyncio.sleep(LOOK_EVERY_S)
        except TimeoutError:
            pass
        finally:
            self._give_back(place, measured=True)


@asynccontextmanager
async def open_admission(places: int, answer_timeout_s: float) -> AsyncIterator[Admission]:
    """Open the queue of a front; half of the time a request has may go into waiting for a place."""
    admission = Admission(
        places=places,
        longest_wait_s=answer_timeout_s / 2,
        partition_of=partial(partition_of, Topic.VERIFICATION_COMMANDS),
        draw_id=lambda: VerificationId(encode_id("ver", uuid7())),
        now=time.monotonic,
        late_s=2 * answer_timeout_s,
    )
    try:
        yield admission
    finally:
        await admission.aclose()


async def _is_decided(decided: Decided | None) -> bool:
    with suppress(StoreUnavailable):
        return decided is not None and await decided()
    return False


def _overloaded(estimate_s: float) -> Overloaded:
    return Overloaded("the queue is too long", retry_after_s=max(1, math.ceil(estimate_s)))
