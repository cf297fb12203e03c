"""The interface's description (OpenAPI 3.1) as rows that the pages of the reference show."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from markupsafe import Markup, escape

from app.web.documentation.markdown import block, inline

Json = Mapping[str, Any]

CREDENTIALS: Final = {
    "tenantKey": "API key",
    "reviewerSession": "reviewer's session",
    "operatorToken": "operator's token",
    "captureToken": "token of a session",
}
"""Names of the security schemes."""

MAX_WORDS: Final = 12
"""Values of an enumeration that are listed in the row of a field; longer ones are listed once, below."""

_NOTHING: Final[Json] = {}
_MODEL: Final = "#/components/schemas/"
PROBLEM: Final = "application/problem+json"


@dataclass(frozen=True, slots=True)
class Field:
    """A parameter, or a field of an object."""

    name: str
    kind: Markup
    """What it holds; other objects are links."""
    required: bool
    meaning: Markup
    place: str = ""
    """Of a parameter: path, query or header."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """An answer, by its status."""

    status: str
    meaning: Markup
    codes: tuple[str, ...] = ()
    """Problem codes it may carry."""
    kind: Markup | None = None
    example: str = ""


@dataclass(frozen=True, slots=True)
class Operation:
    """A route and method."""

    method: str
    path: str
    anchor: str
    summary: str
    description: Markup
    credentials: tuple[str, ...]
    tried: bool
    """Whether a test key may call it."""
    parameters: tuple[Field, ...]
    body: Markup | None
    media_type: str
    example: str
    outcomes: tuple[Outcome, ...]


@dataclass(frozen=True, slots=True)
class Shape:
    """An object or a list of words that operations name."""

    name: str
    description: Markup
    fields: tuple[Field, ...]
    words: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Family:
    """Operations of one kind, with the objects they take and answer."""

    name: str
    slug: str
    description: Markup
    operations: tuple[Operation, ...]
    shapes: tuple[Shape, ...]


def slug_of(name: str) -> str:
    """Return the part of an address that stands for a name."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def families(document: Json) -> tuple[Family, ...]:
    """Return the families in the order of the description's tags."""
    return tuple(_family(document, tag) for tag in document["tags"])


def shapes(names: Sequence[str], models: Json) -> tuple[Shape, ...]:
    """Return the objects of these names."""
    return tuple(_shape(name, models[name], models) for name in names)


def _family(document: Json, tag: Json) -> Family:
    operations = [
        (path, method, one)
        for path, methods in document["paths"].items()
        for method, one in methods.items()
        if tag["name"] in one["tags"]
    ]
    models = document["components"]["schemas"]
    named = _closure([part for _, _, one in operations for part in _said(one)], models)
    return Family(
        name=tag["name"],
        slug=slug_of(tag["name"]),
        description=block(tag.get("description", "")),
        operations=tuple(_operation(document, *one) for one in operations),
        shapes=shapes(named, models),
    )


def _operation(document: Json, path: str, method: str, one: Json) -> Operation:
    models = document["components"]["schemas"]
    schemes = [name for choice in one.get("security", ()) for name in choice]
    media_type, content = next(iter(one.get("requestBody", {}).get("content", {}).items()), ("", _NOTHING))
    return Operation(
        method=method.upper(),
        path=path,
        anchor=one["operationId"],
        summary=one["summary"],
        description=block(one.get("description", "")),
        credentials=tuple(CREDENTIALS[name] for name in schemes),
        tried="tenantKey" in schemes or not schemes,
        parameters=tuple(
            Field(
                given["name"],
                _kind(given["schema"], models),
                given.get("required", False),
                inline(given.get("description", "")),
                given["in"],
            )
            for given in one.get("parameters", ())
        ),
        body=_kind(content["schema"], models) if content else None,
        media_type=media_type,
        example=_example(content),
        outcomes=tuple(_outcome(status, answer, models) for status, answer in one["responses"].items()),
    )


def _outcome(status: str, answer: Json, models: Json) -> Outcome:
    content = answer.get("content", {})
    if PROBLEM in content:
        codes = re.findall(r"[A-Z][A-Z_]+", answer["description"])
        return Outcome(status, Markup(), tuple(codes))
    media_type, form = next(iter(content.items()), ("", _NOTHING))
    kind = None
    if form:
        kind = (
            _kind(form["schema"], models) if "schema" in form and "json" in media_type else escape(media_type)
        )
    return Outcome(status, inline(answer["description"]), (), kind, _example(form))


def _example(content: Json) -> str:
    if "example" not in content:
        return ""
    value = content["example"]
    return value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False)


def _said(operation: Json) -> Iterator[Json]:
    """Return the parts of an operation that a page shows with their form; every problem has the same."""
    yield operation.get("requestBody", {})
    yield {"parameters": operation.get("parameters", ())}
    for answer in operation["responses"].values():
        if PROBLEM not in answer.get("content", {}):
            yield answer


def _closure(parts: Sequence[Json], models: Json) -> list[str]:
    """Return the models that parts name, and those that these name, in the order they come up."""
    found: dict[str, None] = {}
    waiting = [name for one in parts for name in _named(one)]
    while waiting:
        name = waiting.pop(0)
        if name not in found and (_is_object(models[name]) or _is_long(models[name])):
            found[name] = None
            waiting += _named(models[name])
    return list(found)


def _named(value: Any) -> Iterator[str]:
    """Return every model that a part of the description refers to."""
    if isinstance(value, Mapping):
        reference = value.get("$ref", "")
        if isinstance(reference, str) and reference.startswith(_MODEL):
            yield reference.removeprefix(_MODEL)
        for one in value.values():
            yield from _named(one)
    elif isinstance(value, list):
        for one in value:
            yield from _named(one)


def _shape(name: str, model: Json, models: Json) -> Shape:
    required = model.get("required", ())
    fields = tuple(
        Field(key, _kind(one, models), key in required, inline(one.get("description", "")))
        for key, one in model.get("properties", {}).items()
    )
    return Shape(name, block(model.get("description", "")), fields, tuple(map(str, model.get("enum", ()))))


def _is_object(model: Json) -> bool:
    return "properties" in model


def _is_long(model: Json) -> bool:
    return len(model.get("enum", ())) > MAX_WORDS


def _kind(schema: Json, models: Json) -> Markup:
    """Say in words what a schema allows."""
    if "$ref" in schema:
        name = schema["$ref"].removeprefix(_MODEL)
        model = models[name]
        linked = _is_object(model) or _is_long(model)
        return Markup('<a href="#{0}">{0}</a>').format(name) if linked else _kind(model, models)
    for choice in ("anyOf", "oneOf"):
        if choice in schema:
            return Markup(" or ").join(dict.fromkeys(_kind(one, models) for one in schema[choice]))
    if "const" in schema:
        return Markup("<code>{}</code>").format(schema["const"])
    if "enum" in schema:
        return Markup(", ").join(Markup("<code>{}</code>").format(one) for one in schema["enum"])
    return _plain_kind(schema, models)


def _plain_kind(schema: Json, models: Json) -> Markup:
    kind = schema.get("type", "any JSON")
    if kind == "array":
        return Markup("list of ") + _kind(schema.get("items", {}), models)
    if kind == "object" and isinstance(schema.get("additionalProperties"), Mapping):
        return Markup("object of ") + _kind(schema["additionalProperties"], models)
    bounds = _bounds(schema)
    return escape(schema.get("format", kind)) + (Markup(" ({})").format(bounds) if bounds else Markup())


def _bounds(schema: Json) -> str:
    """Return the bounds of a text or a number in words."""
    least = schema.get("minLength", schema.get("minimum", schema.get("exclusiveMinimum")))
    most = schema.get("maxLength", schema.get("maximum", schema.get("exclusiveMaximum")))
    unit = " characters" if "minLength" in schema or "maxLength" in schema else ""
    if most is not None:
        return f"{least} to {most}{unit}" if least is not None and least != most else f"up to {most}{unit}"
    return "" if least is None else f"at least {least}{unit}"
