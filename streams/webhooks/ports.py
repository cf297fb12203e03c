"""What sending needs from the outside world: one POST, and what may be called at all."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from schemas.webhooks import FailureKind


@dataclass(frozen=True, slots=True)
class Answer:
    """How one POST went. It is never an exception: whatever a receiver does is an answer."""

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
        """Whether the receiver took it."""
        return self.failure is None


class WebhookSender(Protocol):
    """Posts a body to a receiver, once: no redirect, no proxy, no cookie, bounded in time and size.

    The addresses a name leads to are checked at the connection of every attempt (S34, S35).
    """

    async def post(self, url: str, headers: Mapping[str, str], body: bytes) -> Answer:
        """Return how it went; only a cancellation is raised."""
        ...
