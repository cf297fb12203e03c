"""What is served breaks no client of the last release; the comparison notices every kind of break."""

import copy
from collections.abc import Callable
from typing import Any

import pytest

from tests.http.interface_diff import Json, breaks, contract_of, released_contract, served_contract

RENEW = "python -m tests.http.interface_diff --renew"


async def test_nothing_that_is_served_breaks_a_client_of_the_last_release() -> None:
    found = breaks(released_contract(), await served_contract())

    assert found == [], (
        f"{len(found)} changes break clients of the last release:\n" + "\n".join(found) + "\n"
        f"Keep what was there. Where clients were told of a change, write the description anew: {RENEW}"
    )


OLD: Json = {
    "paths": {
        "/v1/things": {
            "get": {
                "security": [{"tenantKey": []}, {"reviewerSession": []}],
                "parameters": [{"name": "limit", "in": "query", "schema": {"type": "integer", "maximum": 9}}],
                "responses": {
                    "200": {
                        "headers": {"ETag": {"schema": {"type": "string"}}},
                        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Thing"}},
                                    "text/csv": {"schema": {"type": "string"}}},
                    },
                    "404": {"content": {}},
                },
            },
            "post": {
                "requestBody": {
                    "required": False,
                    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Body"}}},
                },
                "responses": {"201": {"content": {}}},
            },
            "delete": {"responses": {"204": {"content": {}}}},
        },
    },
    "components": {
        "schemas": {
            "Thing": {
                "type": "object",
                "properties": {
                    "id": {"type": "string"},
                    "state": {"enum": ["OPEN", "CLOSED"], "type": "string"},
                    "note": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
                    "parts": {"type": "array", "items": {"$ref": "#/components/schemas/Thing"}},
                    "made_at": {"type": "string", "format": "date-time"},
                },
                "required": ["id", "state"],
            },
            "Body": {
                "type": "object",
                "properties": {
                    "name": {"type": "string", "maxLength": 80, "minLength": 1},
                    "kind": {"enum": ["A", "B"], "type": "string"},
                    "size": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
                    "free": {"type": "string"},
                },
                "required": ["name"],
            },
        }
    },
}  # fmt: skip

Change = Callable[[Json], Any]


def get(document: Json) -> Json:
    """The reading operation."""
    found: Json = document["paths"]["/v1/things"]["get"]
    return found


def post(document: Json) -> Json:
    """The writing operation."""
    found: Json = document["paths"]["/v1/things"]["post"]
    return found


def thing(document: Json) -> Json:
    """The schema of an answer."""
    found: Json = document["components"]["schemas"]["Thing"]
    return found


def body(document: Json) -> Json:
    """The schema of a request."""
    found: Json = document["components"]["schemas"]["Body"]
    return found


def in_answer(change: Change, said: str) -> tuple[Change, str]:
    """A change of the schema of an answer."""
    return lambda document: change(thing(document)), f"GET /v1/things 200{said}"


def in_request(change: Change, said: str) -> tuple[Change, str]:
    """A change of the schema of a request."""
    return lambda document: change(body(document)), f"POST /v1/things request{said}"


BREAKS: dict[str, tuple[Change, str]] = {
    "a path": (lambda d: d["paths"].pop("/v1/things"), "DELETE /v1/things: the operation was removed"),
    "an operation": (
        lambda d: d["paths"]["/v1/things"].pop("delete"),
        "DELETE /v1/things: the operation was removed",
    ),
    "a credential": (
        lambda d: get(d)["security"].pop(),
        "GET /v1/things: reviewerSession is no longer accepted",
    ),
    "a credential where none was": (
        lambda d: post(d).update(security=[{"tenantKey": []}]),
        "POST /v1/things: a credential is now required",
    ),
    "a parameter": (
        lambda d: get(d)["parameters"].pop(),
        "GET /v1/things: query parameter limit was removed",
    ),
    "a parameter required": (
        lambda d: get(d)["parameters"][0].update(required=True),
        "GET /v1/things: query parameter limit is now required",
    ),
    "a new required parameter": (
        lambda d: get(d)["parameters"].append({"name": "x", "in": "header", "required": True, "schema": {}}),
        "GET /v1/things: header parameter x is new and required",
    ),
    "a parameter's limit": (
        lambda d: get(d)["parameters"][0]["schema"].update(maximum=5),
        "GET /v1/things: query parameter limit: maximum went from 9 to 5",
    ),
    "a status": (lambda d: get(d)["responses"].pop("404"), "GET /v1/things: status 404 was removed"),
    "a media type": (
        lambda d: get(d)["responses"]["200"]["content"].pop("text/csv"),
        "GET /v1/things 200: the media type text/csv was removed",
    ),
    "a header": (
        lambda d: get(d)["responses"]["200"]["headers"].pop("ETag"),
        "GET /v1/things 200: the header ETag was removed",
    ),
    "a property of an answer": in_answer(
        lambda schema: schema["properties"].pop("id"),
        ": the property id was removed",
    ),
    "a property that may be absent": in_answer(
        lambda schema: schema["required"].remove("id"),
        ": the property id may now be absent",
    ),
    "a type of an answer": in_answer(
        lambda schema: schema["properties"]["id"].update(type="integer"),
        "/id: the type string became integer",
    ),
    "a format of an answer": in_answer(
        lambda schema: schema["properties"]["made_at"].update(format="date"),
        "/made_at: the format date-time became date",
    ),
    "a value of an answer": in_answer(
        lambda schema: schema["properties"]["state"]["enum"].remove("CLOSED"),
        "/state: the value CLOSED was removed",
    ),
    "an answer that may be more": in_answer(
        lambda schema: schema["properties"]["note"]["anyOf"].append({"type": "null"}),
        "/note: it may now be null",
    ),
    "a new required property of a request": in_request(
        lambda schema: (schema["properties"].update(new={}), schema["required"].append("new")),
        ": the property new is new and required",
    ),
    "a property of a request required": in_request(
        lambda schema: schema["required"].append("kind"),
        ": the property kind is now required",
    ),
    "a property of a request": in_request(
        lambda schema: schema["properties"].pop("kind"),
        ": the property kind was removed",
    ),
    "a value of a request": in_request(
        lambda schema: schema["properties"]["kind"]["enum"].remove("B"),
        "/kind: the value B was removed",
    ),
    "a list where any value was": in_request(
        lambda schema: schema["properties"]["free"].update(enum=["x"]),
        "/free: only listed values are possible now",
    ),
    "a choice of a request": in_request(
        lambda schema: schema["properties"]["size"]["anyOf"].pop(),
        "/size: null is no longer accepted",
    ),
    "a shorter text": in_request(
        lambda schema: schema["properties"]["name"].update(maxLength=40),
        "/name: maxLength went from 80 to 40",
    ),
    "a longer least text": in_request(
        lambda schema: schema["properties"]["name"].update(minLength=3),
        "/name: minLength went from 1 to 3",
    ),
    "a pattern": in_request(
        lambda schema: schema["properties"]["name"].update(pattern="^x$"),
        "/name: the pattern became ^x$",
    ),
    "a closed request": in_request(
        lambda schema: schema.update(additionalProperties=False),
        ": further properties are now refused",
    ),
    "a body required": (
        lambda d: post(d)["requestBody"].update(required=True),
        "POST /v1/things: the request body is now required",
    ),
    "no body": (lambda d: post(d).pop("requestBody"), "POST /v1/things: the request body was removed"),
}


@pytest.mark.parametrize("what", BREAKS)
def test_a_break_is_noticed_and_named(what: str) -> None:
    change, said = BREAKS[what]
    new = copy.deepcopy(OLD)
    change(new)

    assert said in breaks(OLD, new)


def test_what_is_only_added_or_said_otherwise_breaks_nothing() -> None:
    new = copy.deepcopy(OLD)
    new["paths"]["/v1/more"] = {"get": {"responses": {"200": {"content": {}}}}}
    get(new)["parameters"].append({"name": "x", "in": "query", "schema": {"type": "string"}})
    get(new)["responses"]["409"] = {"content": {}}
    get(new)["description"] = "Another text."
    thing(new)["properties"]["more"] = {"type": "string"}
    thing(new)["required"].append("more")
    thing(new)["properties"]["state"]["enum"].append("LOST")
    body(new)["properties"]["more"] = {"type": "string"}
    body(new)["properties"]["kind"]["enum"].append("C")
    body(new)["properties"]["name"]["maxLength"] = 100
    body(new)["required"].remove("name")

    assert breaks(OLD, contract_of(new)) == []
    assert breaks(OLD, OLD) == []


def test_texts_and_examples_are_no_part_of_the_contract_but_fields_of_those_names_are() -> None:
    said: Json = {"description": "x", "properties": {"description": {"type": "string", "title": "T"}}}

    assert contract_of(said) == {"properties": {"description": {"type": "string"}}}
