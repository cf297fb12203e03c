"""`/console/webhooks`: endpoints, what each was sent, and what its receiver answered (G38)."""

from dataclasses import dataclass
from typing import Final

from aiohttp import web

from app.http.console import HOME, Console, ask, console_page, filters_of
from app.http.endpoints import Call, Endpoint
from app.http.routes.webhooks.deliveries import DELIVERY
from app.http.routes.webhooks.endpoints import ENDPOINT_FORM
from app.http.routes.webhooks.endpoints import PATH as ENDPOINTS
from schemas.events import EventType
from schemas.webhooks import ANY_TYPE, DeliveryStatus, StoredDelivery
from streams.ports.records import RecordKind

PATH: Final = f"{HOME}/webhooks"
ONE: Final = f"{PATH}/{{endpoint_id}}"
SENT: Final = f"{PATH}/deliveries/{{delivery_id}}"

TYPES: Final = (ANY_TYPE, *EventType)


@dataclass(frozen=True, slots=True)
class WebhookPages:
    """Draws endpoints and deliveries."""

    console: Console

    async def show_all(self, call: Call) -> web.Response:
        """Answer a page of the endpoints, newest first, and the form of another one."""
        _, query = filters_of(call)
        listed = await ask(call, ENDPOINTS, query)
        return await self.console.show(
            call,
            "webhooks.html",
            place="webhooks",
            endpoints=listed["endpoints"],
            following=listed["next_cursor"],
            types=TYPES,
        )

    async def show_one(self, call: Call) -> web.Response:
        """Answer an endpoint with a page of its deliveries."""
        path = f"{ENDPOINTS}/{call.path_value('endpoint_id')}"
        endpoint = await ask(call, path)
        filters, query = filters_of(call, "status")
        asked = {name: value for name, value in query.items() if name != "livemode"}
        listed = await ask(call, f"{path}/deliveries", asked)
        return await self.console.show(
            call,
            "webhook.html",
            place="webhooks",
            livemode=endpoint["livemode"],
            endpoint=endpoint,
            route=path,
            types=TYPES,
            status=filters.get("status", ""),
            statuses=tuple(DeliveryStatus),
            deliveries=listed["deliveries"],
            following=listed["next_cursor"],
        )

    async def show_delivery(self, call: Call) -> web.Response:
        """Answer a delivery with the body that is sent, its attempts, and what the receiver answered."""
        delivery_id = call.path_value("delivery_id")
        route = DELIVERY.format(delivery_id=delivery_id)
        delivery = await ask(call, route)
        record = await self.console.records.get(call.tenant_id, RecordKind.DELIVERY, delivery_id)
        body = StoredDelivery.from_bytes(record.body).payload
        values = {"delivery": delivery, "body": body, "route": route, "livemode": delivery["livemode"]}
        return await self.console.show(call, "webhook_delivery.html", place="webhooks", **values)


def webhook_page_endpoints(pages: WebhookPages) -> tuple[Endpoint, ...]:
    """Return the routes as data."""
    delivery = {"delivery_id": r"whd_[0-9a-hjkmnp-tv-z]{26}"}
    return (
        console_page(PATH, pages.show_all, "Show webhook endpoints"),
        console_page(ONE, pages.show_one, "Show a webhook endpoint", {"endpoint_id": ENDPOINT_FORM}),
        console_page(SENT, pages.show_delivery, "Show a delivery", delivery),
    )
