"""Limit concurrent evaluations, fairly between tenants, and how often each is started."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from typing import Final, Protocol

import structlog

from schemas.ids import VerificationId
from streams.runtime.fair_queue import TenantQueue
from streams.vision_ports import TENANT

CONCURRENT_VERIFICATIONS: Final = 8
"""Verifications whose images are in memory at one time, decoded some 150 MB each at worst. Each has three
jobs at the engines at most: in total fewer than one tenant may have waiting (`SERVICE_VISION_QUEUE`)."""


class EngineSlots:
    """A semaphore that serves the waiting tenants fairly, and each tenant in order."""

    def __init__(self, places: int = CONCURRENT_VERIFICATIONS) -> None:
        self._free = places
        self._queue = TenantQueue()

    @asynccontextmanager
    async def taken(self) -> AsyncIterator[None]:
        """Acquire a slot for the length of the context, for the tenant in `TENANT`."""
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


TRIES_MAX: Final = 2
"""An evaluation whose worker was killed twice is not started a third time."""

log = structlog.get_logger(__name__)


class EvaluationAttempts(Protocol):
    """Count evaluations in progress in durable storage."""

    async def begin(self, verification_id: VerificationId) -> int:
        """Count a start, and return the number of starts since the last end."""
        ...

    async def end(self, verification_id: VerificationId) -> None:
        """Remove the count: the evaluation ended, with any result."""
        ...


def counted(
    tries: EvaluationAttempts | None, verification_id: VerificationId
) -> AbstractAsyncContextManager[bool]:
    """Count one attempt for the length of the context, which gives False when there were too many."""
    return nullcontext(enter_result=True) if tries is None else _counted(tries, verification_id)


@asynccontextmanager
async def _counted(tries: EvaluationAttempts, verification_id: VerificationId) -> AsyncIterator[bool]:
    began = await tries.begin(verification_id)
    if began > TRIES_MAX:
        log.error("verification.given_up", verification_id=verification_id, tries=began - 1)
    try:
        yield began <= TRIES_MAX
    finally:
        await tries.end(verification_id)
