"""New deliveries, and the records and indexes of endpoints and deliveries."""

from datetime import UTC, datetime
from typing import Final

from schemas.base import to_milliseconds
from schemas.events import DecisionEvent
from schemas.ids import PLATFORM, DeliveryId, EndpointId, EventId, TenantId, derive_id
from schemas.webhooks import (
    Delivery,
    DeliveryStatus,
    DeliveryWatch,
    EndpointHealth,
    StoredDelivery,
    StoredEndpoint,
)
from streams.ports.records import Record, RecordKind

ALL_TENANTS: Final = ("all", "webhooks")
"""Lists the tenants that ever had an endpoint; on the platform's records."""


DELETED_INDEX: Final = ("deleted", "all")
"""Lists the deleted endpoints of a tenant, whose deliveries are still stored for their period."""


def mode_index(*, livemode: bool) -> tuple[str, str]:
    """Return the index of a mode's endpoints that are not deleted."""
    return "mode", "live" if livemode else "test"


def firing_index(*, livemode: bool) -> tuple[str, str]:
    """Return the index of a mode's endpoints that are in force."""
    return "firing", "live" if livemode else "test"


def endpoint_index(endpoint_id: EndpointId) -> tuple[str, str]:
    """Return the index of an endpoint's deliveries."""
    return "endpoint", endpoint_id


def status_index(endpoint_id: EndpointId, status: DeliveryStatus) -> tuple[str, str]:
    """Return the index of an endpoint's deliveries with this status."""
    return "endpoint_status", f"{endpoint_id}:{status}"


def due_index(moment: datetime) -> tuple[str, str]:
    """Return the index of the deliveries due within the minute of the moment; on the platform's records."""
    return "due", moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%MZ")


def delivery_id(tenant_id: TenantId, endpoint_id: EndpointId, event_id: EventId) -> DeliveryId:
    """Return the id of an event's delivery to an endpoint, derived from both."""
    return DeliveryId(derive_id("whd", tenant_id, endpoint_id, event_id))


def endpoint_record(stored: StoredEndpoint, version: int, fingerprint: str = "") -> Record:
    """Return the record of an endpoint; one that is deleted is listed under `DELETED_INDEX` only."""
    endpoint = stored.endpoint
    indexes: list[tuple[str, str]] = []
    if stored.deleted:
        indexes.append(DELETED_INDEX)
    else:
        indexes.append(mode_index(livemode=endpoint.livemode))
        if endpoint.active:
            indexes.append(firing_index(livemode=endpoint.livemode))
    return Record(
        stored.tenant_id,
        RecordKind.WEBHOOK_ENDPOINT,
        endpoint.endpoint_id,
        stored.to_bytes(),
        endpoint.created_at,
        version=version,
        fingerprint=fingerprint,
        indexes=tuple(indexes),
    )


def health_record(health: EndpointHealth, created_at: datetime, version: int) -> Record:
    """Return the record of an endpoint's health, which only the endpoint's actor writes."""
    kind = RecordKind.WEBHOOK_HEALTH
    return Record(health.tenant_id, kind, health.endpoint_id, health.to_bytes(), created_at, version=version)


def tenant_record(tenant_id: TenantId, now: datetime) -> Record:
    """Return the first record that marks a tenant as having endpoints; fan-out recovery writes its body."""
    return Record(PLATFORM, RecordKind.WEBHOOK_TENANT, tenant_id, b"", now, indexes=(ALL_TENANTS,))


def delivery_records(stored: StoredDelivery, due: datetime | None, version: int = 1) -> tuple[Record, Record]:
    """Return a delivery's record and its watch, committed in one change; `due` is for the scheduler."""
    delivery = stored.delivery
    stored_record = Record(
        stored.tenant_id,
        RecordKind.DELIVERY,
        delivery.delivery_id,
        stored.to_bytes(),
        delivery.created_at,
        version=version,
        indexes=(
            endpoint_index(delivery.endpoint_id),
            status_index(delivery.endpoint_id, delivery.status),
        ),
    )
    watch = DeliveryWatch(
        tenant_id=stored.tenant_id,
        delivery_id=delivery.delivery_id,
        endpoint_id=delivery.endpoint_id,
        due=due,
    )
    watch_record = Record(
        PLATFORM,
        RecordKind.DELIVERY_WATCH,
        delivery.delivery_id,
        watch.to_bytes(),
        delivery.created_at,
        version=version,
        indexes=() if due is None else (due_index(due),),
    )
    return stored_record, watch_record


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
