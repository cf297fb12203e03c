"""Shared parts of the handlers of aggregates: answered requests, commit, retries, refusals.

An aggregate is a record with a single writer, the actor of its key: a flow, a session, a review case.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from schemas.base import Frozen
from schemas.ids import TenantId
from schemas.problems import FieldProblem, ProblemCode, Refused
from streams.audit.commit import CommitAndPublish
from streams.ports.errors import Conflict
from streams.ports.events import EventPublisher
from streams.ports.records import Change, Journal
from streams.ports.stores import WorkingState

Result = TypeVar("Result")

REMEMBERED: Final = 64
"""Number of answered requests stored with an aggregate; a killed worker repeats far fewer."""

ATTEMPTS: Final = 12
"""Attempts of a command under conflicts; at most about four seconds in total."""

FIRST_PAUSE_S: Final = 0.005
"""The first retry comes after about one commit of the competitor; every further pause is twice as long."""

LONGEST_PAUSE_S: Final = 1.0

Pause = Callable[[float], Awaitable[None]]
"""Wait this number of seconds."""


class AnsweredRequests(Frozen):
    """The requests that the actor of an aggregate has answered."""

    tenant_id: TenantId
    requests: tuple[str, ...]


class Aggregates:
    """Commit the changes of one kind of aggregate and cache the requests that each has answered."""

    def __init__(
        self, journal: Journal, announcer: EventPublisher, state: WorkingState[AnsweredRequests]
    ) -> None:
        self._commit = CommitAndPublish(journal, announcer)
        self._state = state

    def has_answered(self, tenant_id: TenantId, aggregate_id: str, request_id: str) -> bool:
        """Return whether the request is known to be answered; after False the store decides."""
        memory = self._state.get(aggregate_id)
        return memory is not None and memory.tenant_id == tenant_id and request_id in memory.requests

    def remember(self, tenant_id: TenantId, aggregate_id: str, requests: tuple[str, ...]) -> None:
        """Cache the requests that are answered according to the store."""
        self._state.put(aggregate_id, AnsweredRequests(tenant_id=tenant_id, requests=requests))

    async def commit(self, change: Change, aggregate_id: str, requests: tuple[str, ...]) -> bool:
        """Commit and publish a change, and cache the requests; return False when another was first.

        Raises:
            Conflict: As `Journal.commit`.
            StoreUnavailable: As `Journal.commit`; not raised when only Kafka is away.
        """
        won = (await self._commit(change)).won
        if won:
            self.remember(change.tenant_id, aggregate_id, requests)
        return won


def with_request(requests: tuple[str, ...], request_id: str) -> tuple[str, ...]:
    """Return the answered requests with a new one, limited to `REMEMBERED`."""
    return (*requests, request_id)[-REMEMBERED:]


async def retry_conflicts(change: Callable[[], Awaitable[Result]], pause: Pause = asyncio.sleep) -> Result:
    """Call `change`, which reads the record, until it succeeds without a conflict; return its result.

    Raises:
        Conflict: Every attempt ended in a conflict; the guard counts it as a failure of
            the command, which ends in the dead letters like every other.
    """
    uniform = random.SystemRandom().uniform
    for attempt in range(ATTEMPTS - 1):
        try:
            return await change()
        except Conflict:
            longest_s = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2**attempt)
            await pause(uniform(longest_s / 2, longest_s))
    return await change()


def key_reused() -> Refused:
    """Return the refusal of an idempotency key that came with another body."""
    code, message = ProblemCode.IDEMPOTENCY_KEY_REUSED, "The key was used for another request."
    field = FieldProblem(code=code, message=message, header="Idempotency-Key")
    return Refused.because(code, message, field)


def not_found() -> Refused:
    """Return the refusal of an aggregate that does not exist, or is another tenant's."""
    return Refused.because(ProblemCode.NOT_FOUND, "No such thing for this caller.")
