"""Waiting for a place that tenants take in turn, whoever came with more."""

import asyncio
from collections import deque
from collections.abc import Callable


class TenantQueue:
    """Those that wait: tenants in turn, the waits of one tenant in their order."""

    def __init__(self) -> None:
        self._queues: dict[str, deque[asyncio.Future[None]]] = {}

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

    def call_next(self) -> bool:
        """Give a place away; False when nobody waits. Who waits for more stands behind all others."""
        while self._queues:
            tenant = next(iter(self._queues))
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

    def _forget(self, tenant: str, turn: asyncio.Future[None]) -> None:
        queue = self._queues.get(tenant)
        if queue is not None and turn in queue:
            queue.remove(turn)
            if not queue:
                del self._queues[tenant]
