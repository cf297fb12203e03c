"""A route as data: access, inputs and answers; and `Call`, the context of one request."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final

from aiohttp import web
from pydantic import BaseModel

from schemas.access import TenantCaller
from schemas.audit import OPERATOR_ID, Actor, AuditAction
from schemas.enums import ActorType, Scope, TextEnum
from schemas.ids import KeyId, TenantId
from schemas.people import CaptureCaller, Permission, ReviewerCaller
from schemas.problems import ProblemCode

MEBIBYTE: Final = 1024 * 1024

IDEMPOTENCY: Final = "Idempotency-Key"
"""Request header under which a create can be sent again (G2)."""

BODY_LIMIT: Final = MEBIBYTE
"""Bytes of a body, inflated, on routes that say nothing else (G61)."""


class Credential(TextEnum):
    """The credentials of interface section 5."""

    TENANT_KEY = "tenantKey"
    REVIEWER_SESSION = "reviewerSession"
    OPERATOR_TOKEN = "operatorToken"  # noqa: S105 - the name of a scheme
    CAPTURE_TOKEN = "captureToken"  # noqa: S105 - the name of a scheme


@dataclass(frozen=True, slots=True)
class Access:
    """Credentials that are accepted; none means that the route is public."""

    accepts: frozenset[Credential] = frozenset()
    scope: Scope | None = None
    """What a tenant key needs (G91)."""
    permission: Permission | None = None
    """What a reviewer's role needs (G47)."""
    before_factor: bool = False
    """Whether a reviewer may call it before the second factor is met (G29, G51)."""


ANYONE: Final = Access()

OPERATOR: Final = Access(frozenset({Credential.OPERATOR_TOKEN}))
"""Routes of the platform; without the deployment's token they do not exist (interface section 5)."""

CAPTURE: Final = Access(frozenset({Credential.CAPTURE_TOKEN}))


def reviewer(permission: Permission | None = None, *, before_factor: bool = False) -> Access:
    """Return the access of a route that records a person."""
    return Access(
        frozenset({Credential.REVIEWER_SESSION}), permission=permission, before_factor=before_factor
    )


@dataclass(frozen=True, slots=True)
class Parameter:
    """A query parameter; a name that no parameter of the route bears is refused (FILTER_INVALID)."""

    name: str
    description: str
    schema: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer other than a problem."""

    description: str
    schema: Mapping[str, Any] | type[BaseModel] | None = None
    """None: no body is described."""
    media_type: str = "application/json"
    also: tuple[str, ...] = ()
    """Media types beside it that `Accept` may ask for."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Name and meaning of headers beyond those every answer has."""


@dataclass(slots=True)
class Call:
    """One request on its way through the front."""

    request: web.Request
    request_id: str
    started: float
    """Monotonic, seconds."""
    address: str | None
    """Where the caller is, a trusted proxy looked through."""
    endpoint: "Endpoint | None" = None
    tenant: TenantCaller | None = None
    reviewer: ReviewerCaller | None = None
    capture: CaptureCaller | None = None
    headers: dict[str, str] = field(default_factory=dict)
    """What the answer carries beyond its own headers, whatever it will be."""
    begun: bool = False
    """Part of the answer has left; whatever goes wrong now can only cut it short."""
    body_bytes: int = 0
    """How much of the body budget it has taken."""
    path_values: Mapping[str, str] | None = None
    """Path parameters of a route that a page asks within the process; None: the request's own."""

    @property
    def key_id(self) -> KeyId | None:
        """The authenticated tenant key."""
        return self.tenant.key_id if self.tenant is not None else None

    @property
    def caller(self) -> TenantCaller:
        """The authenticated tenant key; only for routes that admit no other credential."""
        if self.tenant is None:
            raise web.HTTPUnauthorized
        return self.tenant

    @property
    def person(self) -> ReviewerCaller:
        """The signed-in reviewer; only for routes that admit no other credential."""
        if self.reviewer is None:
            raise web.HTTPUnauthorized
        return self.reviewer

    @property
    def subject_page(self) -> CaptureCaller:
        """The subject's page; only for routes that admit no other credential."""
        if self.capture is None:
            raise web.HTTPUnauthorized
        return self.capture

    @property
    def tenant_id(self) -> TenantId:
        """The tenant of the request; the credential alone decides."""
        holder = self.holder
        if holder is None:
            raise web.HTTPUnauthorized
        return holder

    @property
    def holder(self) -> TenantId | None:
        """The tenant whose share of the body memory is used; None before authentication."""
        asking = self.tenant or self.reviewer or self.capture
        return None if asking is None else asking.tenant_id

    @property
    def actor(self) -> Actor:
        """The actor, for the audit row."""
        kind, actor_id = ActorType.OPERATOR, None
        if self.tenant is not None:
            kind, actor_id = ActorType.API_KEY, str(self.tenant.key_id)
        elif self.reviewer is not None:
            kind, actor_id = ActorType.REVIEWER, str(self.reviewer.reviewer_id)
        elif self.capture is not None:
            kind, actor_id = ActorType.SUBJECT, str(self.capture.session_id)
        elif self.endpoint is not None and Credential.OPERATOR_TOKEN in self.endpoint.access.accepts:
            actor_id = OPERATOR_ID
        return Actor(actor_type=kind, actor_id=actor_id, request_id=self.request_id, ip=self.address)

    @property
    def store_failure(self) -> ProblemCode:
        """The problem code of an unreachable store on this route (interface section 7)."""
        return self.endpoint.store_failure if self.endpoint else ProblemCode.STORE_UNAVAILABLE

    @property
    def replayable(self) -> bool:
        """Whether the request has an Idempotency-Key and its route heeds it."""
        heeded = self.endpoint is not None and any(one.name == IDEMPOTENCY for one in self.endpoint.headers)
        return heeded and IDEMPOTENCY in self.request.headers

    def path_value(self, name: str) -> str:
        """Return a path parameter, which has the form its route demands."""
        return (self.request.match_info if self.path_values is None else self.path_values)[name]


CALL: Final = web.RequestKey("call", Call)

Handler = Callable[[Call], Awaitable[web.StreamResponse]]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A route of the front; the router, the gate and the description are made from it."""

    method: str
    path: str
    """With `{name}` for each path parameter."""
    handler: Handler
    summary: str
    answers: Mapping[HTTPStatus, Answer]
    family: str
    access: Access = ANYONE
    path_forms: Mapping[str, str] = field(default_factory=dict)
    """The regular expression of each path parameter; anything else is an unknown route (S50)."""
    parameters: tuple[Parameter, ...] = ()
    headers: tuple[Parameter, ...] = ()
    """Request headers that mean something here."""
    body: type[BaseModel] | None = None
    """The one form of the body that is described; generators make no working client of several."""
    text_body: tuple[str, ...] = ()
    """Media types of a body that is read as it arrives, where no model is its form."""
    body_limit: int = BODY_LIMIT
    body_scale: int = 1
    """How many times as many keys and strings as usual a body may have (`app.http.strict_json`)."""
    problems: tuple[ProblemCode, ...] = ()
    """Beyond those that follow from access, parameters and body."""
    store_failure: ProblemCode = ProblemCode.STORE_UNAVAILABLE
    audits: tuple[AuditAction, ...] = ()
    """What it may write to the audit log; every route that writes names at least one (G57)."""
    limited_as: str | None = None
    """The limit of its own it counts against, beside the key's."""
    description: str = ""
    described: bool = True
    """Whether it is in the description; pages for people are not."""

    @property
    def pattern(self) -> str:
        """The path as the router wants it."""
        path = self.path
        for name, form in self.path_forms.items():
            path = path.replace(f"{{{name}}}", f"{{{name}:{form}}}")
        return path

    @property
    def interface(self) -> bool:
        """Whether it is part of the versioned interface (G81)."""
        return self.path.startswith("/v1/")
