"""The catalogue: the operator's routes (interface section 4.5, G44) and what tenants choose from."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated, Any, Final

from aiohttp import web
from pydantic import StringConstraints, field_validator
from pydantic_core import PydanticCustomError

from app.http.bodies import BodyReader
from app.http.endpoints import OPERATOR, Answer, Call, Endpoint, Handler, Parameter
from app.http.headers import changed_since, etag, idempotency_key, if_match, is_unchanged
from app.http.idempotent_create import LOCATION, REPLAYED, created_at, created_or_replayed, fingerprint_of
from app.http.ports import FrontPorts
from app.http.responses import json_answer
from app.http.routes.flows.bodies import Country
from app.http.routes.reference import KNOWN_CALLER
from schemas.audit import AuditAction
from schemas.base import Frozen
from schemas.catalog import Capability, CaptureRequirements, ExtractionSupport
from schemas.enums import DocumentType, ReaderClass
from schemas.ids import PLATFORM, derive_id
from schemas.problems import ProblemCode
from streams.catalog.handler import Catalogue
from streams.catalog.rules import CODE_FORM, MOST_CODE_CHARS
from streams.ports.errors import Conflict

PATH: Final = "/v1/platform/catalog"
TENANTS_PATH: Final = "/v1/catalog"

Name = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=120)]


class CreateCapability(Frozen):
    """A new entry."""

    code: Annotated[str, StringConstraints(min_length=4, max_length=MOST_CODE_CHARS)]
    country: Country
    country_name: Name
    document_type: DocumentType
    display_name: Name
    extraction_support: ExtractionSupport
    capture: CaptureRequirements
    reader: ReaderClass | None = None


class ChangeCapability(Frozen):
    """What of an entry can change; its code, country and document type cannot."""

    country_name: Name | None = None
    display_name: Name | None = None
    extraction_support: ExtractionSupport | None = None
    capture: CaptureRequirements | None = None
    reader: ReaderClass | None = None
    """Null takes the reader away."""

    @field_validator("country_name", "display_name", "extraction_support", "capture", mode="before")
    @classmethod
    def _not_null(cls, value: object) -> object:
        if value is None:
            raise PydanticCustomError(ProblemCode.VALIDATION_FAILED, "Input should not be null")
        return value

    def given(self) -> dict[str, Any]:
        """Return the fields the caller named."""
        return {name: getattr(self, name) for name in self.model_fields_set}


class CapabilityList(Frozen):
    """The whole catalogue."""

    capabilities: tuple[Capability, ...]
    next_cursor: None = None


@dataclass(frozen=True, slots=True)
class CatalogRoutes:
    """What the routes of the catalogue do."""

    ports: FrontPorts
    bodies: BodyReader
    catalogue: Catalogue

    async def read_all(self, call: Call) -> web.Response:
        """Answer every entry, enabled or not."""
        del call
        return json_answer(_listed(await self.catalogue.all()))

    async def read_enabled(self, call: Call) -> web.Response:
        """Answer what a flow may name; the same catalogue has the same entity tag."""
        body = _listed([entry for entry in await self.catalogue.all() if entry.enabled])
        tag = etag(hashlib.sha256(body).hexdigest()[:32])
        headers = {"ETag": tag, "Cache-Control": "private, max-age=60"}
        if is_unchanged(call.request, tag):
            return web.Response(status=HTTPStatus.NOT_MODIFIED, headers=headers)
        return json_answer(body, headers=headers)

    async def read(self, call: Call) -> web.Response:
        """Answer one entry."""
        return _answered(await self.catalogue.read(call.path_value("code")))

    async def create(self, call: Call) -> web.Response:
        """Add an entry."""
        given = idempotency_key(call.request)
        body = await self.bodies.read(call, CreateCapability)
        key = None if given is None else derive_id("key", PLATFORM, f"POST {PATH}", given)
        now = self.ports.clock()
        entry = Capability(**body.model_dump(), created_at=now, updated_at=now)
        made, replayed = await self.catalogue.create(
            entry, call.actor, key=key, fingerprint=fingerprint_of(body)
        )
        if replayed:
            return _answered(made, headers={REPLAYED: "true"})
        return _answered(made, HTTPStatus.CREATED, created_at(PATH, made.code))

    async def change(self, call: Call) -> web.Response:
        """Change an entry the caller has seen."""
        seen = if_match(call.request, required=True)
        body = await self.bodies.read(call, ChangeCapability)
        return await self._changed(call, body.given(), AuditAction.CATALOG_UPDATED, seen)

    async def enable(self, call: Call) -> web.Response:
        """Allow flows to use the entry."""
        seen = if_match(call.request, required=False)
        return await self._changed(call, {"enabled": True}, AuditAction.CATALOG_ENABLED, seen)

    async def disable(self, call: Call) -> web.Response:
        """Forbid new use of the entry; published revisions keep their copy."""
        seen = if_match(call.request, required=False)
        return await self._changed(call, {"enabled": False}, AuditAction.CATALOG_DISABLED, seen)

    async def _changed(
        self, call: Call, changes: dict[str, Any], action: AuditAction, seen: int | None
    ) -> web.Response:
        code = call.path_value("code")
        while True:
            try:
                return _answered(await self.catalogue.change(code, changes, action, call.actor, seen))
            except Conflict:
                if seen is not None:
                    raise changed_since() from None


def _listed(entries: Sequence[Capability]) -> bytes:
    rows = b",".join(entry.model_dump_json(exclude_none=True).encode() for entry in entries)
    return b'{"capabilities":[%b],"next_cursor":null}' % rows


def _answered(
    entry: Capability, status: HTTPStatus = HTTPStatus.OK, headers: dict[str, str] | None = None
) -> web.Response:
    return json_answer(entry.to_bytes(), status, {"ETag": etag(entry.revision), **(headers or {})})


_TAG: Final = {"ETag": "The entry's revision, quoted."}
_KEY: Final = Parameter(
    "Idempotency-Key", "The same key answers the same entry.",
    {"type": "string", "minLength": 1, "maxLength": 257},
)  # fmt: skip
_IF_MATCH: Final = Parameter("If-Match", "The revision the change was meant for.", {"type": "string"})


def catalog_endpoints(routes: CatalogRoutes) -> tuple[Endpoint, ...]:
    """Return the routes as data."""
    return (
        Endpoint(
            method="GET",
            path=PATH,
            handler=routes.read_all,
            summary="List the whole catalogue",
            answers={HTTPStatus.OK: Answer("Every entry, enabled or not.", CapabilityList)},
            family="Platform",
            access=OPERATOR,
        ),
        _create(routes),
        _entry("GET", "", routes.read, "Read an entry"),
        _entry("PATCH", "", routes.change, "Change an entry", AuditAction.CATALOG_UPDATED, ChangeCapability),
        _entry("POST", "/enable", routes.enable, "Enable an entry", AuditAction.CATALOG_ENABLED),
        _entry("POST", "/disable", routes.disable, "Disable an entry", AuditAction.CATALOG_DISABLED),
        Endpoint(
            method="GET",
            path=TENANTS_PATH,
            handler=routes.read_enabled,
            summary="List the documents a flow may name",
            answers={
                HTTPStatus.OK: Answer("Every enabled entry.", CapabilityList, headers={"ETag": "Strong."}),
                HTTPStatus.NOT_MODIFIED: Answer("The caller has it already.", media_type=""),
            },
            family="Catalogue",
            access=KNOWN_CALLER,
        ),
    )


def _create(routes: CatalogRoutes) -> Endpoint:
    return Endpoint(
        method="POST",
        path=PATH,
        handler=routes.create,
        summary="Add an entry",
        answers=created_or_replayed(
            Answer("The entry.", Capability, headers=_TAG | LOCATION), Capability, "The key had been used."
        ),
        family="Platform",
        access=OPERATOR,
        headers=(_KEY,),
        body=CreateCapability,
        problems=(
            ProblemCode.IDEMPOTENCY_KEY_INVALID,
            ProblemCode.IDEMPOTENCY_KEY_REUSED,
            ProblemCode.CAPABILITY_EXISTS,
        ),
        audits=(AuditAction.CATALOG_CREATED,),
    )


def _entry(
    method: str,
    suffix: str,
    handler: Handler,
    summary: str,
    action: AuditAction | None = None,
    body: type[Frozen] | None = None,
) -> Endpoint:
    required = (ProblemCode.PRECONDITION_REQUIRED,) if body is not None else ()
    return Endpoint(
        method=method,
        path=f"{PATH}/{{code}}{suffix}",
        handler=handler,
        summary=summary,
        answers={HTTPStatus.OK: Answer("The entry.", Capability, headers=_TAG)},
        family="Platform",
        access=OPERATOR,
        path_forms={"code": CODE_FORM},
        headers=(_IF_MATCH,) if action is not None else (),
        body=body,
        problems=(ProblemCode.PRECONDITION_FAILED, *required) if action is not None else (),
        audits=(action,) if action is not None else (),
    )
