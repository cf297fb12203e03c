"""Every request and every answer of the description has an example, and each example fits its schema."""

import json
import re
from collections.abc import AsyncIterator, Iterator
from typing import Any

import jsonschema_rs
import pytest
from pydantic import SecretStr

from app.http.bodies import BodyBudget
from app.http.endpoints import Endpoint
from app.http.examples import FILE, read_examples
from app.http.server import endpoints_of
from tests.http.json_schema import Schemas
from tests.http.support import Front, Json, open_front

WITHOUT = re.compile(r"image/\w+|application/(octet-stream|zip)")
"""Media types of bytes: JSON has no form for an example of them."""

WITHOUT_FOR = {("GET", "/v1/verifications/{verification_id}/evidence/{evidence_id}", "application/json")}
"""Answers of bytes that happen to be JSON."""

ADD = """\
{missing}

The description has no example for what is listed above. Add one to {file}: under "models", by the name of \
the model in components/schemas, for every request and answer of that model; or under "operations", by the \
line printed above, for that one alone. A path parameter stands under "paths", by its name."""


@pytest.fixture
async def front() -> AsyncIterator[Front]:
    """A front that serves every route it knows."""
    async with open_front(operator_token=SecretStr("o" * 32), metrics_by_token=True) as opened:
        yield opened


@pytest.fixture
async def document(front: Front) -> Json:
    """The description as served."""
    found: Json = (await front.ask("GET", "/v1/openapi.json", None)).json
    return found


def operations(document: Json) -> Iterator[tuple[str, str, Json]]:
    """Every operation with its method and path."""
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield method.upper(), path, operation


def contents(document: Json) -> Iterator[tuple[str, Json]]:
    """Every body of a request or an answer that can have an example, by the line that names it."""
    for method, path, operation in operations(document):
        for media_type, body in operation.get("requestBody", {}).get("content", {}).items():
            if not WITHOUT.fullmatch(media_type):
                yield f"{method} {path}", body
        for status, response in operation["responses"].items():
            for media_type, body in response.get("content", {}).items():
                if not WITHOUT.fullmatch(media_type) and (method, path, media_type) not in WITHOUT_FOR:
                    plain = media_type in {"application/json", "application/problem+json"}
                    yield f"{method} {path} {status}" + ("" if plain else f" {media_type}"), body


def examples_of(document: Json, body: Json) -> list[Any]:
    """The values of the examples of a body, references followed."""
    named = [
        document["components"]["examples"][ref["$ref"].rpartition("/")[2]]
        for ref in body.get("examples", {}).values()
    ]
    return [*([body["example"]] if "example" in body else []), *(one["value"] for one in named)]


async def test_every_request_and_every_answer_has_an_example(document: Json) -> None:
    missing = [line for line, body in contents(document) if not examples_of(document, body)]
    for method, path, operation in operations(document):
        missing += [
            f"{method} {path} {parameter['name']}"
            for parameter in operation["parameters"]
            if parameter["in"] == "path" and "example" not in parameter
        ]

    assert missing == [], ADD.format(missing="\n".join(missing), file=FILE)


async def test_every_example_fits_its_schema_and_has_no_undeclared_field(document: Json) -> None:
    schemas, broken, seen = Schemas(document), [], set[str]()
    validators: dict[str, jsonschema_rs.Draft202012Validator] = {}
    for line, body in contents(document):
        form = json.dumps(body["schema"])
        for value in examples_of(document, body):
            if (known := form + json.dumps(value)) in seen:
                continue
            seen.add(known)
            whole = {**body["schema"], "components": {"schemas": document["components"]["schemas"]}}
            if form not in validators:
                validators[form] = jsonschema_rs.Draft202012Validator(whole, validate_formats=True)
            broken += [f"{line}: {e.instance_path}: {e.message}" for e in validators[form].iter_errors(value)]
            broken += [f"{line}: {one}" for one in schemas.undeclared(value, body["schema"])]

    assert len(seen) > 100
    assert broken == []


async def test_a_broken_example_would_be_noticed(document: Json) -> None:
    schema = document["paths"]["/v1/verifications"]["post"]["requestBody"]["content"]["application/json"][
        "schema"
    ]
    validator = jsonschema_rs.Draft202012Validator({**schema, "components": document["components"]})

    assert not validator.is_valid({"subject_id": "customer-8841"})


async def test_examples_of_path_parameters_have_their_form(document: Json) -> None:
    broken = [
        f"{method} {path} {one['name']}"
        for method, path, operation in operations(document)
        for one in operation["parameters"]
        if one["in"] == "path" and not re.fullmatch(one["schema"]["pattern"], one["example"])
    ]

    assert broken == []


async def test_every_example_of_a_request_is_a_body_the_service_reads(front: Front) -> None:
    for endpoint in described(front):
        if endpoint.body is not None:
            endpoint.body.model_validate(read_examples().request(endpoint))


async def test_every_example_in_the_file_is_shown(front: Front) -> None:
    endpoints, known = described(front), read_examples()
    lines = {f"{one.method} {one.path}" for one in endpoints}
    models = {one.body.__name__ for one in endpoints if one.body is not None}
    models |= {
        a.schema.__name__ for one in endpoints for a in one.answers.values() if isinstance(a.schema, type)
    }
    names = {name for one in endpoints for name in one.path_forms}

    assert {name for name in known.models if name not in models} == set()
    assert {key for key in known.operations if " ".join(key.split()[:2]) not in lines} == set()
    assert {key for key in known.paths if key.split()[-1] not in names} == set()


def described(front: Front) -> tuple[Endpoint, ...]:
    """Every route of the front as data."""
    return endpoints_of(front.ports, front.settings, BodyBudget(1))
