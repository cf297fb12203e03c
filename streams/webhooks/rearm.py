"""Create a delivery or restart its schedule. Pure."""

from datetime import datetime

from schemas.base import to_milliseconds
from schemas.events import DecisionEvent
from schemas.webhooks import Delivery, DeliveryStatus, StoredDelivery, StoredEndpoint
from streams.webhooks.records import delivery_id


def fresh(event: DecisionEvent, endpoint: StoredEndpoint, now: datetime) -> StoredDelivery:
    """Return a new delivery of an event to an endpoint, due now."""
    endpoint_id = endpoint.endpoint.endpoint_id
    return StoredDelivery(
        tenant_id=endpoint.tenant_id,
        delivery=Delivery(
            delivery_id=delivery_id(endpoint.tenant_id, endpoint_id, event.id),
            endpoint_id=endpoint_id,
            event_id=event.id,
            event_type=event.type,
            status=DeliveryStatus.PENDING,
            next_attempt_at=now,
            created_at=now,
            livemode=event.livemode,
        ),
        payload=event.to_bytes().decode(),
    )


def rearmed(stored: StoredDelivery, now: datetime) -> StoredDelivery:
    """Return the delivery with its schedule restarted, due now; its attempts stay listed."""
    changes = {"status": DeliveryStatus.PENDING, "next_attempt_at": to_milliseconds(now)}
    again = stored.delivery.model_copy(update=changes)
    return stored.model_copy(update={"delivery": again, "step": 0})
