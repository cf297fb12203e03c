"""`/v1/policies/{name}/shadow`: run another text beside the published one, and compare them (G115)."""

from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated, Final, Literal

from aiohttp import web
from pydantic import Field, model_validator

from app.http.bodies import BodyReader
from app.http.endpoints import Answer, Call, Endpoint
from app.http.listing import LIVEMODE, modes
from app.http.ports import FrontPorts
from app.http.responses import json_answer
from app.http.routes.policies import ANSWER_S, MANAGES, NAME_FORM, PATH, READS, WAITS
from schemas.audit import AuditAction
from schemas.backtests import ShadowReport
from schemas.base import Frozen
from schemas.policy_records import Policy, PolicyChanged, ShadowPolicy, policy_key
from schemas.problems import ProblemCode
from schemas.topics import Topic
from streams.audit.rows import seal_actor
from streams.backtests.shadow_report import report_shadow
from streams.policies.storage import load_policy, shown

SHADOW: Final = f"{PATH}/{{name}}/shadow"


class ChosenText(Frozen):
    """A text of a policy: one of its revisions, or the draft as it is now."""

    revision: Annotated[int, Field(strict=True, ge=1)] | None = None
    draft: Literal[True] | None = None

    @model_validator(mode="after")
    def _one(self) -> "ChosenText":
        if (self.revision is None) is (self.draft is None):
            raise ValueError("Give either a revision or draft: true.")
        return self


class ShadowPolicyBody(ChosenText):
    """Which text runs beside the published one."""


@dataclass(frozen=True, slots=True)
class ShadowPolicyRoutes:
    """What the routes of shadows do."""

    ports: FrontPorts
    bodies: BodyReader

    async def put(self, call: Call) -> web.Response:
        """Run a text beside the published one from now on; the same text again changes nothing."""
        name = await self._name(call)
        body = await self.bodies.read(call, ShadowPolicyBody)
        return await self._change(call, name, body.revision, draft=body.draft is True)

    async def delete(self, call: Call) -> web.Response:
        """End the shadow; ending it again changes nothing."""
        await self._change(call, await self._name(call), None, draft=False)
        return web.Response(status=HTTPStatus.NO_CONTENT)

    async def read(self, call: Call) -> web.Response:
        """Answer how the shadow differs from what was decided."""
        name, seen = await self._name(call), modes(call)
        report = await report_shadow(self.ports.stores.records, call.tenant_id, name, seen)
        return json_answer(report.to_bytes())

    async def _change(self, call: Call, name: str, revision: int | None, *, draft: bool) -> web.Response:
        command = ShadowPolicy(
            tenant_id=call.tenant_id,
            policy=name,
            actor=await seal_actor(self.ports.stores.vault, call.tenant_id, call.actor),
            requested_at=self.ports.clock(),
            revision=revision,
            draft=draft,
        )
        await self.ports.request_reply.request(
            Topic.POLICY_COMMANDS, policy_key(call.tenant_id, name), command, PolicyChanged, ANSWER_S
        )
        found = await load_policy(self.ports.stores.records, call.tenant_id, name)
        return json_answer(shown(name, found.stored).model_dump_json().encode())

    async def _name(self, call: Call) -> str:
        """Return the name of a policy that exists, or raise `NotFound`."""
        name = call.path_value("name")
        await load_policy(self.ports.stores.records, call.tenant_id, name)
        return name


def shadow_policy_endpoints(routes: ShadowPolicyRoutes) -> tuple[Endpoint, ...]:
    """Return the routes as data."""
    return (
        Endpoint(
            method="GET",
            path=SHADOW,
            handler=routes.read,
            summary="Compare the shadow with what was decided",
            description="Counts the transactions that were decided since the shadow began, the newest 50,000 "
            "of a mode at most; `since` says from when on.",
            answers={HTTPStatus.OK: Answer("How they differ.", ShadowReport)},
            family="Policies",
            access=READS,
            path_forms=NAME_FORM,
            parameters=(LIVEMODE,),
        ),
        Endpoint(
            method="PUT",
            path=SHADOW,
            handler=routes.put,
            summary="Run another text beside the published one",
            description="The text, as it is now, is evaluated for every transaction on the same features and "
            "check results, and shown in `shadow`; it decides nothing. A check that the published text does "
            "not make is NOT_EVALUATED for it.",
            answers={HTTPStatus.OK: Answer("The policy.", Policy)},
            family="Policies",
            access=MANAGES,
            path_forms=NAME_FORM,
            body=ShadowPolicyBody,
            problems=(ProblemCode.POLICY_INVALID, *WAITS),
            audits=(AuditAction.POLICY_SHADOWED,),
        ),
        Endpoint(
            method="DELETE",
            path=SHADOW,
            handler=routes.delete,
            summary="End the shadow",
            answers={HTTPStatus.NO_CONTENT: Answer("Nothing runs beside the published text.", media_type="")},
            family="Policies",
            access=MANAGES,
            path_forms=NAME_FORM,
            problems=WAITS,
            audits=(AuditAction.POLICY_SHADOWED,),
        ),
    )
