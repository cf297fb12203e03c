"""The command `veristream webhook resend`: send deliveries again."""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Final

import typer

from app.cli.options import AsJson, DataDir, TenantOption, settings_of
from app.process.output import say_json, say_rows
from app.process.startup import CannotStart
from app.settings import Settings
from schemas.ids import DeliveryId, EventId, TenantId
from schemas.problems import NotFound, Refused, StoreUnavailable

if TYPE_CHECKING:
    from app.composition.stores import Deployment
    from schemas.webhooks import Delivery, StoredEndpoint
    from streams.runtime.producer import Outgoing
    from streams.webhooks.deliveries import TenantDeliveries


def webhook_resend(
    id_: Annotated[
        str, typer.Argument(metavar="ID", help="A delivery, whd_…, or an event, evt_…: all its deliveries.")
    ],
    tenant: TenantOption,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Send a delivery again, whatever became of it; the running service sends it within seconds.

    Its schedule begins anew and its webhook-id stays, so a receiver knows that it had it before. The id of
    an event stands in its webhook-id header. POST /v1/webhooks/deliveries/{id}/replay does the same.

    Try:

      veristream webhook resend whd_… --tenant ten_…

      veristream webhook resend evt_… --tenant ten_… --json
    """
    again = asyncio.run(resend(settings_of(data_dir), tenant, id_))
    if as_json:
        say_json(again)
    else:
        say_rows(tuple(again[0]), [tuple(row.values()) for row in again])


BOTH_MODES: Final = (True, False)

MOST_ENDPOINTS: Final = 100
"""More than a tenant may have."""


async def resend(settings: Settings, tenant: str, id_: str) -> list[dict[str, str]]:
    """Begin a delivery anew, or each delivery of an event; the running service sends them within seconds.

    Raises:
        CannotStart: No such tenant or delivery, or its endpoint is not active.
    """
    from app.composition.stores import known_tenant, open_existing
    from streams.tenants.handler import OPERATOR

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
    deployment: "Deployment", deliveries: "TenantDeliveries", tenant_id: TenantId, event_id: EventId
) -> list[dict[str, str]]:
    """Begin anew what was sent of an event, leaving out endpoints that are not active.

    Raises:
        CannotStart: It was sent to no endpoint that is still there, or none of them is active.
    """
    from streams.tenants.handler import OPERATOR
    from streams.webhooks.records import delivery_id

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


async def _endpoints(deployment: "Deployment", tenant_id: TenantId) -> "Sequence[StoredEndpoint]":
    from schemas.webhooks import StoredEndpoint
    from streams.ports.records import RecordKind
    from streams.webhooks.records import mode_index

    found: list[StoredEndpoint] = []
    for livemode in BOTH_MODES:
        index = mode_index(livemode=livemode)
        records = deployment.stores.records
        page = await records.page(tenant_id, RecordKind.WEBHOOK_ENDPOINT, index, limit=MOST_ENDPOINTS)
        found += [StoredEndpoint.from_bytes(record.body) for record in page]
    return found


def _deliveries(deployment: "Deployment") -> "TenantDeliveries":
    from app.composition.stores import new_id, now
    from streams.webhooks.deliveries import TenantDeliveries
    from streams.webhooks.endpoints import TenantEndpoints

    stores = deployment.stores
    endpoints = TenantEndpoints(stores.records, stores.journal.commit, stores.vault, now, new_id)
    return TenantDeliveries(endpoints, _no_log)


async def _no_log(_: "Outgoing") -> None:
    """Refuse to write to the log: what is resent is found in the store by the service's own sweep."""
    raise StoreUnavailable("this command opens no log")


def _row(delivery: "Delivery") -> dict[str, str]:
    return {
        "delivery_id": delivery.delivery_id,
        "endpoint_id": delivery.endpoint_id,
        "event_id": delivery.event_id,
        "event_type": delivery.event_type,
        "status": delivery.status,
    }
