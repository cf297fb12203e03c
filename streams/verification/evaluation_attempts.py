"""How often an evaluation may be begun when the process that makes it keeps dying."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final, Protocol

import structlog

from schemas.ids import VerificationId

TRIES_MAX: Final = 2
"""An evaluation that was under way when its worker was killed twice is not begun a third time."""

log = structlog.get_logger(__name__)


class EvaluationAttempts(Protocol):
    """Counts evaluations under way, so that the count outlives a process that is killed."""

    async def begin(self, verification_id: VerificationId) -> int:
        """Count one more, and return how many began since the last one that ended."""
        ...

    async def end(self, verification_id: VerificationId) -> None:
        """Forget the evaluation: its process lived to see its end, whatever that was."""
        ...


@asynccontextmanager
async def counted(tries: EvaluationAttempts | None, verification_id: VerificationId) -> AsyncIterator[bool]:
    """Count one try for the length of the context; yields False when there were too many."""
    if tries is None:
        yield True
        return
    began = await tries.begin(verification_id)
    if began > TRIES_MAX:
        log.error("verification.given_up", verification_id=verification_id, tries=began - 1)
    try:
        yield began <= TRIES_MAX
    finally:
        await tries.end(verification_id)
