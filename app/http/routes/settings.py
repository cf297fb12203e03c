"""`/v1/control/settings`: what a tenant decides about its own reviews and verifications (G43, G87)."""

from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated, Final

from aiohttp import web
from pydantic import Field, StrictBool, field_validator
from pydantic_core import PydanticCustomError

from app.http.bodies import BodyReader
from app.http.endpoints import Answer, Call, Endpoint, Parameter, reviewer
from app.http.ports import FrontPorts
from app.http.preconditions import changed_since, etag, if_match
from app.http.responses import json_answer
from schemas.audit import AuditAction
from schemas.base import Frozen
from schemas.enums import CheckKind
from schemas.people import Permission
from schemas.problems import ProblemCode
from schemas.tenant_settings import FourEyes, MinimumAge, TenantSettings
from streams.access.changing_settings import ChangeSettings, SettingsWish
from streams.access.settings import KeptSettings, load_settings
from streams.ports import Conflict

PATH: Final = "/v1/control/settings"

_FAMILY: Final = "Settings"
_ACCESS: Final = reviewer(Permission.SETTINGS_MANAGE)
_TAG: Final = {"ETag": "The version of the settings, quoted."}


def _given(value: object) -> object:
    """Return the value; null has no meaning for most settings, so it is refused and not taken as left out."""
    if value is None:
        raise PydanticCustomError(ProblemCode.VALIDATION_FAILED, "Input should not be null")
    return value


RequiredChecks = Annotated[tuple[CheckKind, ...], Field(min_length=1, max_length=len(CheckKind))]


class ChangePolicyBody(Frozen):
    """What changes about the policy of verifications; a field that is left out stays."""

    required_checks: (
        Annotated[tuple[CheckKind, ...], Field(min_length=1, max_length=len(CheckKind))] | None
    ) = None
    """Of direct verifications; a session's checks are its flow's."""
    minimum_age: MinimumAge | None = Field(
        default=None, description="Whole years by the document's birth date; null: any age."
    )

    @field_validator("required_checks", mode="before")
    @classmethod
    def _not_null(cls, value: object) -> object:
        return _given(value)


class ChangeSettingsBody(Frozen):
    """What changes; a field that is left out stays."""

    four_eyes: FourEyes | None = None
    require_evidence_view: StrictBool | None = None
    verification_policy: ChangePolicyBody | None = None

    @field_validator("*", mode="before")
    @classmethod
    def _not_null(cls, value: object) -> object:
        return _given(value)

    def wish(self) -> SettingsWish:
        """Return what is asked for."""
        policy = self.verification_policy
        named = {} if policy is None else {name: getattr(policy, name) for name in policy.model_fields_set}
        return SettingsWish(self.four_eyes, self.require_evidence_view, named)


@dataclass(frozen=True, slots=True)
class SettingsRoutes:
    """What the routes of the settings do."""

    ports: FrontPorts
    bodies: BodyReader
    change_settings: ChangeSettings

    async def read(self, call: Call) -> web.Response:
        """Answer the settings as they stand."""
        return _answered(await load_settings(self.ports.stores.records, call.tenant_id))

    async def change(self, call: Call) -> web.Response:
        """Change what the body names."""
        seen = if_match(call.request, required=False)
        body = await self.bodies.read(call, ChangeSettingsBody)
        try:
            return _answered(await self.change_settings(call.tenant_id, body.wish(), seen, call.actor))
        except Conflict:
            raise changed_since() from None


def changing_settings(ports: FrontPorts) -> ChangeSettings:
    """Return the use case over the front's ports."""
    return ChangeSettings(ports.stores.records, ports.commit, ports.people.clock, ports.people.new_id)


def _answered(kept: KeptSettings) -> web.Response:
    return json_answer(kept.settings.to_bytes(), headers={"ETag": etag(kept.version)})


def settings_endpoints(routes: SettingsRoutes) -> tuple[Endpoint, ...]:
    """Return the routes as data."""
    return (
        Endpoint(
            method="GET",
            path=PATH,
            handler=routes.read,
            summary="Read the settings",
            answers={HTTPStatus.OK: Answer("The settings.", TenantSettings, headers=_TAG)},
            family=_FAMILY,
            access=_ACCESS,
        ),
        Endpoint(
            method="PATCH",
            path=PATH,
            handler=routes.change,
            summary="Change settings",
            description="A policy that names a check nothing stands behind is refused. Verifications and "
            "conclusions asked for afterwards obey.",
            answers={HTTPStatus.OK: Answer("The settings.", TenantSettings, headers=_TAG)},
            family=_FAMILY,
            access=_ACCESS,
            headers=(Parameter("If-Match", "The version the change was meant for.", {"type": "string"}),),
            body=ChangeSettingsBody,
            problems=(ProblemCode.PRECONDITION_FAILED,),
            audits=(AuditAction.TENANT_SETTINGS_CHANGED,),
        ),
    )
