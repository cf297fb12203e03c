"""`/v1/control/settings`: what a tenant decides about its own reviews and verifications (G43, G87)."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import Annotated, Any, Final

from aiohttp import web
from pydantic import Field, StrictBool, StringConstraints, field_validator
from pydantic_core import PydanticCustomError

from app.http.bodies import BodyReader
from app.http.endpoints import Answer, Call, Endpoint, Parameter, reviewer
from app.http.headers import changed_since, etag, if_match
from app.http.ports import FrontPorts
from app.http.problems import refused_fields
from app.http.responses import json_answer
from app.http.tenant_limits import TenantLimits
from schemas.audit import AuditAction
from schemas.base import Frozen
from schemas.enums import CheckKind
from schemas.ids import SubjectId
from schemas.people import Permission
from schemas.problems import FieldProblem, ProblemCode
from schemas.tenant_settings import (
    MAX_LEGAL_HOLDS,
    DuplicateFaces,
    Enforcement,
    FourEyes,
    MinimumAge,
    RetentionDays,
    TenantRateLimits,
    TenantSettings,
)
from schemas.verifications import SUBJECT_PATTERN
from streams.ports.errors import Conflict
from streams.tenants.settings import ChangeSettings, SettingsChanges, VersionedSettings, load_settings
from streams.verification.policy import VerificationPolicy
from streams.verification.policy_lookup import with_choice

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
    duplicate_faces: DuplicateFaces | None = Field(
        default=None,
        description="review: the face of every verification is compared with those of the tenant's other "
        "approved subjects of the mode, and one that another has is DUPLICATE_SUBJECT. This is biometric "
        "search: have a lawful basis for it, and tell the people. off: no face is kept for it.",
    )

    @field_validator("required_checks", "duplicate_faces", mode="before")
    @classmethod
    def _not_null(cls, value: object) -> object:
        return _given(value)


HeldSubject = Annotated[SubjectId, StringConstraints(pattern=f"^{SUBJECT_PATTERN}$")]
Quota = Annotated[int, Field(strict=True, ge=1)]


class ChangeRetentionBody(Frozen):
    """What changes about retention; a field that is left out stays."""

    biometric_days: RetentionDays | None = None
    document_days: RetentionDays | None = None
    legal_hold: Annotated[tuple[HeldSubject, ...], Field(max_length=MAX_LEGAL_HOLDS)] | None = None
    """The whole list: who is not in it is released."""

    @field_validator("*", mode="before")
    @classmethod
    def _not_null(cls, value: object) -> object:
        return _given(value)

    def named(self) -> dict[str, Any]:
        """Return the fields the caller named, each subject once."""
        named = {name: getattr(self, name) for name in self.model_fields_set}
        if self.legal_hold is not None:
            named["legal_hold"] = tuple(dict.fromkeys(self.legal_hold))
        return named


class ChangeRateLimitsBody(Frozen):
    """What changes about the tenant's own limits, requests a minute; null: the deployment's again."""

    key: Quota | None = None
    verifications: Quota | None = None
    tenant: Quota | None = None
    tenant_verifications: Quota | None = None
    capture: Quota | None = None

    def named(self) -> dict[str, int | None]:
        """Return the fields the caller named."""
        return {name: getattr(self, name) for name in self.model_fields_set}


class ChangeSettingsBody(Frozen):
    """What changes; a field that is left out stays."""

    four_eyes: FourEyes | None = None
    require_evidence_view: StrictBool | None = None
    policy_four_eyes: StrictBool | None = None
    """Whether a second member must agree before a transaction policy is published."""
    verification_policy: ChangePolicyBody | None = None
    retention: ChangeRetentionBody | None = None
    rate_limits: ChangeRateLimitsBody | None = None
    enforcement: Enforcement | None = None

    @field_validator("*", mode="before")
    @classmethod
    def _not_null(cls, value: object) -> object:
        return _given(value)

    def changes(self) -> SettingsChanges:
        """Return the requested changes."""
        policy = self.verification_policy
        named = {} if policy is None else {name: getattr(policy, name) for name in policy.model_fields_set}
        retention = {} if self.retention is None else self.retention.named()
        limits = {} if self.rate_limits is None else self.rate_limits.named()
        return SettingsChanges(
            self.four_eyes,
            self.require_evidence_view,
            self.policy_four_eyes,
            named,
            retention,
            limits,
            self.enforcement,
        )


@dataclass(frozen=True, slots=True)
class SettingsRoutes:
    """What the routes of the settings do."""

    ports: FrontPorts
    bodies: BodyReader
    change_settings: ChangeSettings
    limits: TenantLimits

    async def read(self, call: Call) -> web.Response:
        """Return the settings."""
        return self._answered(await load_settings(self.ports.stores.records, call.tenant_id))

    async def change(self, call: Call) -> web.Response:
        """Change what the body names."""
        seen = if_match(call.request, required=False)
        changes = (await self.bodies.read(call, ChangeSettingsBody)).changes()
        self._require_within(changes.rate_limits)
        try:
            changed = await self.change_settings(call.tenant_id, changes, seen, call.actor)
        except Conflict:
            raise changed_since() from None
        self.limits.remember(call.tenant_id, changed.settings.rate_limits)
        return self._answered(changed)

    def _require_within(self, requested: Mapping[str, int | None]) -> None:
        """Refuse limits above the deployment's, and any where the deployment counts nothing.

        Raises:
            Refused: VALIDATION_FAILED at each place.
        """
        most = self.limits.effective(TenantRateLimits())
        errors = [
            FieldProblem(
                code=ProblemCode.VALIDATION_FAILED,
                message=f"Input should be at most {most[name]}, the limit of this deployment."
                if name in most
                else "This deployment limits no rates (SERVICE_RATE_LIMITS=off).",
                pointer=f"/rate_limits/{name}",
            )
            for name, value in requested.items()
            if value is not None and value > most.get(name, 0)
        ]
        if errors:
            raise refused_fields(errors)

    def _answered(self, stored: VersionedSettings) -> web.Response:
        """Answer with the limits that hold, the tenant's own or the deployment's."""
        holding = TenantRateLimits(**self.limits.effective(stored.settings.rate_limits))
        shown = stored.settings.model_copy(update={"rate_limits": holding})
        return json_answer(shown.to_bytes(), headers={"ETag": etag(stored.version)})


def changing_settings(ports: FrontPorts) -> ChangeSettings:
    """Return the use case over the front's ports."""
    return ChangeSettings(
        ports.stores.records,
        ports.commit,
        ports.people.clock,
        ports.people.new_id,
        load_policy=partial(with_choice, VerificationPolicy()),
    )


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
            "conclusions asked for afterwards obey. `rate_limits` are about the tenant's keys and client "
            "tokens, requests a minute, at most the deployment's; they hold at once, in other fronts of the "
            "deployment within a second. `retention` counts from when a piece of evidence was taken, for "
            "what is stored already as well; nothing of a subject in `legal_hold` is removed.",
            answers={HTTPStatus.OK: Answer("The settings.", TenantSettings, headers=_TAG)},
            family=_FAMILY,
            access=_ACCESS,
            headers=(Parameter("If-Match", "The version the change was meant for.", {"type": "string"}),),
            body=ChangeSettingsBody,
            problems=(ProblemCode.PRECONDITION_FAILED,),
            audits=(AuditAction.TENANT_SETTINGS_CHANGED,),
        ),
    )
