"""What `veristream webhook resend` does: begins deliveries anew, as the route of the interface does."""

from collections.abc import Sequence
from typing import Final

from app.composition.stores import Deployment, known_tenant, new_id, now, open_existing
from app.process.startup import CannotStart
from app.settings import Settings
from schemas.ids import DeliveryId, EventId, TenantId
from schemas.problems import NotFound, Refused, StoreUnavailable
from schemas.webhooks import Delivery, StoredEndpoint
from streams.ports.records import RecordKind
from streams.runtime.producer import Outgoing
from streams.tenants.handler import OPERATOR
from streams.webhooks.deliveries import TenantDeliveries
from streams.webhooks.endpoints import TenantEndpoints
from streams.webhooks.records import delivery_id, mode_index

BOTH_MODES: Final = (True, False)

MOST_ENDPOINTS: Final = 100
"""More than a tenant may have."""


async def resend(settings: Settings, tenant: str, id_: str) -> list[dict[str, str]]:
    """Begin a delivery anew, or each delivery of an event; the running service sends them within seconds.

    Raises:
        CannotStart: No such tenant or delivery, or its endpoint is not active.
    """
    async with open_existing(settings) as deployment:
        tenant_id = await known_tenant(deployment, tenant)
        deliveries = _deliveries(deployment)
        if id_.startswith("evt_"):
            return await _resend_event(deployment, deliveries, tenant_id, EventId(id_))
        try:
            again = await deliveries.replay(tenant_id, DeliveryId(id_), BOTH_MODES, OPERATOR)
        except NotFound as error:
            raise CannotStart(
                f"tenant {tenant} has no delivery {id_} to an endpoint that is still there; an id is whd_… "
                "of a delivery or evt_… of an event"
            ) from error
        except Refused as error:
            raise CannotStart(error.refusal.detail) from error
        return [_row(again)]


async def _resend_event(
    deployment: Deployment, deliveries: TenantDeliveries, tenant_id: TenantId, event_id: EventId
) -> list[dict[str, str]]:
    """Begin anew what was sent of an event, leaving out endpoints that are not active.

    Raises:
        CannotStart: It was sent to no endpoint that is still there, or none of them is active.
    """
    sent: list[dict[str, str]] = []
    refused = f"event {event_id} was sent to no endpoint of tenant {tenant_id} that is still there"
    for endpoint in await _endpoints(deployment, tenant_id):
        id_ = delivery_id(tenant_id, endpoint.endpoint.endpoint_id, event_id)
        try:
            sent.append(_row(await deliveries.replay(tenant_id, id_, BOTH_MODES, OPERATOR)))
        except NotFound:
            continue
        except Refused as error:
            refused = error.refusal.detail
    if not sent:
        raise CannotStart(refused)
    return sent


async def _endpoints(deployment: Deployment, tenant_id: TenantId) -> Sequence[StoredEndpoint]:
    found: list[StoredEndpoint] = []
    for livemode in BOTH_MODES:
        index = mode_index(livemode=livemode)
        records = deployment.stores.records
        page = await records.page(tenant_id, RecordKind.WEBHOOK_ENDPOINT, index, limit=MOST_ENDPOINTS)
        found += [StoredEndpoint.from_bytes(record.body) for record in page]
    return found


def _deliveries(deployment: Deployment) -> TenantDeliveries:
    stores = deployment.stores
    endpoints = TenantEndpoints(stores.records, stores.journal.commit, stores.vault, now, new_id)
    return TenantDeliveries(endpoints, _no_log)


async def _no_log(_: Outgoing) -> None:
    """Refuse to write to the log: what is resent is found in the store by the service's own sweep."""
    raise StoreUnavailable("this command opens no log")


def _row(delivery: Delivery) -> dict[str, str]:
    return {
        "delivery_id": delivery.delivery_id,
        "endpoint_id": delivery.endpoint_id,
        "event_id": delivery.event_id,
        "event_type": delivery.event_type,
        "status": delivery.status,
    }
