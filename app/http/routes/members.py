"""`/v1/control/members`: a tenant's members, and what colleagues change about them (G29, G87, G107)."""

from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from aiohttp import web
from pydantic import StrictBool, field_validator, model_validator
from pydantic_core import PydanticCustomError

from app.http.bodies import BodyReader
from app.http.cursors import Cursors
from app.http.endpoints import Answer, Call, Endpoint, Handler, reviewer
from app.http.filters import Page, Paging
from app.http.idempotent_create import REPLAYED, created_or_replayed, name_created
from app.http.ports import FrontPorts
from app.http.responses import json_answer, json_list
from app.http.routes.control_sessions import IDEMPOTENCY
from schemas.audit import AuditAction
from schemas.base import Frozen
from schemas.ids import UserId
from schemas.members import EmailAddress, InvitedMember, Member, MemberList, PlainName
from schemas.people import Permission, Reviewer, Role
from schemas.problems import ProblemCode
from streams.ports.records import Position, Record, RecordKind
from streams.reviewers.invitations import Invitation, NewMember, invite
from streams.reviewers.member_changes import (
    MemberChanges,
    change_member,
    require_may_make,
    show_member,
    withdraw_invitation,
)
from streams.reviewers.members import MEMBERS_INDEX
from streams.sign_in.factor_reset import reset_factor
from streams.tenants.handler import RequestName

PATH: Final = "/v1/control/members"
ONE: Final = f"{PATH}/{{reviewer_id}}"
RESET: Final = f"{ONE}/reset-factor"
MEMBER_FORM: Final = r"usr_[0-9a-hjkmnp-tv-z]{26}"
PAGING: Final = Paging(usual=25, most=100)

_FAMILY: Final = "Members"
_MANAGERS: Final = reviewer(Permission.MEMBERS_MANAGE)


class InviteBody(Frozen):
    """Who shall be a member."""

    email: EmailAddress
    name: PlainName
    role: Role


class ChangeMemberBody(Frozen):
    """What changes about a member; at least one of the two."""

    role: Role | None = None
    active: StrictBool | None = None
    """False suspends, true lets in again."""

    @field_validator("role", "active", mode="before")
    @classmethod
    def _not_null(cls, value: object) -> object:
        if value is None:
            raise PydanticCustomError(ProblemCode.VALIDATION_FAILED, "Input should not be null")
        return value

    @model_validator(mode="after")
    def _something(self) -> "ChangeMemberBody":
        if not self.model_fields_set:
            raise ValueError("At least one of role and active is needed.")
        return self


@dataclass(frozen=True, slots=True)
class MemberRoutes:
    """What the routes of the members do."""

    ports: FrontPorts
    bodies: BodyReader
    cursors: Cursors

    async def read_all(self, call: Call) -> web.Response:
        """Answer a page of the members."""
        query, scope = call.request.query, {"list": PATH, "tenant": call.tenant_id}
        cursor = query.get("cursor")
        page = Page(PAGING.limit(query), self.cursors.read(cursor, scope) if cursor is not None else None)
        found = await self._page(call, page)
        rows = [self._shown(Reviewer.from_bytes(record.body)) for record in found[: page.limit]]
        last = found[page.limit - 1] if len(found) > page.limit else None
        following = None if last is None else self.cursors.write(Position(last.created_at, last.id), scope)
        return json_list("members", rows, following)

    async def _page(self, call: Call, page: Page) -> list[Record]:
        """Return one record more than the page holds, if there is one."""
        if page.limit == 0:
            return []
        records, limit = self.ports.stores.records, page.limit + 1
        found = await records.page(
            call.tenant_id, RecordKind.REVIEWER, MEMBERS_INDEX, limit=limit, before=page.before
        )
        return list(found)

    async def create(self, call: Call) -> web.Response:
        """Invite a member; a replayed key answers 200 without the token."""
        body = await self.bodies.read(call, InviteBody)
        require_may_make(call.person, body.role)
        named = name_created("inv", call, body, self.ports.fresh_uuid, tenant_id=call.tenant_id)
        wish = NewMember(call.tenant_id, body.email, body.name, body.role)
        request = RequestName(named.id, named.fingerprint)
        return answer_invitation(self.ports, await invite(self.ports.people, wish, request, call.actor))

    async def change(self, call: Call) -> web.Response:
        """Give a member another role, suspend it, or let it in again."""
        body = await self.bodies.read(call, ChangeMemberBody)
        wish = MemberChanges(body.role, body.active)
        changed = await change_member(self.ports.people, call.person, _member_of(call), wish, call.actor)
        return json_answer(self._shown(changed))

    async def withdraw(self, call: Call) -> web.Response:
        """Withdraw an invitation that is not redeemed yet."""
        await withdraw_invitation(self.ports.people, call.person, _member_of(call), call.actor)
        return web.Response(status=HTTPStatus.NO_CONTENT)

    async def reset(self, call: Call) -> web.Response:
        """Ask for the reset of a colleague's second factor, or confirm it as the second person."""
        await reset_factor(self.ports.people, call.person, _member_of(call), call.actor)
        return web.Response(status=HTTPStatus.NO_CONTENT)

    def _shown(self, member: Reviewer) -> bytes:
        return show_member(member, self.ports.people.clock()).model_dump_json().encode()


def _member_of(call: Call) -> UserId:
    return UserId(call.path_value("reviewer_id"))


def answer_invitation(ports: FrontPorts, invitation: Invitation) -> web.Response:
    """Answer an invitation: 201 with the token, or 200 without it when it was answered before (G82)."""
    member = show_member(invitation.reviewer, ports.people.clock())
    invited = InvitedMember(
        **member.model_dump(),
        invitation_token=invitation.token,
        invitation_expires_at=invitation.expires_at,
    )
    body = invited.model_dump_json().encode()
    if invitation.replayed:
        return json_answer(body, headers={REPLAYED: "true"})
    return json_answer(body, HTTPStatus.CREATED)


INVITED: Final = created_or_replayed(
    Answer("Invited; the token is shown this once.", InvitedMember),
    InvitedMember,
    "The key had been used; no token is shown.",
)
"""How an invitation is answered, whoever invites."""

INVITING: Final = (
    ProblemCode.IDEMPOTENCY_KEY_INVALID,
    ProblemCode.IDEMPOTENCY_KEY_REUSED,
    ProblemCode.MEMBER_EXISTS,
)


def member_endpoints(routes: MemberRoutes) -> tuple[Endpoint, ...]:
    """Return the routes as data."""
    return (
        Endpoint(
            method="GET",
            path=PATH,
            handler=routes.read_all,
            summary="List the members, newest first",
            answers={HTTPStatus.OK: Answer("A page of members.", MemberList)},
            family=_FAMILY,
            access=_MANAGERS,
            parameters=PAGING.parameters,
        ),
        Endpoint(
            method="POST",
            path=PATH,
            handler=routes.create,
            summary="Invite a member",
            description="The token sets the first password at `POST /v1/control/password/reset`, within "
            "seven days; only then the address belongs to the member. The answer says nothing about members "
            "of other tenants. Only an owner invites an owner.",
            answers=INVITED,
            family=_FAMILY,
            access=_MANAGERS,
            headers=(IDEMPOTENCY,),
            body=InviteBody,
            problems=INVITING,
            audits=(AuditAction.MEMBER_INVITED,),
        ),
        Endpoint(
            method="PATCH",
            path=ONE,
            handler=routes.change,
            summary="Change a member's role, suspend it, or let it in again",
            description="A suspension ends every session at once. Only an owner changes an owner, and the "
            "last active owner stays one.",
            answers={HTTPStatus.OK: Answer("The member.", Member)},
            family=_FAMILY,
            access=_MANAGERS,
            path_forms={"reviewer_id": MEMBER_FORM},
            body=ChangeMemberBody,
            audits=(AuditAction.MEMBER_ROLE_CHANGED, AuditAction.MEMBER_SUSPENDED),
        ),
        Endpoint(
            method="DELETE",
            path=ONE,
            handler=routes.withdraw,
            summary="Withdraw an invitation that is not redeemed",
            description="The token is void, and the address may be invited again. A member who has a "
            "password is suspended instead. Only an owner withdraws the invitation of an owner.",
            answers={HTTPStatus.NO_CONTENT: Answer("Withdrawn.", media_type="")},
            family=_FAMILY,
            access=_MANAGERS,
            path_forms={"reviewer_id": MEMBER_FORM},
            problems=(ProblemCode.MEMBER_EXISTS,),
            audits=(AuditAction.MEMBER_SUSPENDED,),
        ),
        _reset(routes.reset),
    )


def _reset(handler: Handler) -> Endpoint:
    return Endpoint(
        method="POST",
        path=RESET,
        handler=handler,
        summary="Reset a colleague's second factor, two people together",
        description="The first call records the wish, which the list of members shows; the call of a second "
        "person with the permission, within 24 hours, carries it out and ends every session of the member. "
        "The password stays. An owner's factor is reset by owners.",
        answers={HTTPStatus.NO_CONTENT: Answer("Asked for, or carried out.", media_type="")},
        family=_FAMILY,
        access=_MANAGERS,
        path_forms={"reviewer_id": MEMBER_FORM},
        problems=(ProblemCode.SECOND_REVIEWER_MUST_DIFFER,),
        audits=(AuditAction.MFA_RESET,),
    )
