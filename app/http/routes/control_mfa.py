"""`/v1/control/mfa`: the second factor of the reviewer that asks (interface section 4.3, G28, G29, G95)."""

import asyncio
import io
from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated, Final, Self

import segno
from aiohttp import web
from pydantic import StringConstraints, model_validator

from app.http.bodies import BodyReader
from app.http.endpoints import Answer, Call, Endpoint, reviewer
from app.http.headers import idempotency_key
from app.http.idempotent_create import REPLAYED, created_or_replayed
from app.http.ports import FrontPorts, FrontSettings
from app.http.responses import json_answer
from app.http.reviewer_cookie import SETS, SETS_BOTH, add_device_cookie, counted, set_cookie
from app.http.routes.control_password import PasswordRoutes, password_endpoints
from app.http.routes.control_sessions import IDEMPOTENCY, SessionRoutes, session_endpoints
from schemas.audit import AuditAction
from schemas.base import Frozen, TextForm
from schemas.problems import ProblemCode
from schemas.sign_in import (
    FactorAccepted,
    FactorConfirmed,
    FactorEnrolment,
    FactorMethod,
    FactorStanding,
    RecoveryCodes,
)
from streams.sign_in import second_factor
from streams.sign_in.attempt_limits import SignInLimits
from streams.sign_in.factor_check import Presented, verify_factor
from streams.sign_in.passwords import ChangePassword, ResetPassword
from streams.sign_in.sign_in import SignIn

PATH: Final = "/v1/control/mfa"
VERIFY: Final = f"{PATH}/verify"
TOTP: Final = f"{PATH}/totp"
CONFIRM: Final = f"{TOTP}/confirm"
RECOVERY: Final = f"{PATH}/recovery-codes"

_FAMILY: Final = "Second factor"
_BEFORE: Final = reviewer(before_factor=True)
_RECENTLY: Final = "Password and factor in use must have been given within ten minutes (else 401, 403)."

Code = Annotated[
    str, TextForm(pattern="^[0-9]{6}$", words="Write the six digits that the authenticator shows.")
]


class VerifyBody(Frozen):
    """Exactly one of the two."""

    code: Code | None = None
    recovery_code: Annotated[str, StringConstraints(min_length=1, max_length=64)] | None = None

    @model_validator(mode="after")
    def _one_of_them(self) -> Self:
        if (self.code is None) == (self.recovery_code is None):
            raise ValueError("Exactly one of code and recovery_code is needed.")
        return self

    def presented(self) -> Presented:
        """Return the given factor."""
        if self.code is not None:
            return Presented(FactorMethod.TOTP, self.code)
        return Presented(FactorMethod.RECOVERY_CODE, self.recovery_code or "")


class ConfirmBody(Frozen):
    """The first code of the factor that was drawn."""

    code: Code


@dataclass(frozen=True, slots=True)
class FactorRoutes:
    """What the routes of the second factor do."""

    ports: FrontPorts
    bodies: BodyReader
    base_url: str

    async def read(self, call: Call) -> web.Response:
        """Return the caller's state of the second factor."""
        return json_answer((await second_factor.standing(self.ports.people, call.person)).to_bytes())

    async def verify(self, call: Call) -> web.Response:
        """Meet the factor."""
        body = await self.bodies.read(call, VerifyBody)
        with counted(call, self.ports):
            met = await verify_factor(self.ports.people, call.person, body.presented(), call.actor)
        response = set_cookie(json_answer(met.answer.to_bytes()), met.cookie, self.base_url)
        return add_device_cookie(response, met.device, self.base_url)

    async def begin(self, call: Call) -> web.Response:
        """Draw a seed, shown this once."""
        begun = await second_factor.begin(self.ports.people, call.person, idempotency_key(call.request))
        uri = begun.otpauth_uri
        qr_svg = None if uri is None else await asyncio.to_thread(draw_qr, uri)
        answer = FactorEnrolment(otpauth_uri=uri, secret=begun.secret, qr_svg=qr_svg)
        body = answer.model_dump_json().encode()
        if uri is None:
            return json_answer(body, headers={REPLAYED: "true"})
        return json_answer(body, HTTPStatus.CREATED)

    async def confirm(self, call: Call) -> web.Response:
        """Put the factor in use."""
        body = await self.bodies.read(call, ConfirmBody)
        with counted(call, self.ports):
            confirmed = await second_factor.confirm(self.ports.people, call.person, body.code, call.actor)
        response = set_cookie(json_answer(confirmed.answer.to_bytes()), confirmed.cookie, self.base_url)
        return add_device_cookie(response, confirmed.device, self.base_url)

    async def replace_codes(self, call: Call) -> web.Response:
        """Draw new recovery codes."""
        codes = await second_factor.replace_recovery_codes(self.ports.people, call.person, call.actor)
        return json_answer(codes.to_bytes())

    async def remove(self, call: Call) -> web.Response:
        """Take the factor out of use."""
        cookie = await second_factor.remove(self.ports.people, call.person, call.actor)
        return set_cookie(web.Response(status=HTTPStatus.NO_CONTENT), cookie, self.base_url)


def draw_qr(text: str) -> str:
    """Draw a QR code (ISO/IEC 18004) as an SVG element."""
    out = io.BytesIO()
    segno.make(text, error="m", micro=False).save(out, kind="svg", scale=4, xmldecl=False, nl=False)
    return out.getvalue().decode()


def factor_endpoints(routes: FactorRoutes) -> tuple[Endpoint, ...]:
    """Return the routes as data."""
    return (
        Endpoint(
            method="GET",
            path=PATH,
            handler=routes.read,
            summary="Read how one stands with the second factor",
            family=_FAMILY,
            answers={HTTPStatus.OK: Answer("The factor.", FactorStanding)},
            access=_BEFORE,
        ),
        Endpoint(
            method="POST",
            path=VERIFY,
            handler=routes.verify,
            summary="Meet the second factor",
            description="A code is accepted once; a recovery code ends the reviewer's other sessions.",
            family=_FAMILY,
            answers={HTTPStatus.OK: Answer("The factor is met.", FactorAccepted, headers=SETS_BOTH)},
            access=_BEFORE,
            body=VerifyBody,
            problems=(ProblemCode.MFA_CODE_INVALID,),
            audits=(AuditAction.MFA_VERIFIED, AuditAction.MFA_FAILED),
        ),
        Endpoint(
            method="POST",
            path=TOTP,
            handler=routes.begin,
            summary="Draw a TOTP secret, shown this once",
            description=(
                f"{_RECENTLY} It waits fifteen minutes for its first code; `confirm` writes the audit row."
            ),
            family=_FAMILY,
            answers=created_or_replayed(
                Answer("The secret.", FactorEnrolment),
                FactorEnrolment,
                "Answered before; the secret is null.",
                meaning="`true`.",
            ),
            headers=(IDEMPOTENCY,),
            access=_BEFORE,
            problems=(ProblemCode.IDEMPOTENCY_KEY_INVALID,),
        ),
        Endpoint(
            method="POST",
            path=CONFIRM,
            handler=routes.confirm,
            summary="Put the factor in use by its first code",
            description="It meets the factor for this session and ends the reviewer's other sessions.",
            family=_FAMILY,
            answers={HTTPStatus.OK: Answer("In use; recovery codes.", FactorConfirmed, headers=SETS_BOTH)},
            access=_BEFORE,
            body=ConfirmBody,
            problems=(ProblemCode.MFA_CODE_INVALID, ProblemCode.NOT_FOUND),
            audits=(AuditAction.MFA_ENROLLED, AuditAction.MFA_FAILED),
        ),
        Endpoint(
            method="POST",
            path=RECOVERY,
            handler=routes.replace_codes,
            summary="Replace the recovery codes",
            description=_RECENTLY,
            family=_FAMILY,
            answers={HTTPStatus.OK: Answer("The new codes, shown this once.", RecoveryCodes)},
            access=reviewer(),
            problems=(ProblemCode.NOT_FOUND,),
            audits=(AuditAction.MFA_RESET,),
        ),
        Endpoint(
            method="DELETE",
            path=TOTP,
            handler=routes.remove,
            summary="Take the second factor out of use",
            description=f"{_RECENTLY} A new one must then be enrolled.",
            family=_FAMILY,
            answers={HTTPStatus.NO_CONTENT: Answer("Out of use.", media_type="", headers=SETS)},
            access=reviewer(),
            problems=(ProblemCode.NOT_FOUND,),
            audits=(AuditAction.MFA_RESET,),
        ),
    )


def sign_in_endpoints(ports: FrontPorts, bodies: BodyReader, settings: FrontSettings) -> tuple[Endpoint, ...]:
    """Return the routes as data."""
    people, base_url = ports.people, settings.base_url
    limits = SignInLimits(None if settings.rate_limits is None else settings.rate_limits.sign_in)
    change, reset = ChangePassword(people, limits), ResetPassword(people, limits)
    return (
        *session_endpoints(SessionRoutes(ports, bodies, base_url, SignIn(people, limits))),
        *factor_endpoints(FactorRoutes(ports, bodies, base_url)),
        *password_endpoints(PasswordRoutes(ports, bodies, base_url, change, reset)),
    )
