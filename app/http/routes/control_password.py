"""`/v1/control/password`: a reviewer's password, changed or set with a one-time token (G50, G87)."""

from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated, Final

from aiohttp import web
from pydantic import StringConstraints

from app.http.bodies import BodyReader
from app.http.endpoints import Answer, Call, Endpoint, reviewer
from app.http.ports import FrontPorts
from app.http.reviewer_cookie import SETS_BOTH, add_device_cookie, counted, refuse_foreign_page, set_cookie
from schemas.audit import AuditAction
from schemas.base import Frozen
from schemas.problems import ProblemCode
from streams.sign_in.password_rules import MAX_GIVEN
from streams.sign_in.passwords import ChangePassword, ResetPassword

PATH: Final = "/v1/control/password"
RESET: Final = f"{PATH}/reset"

_FAMILY: Final = "Passwords"
_RULES: Final = (
    "12 to 128 characters of any kind; common ones, the e-mail address and the service are refused."
)

Password = Annotated[str, StringConstraints(min_length=1, max_length=MAX_GIVEN)]


class ChangePasswordBody(Frozen):
    """The old password and the new one."""

    current_password: Password
    new_password: Password


class ResetPasswordBody(Frozen):
    """A token that was given out once, and the new password."""

    token: Annotated[str, StringConstraints(min_length=1, max_length=200)]
    new_password: Password


@dataclass(frozen=True, slots=True)
class PasswordRoutes:
    """What the routes of passwords do."""

    ports: FrontPorts
    bodies: BodyReader
    base_url: str
    change_password: ChangePassword
    reset_password: ResetPassword

    async def change(self, call: Call) -> web.Response:
        """Change one's own password."""
        body = await self.bodies.read(call, ChangePasswordBody)
        with counted(call, self.ports):
            changed = await self.change_password(
                call.person, body.current_password, body.new_password, call.actor
            )
        response = set_cookie(web.Response(status=HTTPStatus.NO_CONTENT), changed.cookie, self.base_url)
        return add_device_cookie(response, changed.device, self.base_url)

    async def reset(self, call: Call) -> web.Response:
        """Set a password with a token."""
        refuse_foreign_page(call, self.base_url)
        body = await self.bodies.read(call, ResetPasswordBody)
        await self.reset_password(body.token, body.new_password, call.actor)
        return web.Response(status=HTTPStatus.NO_CONTENT)


def password_endpoints(routes: PasswordRoutes) -> tuple[Endpoint, ...]:
    """Return the routes as data."""
    return (
        Endpoint(
            method="POST",
            path=PATH,
            handler=routes.change,
            summary="Change one's own password",
            description=f"{_RULES} Every other session ends.",
            family=_FAMILY,
            answers={HTTPStatus.NO_CONTENT: Answer("Changed.", media_type="", headers=SETS_BOTH)},
            access=reviewer(),
            body=ChangePasswordBody,
            problems=(ProblemCode.CREDENTIALS_INVALID, ProblemCode.OVERLOADED),
            audits=(AuditAction.REVIEWER_PASSWORD_CHANGED,),
        ),
        Endpoint(
            method="POST",
            path=RESET,
            handler=routes.reset,
            summary="Set a password with a one-time token",
            description=f"{_RULES} Every session ends; a second factor stays in use. With the token of an "
            "invitation the e-mail address becomes the member's, unless it signs in to another tenant: then "
            "`MEMBER_EXISTS`, and another address is to be invited.",
            family=_FAMILY,
            answers={HTTPStatus.NO_CONTENT: Answer("Set.", media_type="")},
            body=ResetPasswordBody,
            problems=(
                ProblemCode.CREDENTIALS_INVALID,
                ProblemCode.HEADER_DUPLICATED,
                ProblemCode.MEMBER_EXISTS,
                ProblemCode.ORIGIN_REFUSED,
                ProblemCode.OVERLOADED,
                ProblemCode.RATE_LIMITED,
                ProblemCode.STORE_UNAVAILABLE,
            ),
            audits=(AuditAction.REVIEWER_PASSWORD_CHANGED,),
        ),
    )
