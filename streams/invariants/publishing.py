"""Check invariant I4: every decision is published and delivered to each endpoint. Pure."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime

from pydantic import ValidationError

from schemas.events import DecisionEvent
from schemas.ids import EventId
from schemas.webhooks import DeliveryStatus, StoredDelivery, StoredEndpoint
from streams.invariants.rules import Invariant, Violation, violation


def judge_events(
    expected: Iterable[DecisionEvent], decided_id: str, published: Mapping[EventId, Collection[bytes]]
) -> Iterator[Violation]:
    """Yield the events of what was decided that were not published, or published with other content."""
    for event in expected:
        bodies = published.get(event.id, ())
        about = f"{event.id} ({event.type} of {decided_id})"
        if not bodies:
            yield violation(Invariant.I4, about, "is not in the decision topic")
        elif any(_read_event(body) != event for body in bodies):
            yield violation(Invariant.I4, about, "was published otherwise than the record says")


def _read_event(body: bytes) -> DecisionEvent | None:
    try:
        return DecisionEvent.from_bytes(body)
    except ValidationError:
        return None


def judge_repeats(published: Mapping[EventId, Collection[bytes]]) -> Iterator[Violation]:
    """Yield the events published in more than one form."""
    for event_id, bodies in published.items():
        if len(bodies) > 1:
            yield violation(Invariant.I4, event_id, f"was published in {len(bodies)} different forms")


def concerns_endpoint(
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
        yield violation(Invariant.I4, about, "has no delivery")
        return
    if stored.tenant_id != event.tenant_id or stored.delivery.endpoint_id != endpoint_id:
        found = "its delivery is another tenant's or endpoint's"
        yield violation(Invariant.I6, about, found)
    if stored.payload.encode() != event.to_bytes():
        yield violation(Invariant.I4, about, "is delivered in other words than published")
    if stored.delivery.status is not DeliveryStatus.PENDING:
        return
    following = stored.delivery.next_attempt_at
    if following is None:
        yield violation(Invariant.I4, about, "is pending and has no next attempt")
    elif following < due_before and not failing:
        yield violation(Invariant.I4, about, "is pending and its attempt is overdue")
