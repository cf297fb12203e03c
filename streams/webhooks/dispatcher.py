"""Schedule attempts fairly between endpoints, so that a receiver that hangs does not delay the others.

The state is in memory only: what the dispatcher drops or loses, the scheduler finds in the store.
"""

import asyncio
import time
from collections import Counter, OrderedDict, deque
from dataclasses import dataclass, field
from types import TracebackType
from typing import Final, Self

import structlog

from schemas.ids import DeliveryId, EndpointId, TenantId
from schemas.problems import StoreUnavailable
from schemas.webhooks import Deliver
from streams.runtime.guard import trace
from streams.runtime.tenant_scope import tenant_scope
from streams.webhooks.ports import Attempt, Outcome

log = structlog.get_logger(__name__)

REMEMBERED: Final = 10_000
"""Endpoints remembered as prompt; the oldest are forgotten first."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Limits of concurrent and waiting attempts."""

    in_all: int = 256
    """Attempts in total. Each is a socket and a few kB; one event loop serves no more."""
    of_suspects: int = 128
    """Half of `in_all`: however many receivers hang, the other half serves those that answered promptly."""
    per_endpoint: int = 8
    """A receiver that answers in 50 ms then gets 160 a second, and none is flooded."""
    per_suspect: int = 2
    """For an endpoint that hung, or has not answered since this process started; 64 of them fit."""
    waiting_per_endpoint: int = 2_000
    """Some minutes of work at the rate of one receiver; the scheduler offers what is dropped again."""
    waiting: int = 100_000
    """Some 20 MB of ids."""


@dataclass(slots=True)
class _EndpointQueue:
    """The waiting deliveries of one endpoint and the number of attempts in progress."""

    tenant_id: TenantId
    endpoint_id: EndpointId
    waiting: deque[tuple[DeliveryId, float]] = field(default_factory=deque)
    """Deliveries with the time each was offered, by the monotonic clock."""
    pending: set[DeliveryId] = field(default_factory=set)
    """Waiting or in progress; a delivery offered again meanwhile is attempted once."""
    under_way: int = 0
    in_line: bool = False
    """Whether the queue is in `_turns`."""


class Dispatcher:
    """Run the attempts it is offered, endpoint by endpoint in turn; an async context manager.

    On exit attempts in progress get a grace period and are then cancelled: in the store they are pending.
    """

    def __init__(self, attempt: Attempt, bounds: Bounds | None = None, *, grace_s: float = 2.0) -> None:
        self._attempt = attempt
        self._bounds = bounds or Bounds()
        self._grace_s = grace_s
        self._queues: dict[EndpointId, _EndpointQueue] = {}
        self._prompt: OrderedDict[EndpointId, None] = OrderedDict()
        """Endpoints whose last answer came quickly; all others are suspects."""
        self._turns: tuple[deque[_EndpointQueue], deque[_EndpointQueue]] = (deque(), deque())
        """Queues with an attempt to start, in turn: those of prompt endpoints, those of suspects."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._suspects_under_way = 0
        self._waiting = 0
        self._open = False
        self._quiet = asyncio.Event()
        self._quiet.set()
        self.ends: Counter[str] = Counter()
        """Number of commands by `Outcome`, and `dropped` and `broke`; for metrics."""

    async def __aenter__(self) -> Self:
        """Start to accept commands."""
        self._open = True
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace_: TracebackType | None
    ) -> None:
        """Start no further attempt, and wait `grace_s` for those in progress."""
        self._open = False
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=self._grace_s)
            for task in late:
                task.cancel()
            if late:
                log.info("webhooks.attempts_cancelled", attempts=len(late))
                await asyncio.wait(late)

    def offer(self, command: Deliver) -> bool:
        """Queue the delivery; return False when the queue is full or the dispatcher is closing."""
        queue = self._queues.get(command.endpoint_id)
        if queue is not None and command.delivery_id in queue.pending:
            return True
        full = queue is not None and len(queue.waiting) >= self._bounds.waiting_per_endpoint
        if not self._open or full or self._waiting >= self._bounds.waiting:
            self.ends["dropped"] += 1
            return False
        if queue is None:
            queue = self._queues[command.endpoint_id] = _EndpointQueue(command.tenant_id, command.endpoint_id)
        queue.pending.add(command.delivery_id)
        queue.waiting.append((command.delivery_id, time.monotonic()))
        self._waiting += 1
        self._quiet.clear()
        self._line_up(queue)
        self._begin()
        return True

    async def until_quiet(self) -> None:
        """Wait until nothing is queued and nothing is in progress."""
        await self._quiet.wait()

    @property
    def waiting(self) -> int:
        """Number of deliveries that were offered and not started."""
        return self._waiting

    @property
    def under_way(self) -> int:
        """Number of attempts in progress."""
        return len(self._tasks)

    @property
    def oldest_s(self) -> float:
        """Age of the delivery that has waited longest, in seconds."""
        firsts = [queue.waiting[0][1] for queue in self._queues.values() if queue.waiting]
        return time.monotonic() - min(firsts) if firsts else 0.0

    def _line_up(self, queue: _EndpointQueue) -> None:
        """Put the queue in line, once, while it has a delivery and room for an attempt."""
        suspect = queue.endpoint_id not in self._prompt
        most = self._bounds.per_suspect if suspect else self._bounds.per_endpoint
        if queue.waiting and queue.under_way < most and not queue.in_line:
            queue.in_line = True
            self._turns[suspect].append(queue)

    def _begin(self) -> None:
        """Start as many attempts as the limits allow, alternating between prompt and suspect endpoints."""
        while self._open and len(self._tasks) < self._bounds.in_all:
            prompt, suspects = self._turns
            room = self._suspects_under_way < self._bounds.of_suspects
            if prompt and not (suspects and room and self._suspects_under_way < len(self._tasks) // 2):
                self._start(prompt.popleft(), suspect=False)
            elif suspects and room:
                self._start(suspects.popleft(), suspect=True)
            else:
                return

    def _start(self, queue: _EndpointQueue, *, suspect: bool) -> None:
        queue.in_line = False
        delivery_id, _ = queue.waiting.popleft()
        self._waiting -= 1
        queue.under_way += 1
        self._suspects_under_way += suspect
        command = Deliver(tenant_id=queue.tenant_id, endpoint_id=queue.endpoint_id, delivery_id=delivery_id)
        task = asyncio.create_task(self._make_in_scope(command), name=f"webhook-{delivery_id}")
        self._tasks.add(task)
        task.add_done_callback(lambda done: self._end(queue, delivery_id, done, suspect=suspect))
        self._line_up(queue)

    async def _make_in_scope(self, command: Deliver) -> None:
        with tenant_scope(command.tenant_id):
            await self._make(command)

    async def _make(self, command: Deliver) -> None:
        try:
            tried = await self._attempt(command)
        except StoreUnavailable:
            log.warning("webhooks.attempt_deferred", delivery_id=command.delivery_id)
            self.ends["broke"] += 1
            return
        self.ends[tried.outcome] += 1
        if tried.slow is not None:
            self._judge(command.endpoint_id, slow=tried.slow)
        if tried.outcome is Outcome.FAILED:
            log.info(
                "webhooks.delivery_failed", delivery_id=command.delivery_id, endpoint_id=command.endpoint_id
            )

    def _judge(self, endpoint_id: EndpointId, *, slow: bool) -> None:
        """Remember whether the endpoint answered promptly."""
        self._prompt.pop(endpoint_id, None)
        if not slow:
            self._prompt[endpoint_id] = None
            while len(self._prompt) > REMEMBERED:
                self._prompt.popitem(last=False)

    def _end(
        self, queue: _EndpointQueue, delivery_id: DeliveryId, done: asyncio.Task[None], *, suspect: bool
    ) -> None:
        """Release the attempt's place and start what is possible now."""
        self._tasks.discard(done)
        queue.under_way -= 1
        queue.pending.discard(delivery_id)
        self._suspects_under_way -= suspect
        error = None if done.cancelled() else done.exception()
        if error is not None:
            self.ends["broke"] += 1
            log.error(
                "webhooks.attempt_crashed", tenant_id=queue.tenant_id, delivery_id=delivery_id, **trace(error)
            )
        self._line_up(queue)
        if not queue.waiting and not queue.under_way:
            self._queues.pop(queue.endpoint_id, None)
        self._begin()
        if not self._tasks and not self._waiting:
            self._quiet.set()
