"""`/v1/webhooks/deliveries` and what an endpoint was sent: read, tried out, delivered again (G38)."""

from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from aiohttp import web

from app.http.bodies import BodyReader
from app.http.cursors import Cursors
from app.http.endpoints import Answer, Call, Endpoint, Parameter
from app.http.filters import modes, word
from app.http.idempotent_create import KEY_PROBLEMS, REPLAYED, name_created
from app.http.ports import FrontPorts, FrontSettings
from app.http.responses import json_answer, json_list
from app.http.routes.review_cases.bodies import NothingSaid
from app.http.routes.webhooks.bodies import DeliveryList, ReplayedRange, ReplayRangeBody
from app.http.routes.webhooks.endpoints import (
    KEY,
    ONE,
    PAGING,
    EndpointRoutes,
    endpoint_endpoints,
    endpoint_of,
    webhook_route,
)
from schemas.audit import AuditAction
from schemas.ids import DeliveryId, EventId
from schemas.problems import ProblemCode
from schemas.webhooks import Delivery, DeliveryStatus, StoredDelivery
from streams.ports.records import Position, Record
from streams.tenants.handler import RequestName
from streams.webhooks.deliveries import ReplaySelection, TenantDeliveries
from streams.webhooks.endpoints import TenantEndpoints

DELIVERY: Final = "/v1/webhooks/deliveries/{delivery_id}"


@dataclass(frozen=True, slots=True)
class DeliveryRoutes:
    """What the routes of the delivery log do."""

    ports: FrontPorts
    bodies: BodyReader
    cursors: Cursors
    deliveries: TenantDeliveries

    async def list_page(self, call: Call) -> web.Response:
        """Answer a page of what an endpoint was sent, newest first."""
        query, endpoint_id = call.request.query, endpoint_of(call)
        status = word(query, "status", DeliveryStatus)
        scope = {"list": "deliveries", "tenant": call.tenant_id, "of": endpoint_id, "status": str(status)}
        cursor, limit = query.get("cursor"), PAGING.limit(query)
        before = self.cursors.read(cursor, scope) if cursor is not None else None
        await self.deliveries.endpoints.find(call.tenant_id, endpoint_id, modes(call))
        found = (
            await self.deliveries.page(call.tenant_id, endpoint_id, status, limit + 1, before)
            if limit
            else ()
        )
        last = found[limit - 1] if len(found) > limit else None
        following = None if last is None else self.cursors.write(Position(last.created_at, last.id), scope)
        return json_list("deliveries", [_row(record) for record in found[:limit]], following)

    async def read(self, call: Call) -> web.Response:
        """Answer one delivery with what the receiver answered."""
        return _answered(await self.deliveries.read(call.tenant_id, _delivery_of(call), modes(call)))

    async def replay(self, call: Call) -> web.Response:
        """Deliver once more."""
        seen, actor = modes(call), call.actor
        delivery = await self.deliveries.replay(call.tenant_id, _delivery_of(call), seen, actor)
        return _answered(delivery, HTTPStatus.ACCEPTED)

    async def test(self, call: Call) -> web.Response:
        """Send a ping; a replayed key answers the ping it began."""
        named = name_created("evt", call, NothingSaid(), self.ports.fresh_uuid, tenant_id=call.tenant_id)
        told = await self.deliveries.test(call.tenant_id, endpoint_of(call), modes(call), EventId(named.id))
        return _answered(told.delivery, HTTPStatus.ACCEPTED, replayed=told.replayed)

    async def replay_range(self, call: Call) -> web.Response:
        """Deliver the events of a time once more; a replayed key asks for nothing that was asked."""
        body = await self.bodies.read(call, ReplayRangeBody)
        named = name_created("aud", call, body, self.ports.fresh_uuid, tenant_id=call.tenant_id)
        handed = await self.deliveries.replay_range(
            call.tenant_id,
            endpoint_of(call),
            modes(call),
            ReplaySelection(body.since, body.until, body.event_types),
            RequestName(named.id, named.fingerprint),
            call.actor,
        )
        asked = handed.command.model_dump(include={"endpoint_id", "since", "until", "event_types"})
        answer = ReplayedRange(**asked).model_dump_json(by_alias=True).encode()
        return json_answer(answer, HTTPStatus.ACCEPTED, _again(replayed=handed.replayed))


def _delivery_of(call: Call) -> DeliveryId:
    return DeliveryId(call.path_value("delivery_id"))


def _row(record: Record) -> bytes:
    """Return a delivery as a list shows it: without the receivers' words, up to 4 KB an attempt."""
    delivery = StoredDelivery.from_bytes(record.body).delivery
    silent = tuple(attempt.model_copy(update={"answer": None}) for attempt in delivery.attempts)
    return delivery.model_copy(update={"attempts": silent}).model_dump_json().encode()


def _answered(
    delivery: Delivery, status: HTTPStatus = HTTPStatus.OK, *, replayed: bool = False
) -> web.Response:
    return json_answer(delivery.model_dump_json().encode(), status, _again(replayed=replayed))


def _again(*, replayed: bool) -> dict[str, str]:
    return {REPLAYED: "true"} if replayed else {}


def webhook_endpoints(
    ports: FrontPorts, bodies: BodyReader, cursors: Cursors, settings: FrontSettings
) -> tuple[Endpoint, ...]:
    """Return every route of webhooks as data."""
    people = ports.people
    endpoints = TenantEndpoints(
        records=ports.stores.records,
        commit=ports.commit,
        vault=ports.stores.vault,
        clock=people.clock,
        new_id=people.new_id,
        insecure=settings.webhooks_allow_insecure,
        ports=settings.webhooks_ports,
    )
    deliveries = TenantDeliveries(endpoints, ports.hand)
    return (
        *endpoint_endpoints(EndpointRoutes(ports, bodies, cursors, endpoints)),
        *delivery_endpoints(DeliveryRoutes(ports, bodies, cursors, deliveries)),
    )


def delivery_endpoints(routes: DeliveryRoutes) -> tuple[Endpoint, ...]:
    """Return the routes as data."""
    unusable, replayed = ProblemCode.WEBHOOK_ENDPOINT_UNUSABLE, (AuditAction.WEBHOOK_REPLAYED,)
    status = Parameter("status", "Deliveries that stand so.", {"enum": [*DeliveryStatus]})
    again = {REPLAYED: "`true` when the Idempotency-Key had been used."}
    return (
        webhook_route(
            "GET", f"{ONE}/deliveries", routes.list_page, "List an endpoint's deliveries, newest first",
            {HTTPStatus.OK: Answer("A page of deliveries, `answer` always null.", DeliveryList)},
            parameters=(status, *PAGING.parameters),
        ),
        webhook_route(
            "POST", f"{ONE}/test", routes.test, "Send a ping to an endpoint",
            {HTTPStatus.ACCEPTED: Answer("The delivery of the ping.", Delivery, headers=again)},
            headers=(KEY,), problems=(unusable, ProblemCode.IDEMPOTENCY_KEY_INVALID),
        ),
        webhook_route(
            "POST", f"{ONE}/replay", routes.replay_range, "Deliver the events of a time again",
            {HTTPStatus.ACCEPTED: Answer("What will be delivered again.", ReplayedRange, headers=again)},
            headers=(KEY,), body=ReplayRangeBody, problems=(unusable, *KEY_PROBLEMS), audits=replayed,
        ),
        webhook_route(
            "GET", DELIVERY, routes.read, "Read a delivery",
            {HTTPStatus.OK: Answer("The delivery, its last thirty attempts among it.", Delivery)},
        ),
        webhook_route(
            "POST", f"{DELIVERY}/replay", routes.replay, "Deliver again",
            {HTTPStatus.ACCEPTED: Answer("The delivery, its schedule begun anew.", Delivery)},
            problems=(unusable,), audits=replayed,
        ),
    )  # fmt: skip
