"""Every problem is RFC 9457 with a code of the closed list, and says nothing that it should not."""

import json
import re
from collections.abc import Awaitable, Callable

import pytest

from app.http.pages import PAGE_HEADERS
from app.http.problem_texts import TEXT_OF, kebab
from app.http.problems import refusal_of, refused_fields, render
from schemas.ids import ID_PATTERN, KeyId
from schemas.problems import (
    STATUS_OF,
    DecisionPending,
    FieldProblem,
    KeyRefused,
    ProblemCode,
    Refusal,
    StoreUnavailable,
    Unauthenticated,
    VeristreamError,
)
from tests.builders import ACME
from tests.http.support import BARE, BASE_URL, PATH, Front, Response, build_body

ALWAYS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "Server": "veristream",
    "Strict-Transport-Security": "max-age=31536000; includeSubDomains",
}


async def failing(front: Front, error: Exception) -> Response:
    """The answer when the log fails."""
    front.gateway.failing = error
    return await front.submit()


WAYS: dict[str, tuple[Callable[[Front], Awaitable[Response]], ProblemCode]] = {
    "no key": (lambda f: f.ask("GET", PATH, None), ProblemCode.UNAUTHENTICATED),
    "no scope": (lambda f: f.ask("GET", PATH, BARE), ProblemCode.PERMISSION_DENIED),
    "no route": (lambda f: f.ask("GET", "/v2/nothing"), ProblemCode.NOT_FOUND),
    "no record": (lambda f: f.ask("GET", f"{PATH}/ver_{'0' * 26}"), ProblemCode.NOT_FOUND),
    "no code": (lambda f: f.ask("GET", "/problems/nothing"), ProblemCode.NOT_FOUND),
    "no method": (lambda f: f.ask("DELETE", PATH), ProblemCode.METHOD_NOT_ALLOWED),
    "no type": (lambda f: f.ask("POST", PATH, data=b"{}"), ProblemCode.UNSUPPORTED_MEDIA_TYPE),
    "no field": (lambda f: f.submit({"subject_id": "a"}), ProblemCode.VALIDATION_FAILED),
    "no image": (lambda f: f.submit(build_body(selfie_image_base64="@")), ProblemCode.IMAGE_UNDECODABLE),
    "no filter": (lambda f: f.ask("GET", f"{PATH}?x=1"), ProblemCode.FILTER_INVALID),
    "no cursor": (lambda f: f.ask("GET", f"{PATH}?cursor=1"), ProblemCode.CURSOR_INVALID),
    "no good key": (lambda f: f.submit(idempotency_key=""), ProblemCode.IDEMPOTENCY_KEY_INVALID),
    "no log": (lambda f: failing(f, StoreUnavailable()), ProblemCode.STORE_FAILED),
    "no answer": (lambda f: failing(f, DecisionPending()), ProblemCode.DECISION_PENDING),
    "no idea": (lambda f: failing(f, RuntimeError()), ProblemCode.STORE_FAILED),
}


@pytest.mark.parametrize(("way", "code"), WAYS.values(), ids=WAYS.keys())
async def test_a_problem_has_its_form(
    front: Front, way: Callable[[Front], Awaitable[Response]], code: ProblemCode
) -> None:
    result = await way(front)
    body = result.json

    assert result.headers["Content-Type"] == "application/problem+json"
    assert (body["code"], result.status, body["status"]) == (code, STATUS_OF[code], STATUS_OF[code])
    assert body["type"] == f"{BASE_URL}/problems/{kebab(code)}"
    assert body["title"] == TEXT_OF[code][0]
    assert {"detail", "instance", "request_id"} <= set(body)
    assert None not in body.values()


@pytest.mark.parametrize("way", [way for way, _ in WAYS.values()], ids=WAYS.keys())
async def test_every_answer_has_its_id_and_the_standing_headers(
    front: Front, way: Callable[[Front], Awaitable[Response]]
) -> None:
    result = await way(front)

    assert result.headers["X-Request-Id"] == result.json["request_id"]
    assert re.fullmatch(ID_PATTERN, result.json["request_id"])
    assert {name: result.headers[name] for name in ALWAYS} == ALWAYS
    assert "frame-ancestors 'none'" in result.headers["Content-Security-Policy"]


@pytest.mark.parametrize("path", [PATH, "/v1/reason-codes", "/livez", "/readyz", "/problems/not-found"])
async def test_good_answers_have_the_standing_headers_too(front: Front, path: str) -> None:
    response = await front.ask("GET", path)

    assert response.status == 200
    assert {name: response.headers[name] for name in ALWAYS} == ALWAYS


async def test_the_request_id_is_the_audit_logs_correlation_id(front: Front) -> None:
    submitted = await front.submit()
    response = await front.ask("GET", f"/v1/audit?correlation_id={submitted.headers['X-Request-Id']}")

    assert [row["action"] for row in response.json["events"]] == ["verification.evaluated"]


async def test_a_request_id_is_never_taken_from_the_caller(front: Front) -> None:
    response = await front.ask("GET", PATH, headers={"X-Request-Id": "mine"})

    assert response.headers["X-Request-Id"] != "mine"


def test_every_code_has_its_text() -> None:
    assert set(TEXT_OF) == set(ProblemCode)


@pytest.mark.parametrize("code", ProblemCode)
async def test_every_problems_address_leads_to_its_explanation(front: Front, code: ProblemCode) -> None:
    response = await front.ask("GET", f"/problems/{kebab(code)}", None)

    assert (response.status, response.json["code"], response.json["status"]) == (200, code, STATUS_OF[code])


async def test_a_browser_gets_a_page_that_leads_to_the_documentation(front: Front) -> None:
    response = await front.ask(
        "GET", "/problems/rate-limited", None, headers={"Accept": "text/html,*/*;q=0.8"}
    )

    assert response.headers["Content-Type"].startswith("text/html")
    assert PAGE_HEADERS.items() <= response.headers.items()
    assert all(
        one in response.body for one in (b"RATE_LIMITED", b"429", b'href="/docs/problems#RATE_LIMITED"')
    )
    assert b'rel="stylesheet"' in response.body
    assert b"<script" not in response.body


def problem(code: ProblemCode, pointer: str) -> FieldProblem:
    """A complaint."""
    return FieldProblem(code=code, message="No.", pointer=pointer)


def test_a_code_shared_by_all_errors_stands_at_the_top() -> None:
    refused = refused_fields(
        [problem(ProblemCode.FILTER_INVALID, "/a"), problem(ProblemCode.FILTER_INVALID, "/b")]
    )

    assert refused.refusal.code is ProblemCode.FILTER_INVALID


def test_of_several_codes_none_stands_at_the_top() -> None:
    refused = refused_fields(
        [problem(ProblemCode.FILTER_INVALID, "/a"), problem(ProblemCode.RETURN_URL_INVALID, "/b")]
    )

    assert refused.refusal.code is ProblemCode.VALIDATION_FAILED
    assert {error.code for error in refused.refusal.errors} == {
        ProblemCode.FILTER_INVALID, ProblemCode.RETURN_URL_INVALID,
    }  # fmt: skip


def conditions(kind: type[VeristreamError] = VeristreamError) -> list[type[VeristreamError]]:
    """Every condition the deployment knows by name that reaches a caller."""
    found = [kind, *(one for below in kind.__subclasses__() for one in conditions(below))]
    return [one for one in found if one.__module__ in {"schemas.problems", "streams.ports.errors"}]


SPOKEN_FOR = {"VeristreamError", "Refused", "EngineFailed", "KeyRefused", "KeyUnavailable"}
"""The root, what carries its own code, what no engine lets out, a kind of `Unauthenticated` that names whose
key it is, and what a front cannot meet because it holds every key."""


@pytest.mark.parametrize("kind", [one for one in conditions() if one.__name__ not in SPOKEN_FOR])
def test_every_condition_has_an_answer(kind: type[VeristreamError]) -> None:
    assert refusal_of(kind(), ProblemCode.STORE_UNAVAILABLE) is not None


def test_a_key_that_may_not_be_used_is_answered_like_an_unknown_one() -> None:
    refused = KeyRefused(ACME, KeyId("key_1"), livemode=False)

    assert refusal_of(refused, ProblemCode.STORE_UNAVAILABLE) == refusal_of(
        Unauthenticated(), ProblemCode.STORE_UNAVAILABLE
    )


def test_what_nobody_foresaw_has_none() -> None:
    assert refusal_of(RuntimeError(), ProblemCode.STORE_UNAVAILABLE) is None


@pytest.mark.parametrize("code", [code for code, status in STATUS_OF.items() if status == 422])
def test_r11_a_422_that_names_no_place_points_at_the_state_as_a_whole(code: ProblemCode) -> None:
    response = render(Refusal(code=code, detail="No."), BASE_URL, PATH, "req")

    body = json.loads(response.body)  # type: ignore[arg-type]  # bytes, as built
    assert body["errors"] == [{"code": code, "message": "No.", "pointer": ""}]
