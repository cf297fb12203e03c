"""The description says what the front does: every route, every answer, every problem."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from aiohttp.web_urldispatcher import DynamicResource, PlainResource

from app.http.bodies import BodyBudget
from app.http.openapi import problems_of
from app.http.server import endpoints_of
from app.intake.body import SubmitBody
from schemas.problems import STATUS_OF, ProblemCode
from tests.http.json_schema import Schemas
from tests.http.session_steps import Page, open_session, publish_flow
from tests.http.support import BARE, PATH, Front, Json, Response, build_body, open_front

INTERNAL = {
    "a number of a decision": r"\b[GSRPF]\d{1,3}\b",
    "a section of another text": r"\b(interface|decision|design) section\b|\binterface \d",
    "a module of the service": r"\b(app|schemas|streams|tests)(\.[a-z_]+)+\b|\.py\b",
    "the form of a Python object": r"<class |<function | object at 0x|<enum |\bPydantic\w*\b|typing\.",
    "a class of the service": r"\b(Frozen|BaseModel|StrEnum|Handler|Endpoint\()\b",
    "a reference of a docstring": r":(class|func|meth|mod|attr):`",
}
"""What no text of a description may hold."""


@pytest.fixture
async def document(front: Front) -> Json:
    """The description as served."""
    found: Json = (await front.ask("GET", "/v1/openapi.json", None)).json
    return found


def response_schema(document: Json, method: str, path: str, response: Response) -> Json:
    """The schema that describes an answer."""
    content = document["paths"][path][method.lower()]["responses"][str(response.status)]["content"]
    found: Json = content[response.headers["Content-Type"].partition(";")[0]]["schema"]
    return found


def assert_described(document: Json, method: str, path: str, response: Response) -> None:
    """Hold an answer against its schema, undeclared fields included."""
    schema, schemas = response_schema(document, method, path, response), Schemas(document)

    assert [*schemas.complaints(response.json, schema)] == []
    assert [*schemas.undeclared(response.json, schema)] == []


async def test_every_route_is_described_and_nothing_else(front: Front, document: Json) -> None:
    endpoints = endpoints_of(front.ports, front.settings, BodyBudget(1))
    pages = {(one.method, one.path) for one in endpoints if not one.described}
    routed = {
        (route.method, route.resource.canonical)
        for route in front.app.router.routes()
        if isinstance(route.resource, PlainResource | DynamicResource) and route.method != "HEAD"
    } - pages
    described = {(m.upper(), path) for path, methods in document["paths"].items() for m in methods}

    assert described == routed


async def test_a_route_that_is_not_served_is_not_described() -> None:
    async with open_front() as front:
        document = (await front.ask("GET", "/v1/openapi.json", None)).json
        response = await front.ask("GET", "/metrics", None)

    assert response.status == 404
    assert "/metrics" not in document["paths"]


async def test_every_reference_leads_somewhere(document: Json) -> None:
    schemas, found = document["components"]["schemas"], json.dumps(document)
    named = {part.partition('"')[0] for part in found.split("#/components/schemas/")[1:]}

    assert named <= set(schemas)


async def test_the_version_is_the_interfaces(document: Json) -> None:
    assert (document["openapi"], document["info"]["version"]) == ("3.1.0", "0.1.0")


async def test_operation_ids_are_unique(document: Json) -> None:
    ids = [o["operationId"] for methods in document["paths"].values() for o in methods.values()]

    assert len(set(ids)) == len(ids)


async def test_required_fields_of_a_verification_are_those_of_g13(document: Json) -> None:
    assert set(document["components"]["schemas"]["Verification"]["required"]) == {
        "verification_id", "subject_id", "created_at", "status", "decision", "decision_id",
        "review_status", "risk_level", "evidence", "reasons", "document", "livemode", "checks",
    }  # fmt: skip


async def test_the_request_schema_accepts_what_is_accepted(document: Json) -> None:
    schema = document["components"]["schemas"][SubmitBody.__name__]

    assert [*Schemas(document).complaints(build_body(), schema)] == []
    assert [*Schemas(document).complaints(build_body() | {"x": 1}, schema)] != []


ASKED: list[tuple[str, str, str, dict[str, Any]]] = [
    ("GET", PATH, PATH, {}),
    ("GET", "/v1/audit", "/v1/audit", {}),
    ("GET", "/v1/reason-codes", "/v1/reason-codes", {}),
    ("GET", "/v1/sandbox/scenarios", "/v1/sandbox/scenarios", {}),
    ("GET", "/v1/events", "/v1/events", {}),
    ("GET", "/v1/events", "/v1/events?types=ping", {}),
    ("GET", "/v1/events", "/v1/events?types=x", {}),
    ("GET", "/v1/events", "/v1/events?after=x", {}),
    ("GET", "/v1/events", "/v1/events", {"key": BARE}),
    ("GET", "/v1/asyncapi.json", "/v1/asyncapi.json", {"key": None}),
    ("GET", "/v1/openapi.json", "/v1/openapi.json", {"key": None}),
    ("GET", "/livez", "/livez", {"key": None}),
    ("GET", "/readyz", "/readyz", {"key": None}),
    ("GET", "/problems/{code}", "/problems/not-found", {"key": None}),
    ("GET", PATH, PATH, {"key": None}),
    ("GET", PATH, PATH, {"key": BARE}),
    ("GET", PATH, f"{PATH}?x=1", {}),
    ("GET", PATH, f"{PATH}?cursor=x", {}),
    ("GET", f"{PATH}/{{verification_id}}", f"{PATH}/ver_{'0' * 26}", {}),
    ("POST", PATH, PATH, {"json": build_body("")}),
    ("POST", PATH, PATH, {"json": build_body(selfie_image_base64="@")}),
    ("POST", PATH, PATH, {"data": b"{"}),
]


async def test_answers_about_sessions_are_as_described(front: Front, document: Json) -> None:
    sessions, capture = "/v1/verification-sessions", "/v1/capture"
    flow_id = await publish_flow(await front.sign_in())
    opened = await open_session(front, flow_id, "sim:review:IMAGE_CROPPED")
    again = await open_session(front, flow_id, "sim:review:IMAGE_CROPPED")
    page, one = Page(front, opened.json), f"{sessions}/{{session_id}}"
    consent = await page.consent()
    stored = await page.put("document")
    await page.put("selfie")
    submitted = await page.ask("POST", "/submit", json={})
    await page.view()

    for method, template, response in (
        ("POST", sessions, opened),
        ("POST", sessions, again),
        ("POST", f"{capture}/consent", consent),
        ("PUT", f"{capture}/document", stored),
        ("POST", f"{capture}/submit", submitted),
        ("GET", capture, await page.ask("GET")),
        ("GET", one, await front.ask("GET", f"{sessions}/{page.session_id}")),
        ("POST", f"{one}/cancel", await front.ask("POST", f"{sessions}/{page.session_id}/cancel")),
        ("PUT", f"{capture}/document", await page.put("document")),
    ):
        assert_described(document, method, template, response)


@pytest.mark.parametrize(("method", "template", "path", "more"), ASKED)
async def test_an_answer_is_as_described(
    front: Front, document: Json, method: str, template: str, path: str, more: dict[str, Any]
) -> None:
    await front.submit()
    response = await front.ask(method, path, **more)

    assert_described(document, method, template, response)


@pytest.mark.parametrize(
    "subject",
    [
        "sim:approved",
        "sim:warn",
        "sim:review",
        "sim:reject",
        "sim:fail",
        "sim:review:FACE_NOT_FOUND_DOCUMENT",
    ],
)
async def test_every_kind_of_verification_is_as_described(front: Front, document: Json, subject: str) -> None:
    response = await front.submit(build_body(subject))

    assert response.status == 201
    assert_described(document, "POST", PATH, response)


async def test_a_verification_without_a_document_is_as_described(document: Json) -> None:
    """A BIOMETRIC flow has none; `document` is null then (G13)."""
    schema = document["components"]["schemas"]["Verification"]["properties"]["document"]

    assert [*Schemas(document).complaints(None, schema)] == []


async def test_every_problem_of_the_published_table_is_described(document: Json) -> None:
    published = {(PATH, "post"): {401, 400, 422, 500}, ("/v1/audit", "get"): {401, 500}}
    described = {
        place: {int(status) for status in document["paths"][place[0]][place[1]]["responses"]}
        for place in published
    }

    assert all(published[place] <= described[place] for place in published)


async def test_a_read_route_never_promises_500(front: Front) -> None:
    endpoints = endpoints_of(front.ports, front.settings, BodyBudget(1))
    failing = {e.path for e in endpoints if ProblemCode.STORE_FAILED in problems_of(e)}

    assert {path for path in failing if not path.startswith("/v1/webhooks/")} == {PATH, "/v1/audit"}


async def test_the_codes_of_a_status_are_named_in_its_description(front: Front, document: Json) -> None:
    endpoints = endpoints_of(front.ports, front.settings, BodyBudget(1))
    for endpoint in (one for one in endpoints if one.described):
        responses = document["paths"][endpoint.path][endpoint.method.lower()]["responses"]
        for code in problems_of(endpoint):
            assert code in responses[str(int(STATUS_OF[code]))]["description"]


def texts(value: Any, place: str = "") -> Iterator[tuple[str, str]]:
    """Every text of a document, names of fields included, by its place."""
    if isinstance(value, dict):
        for name, one in value.items():
            yield f"{place}/{name}", name
            yield from texts(one, f"{place}/{name}")
    elif isinstance(value, list):
        for number, one in enumerate(value):
            yield from texts(one, f"{place}/{number}")
    elif isinstance(value, str):
        yield place, value


def internal(document: Any) -> list[str]:
    """Each place of a document that names something internal; images in base64 name nothing."""
    return [
        f"{place}: {what}: {text[:120]}"
        for place, text in texts(document)
        if not place.endswith("base64")
        for what, form in INTERNAL.items()
        if re.search(form, text)
    ]


async def test_no_description_names_anything_internal(front: Front) -> None:
    for path in ("/v1/openapi.json", "/v1/asyncapi.json"):
        assert internal((await front.ask("GET", path, None)).json) == []


def test_an_internal_reference_would_be_noticed() -> None:
    result = {
        "a": "The answer (G36).", "b": "`streams.verification.records` makes it.", "c": "<class 'str'>",
        "d": "interface section 2.8", "e": "See :class:`Flow`.", "f": "R7",
    }  # fmt: skip

    assert len(internal(result)) >= len(result)
