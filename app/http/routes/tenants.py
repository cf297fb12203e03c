"""`/v1/platform/tenants`: the operator makes tenants and invites their owners (G45, G88, G107)."""

from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from aiohttp import web

from app.http.bodies import BodyReader
from app.http.cursors import Cursors
from app.http.endpoints import OPERATOR, Answer, Call, Endpoint
from app.http.idempotent_create import REPLAYED, created_or_replayed, name_created
from app.http.listing import Paging
from app.http.ports import FrontPorts
from app.http.responses import json_answer, json_list
from app.http.routes.control_sessions import IDEMPOTENCY
from app.http.routes.members import INVITED, INVITING, answer_invitation
from schemas.access import Tenant
from schemas.audit import AuditAction
from schemas.base import Frozen
from schemas.ids import PLATFORM, TenantId
from schemas.members import EmailAddress, PlainName
from schemas.people import Role
from schemas.problems import ProblemCode
from streams.ports.records import Position, RecordKind
from streams.reviewers.invitations import NewMember, invite
from streams.tenants.handler import TENANTS_INDEX, CreateTenant, RequestName

PATH: Final = "/v1/platform/tenants"
INVITE: Final = f"{PATH}/{{tenant_id}}/owner-invitations"
TENANT_FORM: Final = r"ten_[0-9a-hjkmnp-tv-z]{26}"
PAGING: Final = Paging(usual=25, most=100)

_FAMILY: Final = "Platform"
_SCOPE: Final = {"list": PATH, "tenant": PLATFORM}


class CreateTenantBody(Frozen):
    """A new tenant."""

    name: PlainName


class InviteOwnerBody(Frozen):
    """Who shall own a tenant."""

    email: EmailAddress
    name: PlainName


class TenantList(Frozen):
    """A page of tenants, newest first."""

    tenants: tuple[Tenant, ...]
    next_cursor: str | None
    """Null at the end."""


@dataclass(frozen=True, slots=True)
class TenantRoutes:
    """What the operator's routes about tenants do."""

    ports: FrontPorts
    bodies: BodyReader
    cursors: Cursors

    async def read_all(self, call: Call) -> web.Response:
        """Answer a page of the tenants."""
        query = call.request.query
        cursor, limit = query.get("cursor"), PAGING.limit(query)
        before = self.cursors.read(cursor, _SCOPE) if cursor is not None else None
        records = self.ports.stores.records
        found = (
            await records.page(PLATFORM, RecordKind.TENANT, TENANTS_INDEX, limit=limit + 1, before=before)
            if limit
            else ()
        )
        last = found[limit - 1] if len(found) > limit else None
        following = None if last is None else self.cursors.write(Position(last.created_at, last.id), _SCOPE)
        return json_list("tenants", [record.body for record in found[:limit]], following)

    async def create(self, call: Call) -> web.Response:
        """Make a tenant; a replayed key answers 200 with the first."""
        body = await self.bodies.read(call, CreateTenantBody)
        named = name_created("ten", call, body, self.ports.fresh_uuid, tenant_id=PLATFORM)
        people = self.ports.people
        tenant, replayed = await CreateTenant(people.commit, people.clock, people.new_id).once(
            body.name, RequestName(named.id, named.fingerprint), call.actor
        )
        if replayed:
            return json_answer(tenant.to_bytes(), headers={REPLAYED: "true"})
        return json_answer(tenant.to_bytes(), HTTPStatus.CREATED)

    async def invite_owner(self, call: Call) -> web.Response:
        """Invite an owner of a tenant; a replayed key answers 200 without the token."""
        tenant_id = TenantId(call.path_value("tenant_id"))
        await self.ports.stores.records.get(PLATFORM, RecordKind.TENANT, tenant_id)
        body = await self.bodies.read(call, InviteOwnerBody)
        named = name_created("inv", call, body, self.ports.fresh_uuid, tenant_id=tenant_id)
        new_owner = NewMember(tenant_id, body.email, body.name, Role.OWNER)
        request = RequestName(named.id, named.fingerprint)
        return answer_invitation(self.ports, await invite(self.ports.people, new_owner, request, call.actor))


def tenant_endpoints(routes: TenantRoutes) -> tuple[Endpoint, ...]:
    """Return the routes as data."""
    return (
        Endpoint(
            method="GET",
            path=PATH,
            handler=routes.read_all,
            summary="List the tenants, newest first",
            answers={HTTPStatus.OK: Answer("A page of tenants.", TenantList)},
            family=_FAMILY,
            access=OPERATOR,
            parameters=PAGING.parameters,
        ),
        Endpoint(
            method="POST",
            path=PATH,
            handler=routes.create,
            summary="Make a tenant",
            answers=created_or_replayed(Answer("The tenant.", Tenant), Tenant, "The key had been used."),
            family=_FAMILY,
            access=OPERATOR,
            headers=(IDEMPOTENCY,),
            body=CreateTenantBody,
            problems=(ProblemCode.IDEMPOTENCY_KEY_INVALID, ProblemCode.IDEMPOTENCY_KEY_REUSED),
            audits=(AuditAction.TENANT_CREATED,),
        ),
        Endpoint(
            method="POST",
            path=INVITE,
            handler=routes.invite_owner,
            summary="Invite an owner of a tenant",
            description="The token sets the first password at `POST /v1/control/password/reset`, within "
            "seven days; the row is in the tenant's own log.",
            answers=INVITED,
            family=_FAMILY,
            access=OPERATOR,
            path_forms={"tenant_id": TENANT_FORM},
            headers=(IDEMPOTENCY,),
            body=InviteOwnerBody,
            problems=INVITING,
            audits=(AuditAction.MEMBER_INVITED,),
        ),
    )
