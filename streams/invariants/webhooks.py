"""Check invariant I4 for webhooks: each event and its delivery to each endpoint. Pure."""

from collections.abc import Iterator
from datetime import datetime

from schemas.events import DecisionEvent
from schemas.webhooks import DeliveryStatus, StoredDelivery, StoredEndpoint
from streams.invariants.rules import Invariant, Violation


def concerns(
    event: DecisionEvent, endpoint: StoredEndpoint, in_force_since: datetime, due_before: datetime
) -> bool:
    """Return whether the event must have its delivery to the endpoint by now."""
    return endpoint.wants(event) and in_force_since <= event.timestamp <= due_before


def judge_delivery(
    event: DecisionEvent,
    endpoint: StoredEndpoint,
    stored: StoredDelivery | None,
    due_before: datetime,
    *,
    failing: bool,
) -> Iterator[Violation]:
    """Yield the violations of an event's delivery to an endpoint; None: the delivery is missing.

    At a `failing` endpoint deliveries wait for each other, and none is overdue.
    """
    endpoint_id = endpoint.endpoint.endpoint_id
    about = f"{event.id} ({event.type} to {endpoint_id})"
    if stored is None:
        yield _is_wrong(about, "has no delivery")
        return
    if stored.tenant_id != event.tenant_id or stored.delivery.endpoint_id != endpoint_id:
        found = "its delivery is another tenant's or endpoint's"
        yield Violation(invariant=Invariant.I6, about=about, found=found)
    if stored.payload.encode() != event.to_bytes():
        yield _is_wrong(about, "is delivered in other words than published")
    if stored.delivery.status is not DeliveryStatus.PENDING:
        return
    following = stored.delivery.next_attempt_at
    if following is None:
        yield _is_wrong(about, "is pending and has no next attempt")
    elif following < due_before and not failing:
        yield _is_wrong(about, "is pending and its attempt is overdue")


def _is_wrong(about: str, found: str) -> Violation:
    return Violation(invariant=Invariant.I4, about=about, found=found)
