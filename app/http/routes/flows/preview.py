"""`POST /v1/verification-flows/{id}/preview`: walk through a draft before it is published (P22)."""

from dataclasses import dataclass
from typing import Final

from aiohttp import web

from app.http.endpoints import Answer, Call, Endpoint, Parameter
from app.http.idempotent_create import LOCATION, created_or_replayed, name_created
from app.http.routes.flows.routes import CREATE_PROBLEMS, FLOW_FORM, MANAGES, PATH, Nothing
from app.http.routes.sessions.routes import SessionRoutes
from schemas.audit import AuditAction
from schemas.flows import StoredFlow
from schemas.ids import FlowId, KeyId, SessionId, SubjectId
from schemas.problems import ProblemCode
from schemas.sessions import OpenedSession, OpenSession, SessionOpening
from streams.audit.rows import seal_actor
from streams.catalog.handler import Catalogue
from streams.flows import rules
from streams.ports.records import RecordKind
from streams.privacy.sealing import seal_subject_id
from streams.sessions.queries import opening_label
from streams.verification.sandbox import PREFIX

_KEY: Final = Parameter(
    "Idempotency-Key",
    "1 to 255 printable ASCII characters; the same key answers the same session.",
    {"type": "string", "minLength": 1, "maxLength": 257},
)


@dataclass(frozen=True, slots=True)
class PreviewRoutes:
    """What the route does."""

    sessions: SessionRoutes
    catalogue: Catalogue

    async def preview(self, call: Call) -> web.Response:
        """Open a test session under the draft, for a subject that the sandbox approves."""
        ports, tenant_id = self.sessions.ports, call.tenant_id
        record = await ports.stores.records.get(
            tenant_id, RecordKind.FLOW, FlowId(call.path_value("flow_id"))
        )
        flow = StoredFlow.from_bytes(record.body).flow
        draft = rules.draft_of(flow)
        entries = await self.catalogue.some(rules.codes_of(draft))
        rules.require_valid(draft, entries)
        named = name_created("vs", call, Nothing(), ports.fresh_uuid, tenant_id=tenant_id, livemode=False)
        session_id = SessionId(named.id)
        subject_id = SubjectId(f"{PREFIX}approved@preview-{session_id.removeprefix('vs_')}")
        vault, said = ports.stores.vault, SessionOpening().to_bytes()
        command = OpenSession(
            tenant_id=tenant_id,
            session_id=session_id,
            actor=await seal_actor(vault, tenant_id, call.actor),
            requested_at=ports.clock(),
            subject_id=await seal_subject_id(vault, tenant_id, subject_id),
            flow_id=flow.flow_id,
            livemode=False,
            key_id=KeyId(call.person.reviewer_id),
            sealed_opening=await vault.seal(tenant_id, subject_id, opening_label(session_id), said),
            fingerprint=named.fingerprint,
            draft=rules.freeze(draft, entries),
        )
        return await self.sessions.answer_opening(call, command)


def preview_endpoints(routes: PreviewRoutes) -> tuple[Endpoint, ...]:
    """Return the route as data."""
    return (
        Endpoint(
            method="POST",
            path=f"{PATH}/{{flow_id}}/preview",
            handler=routes.preview,
            summary="Open a test session under the draft",
            description="It expires after 30 minutes. Its `flow_revision` is 0, for the draft has no number.",
            family="Flows",
            answers=created_or_replayed(
                Answer("The session, opened.", OpenedSession, headers=LOCATION),
                OpenedSession,
                "The session the key had opened.",
                meaning="`true` when the key was used.",
            ),
            access=MANAGES,
            path_forms={"flow_id": FLOW_FORM},
            headers=(_KEY,),
            problems=(*CREATE_PROBLEMS, ProblemCode.FLOW_ARCHIVED),
            audits=(AuditAction.SESSION_CREATED,),
        ),
    )
