"""Limit how often an evaluation is started when its process is killed each time."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final, Protocol

import structlog

from schemas.ids import VerificationId

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


@asynccontextmanager
async def counted(tries: EvaluationAttempts | None, verification_id: VerificationId) -> AsyncIterator[bool]:
    """Count one attempt for the length of the context; yield False when there were too many."""
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
