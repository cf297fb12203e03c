"""The port for sending webhooks."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from schemas.webhooks import FailureKind


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
