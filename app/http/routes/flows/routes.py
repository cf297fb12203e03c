"""`/v1/verification-flows`: draft, read, edit, publish, archive, duplicate (interface 4.1, 4.2, G4, G5)."""

from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

from aiohttp import web

from app.http.bodies import BodyReader
from app.http.cursors import Cursors
from app.http.endpoints import Access, Answer, Call, Credential, Endpoint, Handler, Parameter, reviewer
from app.http.headers import etag, if_match
from app.http.idempotent_create import LOCATION, REPLAYED, Naming, created_at, name_created
from app.http.listing import Page, Paging, word
from app.http.ports import FrontPorts
from app.http.responses import json_answer, json_list
from app.http.routes.flows.bodies import CreateFlowBody, EditFlowBody
from schemas.audit import AuditAction
from schemas.base import Frozen
from schemas.enums import FlowStatus, FlowType, Scope
from schemas.flows import (
    ArchiveFlow,
    CreateFlow,
    EditFlow,
    Flow,
    FlowChanged,
    FlowCommandBase,
    FlowDocumentSelection,
    FlowDraft,
    FlowRevision,
    PublishFlow,
    StoredFlow,
)
from schemas.ids import FlowId
from schemas.people import Permission, SentActor
from schemas.problems import ProblemCode
from schemas.topics import Topic
from streams.audit.rows import seal_actor
from streams.flows.handler import revision_id, revisions_index
from streams.flows.rules import draft_of, index_of
from streams.ports.records import Position, Record, RecordKind

PATH: Final = "/v1/verification-flows"
FLOW_FORM: Final = r"vf_[0-9a-hjkmnp-tv-z]{26}"
PAGING: Final = Paging(usual=25, most=100)
ANSWER_S: Final = 10.0
"""How long a request waits for the flow's actor before 503 DECISION_PENDING."""

MANAGES: Final = reviewer(Permission.VERIFICATION_FLOWS_MANAGE)
READS: Final = Access(
    frozenset({Credential.TENANT_KEY, Credential.REVIEWER_SESSION}),
    scope=Scope.FLOWS_READ,
    permission=Permission.VERIFICATION_FLOWS_READ,
)


class FlowList(Frozen):
    """A page of flows, newest first."""

    flows: tuple[Flow, ...]
    next_cursor: str | None


class RevisionList(Frozen):
    """A page of a flow's revisions, newest first."""

    revisions: tuple[FlowRevision, ...]
    next_cursor: str | None


@dataclass(frozen=True, slots=True)
class FlowRoutes:
    """What the routes of flows do."""

    ports: FrontPorts
    bodies: BodyReader
    cursors: Cursors

    async def create(self, call: Call) -> web.Response:
        """Begin a draft; a replayed key answers 200 with the draft as first answered."""
        body = await self.bodies.read(call, CreateFlowBody)
        named = name_created("vf", call, body, self.ports.fresh_uuid, tenant_id=call.tenant_id)
        selected = tuple(FlowDocumentSelection(**one.model_dump()) for one in body.documents)
        draft = FlowDraft(
            name=body.name, flow_type=body.flow_type, documents=selected, return_url=body.return_url
        )
        return await self._create(call, named, draft)

    async def duplicate(self, call: Call) -> web.Response:
        """Begin a draft like another flow's."""
        original = StoredFlow.from_bytes((await self._find(call)).body).flow
        named = name_created("vf", call, Nothing(), self.ports.fresh_uuid, tenant_id=call.tenant_id)
        return await self._create(call, named, draft_of(original), original.flow_id)

    async def _create(
        self, call: Call, named: Naming, draft: FlowDraft, copied_from: FlowId | None = None
    ) -> web.Response:
        command = CreateFlow(
            tenant_id=call.tenant_id,
            flow_id=FlowId(named.id),
            actor=await self._actor(call),
            requested_at=self.ports.clock(),
            draft=draft,
            fingerprint=named.fingerprint,
            copied_from=copied_from,
        )
        changed = await self._request(command)
        record = await self._get(call, command.flow_id)
        if changed.replayed:
            return _answered(record, record.first_body, headers={REPLAYED: "true"})
        return _answered(record, record.body, HTTPStatus.CREATED, created_at(PATH, command.flow_id))

    async def edit(self, call: Call) -> web.Response:
        """Change the draft the caller has seen."""
        seen = if_match(call.request, required=True)
        body = await self.bodies.read(call, EditFlowBody)
        changes = body.model_dump(mode="json", include=set(body.model_fields_set))
        return await self._changed(call, EditFlow, changes=changes, seen=seen)

    async def publish(self, call: Call) -> web.Response:
        """Freeze the draft as the next revision; an unchanged draft keeps its number."""
        seen = if_match(call.request, required=False)
        return await self._changed(call, PublishFlow, seen=seen, reviewer_id=call.person.reviewer_id)

    async def archive(self, call: Call) -> web.Response:
        """End the flow; once more changes nothing."""
        return await self._changed(call, ArchiveFlow)

    async def _changed(self, call: Call, command: type[FlowCommandBase], **said: Any) -> web.Response:
        flow_id = FlowId(call.path_value("flow_id"))
        common = {"actor": await self._actor(call), "requested_at": self.ports.clock()}
        await self._request(command(tenant_id=call.tenant_id, flow_id=flow_id, **common, **said))
        record = await self._get(call, flow_id)
        return _answered(record, record.body)

    async def read(self, call: Call) -> web.Response:
        """Answer one flow of the caller's tenant."""
        record = await self._find(call)
        return _answered(record, record.body)

    async def list_page(self, call: Call) -> web.Response:
        """Answer a page of flows, newest first."""
        query = call.request.query
        status, flow_type = word(query, "status", FlowStatus), word(query, "flow_type", FlowType)
        index = index_of(status, flow_type)
        records, cursor = await self._page(call, RecordKind.FLOW, index)
        return json_list("flows", [_shown(record.body) for record in records], cursor)

    async def list_revisions(self, call: Call) -> web.Response:
        """Answer a page of a flow's revisions, newest first."""
        flow_id = FlowId((await self._find(call)).id)
        records, cursor = await self._page(call, RecordKind.FLOW_REVISION, revisions_index(flow_id))
        return json_list("revisions", [_whole(FlowRevision.from_bytes(one.body)) for one in records], cursor)

    async def read_revision(self, call: Call) -> web.Response:
        """Answer one revision: what was published, whatever happened since."""
        wanted = revision_id(FlowId(call.path_value("flow_id")), int(call.path_value("revision")))
        records = self.ports.stores.records
        record = await records.get(call.tenant_id, RecordKind.FLOW_REVISION, wanted)
        return json_answer(_whole(FlowRevision.from_bytes(record.body)))

    async def _page(
        self, call: Call, kind: RecordKind, index: tuple[str, str]
    ) -> tuple[list[Record], str | None]:
        query, scope = call.request.query, {"tenant": call.tenant_id, "list": kind, "index": "|".join(index)}
        cursor = query.get("cursor")
        page = Page(PAGING.limit(query), self.cursors.read(cursor, scope) if cursor is not None else None)
        if page.limit == 0:
            return [], None
        found = await self.ports.stores.records.page(
            call.tenant_id, kind, index, limit=page.limit + 1, before=page.before
        )
        rows = list(found[: page.limit])
        more = len(found) > page.limit
        last = Position(rows[-1].created_at, rows[-1].id) if more else None
        return rows, self.cursors.write(last, scope) if last is not None else None

    async def _find(self, call: Call) -> Record:
        return await self._get(call, FlowId(call.path_value("flow_id")))

    async def _get(self, call: Call, flow_id: FlowId) -> Record:
        return await self.ports.stores.records.get(call.tenant_id, RecordKind.FLOW, flow_id)

    async def _request(self, command: FlowCommandBase) -> FlowChanged:
        topic = Topic.FLOW_COMMANDS
        return await self.ports.request_reply.request(topic, command.flow_id, command, FlowChanged, ANSWER_S)

    async def _actor(self, call: Call) -> SentActor:
        return await seal_actor(self.ports.stores.vault, call.tenant_id, call.actor)


class Nothing(Frozen):
    """A body that says nothing."""


def _whole(value: Frozen) -> bytes:
    return value.model_dump_json().encode()


def _shown(body: bytes) -> bytes:
    return _whole(StoredFlow.from_bytes(body).flow)


def _answered(
    record: Record,
    body: bytes,
    status: HTTPStatus = HTTPStatus.OK,
    headers: dict[str, str] | None = None,
) -> web.Response:
    return json_answer(_shown(body), status, {"ETag": etag(record.version), **(headers or {})})


_TAG: Final = {"ETag": "The flow's version, quoted."}
_KEY: Final = Parameter(
    "Idempotency-Key",
    "1 to 255 printable ASCII characters; the same key answers the same flow.",
    {"type": "string", "minLength": 1, "maxLength": 257},
)
_IF_MATCH: Final = Parameter("If-Match", "The version the change was meant for.", {"type": "string"})
_DRAFT_PROBLEMS: Final = (
    ProblemCode.CAPABILITY_UNKNOWN,
    ProblemCode.CAPABILITY_DISABLED,
    ProblemCode.DOCUMENTS_NOT_ALLOWED,
    ProblemCode.DOCUMENTS_REQUIRED,
    ProblemCode.RETURN_URL_INVALID,
    ProblemCode.DECISION_PENDING,
    ProblemCode.OVERLOADED,
)
CREATE_PROBLEMS: Final = (
    *_DRAFT_PROBLEMS,
    ProblemCode.IDEMPOTENCY_KEY_INVALID,
    ProblemCode.IDEMPOTENCY_KEY_REUSED,
)
_CHANGE_PROBLEMS: Final = (*_DRAFT_PROBLEMS, ProblemCode.FLOW_ARCHIVED, ProblemCode.PRECONDITION_FAILED)


def flow_endpoints(routes: FlowRoutes) -> tuple[Endpoint, ...]:
    """Return the routes as data."""
    status = Parameter("status", "Flows in one status.", {"enum": [*FlowStatus]})
    flow_type = Parameter("flow_type", "Flows of one type.", {"enum": [*FlowType]})
    one, revision = "/{flow_id}", "/{flow_id}/revisions/{revision}"
    return (
        _creates("", routes.create, "Begin a draft", CreateFlowBody),
        _reads("", routes.list_page, "List flows, newest first", FlowList,
               (status, flow_type, *PAGING.parameters)),
        _reads(one, routes.read, "Read a flow", Flow, headers=_TAG),
        _changes("PATCH", "", routes.edit, "Change the draft", AuditAction.FLOW_UPDATED, EditFlowBody),
        _changes("POST", "/publish", routes.publish, "Publish the draft", AuditAction.FLOW_PUBLISHED),
        _changes("POST", "/archive", routes.archive, "Archive the flow", AuditAction.FLOW_ARCHIVED),
        _creates("/{flow_id}/duplicate", routes.duplicate, "Begin a draft like this flow's", None),
        _reads(f"{one}/revisions", routes.list_revisions, "List revisions, newest first", RevisionList,
               PAGING.parameters),
        _reads(revision, routes.read_revision, "Read a revision", FlowRevision),
    )  # fmt: skip


def _forms(path: str) -> dict[str, str]:
    known = {"flow_id": FLOW_FORM, "revision": "[1-9][0-9]{0,8}"}
    return {name: form for name, form in known.items() if f"{{{name}}}" in path}


def _reads(
    suffix: str,
    handler: Handler,
    summary: str,
    answer: type[Frozen],
    parameters: tuple[Parameter, ...] = (),
    headers: dict[str, str] | None = None,
) -> Endpoint:
    return Endpoint(
        method="GET",
        path=PATH + suffix,
        handler=handler,
        summary=summary,
        answers={HTTPStatus.OK: Answer("As it stands.", answer, headers=headers or {})},
        family="Flows",
        access=READS,
        path_forms=_forms(suffix),
        parameters=parameters,
    )


def _creates(suffix: str, handler: Handler, summary: str, body: type[Frozen] | None) -> Endpoint:
    replayed = Answer("The key had been used.", Flow, headers={REPLAYED: "Always `true`."} | _TAG)
    return Endpoint(
        method="POST",
        path=PATH + suffix,
        handler=handler,
        summary=summary,
        answers={
            HTTPStatus.CREATED: Answer("The draft.", Flow, headers=_TAG | LOCATION),
            HTTPStatus.OK: replayed,
        },
        family="Flows",
        access=MANAGES,
        path_forms=_forms(suffix),
        headers=(_KEY,),
        body=body,
        problems=CREATE_PROBLEMS,
        audits=(AuditAction.FLOW_CREATED,),
    )


def _changes(
    method: str,
    suffix: str,
    handler: Handler,
    summary: str,
    action: AuditAction,
    body: type[Frozen] | None = None,
) -> Endpoint:
    required = (ProblemCode.PRECONDITION_REQUIRED,) if body is not None else ()
    return Endpoint(
        method=method,
        path=f"{PATH}/{{flow_id}}{suffix}",
        handler=handler,
        summary=summary,
        answers={HTTPStatus.OK: Answer("The flow.", Flow, headers=_TAG)},
        family="Flows",
        access=MANAGES,
        path_forms=_forms("/{flow_id}"),
        headers=() if action is AuditAction.FLOW_ARCHIVED else (_IF_MATCH,),
        body=body,
        problems=(*_CHANGE_PROBLEMS, *required),
        audits=(action,),
    )
