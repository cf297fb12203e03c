"""Webhook endpoints, deliveries and attempts (section 2.11, G22, G38)."""

from typing import Annotated, Literal

from pydantic import Field, RootModel

from schemas.base import Command, Frozen, Timestamp
from schemas.enums import TextEnum
from schemas.events import DecisionEvent, EventType
from schemas.ids import DeliveryId, EndpointId, EventId, TenantId

ANY_TYPE = "*"
"""Stands for every event type, those to come included."""


class DisabledReason(TextEnum):
    """Why the service stopped sending to an endpoint by itself; a change to active clears it."""

    GONE = "GONE"
    """The receiver answered 410 (G55)."""
    FAILED_FOR_5_DAYS = "FAILED_FOR_5_DAYS"
    """Every attempt for five days failed (G55)."""


class WebhookEndpoint(Frozen):
    """An endpoint as a tenant sees it, without its secret."""

    endpoint_id: EndpointId
    url: str
    event_types: tuple[str, ...]
    """Values of `EventType`, or `*` alone."""
    active: bool = True
    created_at: Timestamp
    livemode: bool
    description: str | None = None
    disabled_reason: DisabledReason | None = None
    last_success_at: Timestamp | None = None
    """To the minute: a success within the minute after another one is not written down."""
    secret_rotated_at: Timestamp | None = None


class SealedSecret(Frozen):
    """A sealed signing secret; `ends_at` is None for the one in force."""

    sealed: str
    ends_at: Timestamp | None = None
    """Until when it still signs beside the one in force, after a rotation (G54)."""


class StoredEndpoint(Frozen):
    """A stored endpoint. Its health is a separate record (`EndpointHealth`)."""

    tenant_id: TenantId
    endpoint: WebhookEndpoint
    """Without `last_success_at`, which is of its health."""
    secrets: tuple[SealedSecret, ...]
    """The one in force first."""
    deleted: bool = False
    judged_from: Timestamp | None = None
    """Failures before this moment say nothing about the endpoint as it is now: it was made active again
    then, or given another URL. Who judges its health takes an earlier `failing_since` for none, and counts
    from the next failure on. None: every failure counts."""

    def wants(self, event: DecisionEvent) -> bool:
        """Return whether the event is delivered here: in force, of its mode and one of its types (G92)."""
        endpoint = self.endpoint
        chosen = ANY_TYPE in endpoint.event_types or event.type in endpoint.event_types
        return endpoint.active and not self.deleted and endpoint.livemode is event.livemode and chosen


class EndpointHealth(Frozen):
    """The health of an endpoint: cached by its actor, and a record of its own."""

    tenant_id: TenantId
    endpoint_id: EndpointId
    last_success_at: Timestamp | None = None
    failing_since: Timestamp | None = None
    """When the first of the failures after the last success was; None while deliveries succeed."""


class DeliveryStatus(TextEnum):
    """The status of a delivery."""

    PENDING = "PENDING"
    """It has a next attempt."""
    DELIVERED = "DELIVERED"
    """A receiver answered 2xx."""
    FAILED = "FAILED"
    """Dead letter: the schedule's last attempt failed, or the receiver is gone. It can be replayed."""
    CANCELLED = "CANCELLED"
    """Its endpoint was deleted or inactive when an attempt was due. It can be replayed."""


class FailureKind(TextEnum):
    """Why an attempt had no 2xx."""

    STATUS = "STATUS"
    """It answered with another status; a redirect is one."""
    TIMEOUT = "TIMEOUT"
    """Nothing within the time allowed (5 s to connect, 15 s in all)."""
    NAME_NOT_FOUND = "NAME_NOT_FOUND"
    ADDRESS_REFUSED = "ADDRESS_REFUSED"
    """The name led to an address that is not globally reachable (G104)."""
    CONNECTION_FAILED = "CONNECTION_FAILED"
    TLS_FAILED = "TLS_FAILED"
    BAD_ANSWER = "BAD_ANSWER"
    """What came back was not HTTP."""


class Attempt(Frozen):
    """One attempt of a delivery, as a tenant sees it."""

    number: int
    """Counted from 1 over all replays."""
    at: Timestamp
    """When it was begun."""
    latency_ms: int
    status: int | None = None
    """What the receiver answered; None when it did not."""
    failure: FailureKind | None = None
    """None for a success."""
    answer: str | None = None
    """The first 4 KB of the answer's text (G38)."""


class Delivery(Frozen):
    """One event on its way to one endpoint, as a tenant sees it."""

    delivery_id: DeliveryId
    endpoint_id: EndpointId
    event_id: EventId
    event_type: EventType
    status: DeliveryStatus
    attempts: tuple[Attempt, ...] = ()
    """The last thirty."""
    next_attempt_at: Timestamp | None = None
    created_at: Timestamp
    livemode: bool


class StoredDelivery(Frozen):
    """A stored delivery; `payload` is sent unchanged at every attempt."""

    tenant_id: TenantId
    delivery: Delivery
    payload: str
    """The body of the event (G53), thin by design."""
    step: int = 0
    """Attempts made since the schedule began, or began anew by a replay."""


class DeliveryWatch(Frozen):
    """When a delivery is due; a platform record, so that one scheduler serves every tenant."""

    tenant_id: TenantId
    delivery_id: DeliveryId
    endpoint_id: EndpointId
    due: Timestamp | None = None
    """None: nothing is to be done any more."""


class Deliver(Command):
    """Attempt a delivery that is due; keyed by its endpoint; a repeated command is one attempt."""

    kind: Literal["deliver"] = "deliver"
    tenant_id: TenantId
    endpoint_id: EndpointId
    delivery_id: DeliveryId


class NoteAttempt(Command):
    """Report the result of an attempt to the endpoint's actor, the only writer of its health."""

    kind: Literal["note_attempt"] = "note_attempt"
    tenant_id: TenantId
    endpoint_id: EndpointId
    at: Timestamp
    succeeded: bool
    gone: bool = False
    """The receiver answered 410."""


class ReplayEvents(Command):
    """Deliver the tenant's events of a period again to one endpoint, page by page (G38)."""

    kind: Literal["replay_events"] = "replay_events"
    tenant_id: TenantId
    endpoint_id: EndpointId
    since: Timestamp
    until: Timestamp
    event_types: tuple[str, ...]
    after: str = ""
    """The position in the feed to continue from; "" is the beginning."""


class DeliveryCommand(
    RootModel[Annotated[Deliver | NoteAttempt | ReplayEvents, Field(discriminator="kind")]]
):
    """Any command about the deliveries to an endpoint."""
