"""A body that is not what the route wants is refused at its place, with its code, and read no further."""

import asyncio
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.http.bodies import field_problem, pointer_to
from app.intake.body import SubmitBody, SubmittedDocument
from app.intake.images import MAX_IMAGE_BYTES
from schemas.problems import FieldProblem, ProblemCode
from tests.http.support import PATH, Front, Json, build_body, draw_image, encoded, open_front

V = "VALIDATION_FAILED"
UNDECODABLE = "IMAGE_UNDECODABLE"
DOCUMENT = "/document/image_base64"
SELFIE = "/selfie_image_base64"
IMAGE = encoded(draw_image())


def document(**changes: Any) -> Json:
    """A body whose document differs."""
    return build_body(document=changes)


def declared(**fields: Any) -> Json:
    """A body with declared fields."""
    return document(extracted_fields=fields)


def without(*path: str) -> Json:
    """A body that lacks a field."""
    body = build_body()
    inner = body
    for step in path[:-1]:
        inner = inner[step]
    del inner[path[-1]]
    return body


WRONG: dict[str, tuple[Json, int, str, str]] = {
    "no subject": (without("subject_id"), 422, V, "/subject_id"),
    "no document": (without("document"), 422, V, "/document"),
    "no document image": (without("document", "image_base64"), 422, V, DOCUMENT),
    "no selfie": (without("selfie_image_base64"), 422, V, SELFIE),
    "subject empty": (build_body(""), 422, V, "/subject_id"),
    "subject too long": (build_body("s" * 129), 422, V, "/subject_id"),
    "subject with a space": (build_body("a b"), 422, V, "/subject_id"),
    "subject with a newline": (build_body("ab\n"), 422, V, "/subject_id"),
    "subject in other letters": (build_body("çay"), 422, V, "/subject_id"),
    "subject a number": (build_body(subject_id=7), 422, V, "/subject_id"),  # type: ignore[arg-type]  # the point
    "document a text": (build_body() | {"document": "x"}, 422, V, "/document"),
    "document null": (build_body() | {"document": None}, 422, V, "/document"),
    "document image a number": (document(image_base64=1), 422, V, DOCUMENT),
    "document image null": (document(image_base64=None), 422, V, DOCUMENT),
    "selfie a list": (build_body(selfie_image_base64=[IMAGE]), 422, V, SELFIE),
    "country in lower case": (document(issuing_country="ng"), 422, V, "/document/issuing_country"),
    "country too long": (document(issuing_country="NGAA"), 422, V, "/document/issuing_country"),
    "last four too short": (document(number_last4="123"), 422, V, "/document/number_last4"),
    "last four with a space": (document(number_last4="12 4"), 422, V, "/document/number_last4"),
    "expiry no date": (document(expires_at="soon"), 422, V, "/document/expires_at"),
    "expiry impossible": (document(expires_at="2031-02-30"), 422, V, "/document/expires_at"),
    "expiry a number": (document(expires_at=20310101), 422, V, "/document/expires_at"),
    "declared a list": (document(extracted_fields=[]), 422, V, "/document/extracted_fields"),
    "declared a list inside": (declared(surname=["A"]), 422, V, "/document/extracted_fields/surname"),
    "declared too long": (declared(surname="A" * 513), 422, V, "/document/extracted_fields/surname"),
    "declared key no name": (declared(**{"a/b": "A"}), 422, V, "/document/extracted_fields/a~1b"),
    "declared objects inside": (
        declared(mrz_checks={"a": 1}), 422, V, "/document/extracted_fields/mrz_checks",
    ),
    "declared an unknown field": (declared(dob="A"), 422, V, "/document/extracted_fields/dob"),
    "unknown field": (build_body(tenant_id="ten_x"), 422, V, "/tenant_id"),
    "unknown field in the document": (document(status="APPROVED"), 422, V, "/document/status"),
    "document not base64": (document(image_base64="@@@@"), 400, UNDECODABLE, DOCUMENT),
    "selfie not base64": (build_body(selfie_image_base64="@@@@"), 400, UNDECODABLE, SELFIE),
    "selfie empty": (build_body(selfie_image_base64=""), 400, UNDECODABLE, SELFIE),
    "base64 with a newline": (document(image_base64=IMAGE + "\nAAA"), 400, UNDECODABLE, DOCUMENT),
    "base64 with a space at the end": (document(image_base64=IMAGE + " "), 400, UNDECODABLE, DOCUMENT),
    "base64 for URLs": (document(image_base64="_-" + IMAGE[2:]), 400, UNDECODABLE, DOCUMENT),
    "base64 without padding": (document(image_base64=encoded(b"ab")[:-1]), 400, UNDECODABLE, DOCUMENT),
    "base64 with too much padding": (document(image_base64=IMAGE + "===="), 400, UNDECODABLE, DOCUMENT),
    "base64 in other letters": (document(image_base64="éééé"), 400, UNDECODABLE, DOCUMENT),
    "a data URL in plain": (document(image_base64="data:image/png," + IMAGE), 400, UNDECODABLE, DOCUMENT),
    "a data URL without comma": (document(image_base64="data:image/png;base64"), 400, UNDECODABLE, DOCUMENT),
    "a text as an image": (document(image_base64=encoded(b"hello")), 400, UNDECODABLE, DOCUMENT),
    "a GIF": (document(image_base64=encoded(draw_image(kind="GIF"))), 400, UNDECODABLE, DOCUMENT),
    "an image cut short": (document(image_base64=encoded(draw_image()[:-40])), 400, UNDECODABLE, DOCUMENT),
    "a selfie too small": (
        build_body(selfie_image_base64=encoded(draw_image(159, 400))), 422, "IMAGE_NOT_EVALUABLE", SELFIE,
    ),
    "a document too wide": (
        document(image_base64=encoded(draw_image(8_001, 200))), 400, UNDECODABLE, DOCUMENT,
    ),
    "an image too heavy": (
        document(image_base64=encoded(bytes(MAX_IMAGE_BYTES + 1))), 413, "PAYLOAD_TOO_LARGE", DOCUMENT,
    ),
}  # fmt: skip


@pytest.mark.parametrize(("body", "status", "code", "pointer"), WRONG.values(), ids=WRONG.keys())
async def test_a_wrong_field_is_refused_at_its_place(
    front: Front, body: Json, status: int, code: str, pointer: str
) -> None:
    response = await front.submit(body)

    assert (response.status, response.code, response.pointers) == (status, code, {pointer: code})
    assert front.gateway.asked == []
    assert front.shelves.evidence == {}


def test_every_field_of_the_body_has_a_wrong_value_in_the_table() -> None:
    tried = {pointer for _, _, _, pointer in WRONG.values()}
    fields = {f"/{name}" for name in SubmitBody.model_fields}
    fields |= {f"/document/{name}" for name in SubmittedDocument.model_fields}

    assert fields <= tried


async def test_every_wrong_place_is_named_at_once(front: Front) -> None:
    response = await front.submit({"document": {"issuing_country": "x"}, "more": 1})

    assert set(response.pointers) == {
        "/subject_id", DOCUMENT, "/document/issuing_country", SELFIE, "/more",
    }  # fmt: skip


async def test_a_refusal_never_repeats_a_value(front: Front) -> None:
    response = await front.submit(
        document(number_last4="CANARY-1", expires_at="CANARY-2", issuing_country="CANARY")
    )

    assert b"CANARY" not in response.body


@pytest.mark.parametrize(
    "accepted",
    [
        {"issuing_country": "NG", "number_last4": "12A4", "expires_at": "2031-12-24"},
        {"issuing_country": "UTO", "expires_at": "2031-12-24T00:00:00Z", "extracted_fields": {}},
        {"issuing_country": None, "number_last4": None, "expires_at": None},
        {
            "extracted_fields": {
                "surname": "Ẹ̀kọ́",
                "personal_number_present": True,
                "mrz_checks": {"composite": True},
            }
        },
    ],
)
async def test_what_may_be_declared_is_accepted(front: Front, accepted: Json) -> None:
    assert (await front.submit(document(**accepted))).status == 201


@pytest.mark.parametrize(
    "content_type",
    ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "", "json"],
)
async def test_another_content_type_is_415(front: Front, content_type: str) -> None:
    response = await front.ask("POST", PATH, data=b"{}", headers={"Content-Type": content_type})

    assert (response.status, response.code) == (415, "UNSUPPORTED_MEDIA_TYPE")


@pytest.mark.parametrize("charset", ["utf-16", "latin-1"])
async def test_another_charset_is_415(front: Front, charset: str) -> None:
    headers = {"Content-Type": f"application/json; charset={charset}"}

    assert (await front.ask("POST", PATH, data=b"{}", headers=headers)).status == 415


@pytest.mark.parametrize("raw", [b"", b"{", b'"text"x', b"[1", b"\xff", b'{"a":1,"a":1}', b"[NaN]"])
async def test_what_is_not_json_is_400(front: Front, raw: bytes) -> None:
    response = await front.ask("POST", PATH, data=raw, headers={"Content-Type": "application/json"})

    assert (response.status, response.code) == (400, "MALFORMED_JSON")


@pytest.mark.parametrize("raw", [b"[]", b'"text"', b"null", b"1"])
async def test_json_that_is_no_object_is_422(front: Front, raw: bytes) -> None:
    response = await front.ask("POST", PATH, data=raw, headers={"Content-Type": "application/json"})

    assert (response.status, response.code) == (422, "VALIDATION_FAILED")


async def test_garbage_that_calls_itself_gzip_is_400(front: Front) -> None:
    headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    response = await front.ask("POST", PATH, data=b"no gzip at all", headers=headers)

    assert (response.status, response.code) == (400, "MALFORMED_JSON")


async def large() -> Any:
    """29 MiB in pieces."""
    for _ in range(29):
        yield b" " * (1024 * 1024)


@pytest.mark.parametrize("chunked", [True, False])
async def test_a_body_over_28_mebibytes_is_413(front: Front, chunked: bool) -> None:  # noqa: FBT001 - a case
    data = large() if chunked else b" " * (29 * 1024 * 1024)
    response = await front.ask("POST", PATH, data=data, headers={"Content-Type": "application/json"})

    assert (response.status, response.code) == (413, "PAYLOAD_TOO_LARGE")


async def test_a_body_that_stops_arriving_is_given_up() -> None:
    async with open_front(body_timeout_s=0.05) as front:
        reader, writer = await asyncio.open_connection("127.0.0.1", front.port)
        writer.write(
            b"POST /v1/verifications HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer idv_test_acme\r\n"
            b"Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
        )
        answer = await reader.readuntil(b'"request_id"')
        writer.close()

    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"did not arrive in time" in answer


async def test_too_many_held_bytes_are_503() -> None:
    async with open_front(body_budget_bytes=1_000) as front:
        response = await front.submit()

    assert (response.status, response.code) == (503, "OVERLOADED")


async def test_held_bytes_are_given_back() -> None:
    size = len(json.dumps(build_body()))
    async with open_front(body_budget_bytes=2 * size + 10) as front:
        responses = [(await front.submit()).status for _ in range(3)]

    assert responses == [201, 201, 201]


async def test_a_body_is_invited_only_once_the_caller_is_known(front: Front) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", front.port)
    writer.write(
        b"POST /v1/verifications HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nConnection: close\r\n"
        b"Content-Type: application/json\r\nContent-Length: 20000000\r\n\r\n"
    )
    first = await reader.readline()
    writer.close()

    assert first.startswith(b"HTTP/1.1 401 ")


async def test_a_known_caller_is_invited_to_send_the_body(front: Front) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", front.port)
    writer.write(
        b"POST /v1/verifications HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nConnection: close\r\n"
        b"Authorization: Bearer idv_test_acme\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n"
    )
    invited = await reader.readline()
    writer.write(b"{}")
    answer = await reader.read()
    writer.close()

    assert invited == b"HTTP/1.1 100 Continue\r\n"
    assert b"HTTP/1.1 422 " in answer


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=30))
def test_a_pointer_leads_back_to_its_key(key: str) -> None:
    assert pointer_to((key,)).removeprefix("/").replace("~1", "/").replace("~0", "~") == key


def test_a_model_may_name_a_code_of_its_own() -> None:
    found = field_problem({"type": "RETURN_URL_INVALID", "loc": ("return_url",), "msg": "Use https."})

    assert found == FieldProblem(
        code=ProblemCode.RETURN_URL_INVALID, message="Use https.", pointer="/return_url"
    )
