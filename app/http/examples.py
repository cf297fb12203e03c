"""Examples of the OpenAPI description: bodies from `examples.json`, problems from their codes."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from http import HTTPStatus
from importlib.resources import files
from typing import Any, Final

from app.http.endpoints import Endpoint
from app.http.problem_texts import TEXT_OF, problem_type
from app.http.responses import JSON, YAML
from schemas.problems import STATUS_OF, ProblemCode

Json = dict[str, Any]

FILE: Final = "app/http/examples.json"
"""Where a further example is added, from the root of the project."""

_REQUEST_ID: Final = "req_01jd3q8m5x0000000000000000"

_PLACES: Final[Mapping[ProblemCode, Json]] = {
    ProblemCode.FILTER_INVALID: {"parameter": "limit"},
    ProblemCode.IDEMPOTENCY_KEY_REUSED: {"header": "Idempotency-Key"},
    ProblemCode.IMAGE_NOT_EVALUABLE: {"pointer": "/selfie_image_base64"},
    ProblemCode.DOCUMENT_UNUSABLE: {"pointer": "/document/image_base64"},
    ProblemCode.RETURN_URL_INVALID: {"pointer": "/return_url"},
    ProblemCode.WEBHOOK_ENDPOINT_UNUSABLE: {"pointer": "/url"},
    ProblemCode.CAPABILITY_UNKNOWN: {"pointer": "/documents/0/capabilities/0"},
    ProblemCode.CAPABILITY_DISABLED: {"pointer": "/documents/0/capabilities/0"},
    ProblemCode.DOCUMENTS_NOT_ALLOWED: {"pointer": "/documents"},
    ProblemCode.DOCUMENTS_REQUIRED: {"pointer": "/documents"},
    ProblemCode.POLICY_INVALID: {
        "pointer": "/features/0/metric",
        "rule": "METRIC_UNKNOWN",
        "line": 3,
        "column": 24,
    },
    ProblemCode.LIST_INVALID: {"pointer": "/entries/3/names", "line": 4},
    ProblemCode.VALIDATION_FAILED: {"pointer": "/name"},
}
"""What the entry in `errors` names; the whole body where nothing stands here."""


@dataclass(frozen=True, slots=True)
class Examples:
    """The contents of `examples.json`."""

    models: Mapping[str, Any]
    """By the name of the model in `components/schemas`."""
    operations: Mapping[str, Any]
    """By `METHOD path[ media type]` (a request) or `METHOD path status[ media type]` (an answer).

    Read before `models`.
    """
    paths: Mapping[str, str]
    """By the name of a path parameter, or `METHOD path name`."""

    def request(self, endpoint: Endpoint) -> Any:
        """Return the example of the route's body, None when there is none."""
        own = self.operations.get(_operation(endpoint))
        named = endpoint.body.__name__ if endpoint.body is not None else ""
        return own if own is not None else self.models.get(named)

    def text(self, endpoint: Endpoint, media_type: str) -> str | None:
        """Return the example of a body that is read as it arrives; YAML is a form of JSON."""
        own: str | None = self.operations.get(f"{_operation(endpoint)} {media_type}")
        if own is None and media_type == YAML:
            return json.dumps(self.request(endpoint), indent=2)
        return own

    def answer(self, endpoint: Endpoint, status: HTTPStatus, media_type: str) -> Any:
        """Return the example of an answer in a media type, None when there is none."""
        answer, key = endpoint.answers[status], f"{_operation(endpoint)} {int(status)}"
        own = self.operations.get(f"{key} {media_type}")
        if own is not None or media_type != JSON:
            return own
        model = answer.schema.__name__ if isinstance(answer.schema, type) else ""
        return self.operations.get(key, self.models.get(model))

    def path_value(self, endpoint: Endpoint, name: str) -> str | None:
        """Return the example of a path parameter, None when there is none."""
        return self.paths.get(f"{_operation(endpoint)} {name}", self.paths.get(name))

    def address(self, endpoint: Endpoint) -> str:
        """Return the route's path with an example in place of each parameter."""
        path = endpoint.path
        for name in endpoint.path_forms:
            path = path.replace(f"{{{name}}}", self.path_value(endpoint, name) or name)
        return path


def _operation(endpoint: Endpoint) -> str:
    return f"{endpoint.method} {endpoint.path}"


@cache
def read_examples() -> Examples:
    """Read the file; once, for it is part of the program."""
    found: Json = json.loads(files("app.http").joinpath("examples.json").read_text(encoding="utf-8"))
    return Examples(found["models"], found["operations"], found["paths"])


def problem_example(code: ProblemCode, base_url: str, instance: str) -> Json:
    """Return a problem as a route at `instance` would answer it."""
    title, advice = TEXT_OF[code]
    status = STATUS_OF[code]
    problem: Json = {
        "type": problem_type(base_url, code),
        "title": title,
        "status": int(status),
        "detail": advice,
        "instance": instance,
        "code": code,
        "request_id": _REQUEST_ID,
    }
    if status == HTTPStatus.UNPROCESSABLE_ENTITY:
        problem["errors"] = [{"code": code, "message": advice, **_PLACES.get(code, {"pointer": ""})}]
    return problem
