"""`/v1/control/sessions`: reviewers sign in, see their sessions and end them (G49, G87)."""

from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated, Final

from aiohttp import web
from pydantic import StringConstraints

from app.http.bodies import BodyReader
from app.http.endpoints import Answer, Call, Endpoint, Parameter, reviewer
from app.http.headers import cookie_named, idempotency_key
from app.http.idempotent_create import REPLAYED, created_or_replayed
from app.http.ports import FrontPorts
from app.http.responses import json_answer
from app.http.reviewer_cookie import (
    SETS,
    SIGN_IN_PATH,
    counted,
    forget_cookie,
    refuse_foreign_page,
    set_cookie,
)
from schemas.audit import AuditAction
from schemas.base import Frozen
from schemas.ids import ReviewerSessionId
from schemas.problems import ProblemCode
from schemas.sign_in import ReviewerSessionList, SignedInSession
from streams.sign_in.cookies import DEVICE_COOKIE
from streams.sign_in.password_rules import MAX_GIVEN
from streams.sign_in.sessions import end_session, list_sessions, session_of, show
from streams.sign_in.sign_in import SignIn, SignInRequest

PATH: Final = SIGN_IN_PATH
CURRENT: Final = f"{PATH}/current"
ONE: Final = f"{PATH}/{{session_id}}"

SESSION_FORM: Final = r"rs_[0-9a-hjkmnp-tv-z]{26}"

_FAMILY: Final = "Reviewer sessions"

IDEMPOTENCY: Final = Parameter(
    "Idempotency-Key",
    "The same key answers the first result again, without any secret.",
    {"type": "string", "maxLength": 255},
)


class SignInBody(Frozen):
    """The first factor."""

    email: Annotated[str, StringConstraints(min_length=1, max_length=254)]
    password: Annotated[str, StringConstraints(min_length=1, max_length=MAX_GIVEN)]


@dataclass(frozen=True, slots=True)
class SessionRoutes:
    """What the routes of reviewer sessions do."""

    ports: FrontPorts
    bodies: BodyReader
    base_url: str
    sign_in: SignIn

    async def create(self, call: Call) -> web.Response:
        """Sign in; the cookie opens little until the second factor is met."""
        refuse_foreign_page(call, self.base_url)
        key = idempotency_key(call.request)
        body = await self.bodies.read(call, SignInBody)
        device = cookie_named(call.request, DEVICE_COOKIE)
        request = SignInRequest(body.email, body.password, call.actor, key, device)
        with counted(call, self.ports):
            answer = await self.sign_in(request)
        if answer.cookie is None:
            return json_answer(answer.session.to_bytes(), headers={REPLAYED: "true"})
        response = json_answer(answer.session.to_bytes(), HTTPStatus.CREATED)
        return set_cookie(response, answer.cookie, self.base_url)

    async def read_current(self, call: Call) -> web.Response:
        """Return the session of the caller."""
        people = self.ports.people
        return json_answer(show(people, *await session_of(people, call.person)).to_bytes())

    async def read_all(self, call: Call) -> web.Response:
        """Answer the caller's own sessions."""
        found = await list_sessions(self.ports.people, call.person)
        return json_answer(found.model_dump_json().encode())

    async def end_current(self, call: Call) -> web.Response:
        """Sign out."""
        person = call.person
        await end_session(self.ports.people, person, person.session_id, call.actor)
        return forget_cookie(web.Response(status=HTTPStatus.NO_CONTENT), self.base_url)

    async def end(self, call: Call) -> web.Response:
        """End a session of one's own, or a colleague's."""
        session_id = ReviewerSessionId(call.path_value("session_id"))
        await end_session(self.ports.people, call.person, session_id, call.actor)
        response = web.Response(status=HTTPStatus.NO_CONTENT)
        if session_id == call.person.session_id:
            return forget_cookie(response, self.base_url)
        return response


def session_endpoints(routes: SessionRoutes) -> tuple[Endpoint, ...]:
    """Return the routes as data."""
    ended = {HTTPStatus.NO_CONTENT: Answer("The session is over.", media_type="")}
    return (
        Endpoint(
            method="POST",
            path=PATH,
            handler=routes.create,
            summary="Sign in with e-mail address and password",
            description="Failures all look the same. A sixth session of a reviewer ends the oldest.",
            family=_FAMILY,
            answers=created_or_replayed(
                Answer("Signed in.", SignedInSession, headers=SETS),
                SignedInSession,
                "The first answer again, without a cookie.",
                meaning="`true`.",
            ),
            headers=(IDEMPOTENCY,),
            body=SignInBody,
            problems=(
                ProblemCode.CREDENTIALS_INVALID,
                ProblemCode.HEADER_DUPLICATED,
                ProblemCode.IDEMPOTENCY_KEY_INVALID,
                ProblemCode.ORIGIN_REFUSED,
                ProblemCode.RATE_LIMITED,
                ProblemCode.OVERLOADED,
                ProblemCode.STORE_UNAVAILABLE,
            ),
            audits=(AuditAction.REVIEWER_SIGNED_IN, AuditAction.REVIEWER_SIGN_IN_FAILED),
        ),
        Endpoint(
            method="GET",
            path=CURRENT,
            handler=routes.read_current,
            summary="Read the session that asks",
            family=_FAMILY,
            answers={HTTPStatus.OK: Answer("The session.", SignedInSession)},
            access=reviewer(before_factor=True),
        ),
        Endpoint(
            method="DELETE",
            path=CURRENT,
            handler=routes.end_current,
            summary="Sign out",
            family=_FAMILY,
            answers=ended,
            access=reviewer(before_factor=True),
            problems=(ProblemCode.NOT_FOUND,),
            audits=(AuditAction.REVIEWER_SIGNED_OUT,),
        ),
        Endpoint(
            method="GET",
            path=PATH,
            handler=routes.read_all,
            summary="List one's own open sessions",
            family=_FAMILY,
            answers={HTTPStatus.OK: Answer("At most five, newest first.", ReviewerSessionList)},
            access=reviewer(),
        ),
        Endpoint(
            method="DELETE",
            path=ONE,
            handler=routes.end,
            summary="End a session",
            description="One's own; a colleague's with the permission `MEMBERS_MANAGE`.",
            family=_FAMILY,
            answers=ended,
            access=reviewer(),
            path_forms={"session_id": SESSION_FORM},
            problems=(ProblemCode.PERMISSION_DENIED,),
            audits=(AuditAction.REVIEWER_SIGNED_OUT,),
        ),
    )
