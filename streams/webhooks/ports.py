"""Ports of webhooks: sending a body, writing to the log, and what comes of an attempt."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from schemas.enums import TextEnum
from schemas.webhooks import Deliver, FailureKind, NoteAttempt
from streams.runtime.producer import Outgoing


class Outcome(TextEnum):
    """The result of a `Deliver` command, for metrics."""

    DELIVERED = "delivered"
    RETRYING = "retrying"
    FAILED = "failed"
    """The last attempt of the schedule failed, or the receiver answered 410."""
    CANCELLED = "cancelled"
    NOT_DUE = "not_due"
    """The delivery was attempted before or does not exist any more."""
    UNRECORDED = "unrecorded"
    """The receiver was called but the result could not be stored, so it will be called again."""


@dataclass(frozen=True, slots=True)
class AttemptResult:
    """The outcome of a `Deliver` command and the receiver's speed."""

    outcome: Outcome
    slow: bool | None = None
    """Whether the receiver took longer than `rules.SLOW_MS` allows; None when it was not called."""


Note = Callable[[NoteAttempt], Awaitable[None]]
"""Send the result of an attempt to the endpoint's actor; raises `StoreUnavailable` when Kafka is away."""

Hand = Callable[[Outgoing], Awaitable[None]]
"""Write a record to Kafka; raises `StoreUnavailable` when it is not written."""

Offer = Callable[[Deliver], bool]
"""Queue a delivery; False: the queue is full, and the scheduler offers it again."""

Attempt = Callable[[Deliver], Awaitable[AttemptResult]]


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of one POST. Failures of the receiver are results, never exceptions."""

    latency_ms: int
    status: int | None = None
    """None when no status came back."""
    failure: FailureKind | None = None
    """None exactly for a 2xx."""
    text: str | None = None
    """The first 4 KB of the body, undecodable bytes replaced; None without a body."""
    retry_after_s: float | None = None
    """What `Retry-After` asks for (RFC 9110 10.2.3), seconds from now, not negative; None without one."""

    @property
    def succeeded(self) -> bool:
        """Whether the receiver answered 2xx."""
        return self.failure is None


class WebhookSender(Protocol):
    """Post a body to a receiver once: no redirect, no proxy, no cookie, limited in time and size.

    The resolved addresses are checked when each connection is opened (S34, S35).
    """

    async def post(self, url: str, headers: Mapping[str, str], body: bytes) -> Answer:
        """Return the result; raises nothing but `CancelledError`."""
        ...


class Write(Protocol):
    """Write records to Kafka, as `LogWriter.write` does."""

    async def __call__(self, *records: Outgoing) -> None:
        """Write the records in order, or raise `StoreUnavailable`."""
        ...
