"""The JSON schemas of models; in those of responses fields that are None are left out."""

from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any, Final

from pydantic import BaseModel
from pydantic.json_schema import JsonSchemaMode, models_json_schema

from app.http.endpoints import Endpoint
from app.http.problems import Problem

Json = dict[str, Any]

_NULLABLE: Final = frozenset({("Verification", "document")})
"""Always written, null when there is none (G13)."""

_WHOLE: Final = frozenset(
    {
        "Flow", "FlowConfiguration", "FlowDocument", "FlowRevision", "ReviewCase", "Conclusion",
        "VerificationSession", "SessionDetail", "WebhookEndpoint", "Delivery", "Attempt",
        "Preferences", "QueueSummary",
    }
)  # fmt: skip
"""Models given with every field, null where there is nothing (2.1-2.5, G35, G38, G89, P19, P21)."""

_TIMES: Final = frozenset({"created_at", "updated_at", "timestamp"})

_NULL: Final = {"type": "null"}

REFERENCE: Final = "#/components/schemas/{model}"


def as_answered(name: str, schema: Json) -> Json:
    """Return the schema of a model as an answer carries it.

    A field that may be None is not null but absent, every other one is always there, and further
    fields may come (G63).
    """
    if schema.get("type") != "object" or "properties" not in schema:
        return schema
    properties, required = {}, []
    for field, given in schema["properties"].items():
        shown = {key: value for key, value in given.items() if key not in {"default", "title"}}
        may_lack = "default" in given and given["default"] is None
        always = name in _WHOLE or (name, field) in _NULLABLE
        if may_lack and not always and shown != _NULL:
            shown = _without_null(shown)
        else:
            required.append(field)
        if field in _TIMES and shown.get("type") == "string":
            shown["format"] = "date-time"
        properties[field] = shown
    rest = {key: value for key, value in schema.items() if key not in {"additionalProperties", "title"}}
    return {**rest, "properties": properties, "required": required}


def _without_null(schema: Json) -> Json:
    choices = [one for one in schema.get("anyOf", []) if one != _NULL]
    if not choices:
        return schema
    rest = {key: value for key, value in schema.items() if key != "anyOf"}
    return {**choices[0], **rest} if len(choices) == 1 else {**rest, "anyOf": choices}


def schemas_of(endpoints: Sequence[Endpoint]) -> Json:
    """Return the schema of every model that travels; answers are described as they are written."""
    bodies = frozenset(e.body for e in endpoints if e.body is not None)
    answers: set[type[BaseModel]] = {Problem}
    for endpoint in endpoints:
        for answer in endpoint.answers.values():
            if isinstance(answer.schema, type):
                answers.add(answer.schema)
    return _written(frozenset(bodies), frozenset(answers))


@cache
def _written(bodies: frozenset[type[BaseModel]], answers: frozenset[type[BaseModel]]) -> Json:
    """Return the schemas, made once in a process: they take most of the time of a description."""
    written = {name: as_answered(name, schema) for name, schema in _of(answers, "serialization").items()}
    return dict(sorted({**_of(bodies, "validation"), **written}.items()))


def _of(models: Iterable[type[BaseModel]], mode: JsonSchemaMode) -> dict[str, Json]:
    ordered = sorted(models, key=lambda model: model.__name__)
    _, made = models_json_schema([(model, mode) for model in ordered], ref_template=REFERENCE)
    found: dict[str, Json] = made.get("$defs", {})
    return found
