"""What is not quite HTTP is answered 400, counted and closed; what is slow or too much is let go."""

import asyncio
import io
import json
import socket
import struct
from typing import Final

import pytest
from aiohttp import http_parser

from app.http.protocol import FrontProtocol
from tests.http.support import PATH, Front, open_front

GET: Final = b"GET /livez HTTP/1.1\r\n"
HOST: Final = b"Host: x\r\n"
POST: Final = b"POST /v1/verifications HTTP/1.1\r\nHost: x\r\n"

MALFORMED: Final = {
    "length and chunks": POST + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "two lengths": POST + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
    "the same length twice": POST + b"Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
    "a signed length": POST + b"Content-Length: +4\r\n\r\nabcd",
    "a negative length": POST + b"Content-Length: -1\r\n\r\n",
    "a length in words": POST + b"Content-Length: four\r\n\r\n",
    "an unknown transfer encoding": POST + b"Transfer-Encoding: xchunked\r\n\r\n",
    "chunks not last": POST + b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
    "a folded header": GET + HOST + b"X-A: a\r\n b\r\n\r\n",
    "a space before the colon": GET + b"Host : x\r\n\r\n",
    "a bare line feed": b"GET /livez HTTP/1.1\nHost: x\n\n",
    "two hosts": GET + HOST + HOST + b"\r\n",
    "no host": GET + b"\r\n",
    "a NUL in a header": GET + HOST + b"X-A: a\x00b\r\n\r\n",
    "a NUL in the path": b"GET /li\x00vez HTTP/1.1\r\nHost: x\r\n\r\n",
    "a header of nine thousand bytes": GET + HOST + b"X-A: " + b"a" * 9_000 + b"\r\n\r\n",
    "a path of nine thousand bytes": b"GET /" + b"a" * 9_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
    "two hundred headers": GET + HOST + b"".join(b"X-%d: a\r\n" % n for n in range(200)) + b"\r\n",
    "no HTTP at all": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
    "an unknown version": b"GET /livez HTTP/3.7\r\nHost: x\r\n\r\n",
    "a header without a name": GET + HOST + b": a\r\n\r\n",
}


UNFINISHED: Final = (
    POST + b"Authorization: Bearer idv_test_acme\r\nContent-Type: application/json\r\n"
    b"Content-Length: 1000\r\n\r\n{"
)


async def until_busy(front: Front, requests: int = 1) -> None:
    """Return once so many requests are under way."""
    async with asyncio.timeout(60):
        while front.ports.registry.get_sample_value("veristream_http_in_flight") != requests:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def exchange(front: Front, raw: bytes) -> bytes:
    """Send bytes, and read until the front closes or has answered."""
    reader, writer = await asyncio.open_connection("127.0.0.1", front.port)
    writer.write(raw)
    answer = await reader.read()
    writer.close()
    return answer


def headers_of(answer: bytes) -> dict[str, str]:
    """The headers of an answer, names in lower case."""
    lines = answer.partition(b"\r\n\r\n")[0].decode().split("\r\n")[1:]
    return {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}


def test_the_parser_is_the_one_written_in_c() -> None:
    assert http_parser.HttpRequestParser is http_parser.HttpRequestParserC


@pytest.mark.parametrize("raw", MALFORMED.values(), ids=MALFORMED.keys())
async def test_malformed_http_is_a_problem_and_the_end_of_the_connection(front: Front, raw: bytes) -> None:
    answer = await exchange(front, raw)
    body = json.loads(answer.partition(b"\r\n\r\n")[2])

    assert answer.partition(b" ")[2].startswith(b"400 ")
    assert (headers_of(answer)["content-type"], body["code"]) == (
        "application/problem+json",
        "MALFORMED_JSON",
    )
    assert headers_of(answer)["x-request-id"] == body["request_id"]


async def test_malformed_http_is_counted_and_its_bytes_are_not_logged(
    front: Front, logged: io.StringIO
) -> None:
    await exchange(front, GET + b"Host : CANARY\r\n\r\n")

    assert front.ports.registry.get_sample_value("veristream_http_malformed_total") == 1
    assert "http.malformed" in logged.getvalue()
    assert "CANARY" not in logged.getvalue()
    assert "Traceback" not in logged.getvalue()


async def test_a_second_request_hidden_in_a_body_is_not_answered(front: Front) -> None:
    hidden = b"GET /v1/reason-codes HTTP/1.1\r\nHost: x\r\n\r\n"
    answer = await exchange(
        front, POST + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + hidden
    )

    assert answer.count(b"HTTP/1.") == 1


@pytest.mark.parametrize(
    ("name", "values"),
    [("Authorization", ("Bearer a", "Bearer b")), ("Idempotency-Key", ("a", "a"))],
)
async def test_s31_a_header_that_may_come_once_is_refused_twice(
    front: Front, name: str, values: tuple[str, str]
) -> None:
    twice = "".join(f"{name}: {value}\r\n" for value in values).encode()
    answer = await exchange(front, POST + twice + b"Connection: close\r\nContent-Length: 0\r\n\r\n")
    body = json.loads(answer.partition(b"\r\n\r\n")[2])

    assert (body["status"], body["code"]) == (400, "HEADER_DUPLICATED")
    assert [error["header"] for error in body["errors"]] == [name]


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE", "TRACE", "CONNECT"])
@pytest.mark.parametrize("path", [PATH, "/livez"])
async def test_another_method_is_405_and_shown_which_there_are(front: Front, method: str, path: str) -> None:
    raw = f"{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode()
    answer = await exchange(front, raw)

    if method == "CONNECT":  # its target is a host, which no route is
        assert answer.startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 404 ", b"HTTP/1.1 405 "))
    else:
        assert answer.startswith(b"HTTP/1.1 405 ")
        assert "GET" in headers_of(answer)["allow"]
        assert method not in headers_of(answer)["allow"]


async def test_an_expectation_nobody_can_meet_is_a_problem_too(front: Front) -> None:
    answer = await exchange(
        front, b"POST /nowhere HTTP/1.1\r\nExpect: magic\r\nConnection: close\r\n" + HOST + b"\r\n"
    )

    assert answer.startswith(b"HTTP/1.1 400 ")
    assert headers_of(answer)["content-type"] == "application/problem+json"


async def test_options_tells_the_methods_and_no_origin(front: Front) -> None:
    response = await front.ask("OPTIONS", PATH, None, headers={"Origin": "https://evil.example"})

    assert (response.status, response.headers["Allow"]) == (204, "GET, HEAD, OPTIONS, POST")
    assert not [name for name in response.headers if name.lower().startswith("access-control")]


async def test_head_answers_the_headers_alone(front: Front) -> None:
    response = await front.ask("HEAD", "/v1/reason-codes")

    assert (response.status, response.body) == (200, b"")
    assert int(response.headers["Content-Length"]) > 0


@pytest.mark.parametrize(
    "name",
    [
        "..%2f..%2fetc%2fpasswd", "%00", "..", "%5c", "ver_", "ver_" + "u" * 26, "ver_" + "0" * 25,
        "ver_" + "0" * 27, "ver_" + "0" * 26 + "%0a", "VER_" + "0" * 26, "dec_" + "0" * 26,
    ],
)  # fmt: skip
async def test_what_is_no_identifier_is_no_route(front: Front, name: str) -> None:
    head = f"GET {PATH}/{name} HTTP/1.1\r\n".encode()
    answer = await exchange(front, head + HOST + b"Connection: close\r\n\r\n")

    assert answer.startswith(b"HTTP/1.1 404 ")


async def test_a_connection_over_the_cap_is_asked_to_come_back() -> None:
    async with open_front(max_connections=1) as front:
        _, writer = await asyncio.open_connection("127.0.0.1", front.port)
        writer.write(UNFINISHED)
        await until_busy(front)
        answer = await exchange(front, GET + HOST + b"\r\n")
        writer.close()

    assert answer.startswith(b"HTTP/1.1 503 ")
    assert headers_of(answer)["retry-after"] == "1"
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["code"] == "OVERLOADED"


async def test_the_cap_counts_connections_that_are_open_now() -> None:
    async with open_front(max_connections=1) as front:
        results = [await exchange(front, GET + HOST + b"Connection: close\r\n\r\n") for _ in range(5)]

    assert all(answer.startswith(b"HTTP/1.1 200 ") for answer in results)


async def test_a_caller_that_vanishes_harms_nobody(front: Front, logged: io.StringIO) -> None:
    for _ in range(5):
        reader, writer = await asyncio.open_connection("127.0.0.1", front.port)
        writer.write(POST + b"Authorization: Bearer idv_test_acme\r\nContent-Type: application/json\r\n")
        writer.write(b"Content-Length: 1000\r\n\r\n{")
        await writer.drain()
        plain: socket.socket = writer.get_extra_info("socket")
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.close()
        await writer.wait_closed()
        reader.feed_eof()

    assert (await front.submit()).status == 201
    assert '"level": "error"' not in logged.getvalue()


async def test_two_requests_on_one_connection_are_both_answered(front: Front) -> None:
    last = GET + HOST + b"Connection: close\r\n\r\n"
    answer = await exchange(front, GET + HOST + b"\r\n" + last)

    assert answer.count(b'{"status":"live"}') == 2


async def test_idle_connections_end_by_half_a_minute(front: Front) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", front.port)
    writer.write(GET + HOST + b"\r\n")
    await reader.readuntil(b"}")
    server = front.runner.server
    assert server is not None
    protocols = [one for one in server.connections if isinstance(one, FrontProtocol)]
    writer.close()

    assert [protocol.keepalive_timeout for protocol in protocols] == [30.0]
