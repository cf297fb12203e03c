"""A queue for places that serves the tenant with the least usage first."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

CREDIT_S: Final = 4.0
"""About what one verification of a full-size page uses. A tenant that comes from rest is served first for so
long at most, and so long does a busy one wait for it."""

MOST_REMEMBERED: Final = 1_000
"""Accounts; over it the least one is forgotten, which costs its tenant nothing."""


class TenantQueue:
    """A queue that serves the tenant with the least usage first, and each tenant's waiters in order.

    This is start-time fair queueing (Goyal, Vin and Cheng, 1996) with a bounded credit for those at rest. A
    tenant's account grows by what it uses (`charge`), and is never further than the credit behind the virtual
    time, which is the least account of those that wait. So a tenant that uses little waits for no turn of one
    that uses much, and one that was away for long saved up no more than the credit. Equals take turns.
    """

    def __init__(self, credit_s: float = CREDIT_S) -> None:
        self._credit_s = credit_s
        self._queues: dict[str, deque[asyncio.Future[None]]] = {}
        self._virtual_s = 0.0
        self._used_s: dict[str, float] = {}
        """The accounts above the least there can be."""

    def __len__(self) -> int:
        """How many wait."""
        return sum(map(len, self._queues.values()))

    def waiting(self, tenant: str) -> int:
        """Return how many waits of the tenant there are."""
        return len(self._queues.get(tenant, ()))

    async def wait(self, tenant: str, give_back: Callable[[], None]) -> None:
        """Return when the turn came; one that comes in the moment it is given up is given back.

        Raises:
            Exception: What `refuse` was given.
        """
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queues.setdefault(tenant, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                self._forget(tenant, turn)
            elif turn.exception() is None:
                give_back()
            raise

    def charge(self, tenant: str, seconds: float) -> None:
        """Note for how long the tenant has used a place."""
        self._used_s[tenant] = self._account(tenant) + seconds
        if len(self._used_s) > MOST_REMEMBERED:
            del self._used_s[min(self._used_s, key=self._account)]

    def call_next(self) -> bool:
        """Give a place to the next waiter; False: none. Among equals, one with more waits is later."""
        self._advance()
        while self._queues:
            tenant = min(self._queues, key=self._account)
            queue = self._queues.pop(tenant)
            turn = queue.popleft()
            if queue:
                self._queues[tenant] = queue
            if not turn.done():
                turn.set_result(None)
                return True
        return False

    def refuse(self, error: Callable[[], Exception]) -> None:
        """End every wait with an error of its own."""
        for queue in self._queues.values():
            for turn in queue:
                if not turn.done():
                    turn.set_exception(error())
        self._queues.clear()

    def _account(self, tenant: str) -> float:
        return max(self._used_s.get(tenant, 0.0), self._virtual_s - self._credit_s)

    def _advance(self) -> None:
        """Set the virtual time to the least account of waiting tenants, or the greatest when none waits."""
        waiting = [self._account(tenant) for tenant in self._queues]
        now_s = min(waiting) if waiting else max(self._used_s.values(), default=0.0)
        if now_s > self._virtual_s:
            self._virtual_s = now_s
            least_s = now_s - self._credit_s
            self._used_s = {tenant: used for tenant, used in self._used_s.items() if used > least_s}

    def _forget(self, tenant: str, turn: asyncio.Future[None]) -> None:
        queue = self._queues.get(tenant)
        if queue is not None and turn in queue:
            queue.remove(turn)
            if not queue:
                del self._queues[tenant]
