"""Limit the verifications evaluated concurrently in a worker, fairly between tenants."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from streams.runtime.fair_queue import TenantQueue
from streams.vision_ports import TENANT

CONCURRENT_VERIFICATIONS: Final = 8
"""Verifications whose images are in memory at one time, decoded some 150 MB each at worst. Each has two jobs
at the engines at most: in total fewer than one tenant may have waiting there (`SERVICE_VISION_QUEUE`)."""


class EngineSlots:
    """A semaphore that serves the waiting tenants fairly, and each tenant in order."""

    def __init__(self, places: int = CONCURRENT_VERIFICATIONS) -> None:
        self._free = places
        self._queue = TenantQueue()

    @asynccontextmanager
    async def taken(self, *, wanted: bool = True) -> AsyncIterator[None]:
        """Acquire a slot for the length of the context, for the tenant in `TENANT`."""
        if not wanted:
            yield
            return
        await self._take(TENANT.get())
        try:
            yield
        finally:
            self._give()

    async def _take(self, tenant: str) -> None:
        if self._free:
            self._free -= 1
        else:
            await self._queue.wait(tenant, self._give)

    def _give(self) -> None:
        if not self._queue.call_next():
            self._free += 1
