"""`/v1/verification-sessions`: open one, read it, cancel it (G36, G82, G88, G106)."""

from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from aiohttp import web

from app.http.bodies import BodyReader
from app.http.endpoints import Access, Answer, Call, Credential, Endpoint, Parameter
from app.http.idempotent_create import LOCATION, REPLAYED, created_at, created_or_replayed, name_created
from app.http.listing import modes
from app.http.ports import FrontPorts
from app.http.responses import json_answer
from app.http.routes.sessions.bodies import OpenSessionBody
from app.http.routes.sessions.opened import write_opened
from schemas.audit import AuditAction
from schemas.enums import Scope
from schemas.ids import SessionId
from schemas.people import Permission
from schemas.problems import NotFound, ProblemCode, Refused
from schemas.sessions import (
    CancelSession,
    OpenedSession,
    OpenSession,
    SessionChanged,
    SessionCommandBase,
    SessionDetail,
    SessionOpening,
    StoredSession,
    row_of,
    sources_of,
    stored_of,
)
from schemas.topics import Topic
from streams.audit.rows import seal_actor
from streams.flows.rules import is_return_url
from streams.ports.errors import Erased
from streams.ports.records import Record, RecordKind
from streams.privacy.sealing import refusing_erased, seal_subject_id
from streams.sessions.queries import opening_label
from streams.verification.sandbox import scenario_for

PATH: Final = "/v1/verification-sessions"
SESSION_FORM: Final = r"vs_[0-9a-hjkmnp-tv-z]{26}"
ANSWER_S: Final = 10.0
"""How long a request waits for the session's actor before 503 DECISION_PENDING."""

WRITER: Final = Access(frozenset({Credential.TENANT_KEY}), scope=Scope.SESSIONS_WRITE)
READER: Final = Access(
    frozenset({Credential.TENANT_KEY, Credential.REVIEWER_SESSION}),
    permission=Permission.VERIFICATIONS_READ,
)
READING_SCOPES: Final = frozenset({Scope.SESSIONS_WRITE, Scope.VERIFICATIONS_READ})
"""Either is enough to read a session (G106)."""


@dataclass(frozen=True, slots=True)
class SessionRoutes:
    """What the routes of sessions do."""

    ports: FrontPorts
    bodies: BodyReader
    base_url: str

    async def open(self, call: Call) -> web.Response:
        """Open a session; one the subject has open under the flow is answered instead, with 200."""
        body, caller = await self.bodies.read(call, OpenSessionBody), call.caller
        scenario_for(body.subject_id, livemode=caller.livemode)
        if body.return_url is not None and not is_return_url(body.return_url):
            message = "The return URL must be https with a host, without user, fragment or spaces."
            raise Refused.at("/return_url", ProblemCode.RETURN_URL_INVALID, message)
        named = name_created(
            "vs", call, body, self.ports.fresh_uuid, tenant_id=call.tenant_id, livemode=caller.livemode
        )
        session_id = SessionId(named.id)
        said = SessionOpening(return_url=body.return_url, metadata=body.metadata).to_bytes()
        vault, label = self.ports.stores.vault, opening_label(session_id)
        with refusing_erased():
            sealed = await vault.seal(call.tenant_id, body.subject_id, label, said)
        command = OpenSession(
            tenant_id=call.tenant_id,
            session_id=session_id,
            actor=await seal_actor(vault, call.tenant_id, call.actor),
            requested_at=self.ports.clock(),
            subject_id=await seal_subject_id(vault, call.tenant_id, body.subject_id),
            flow_id=body.flow_id,
            livemode=caller.livemode,
            key_id=caller.key_id,
            locale=body.locale,
            sealed_opening=sealed,
            fingerprint=named.fingerprint,
        )
        return await self.answer_opening(call, command)

    async def answer_opening(self, call: Call, command: OpenSession) -> web.Response:
        """Execute the command and answer the session: 201 if it opened it, 200 if one stood already."""
        changed = await self._request(command)
        record = await self._get(call, changed.session_id)
        if changed.created:
            return json_answer(self._opened(record), HTTPStatus.CREATED, created_at(PATH, changed.session_id))
        return json_answer(self._opened(record), headers={REPLAYED: "true"} if changed.replayed else None)

    def _opened(self, record: Record) -> bytes:
        """Return the answer to the opening; the same whatever happened since (G82)."""
        return write_opened(record, self.ports.capture_tokens.issue, self.base_url)

    async def read(self, call: Call) -> web.Response:
        """Answer one session of the caller's tenant and mode; any other is not found."""
        tenant = call.tenant
        if tenant is not None and not READING_SCOPES & tenant.scopes:
            message = "The key lacks the scopes sessions:write and verifications:read; one of them is needed."
            raise Refused.because(ProblemCode.PERMISSION_DENIED, message)
        return await self._answer(call)

    async def cancel(self, call: Call) -> web.Response:
        """Cancel a session without a submission; a repetition changes nothing."""
        session_id = await self._visible(call)
        command = CancelSession(
            tenant_id=call.tenant_id,
            session_id=session_id,
            actor=await seal_actor(self.ports.stores.vault, call.tenant_id, call.actor),
            requested_at=self.ports.clock(),
        )
        await self._request(command)
        return await self._answer(call)

    async def _answer(self, call: Call) -> web.Response:
        record = await self._get(call, await self._visible(call))
        hosted = stored_of(record.body)
        row = row_of(record.body)
        if hosted is None:
            return json_answer(SessionDetail(**row.model_dump()).model_dump_json().encode())
        detail = SessionDetail(
            **row.model_dump(),
            configuration=hosted.configuration,
            locale=hosted.locale,
            metadata=(await self._opening(call, hosted)).metadata,
            capture_sources=sources_of(hosted),
        )
        return json_answer(detail.model_dump_json().encode())

    async def _opening(self, call: Call, hosted: StoredSession) -> SessionOpening:
        """Return the tenant's data of the opening; empty once the subject was erased."""
        row, vault = hosted.session, self.ports.stores.vault
        label = opening_label(row.session_id)
        try:
            plain = await vault.open(call.tenant_id, row.subject_id, label, hosted.sealed_opening)
        except Erased:
            return SessionOpening()
        return SessionOpening.from_bytes(plain)

    async def _visible(self, call: Call) -> SessionId:
        """Return the id in the path; raises `NotFound` when it is not of the caller's tenant and mode."""
        session_id = SessionId(call.path_value("session_id"))
        if row_of((await self._get(call, session_id)).body).livemode not in modes(call):
            raise NotFound
        return session_id

    async def _get(self, call: Call, session_id: SessionId) -> Record:
        return await self.ports.stores.records.get(call.tenant_id, RecordKind.SESSION, session_id)

    async def _request(self, command: SessionCommandBase) -> SessionChanged:
        topic = Topic.SESSION_COMMANDS
        return await self.ports.request_reply.request(
            topic, command.session_id, command, SessionChanged, ANSWER_S
        )


_KEY: Final = Parameter(
    "Idempotency-Key",
    "1 to 255 printable ASCII characters; the same key answers the same session.",
    {"type": "string", "minLength": 1, "maxLength": 257},
)


def session_endpoints(routes: SessionRoutes) -> tuple[Endpoint, ...]:
    """Return the routes as data."""
    return (_open(routes), _read(routes), _cancel(routes))


def _open(routes: SessionRoutes) -> Endpoint:
    standing = "The subject's open session under the flow, or the session the key had opened."
    return Endpoint(
        method="POST",
        path=PATH,
        handler=routes.open,
        summary="Open a verification session",
        family="Sessions",
        answers=created_or_replayed(
            Answer("The session, opened.", OpenedSession, headers=LOCATION),
            OpenedSession,
            standing,
            meaning="`true` when the key was used.",
        ),
        access=WRITER,
        headers=(_KEY,),
        body=OpenSessionBody,
        problems=(
            ProblemCode.NOT_FOUND,
            ProblemCode.FLOW_NOT_PUBLISHED,
            ProblemCode.FLOW_ARCHIVED,
            ProblemCode.NO_REFERENCE_FACE,
            ProblemCode.RETURN_URL_INVALID,
            ProblemCode.IDEMPOTENCY_KEY_INVALID,
            ProblemCode.IDEMPOTENCY_KEY_REUSED,
            ProblemCode.DECISION_PENDING,
            ProblemCode.OVERLOADED,
        ),
        audits=(AuditAction.SESSION_CREATED,),
    )


def _read(routes: SessionRoutes) -> Endpoint:
    return Endpoint(
        method="GET",
        path=f"{PATH}/{{session_id}}",
        handler=routes.read,
        summary="Read a verification session",
        family="Sessions",
        answers={HTTPStatus.OK: Answer("The session as it stands.", SessionDetail)},
        access=READER,
        path_forms={"session_id": SESSION_FORM},
        problems=(ProblemCode.PERMISSION_DENIED,),
        description="A key needs the scope `sessions:write` or `verifications:read`.",
    )


def _cancel(routes: SessionRoutes) -> Endpoint:
    return Endpoint(
        method="POST",
        path=f"{PATH}/{{session_id}}/cancel",
        handler=routes.cancel,
        summary="Cancel a verification session",
        family="Sessions",
        answers={HTTPStatus.OK: Answer("The session, cancelled.", SessionDetail)},
        access=WRITER,
        path_forms={"session_id": SESSION_FORM},
        problems=(ProblemCode.SESSION_FINISHED, ProblemCode.DECISION_PENDING, ProblemCode.OVERLOADED),
        audits=(AuditAction.SESSION_CANCELLED,),
    )
