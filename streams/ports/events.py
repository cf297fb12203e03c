"""The ports of events: the feed a tenant reads, and the publisher of committed events.

Every method takes the tenant first, and another tenant's thing is `NotFound`. Each may raise
`StoreUnavailable`; then the outcome is unknown, and calling again is safe.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from schemas.events import DecisionEvent
from schemas.ids import AuditEventId, EventId, TenantId


@dataclass(frozen=True, slots=True)
class FedEvent:
    """An event and its position in the feed, which is opaque to callers."""

    event: DecisionEvent
    place: str


class EventFeed(Protocol):
    """Read a tenant's decision events in the order in which they became visible (G56).

    That may be some seconds after their commit, where many nodes must agree on an order first.
    """

    async def page(
        self, tenant_id: TenantId, *, livemode: bool, after: str, limit: int, until: datetime | None = None
    ) -> Sequence[FedEvent]:
        """Return at most `limit` events behind the place `after`, oldest first; "" is the beginning.

        An event that becomes visible later stands behind every place returned before, so a reader that
        goes on from the last place misses none; one may be returned twice. `until` leaves out what became
        visible later than that.

        Raises:
            ValueError: `after` is no place of this feed.
        """
        ...

    async def place_of(self, tenant_id: TenantId, event_id: EventId, *, livemode: bool | None = None) -> str:
        """Return the place of an event, to go on behind it; `NotFound` when the tenant has no such event.

        With `livemode` an event of the other mode is none either.
        """
        ...

    async def place_at(self, tenant_id: TenantId, *, livemode: bool, moment: datetime) -> str:
        """Return a place behind which every event is that became visible at or after the moment."""
        ...


class EventPublisher(Protocol):
    """Publish committed events; what is not published the outbox relay publishes later."""

    async def announce(
        self, tenant_id: TenantId, events: Sequence[DecisionEvent], audit_ids: Sequence[AuditEventId]
    ) -> None:
        """Send the events to the decision topic and ask for the rows to be sealed, after a commit."""
        ...
