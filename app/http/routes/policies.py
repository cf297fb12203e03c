"""`/v1/policies`: draft, validate, publish and read the policy of transactions (G109-G111)."""

import asyncio
from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated, Final

from aiohttp import web
from pydantic import Field

from app.http.bodies import BodyReader
from app.http.cursors import Cursors
from app.http.endpoints import Access, Answer, Call, Credential, Endpoint, Handler
from app.http.headers import wanted
from app.http.listing import Page, Paging
from app.http.ports import FrontPorts
from app.http.responses import JSON, YAML, json_answer, json_list
from schemas.audit import AuditAction
from schemas.base import Frozen, Timestamp
from schemas.enums import Scope
from schemas.people import Permission
from schemas.policy_records import (
    DraftPolicy,
    Policy,
    PolicyChanged,
    PublishedRevision,
    PublishPolicy,
    StoredText,
    policy_key,
)
from schemas.problems import ProblemCode, Refused
from schemas.topics import Topic
from streams.audit.rows import seal_actor
from streams.policies.in_use import KnownLists
from streams.policies.loading import digest, load
from streams.policies.storage import (
    POLICIES,
    first_revision,
    load_draft,
    load_policy,
    load_revision,
    revisions_index,
    shown,
)
from streams.ports.records import Position, RecordKind

PATH: Final = "/v1/policies"
PAGING: Final = Paging(usual=25, most=100)
ANSWER_S: Final = 10.0
"""How long a request waits for the policy's actor before 503 DECISION_PENDING."""

_BOTH: Final = frozenset({Credential.TENANT_KEY, Credential.REVIEWER_SESSION})
READS: Final = Access(_BOTH, scope=Scope.POLICIES_READ, permission=Permission.POLICIES_READ)
MANAGES: Final = Access(_BOTH, scope=Scope.POLICIES_WRITE, permission=Permission.POLICIES_MANAGE)


class PolicyList(Frozen):
    """The policies of a tenant."""

    policies: tuple[Policy, ...]
    next_cursor: str | None


class PolicyRevisionList(Frozen):
    """A page of a policy's revisions, newest first."""

    revisions: tuple[PublishedRevision, ...]
    next_cursor: str | None


class PolicyRevisionText(PublishedRevision):
    """A revision with its text."""

    text: str


class PolicyDraftText(Frozen):
    """The draft with its text."""

    sha256: str
    updated_at: Timestamp
    text: str


class ValidPolicy(Frozen):
    """What a text that loads holds."""

    valid: bool
    sha256: str
    features: int
    rules: int


class PublishPolicyBody(Frozen):
    """What to publish."""

    from_revision: Annotated[int, Field(strict=True, ge=1)] | None = None
    """An earlier revision, whose text is published again; null: the draft."""


@dataclass(frozen=True, slots=True)
class PolicyRoutes:
    """What the routes of policies do."""

    ports: FrontPorts
    bodies: BodyReader
    cursors: Cursors
    known_lists: KnownLists

    async def list_all(self, call: Call) -> web.Response:
        """Answer the policies; every tenant has the same few."""
        query, scope = call.request.query, {"tenant": call.tenant_id, "list": "policies"}
        if "cursor" in query:
            self.cursors.read(query["cursor"], scope)
        names = POLICIES[: PAGING.limit(query)]
        return json_list("policies", [_whole(await self._policy(call, name)) for name in names], None)

    async def read(self, call: Call) -> web.Response:
        """Answer one policy."""
        return json_answer(_whole(await self._policy(call, call.path_value("name"))))

    async def read_draft(self, call: Call) -> web.Response:
        """Answer the draft, as JSON or byte for byte."""
        name = call.path_value("name")
        found = await load_policy(self.ports.stores.records, call.tenant_id, name)
        text = await load_draft(self.ports.stores.records, call.tenant_id, name)
        if wanted(call.request, (JSON, YAML)) == YAML:
            return _as_uploaded(text)
        draft = found.stored.draft
        updated_at = draft.updated_at if draft is not None else self.ports.clock()
        return json_answer(
            _whole(PolicyDraftText(sha256=digest(text), updated_at=updated_at, text=_decoded(text)))
        )

    async def put_draft(self, call: Call) -> web.Response:
        """Replace the draft with a text that loads."""
        name, text = await self._text(call)
        await self._load(call, text)
        actor = await seal_actor(self.ports.stores.vault, call.tenant_id, call.actor)
        command = DraftPolicy(
            tenant_id=call.tenant_id, policy=name, actor=actor, requested_at=self.ports.clock(), text=text
        )
        await self._request(command)
        return json_answer(_whole(await self._policy(call, name)))

    async def validate(self, call: Call) -> web.Response:
        """Load a text and store nothing."""
        _, text = await self._text(call)
        features, rules = await self._load(call, text)
        return json_answer(
            _whole(ValidPolicy(valid=True, sha256=digest(text), features=features, rules=rules))
        )

    async def publish(self, call: Call) -> web.Response:
        """Publish the draft or an earlier text; 202 when a second member must agree."""
        name = await self._name(call)
        body = await self.bodies.read(call, PublishPolicyBody)
        actor = await seal_actor(self.ports.stores.vault, call.tenant_id, call.actor)
        command = PublishPolicy(
            tenant_id=call.tenant_id,
            policy=name,
            actor=actor,
            requested_at=self.ports.clock(),
            from_revision=body.from_revision,
        )
        changed = await self._request(command)
        status = HTTPStatus.ACCEPTED if changed.proposed else HTTPStatus.OK
        return json_answer(_whole(await self._policy(call, name)), status)

    async def list_revisions(self, call: Call) -> web.Response:
        """Answer a page of revisions, newest first; before the first publication that of every tenant."""
        name, query = await self._name(call), call.request.query
        scope = {"tenant": call.tenant_id, "list": RecordKind.POLICY_REVISION, "policy": name}
        cursor = query.get("cursor")
        page = Page(PAGING.limit(query), self.cursors.read(cursor, scope) if cursor is not None else None)
        if page.limit == 0:
            return json_list("revisions", [], None)
        found = await self.ports.stores.records.page(
            call.tenant_id,
            RecordKind.POLICY_REVISION,
            revisions_index(name),
            limit=page.limit + 1,
            before=page.before,
        )
        if not found and page.before is None:
            return json_list("revisions", [_whole(first_revision())], None)
        shown_records = found[: page.limit]
        revisions = [StoredText.from_bytes(record.body).revision for record in shown_records]
        last = shown_records[-1] if len(found) > page.limit else None
        following = None if last is None else self.cursors.write(Position(last.created_at, last.id), scope)
        rows = [_whole(revision) for revision in revisions if revision is not None]
        return json_list("revisions", rows, following)

    async def read_revision(self, call: Call) -> web.Response:
        """Answer a revision, as JSON or byte for byte."""
        number = int(call.path_value("revision"))
        revision, text = await load_revision(
            self.ports.stores.records, call.tenant_id, call.path_value("name"), number
        )
        if wanted(call.request, (JSON, YAML)) == YAML:
            return _as_uploaded(text)
        return json_answer(_whole(PolicyRevisionText(**revision.model_dump(), text=_decoded(text))))

    async def _policy(self, call: Call, name: str) -> Policy:
        found = await load_policy(self.ports.stores.records, call.tenant_id, name)
        return shown(name, found.stored)

    async def _name(self, call: Call) -> str:
        """Return the name of a policy that exists, or raise `NotFound`."""
        return (await self._policy(call, call.path_value("name"))).name

    async def _text(self, call: Call) -> tuple[str, bytes]:
        name = await self._name(call)
        if call.request.content_type not in {YAML, JSON}:
            detail = f"A policy is {YAML} or {JSON}."
            raise Refused.because(ProblemCode.UNSUPPORTED_MEDIA_TYPE, detail)
        return name, await self.bodies.read_bytes(call)

    async def _load(self, call: Call, text: bytes) -> tuple[int, int]:
        document = await asyncio.to_thread(load, text, await self.known_lists(call.tenant_id))
        return len(document.features), len(document.rules)

    async def _request(self, command: DraftPolicy | PublishPolicy) -> PolicyChanged:
        key = policy_key(command.tenant_id, command.policy)
        return await self.ports.request_reply.request(
            Topic.POLICY_COMMANDS, key, command, PolicyChanged, ANSWER_S
        )


def _whole(value: Frozen) -> bytes:
    return value.model_dump_json().encode()


def _as_uploaded(text: bytes) -> web.Response:
    return web.Response(body=text, content_type=YAML)


def _decoded(text: bytes) -> str:
    encoding = "utf-16" if text[:2] in {b"\xff\xfe", b"\xfe\xff"} else "utf-8-sig"
    return text.decode(encoding)


WAITS: Final = (ProblemCode.DECISION_PENDING, ProblemCode.OVERLOADED)
_TEXT: Final = f"The body is the text itself, as `{YAML}` or JSON, of at most 256 KiB. "
_EVERY_ERROR: Final = (
    "A text with errors is refused with every one of them, each with its rule, pointer, line and column."
)


def policy_endpoints(routes: PolicyRoutes) -> tuple[Endpoint, ...]:
    """Return the routes as data."""
    one = "/{name}"
    return (
        _reads("", routes.list_all, "List the policies", PolicyList, paged=True),
        _reads(one, routes.read, "Read a policy", Policy),
        _reads(f"{one}/draft", routes.read_draft, "Read the draft", PolicyDraftText, also=(YAML,)),
        Endpoint(
            method="PUT",
            path=f"{PATH}{one}/draft",
            handler=routes.put_draft,
            summary="Replace the draft",
            description=_TEXT + _EVERY_ERROR,
            answers={HTTPStatus.OK: Answer("The policy.", Policy)},
            family="Policies",
            access=MANAGES,
            path_forms=_forms(one),
            text_body=(YAML, JSON),
            problems=(ProblemCode.POLICY_INVALID, *WAITS),
            audits=(AuditAction.POLICY_DRAFTED,),
        ),
        Endpoint(
            method="POST",
            path=f"{PATH}{one}/validate",
            handler=routes.validate,
            summary="Load a text and store nothing",
            description=_TEXT + _EVERY_ERROR,
            answers={HTTPStatus.OK: Answer("What the text holds.", ValidPolicy)},
            family="Policies",
            access=MANAGES,
            path_forms=_forms(one),
            text_body=(YAML, JSON),
            problems=(ProblemCode.POLICY_INVALID,),
        ),
        _publishes(routes.publish, f"{one}/publish"),
        _reads(f"{one}/revisions", routes.list_revisions, "List revisions, newest first",
               PolicyRevisionList, paged=True),
        _reads(f"{one}/revisions/{{revision}}", routes.read_revision, "Read a revision",
               PolicyRevisionText, also=(YAML,)),
    )  # fmt: skip


def _publishes(handler: Handler, suffix: str) -> Endpoint:
    return Endpoint(
        method="POST",
        path=PATH + suffix,
        handler=handler,
        summary="Publish the draft, or an earlier revision again",
        description="A text that is in force already gets no new number. With the setting "
        "`policy_four_eyes` the first member only proposes, and a second one publishes the same text.",
        answers={
            HTTPStatus.OK: Answer("The policy.", Policy),
            HTTPStatus.ACCEPTED: Answer("Proposed; a second member must publish it too.", Policy),
        },
        family="Policies",
        access=MANAGES,
        path_forms=_forms(suffix),
        body=PublishPolicyBody,
        problems=(
            ProblemCode.POLICY_INVALID,
            ProblemCode.API_KEY_NOT_ALLOWED,
            ProblemCode.SECOND_REVIEWER_MUST_DIFFER,
            *WAITS,
        ),
        audits=(AuditAction.POLICY_PUBLISHED, AuditAction.POLICY_PROPOSED),
    )


def _reads(
    suffix: str,
    handler: Handler,
    summary: str,
    answer: type[Frozen],
    *,
    paged: bool = False,
    also: tuple[str, ...] = (),
) -> Endpoint:
    return Endpoint(
        method="GET",
        path=PATH + suffix,
        handler=handler,
        summary=summary,
        answers={HTTPStatus.OK: Answer("As it stands.", answer, also=also)},
        family="Policies",
        access=READS,
        path_forms=_forms(suffix),
        parameters=PAGING.parameters if paged else (),
    )


NAME_FORM: Final = {"name": "[a-z][a-z0-9_]{0,47}"}


def _forms(path: str) -> dict[str, str]:
    known = NAME_FORM | {"revision": "[1-9][0-9]{0,8}"}
    return {name: form for name, form in known.items() if f"{{{name}}}" in path}
