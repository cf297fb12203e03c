"""Build the OpenAPI 3.1 description from the route table and the models."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from http import HTTPStatus
from types import MappingProxyType
from typing import Any, Final

from pydantic import BaseModel

from app.http.auth import SAFE_METHODS
from app.http.endpoints import ANYONE, Answer, Credential, Endpoint, Parameter
from app.http.examples import problem_example, read_examples
from app.http.problem_texts import TEXT_OF
from app.http.problems import MEDIA_TYPE, Problem
from app.http.responses import JSON, YAML
from app.http.schemas_out import REFERENCE, schemas_of
from schemas.audit import AuditAction
from schemas.events import API_VERSION
from schemas.problems import STATUS_OF, ProblemCode

Json = dict[str, Any]

_SECURITY: Final[Json] = {
    Credential.TENANT_KEY: {
        "type": "http",
        "scheme": "bearer",
        "description": "A tenant's API key (`idv_live_...`, `idv_test_...`); it acts for exactly one tenant.",
    },
    Credential.REVIEWER_SESSION: {
        "type": "apiKey",
        "in": "cookie",
        "name": "service_session",
        "description": "A signed-in reviewer whose second factor is met.",
    },
    Credential.OPERATOR_TOKEN: {
        "type": "http",
        "scheme": "bearer",
        "description": "The platform operator's token; it opens no tenant route.",
    },
    Credential.CAPTURE_TOKEN: {
        "type": "http",
        "scheme": "bearer",
        "description": "The `client_token` of one verification session; it opens that session only.",
    },
}

_REQUEST_ID: Final[Json] = {
    "description": "The request's id, the audit log's `correlation_id`.",
    "schema": {"type": "string"},
}

FAMILY: Final = "Audit"
"""The tag whose description holds the table."""

WITHOUT_AN_OPERATION: Final[Mapping[AuditAction, str]] = MappingProxyType(
    {
        AuditAction.ACCESS_DENIED: "any operation that refuses its caller; one row a minute",
        AuditAction.ROOT_KEY_ROTATED: "`veristream root-key rotate`",
        AuditAction.ROOT_KEY_REMOVED: "`veristream root-key remove`",
        AuditAction.SERVICE_STARTED: "the start of a process",
        AuditAction.SESSION_EXPIRED: "a session that reached its end",
        AuditAction.WEBHOOK_DISABLED: "an endpoint that answered 410, or failed every attempt for five days",
        AuditAction.EVIDENCE_DELETED: "evidence whose retention period is over",
        AuditAction.PRIVACY_EXECUTED: "an erasure that was carried out",
        AuditAction.VERIFICATION_REDACTED: "a verification of whose evidence nothing is stored any more",
    }
)
"""What the service writes by itself, and when."""

_HEAD: Final = """\
Which operation writes which action. A command of the command line writes what its operation would write.

| action | written by |
|---|---|
"""


def describe(endpoints: Sequence[Endpoint], base_url: str) -> Json:
    """Return the document for these routes."""
    paths: dict[str, Json] = {}
    for endpoint in endpoints:
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = _operation(endpoint)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Veristream",
            "version": API_VERSION,
            "summary": "Identity verification and risk.",
            "description": "Fields are only ever added; ignore those you do not know.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": base_url}],
        "tags": [_tag(family, endpoints) for family in dict.fromkeys(e.family for e in endpoints)],
        "paths": paths,
        "components": {
            "schemas": schemas_of(endpoints),
            "examples": _problem_examples(endpoints, base_url),
            "securitySchemes": _SECURITY,
        },
    }


def _tag(family: str, endpoints: Sequence[Endpoint]) -> Json:
    return {"name": family, **({"description": audit_table(endpoints)} if family == FAMILY else {})}


def problems_of(endpoint: Endpoint) -> tuple[ProblemCode, ...]:
    """Return every code the route may answer, in the order of the closed list."""
    codes = {*endpoint.problems, *_codes_of_access(endpoint)}
    if endpoint.interface:
        codes |= {ProblemCode.FILTER_INVALID}
    if any(parameter.name == "cursor" for parameter in endpoint.parameters):
        codes |= {ProblemCode.CURSOR_INVALID}
    if endpoint.path_forms:
        codes |= {ProblemCode.NOT_FOUND}
    if endpoint.body is not None or endpoint.text_body:
        codes |= {
            ProblemCode.MALFORMED_JSON,
            ProblemCode.PAYLOAD_TOO_LARGE,
            ProblemCode.UNSUPPORTED_MEDIA_TYPE,
        }
    if endpoint.body is not None:
        codes |= {ProblemCode.VALIDATION_FAILED}
    return tuple(code for code in ProblemCode if code in codes)


def _codes_of_access(endpoint: Endpoint) -> Iterable[ProblemCode]:
    access = endpoint.access
    if access == ANYONE:
        return
    yield from (ProblemCode.HEADER_DUPLICATED, ProblemCode.UNAUTHENTICATED, ProblemCode.RATE_LIMITED)
    yield endpoint.store_failure
    if access.scope or access.permission:
        yield ProblemCode.PERMISSION_DENIED
    if Credential.OPERATOR_TOKEN in access.accepts:
        yield ProblemCode.NOT_FOUND
    if Credential.REVIEWER_SESSION in access.accepts:
        yield ProblemCode.MFA_REQUIRED
        if endpoint.method not in SAFE_METHODS:
            yield ProblemCode.ORIGIN_REFUSED
        if Credential.TENANT_KEY not in access.accepts:
            yield ProblemCode.API_KEY_NOT_ALLOWED


def _operation(endpoint: Endpoint) -> Json:
    operation: Json = {
        "operationId": _operation_id(endpoint),
        "summary": endpoint.summary,
        "tags": [endpoint.family],
        "parameters": list(_parameters(endpoint)),
        "responses": _responses(endpoint),
        "security": [{credential: []} for credential in Credential if credential in endpoint.access.accepts],
    }
    access = endpoint.access
    said = [
        endpoint.description,
        f"Scope: `{access.scope}`." if access.scope else "",
        f"Permission: `{access.permission}`." if access.permission else "",
        f"Audit: {', '.join(f'`{action}`' for action in endpoint.audits)}." if endpoint.audits else "",
    ]
    if any(said):
        operation["description"] = " ".join(filter(None, said))
    if endpoint.audits:
        operation["x-audit-actions"] = [*endpoint.audits]
    if endpoint.body is not None:
        example = _example(read_examples().request(endpoint))
        content = {JSON: {"schema": _reference(endpoint.body), **example}}
        operation["requestBody"] = {"required": bool(endpoint.body.model_fields), "content": content}
    elif endpoint.text_body:
        operation["requestBody"] = {"required": True, "content": dict(_text_bodies(endpoint))}
    return operation


def _text_bodies(endpoint: Endpoint) -> Iterable[tuple[str, Json]]:
    """Return each media type of a body that is read as it arrives."""
    examples = read_examples()
    for media_type in endpoint.text_body:
        if media_type == JSON:
            schema, value = {"type": "object", "additionalProperties": True}, examples.request(endpoint)
        else:
            schema, value = _schema_of_text(media_type), examples.text(endpoint, media_type)
        yield media_type, {"schema": schema, **_example(value)}


_BYTES: Final = {"type": "string", "format": "binary"}


def _example(value: Any) -> Json:
    return {} if value is None else {"example": value}


def _operation_id(endpoint: Endpoint) -> str:
    words = endpoint.path.removeprefix("/v1").replace("{", "").replace("}", "").replace("-", "_")
    return endpoint.method.lower() + words.replace("/", "_").replace(".", "_")


def _parameters(endpoint: Endpoint) -> Iterable[Json]:
    for name, form in endpoint.path_forms.items():
        schema = {"type": "string", "pattern": f"^{form}$"}
        example = _example(read_examples().path_value(endpoint, name))
        yield {"name": name, "in": "path", "required": True, "schema": schema, **example}
    for place, parameters in (("query", endpoint.parameters), ("header", endpoint.headers)):
        yield from (_parameter(place, parameter) for parameter in parameters)


def _parameter(place: str, parameter: Parameter) -> Json:
    return {
        "name": parameter.name,
        "in": place,
        "required": False,
        "description": parameter.description,
        "schema": dict(parameter.schema),
    }


def _responses(endpoint: Endpoint) -> Json:
    responses = {str(int(status)): _answer(endpoint, status) for status in endpoint.answers}
    by_status: dict[HTTPStatus, list[ProblemCode]] = {}
    for code in problems_of(endpoint):
        by_status.setdefault(STATUS_OF[code], []).append(code)
    for status, codes in by_status.items():
        responses.setdefault(str(int(status)), _refusal(tuple(codes)))
    return dict(sorted(responses.items()))


def _answer(endpoint: Endpoint, status: HTTPStatus) -> Json:
    answer = endpoint.answers[status]
    content = {
        media_type: {"schema": schema, **_example(read_examples().answer(endpoint, status, media_type))}
        for media_type, schema in _media(answer)
    }
    return {"description": answer.description, "headers": _headers(answer.headers), "content": content}


def _media(answer: Answer) -> Iterable[tuple[str, Json]]:
    """Return each media type of an answer with its schema."""
    if isinstance(answer.schema, Mapping):
        yield answer.media_type, dict(answer.schema)
    elif answer.schema is not None:
        yield answer.media_type, _reference(answer.schema)
    elif answer.media_type:
        yield answer.media_type, _schema_of_text(answer.media_type)
    yield from ((media_type, _schema_of_text(media_type)) for media_type in answer.also)


def _schema_of_text(media_type: str) -> Json:
    return {"type": "string"} if media_type.startswith("text/") or media_type == YAML else _BYTES


def _headers(headers: Mapping[str, str]) -> Json:
    own = {name: {"description": said, "schema": {"type": "string"}} for name, said in headers.items()}
    return {"X-Request-Id": _REQUEST_ID, **own}


@cache
def _refusal(codes: tuple[ProblemCode, ...]) -> Json:
    waiting = STATUS_OF[codes[0]] in {HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE}
    return {
        "description": ", ".join(codes),
        "headers": _headers({"Retry-After": "Seconds to wait."} if waiting else {}),
        "content": {
            MEDIA_TYPE: {
                "schema": _reference(Problem),
                "examples": {code: {"$ref": f"#/components/examples/{code}"} for code in codes},
            }
        },
    }


def _problem_examples(endpoints: Sequence[Endpoint], base_url: str) -> Json:
    """Return an example of every code, as the first route that may answer it would."""
    found: Json = {}
    for endpoint in endpoints:
        for code in problems_of(endpoint):
            value = problem_example(code, base_url, read_examples().address(endpoint))
            found.setdefault(str(code), {"summary": TEXT_OF[code][0], "value": value})
    return dict(sorted(found.items()))


def _reference(model: type[BaseModel]) -> Json:
    return {"$ref": REFERENCE.format(model=model.__name__)}


def audit_table(endpoints: Iterable[Endpoint]) -> str:
    """Return the table as Markdown: every action, and every operation that may write it."""
    writers: dict[AuditAction, list[str]] = {}
    for endpoint in endpoints:
        for action in endpoint.audits:
            writers.setdefault(action, []).append(f"`{endpoint.method} {endpoint.path}`")
    for action, when in WITHOUT_AN_OPERATION.items():
        writers.setdefault(action, []).append(when)
    rows = (f"| `{action}` | {', '.join(writers[action])} |" for action in AuditAction if action in writers)
    return _HEAD + "\n".join(rows)
