"""`/v1/webhooks/endpoints`: where decisions are sent, as their tenant keeps them (G38, G54, G105)."""

import asyncio
from dataclasses import dataclass
from datetime import timedelta
from http import HTTPStatus
from typing import Any, Final

from aiohttp import web

from app.http.bodies import BodyReader
from app.http.cursors import Cursors
from app.http.endpoints import Access, Answer, Call, Credential, Endpoint, Handler, Parameter
from app.http.filters import LIVEMODE, Page, Paging, modes
from app.http.idempotent_create import (
    KEY_PROBLEMS,
    LOCATION,
    REPLAYED,
    created_at,
    created_or_replayed,
    name_created,
)
from app.http.listing import page_of
from app.http.ports import FrontPorts
from app.http.responses import json_answer, json_list
from app.http.routes.webhooks.bodies import (
    ChangeEndpointBody,
    CreateEndpointBody,
    EndpointList,
    NamedEndpoint,
    RotateSecretBody,
)
from schemas.audit import AuditAction
from schemas.enums import Scope
from schemas.ids import EndpointId
from schemas.people import Permission
from schemas.problems import ProblemCode, Refused
from schemas.webhooks import StoredEndpoint, WebhookEndpoint
from streams.ports.records import RecordKind
from streams.reviewers.context import keyed_hash
from streams.tenants.handler import RequestName
from streams.webhooks.endpoints import NewEndpoint, TenantEndpoints
from streams.webhooks.records import mode_index

PATH: Final = "/v1/webhooks/endpoints"
ONE: Final = f"{PATH}/{{endpoint_id}}"
ENDPOINT_FORM: Final = r"whe_[0-9a-hjkmnp-tv-z]{26}"
PAGING: Final = Paging(usual=25, most=100)
FAMILY: Final = "Webhooks"

MANAGES: Final = Access(
    frozenset({Credential.TENANT_KEY, Credential.REVIEWER_SESSION}),
    scope=Scope.WEBHOOKS_MANAGE,
    permission=Permission.WEBHOOKS_MANAGE,
)
"""Section 5; every role holds the permission (G84)."""

KEY: Final = Parameter(
    "Idempotency-Key",
    "1 to 255 printable ASCII characters; the same key answers the first result again.",
    {"type": "string", "minLength": 1, "maxLength": 257},
)


def endpoint_of(call: Call) -> EndpointId:
    """Return the endpoint the path names."""
    return EndpointId(call.path_value("endpoint_id"))


@dataclass(frozen=True, slots=True)
class EndpointRoutes:
    """What the routes of endpoints do."""

    ports: FrontPorts
    bodies: BodyReader
    cursors: Cursors
    endpoints: TenantEndpoints

    async def create(self, call: Call) -> web.Response:
        """Register an endpoint; a replayed key answers 200 with the endpoint as first answered."""
        body = await self.bodies.read(call, CreateEndpointBody)
        livemode, secret = _mode_of(call, body.livemode), body.secret.get_secret_value()
        asked = NamedEndpoint(
            url=body.url,
            secret_hash=keyed_hash(self.ports.people.key, "webhook-secret", call.tenant_id, secret),
            event_types=body.event_types,
            description=body.description,
            livemode=livemode,
        )
        named = name_created(
            "whe", call, asked, self.ports.fresh_uuid, tenant_id=call.tenant_id, livemode=livemode
        )
        wish = NewEndpoint(body.url, body.event_types, secret, livemode, body.description)
        request = RequestName(named.id, named.fingerprint)
        made = await self.endpoints.create(call.tenant_id, wish, request, call.actor)
        if made.replayed:
            return _answered(made.endpoint, headers={REPLAYED: "true"})
        created = created_at(PATH, made.endpoint.endpoint_id)
        return _answered(made.endpoint, HTTPStatus.CREATED, headers=created)

    async def list_page(self, call: Call) -> web.Response:
        """Answer a page of endpoints, newest first."""
        query, seen = call.request.query, modes(call)
        scope = {"list": PATH, "tenant": call.tenant_id, "modes": repr(seen)}
        cursor = query.get("cursor")
        page = Page(PAGING.limit(query), self.cursors.read(cursor, scope) if cursor is not None else None)
        listed = await page_of(
            self.ports.stores.records,
            call.tenant_id,
            RecordKind.WEBHOOK_ENDPOINT,
            seen,
            lambda livemode: mode_index(livemode=livemode),
            page,
        )
        rows = [StoredEndpoint.from_bytes(record.body) for record in listed.records]
        shown = await asyncio.gather(*(self.endpoints.show(stored) for stored in rows))
        next_cursor = self.cursors.write_next(listed.following, scope)
        return json_list("endpoints", [one.model_dump_json().encode() for one in shown], next_cursor)

    async def read(self, call: Call) -> web.Response:
        """Answer one endpoint."""
        found = await self.endpoints.find(call.tenant_id, endpoint_of(call), modes(call))
        return await self._shown(found.stored)

    async def change(self, call: Call) -> web.Response:
        """Change what is named."""
        body = await self.bodies.read(call, ChangeEndpointBody)
        changes = body.model_dump(include=set(body.model_fields_set))
        return await self._shown(
            await self.endpoints.change(call.tenant_id, endpoint_of(call), modes(call), changes, call.actor)
        )

    async def rotate(self, call: Call) -> web.Response:
        """Give the endpoint another secret."""
        body = await self.bodies.read(call, RotateSecretBody)
        overlap, secret = timedelta(seconds=body.overlap_seconds), body.secret.get_secret_value()
        return await self._shown(
            await self.endpoints.rotate(
                call.tenant_id, endpoint_of(call), modes(call), secret, overlap, call.actor
            )
        )

    async def delete(self, call: Call) -> web.Response:
        """End the endpoint; ending it again changes nothing."""
        await self.endpoints.delete(call.tenant_id, endpoint_of(call), modes(call), call.actor)
        return web.Response(status=HTTPStatus.NO_CONTENT)

    async def _shown(self, stored: StoredEndpoint) -> web.Response:
        return _answered(await self.endpoints.show(stored))


def _mode_of(call: Call, asked: bool | None) -> bool:  # noqa: FBT001 - as the body says it
    """Return the mode of a new endpoint: a key's own, or the one a reviewer chooses (G105)."""
    if call.tenant is None:
        return asked is not False
    if asked not in {None, call.tenant.livemode}:
        message = "A key registers endpoints of its own mode only."
        raise Refused.at("/livemode", ProblemCode.VALIDATION_FAILED, message)
    return call.tenant.livemode


def _answered(endpoint: WebhookEndpoint, status: HTTPStatus = HTTPStatus.OK, **more: Any) -> web.Response:
    return json_answer(endpoint.model_dump_json().encode(), status, **more)


def endpoint_endpoints(routes: EndpointRoutes) -> tuple[Endpoint, ...]:
    """Return the routes as data."""
    unusable = ProblemCode.WEBHOOK_ENDPOINT_UNUSABLE
    return (
        webhook_route(
            "POST", PATH, routes.create, "Register a webhook endpoint",
            created_or_replayed(
                Answer("The endpoint, without its secret.", WebhookEndpoint, headers=LOCATION),
                WebhookEndpoint,
                "The Idempotency-Key had been used; the endpoint as first answered.",
            ),
            body=CreateEndpointBody, headers=(KEY,), problems=(unusable, *KEY_PROBLEMS),
            audits=(AuditAction.WEBHOOK_CREATED,),
            description="At most 20 endpoints of a tenant. The secret is never shown again.",
        ),
        webhook_route(
            "GET", PATH, routes.list_page, "List webhook endpoints, newest first",
            {HTTPStatus.OK: Answer("A page of endpoints.", EndpointList)},
            parameters=(LIVEMODE, *PAGING.parameters),
        ),
        webhook_route("GET", ONE, routes.read, "Read a webhook endpoint", _ENDPOINT),
        webhook_route(
            "PATCH", ONE, routes.change, "Change a webhook endpoint", _ENDPOINT,
            body=ChangeEndpointBody, problems=(unusable,), audits=(AuditAction.WEBHOOK_UPDATED,),
        ),
        webhook_route(
            "DELETE", ONE, routes.delete, "Delete a webhook endpoint",
            {HTTPStatus.NO_CONTENT: Answer("It is deleted; nothing more is sent.", media_type="")},
            audits=(AuditAction.WEBHOOK_DELETED,),
        ),
        webhook_route(
            "POST", f"{ONE}/rotate-secret", routes.rotate, "Rotate the secret of a webhook endpoint",
            _ENDPOINT, body=RotateSecretBody, problems=(unusable,),
            audits=(AuditAction.WEBHOOK_ROTATED,),
            description="Until the overlap ends deliveries carry a signature of the former secret as well. "
            "The secret in force given again changes nothing.",
        ),
    )  # fmt: skip


_ENDPOINT: Final = {HTTPStatus.OK: Answer("The endpoint as it stands.", WebhookEndpoint)}


def webhook_route(
    method: str, path: str, handler: Handler, summary: str, answers: dict[HTTPStatus, Answer], **more: Any
) -> Endpoint:
    """Return a route of the family; a store that fails is 500 here (interface section 7)."""
    forms = {"endpoint_id": ENDPOINT_FORM, "delivery_id": r"whd_[0-9a-hjkmnp-tv-z]{26}"}
    return Endpoint(
        method=method,
        path=path,
        handler=handler,
        summary=summary,
        answers=answers,
        family=FAMILY,
        access=MANAGES,
        path_forms={name: form for name, form in forms.items() if f"{{{name}}}" in path},
        store_failure=ProblemCode.STORE_FAILED,
        **more,
    )
