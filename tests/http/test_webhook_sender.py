"""One POST to a receiver: what it carries, and what may come of it."""

import asyncio
import gzip
import logging
import ssl
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime

import pytest
import pytest_asyncio
from hypothesis import given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from app.adapters.webhooks.address_guard import SystemNames
from app.adapters.webhooks.sender import STORED_BODY_BYTES, WAIT_MOST_S, open_sender, strict_tls, wait_of
from schemas.webhooks import FailureKind
from streams.webhooks.ports import Answer
from tests.engines.certificates import Authority
from tests.http.receivers import (
    BODY,
    HEADERS,
    PATIENCE_S,
    TRUSTING_NOBODY,
    Receiver,
    Script,
    answering,
    names,
    post,
    read_request,
    receiving,
    repeating,
    saying,
)

SOON_S = 0.3
"""How long an attempt may take where nothing but its end is expected."""

DRIP_S = 6.0
"""How long an attempt may take where the receiver answers first and then never ends."""

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)


@pytest_asyncio.fixture
async def receiver() -> AsyncIterator[Receiver]:
    """A receiver that takes everything."""
    async with receiving() as opened:
        yield opened


async def test_body_and_headers_arrive_as_they_were_given(receiver: Receiver) -> None:
    answer = await post(receiver.url)

    assert (answer.status, answer.failure, answer.succeeded) == (200, None, True)
    assert receiver.bodies == [BODY]
    assert "webhook-id: evt_1\r\n" in receiver.heads[0]
    assert "content-type: application/json\r\n" in receiver.heads[0]


async def test_it_says_who_sends_and_asks_for_no_compression(receiver: Receiver) -> None:
    await post(receiver.url, version="1.2.3")

    assert "User-Agent: Veristream/1.2.3\r\n" in receiver.heads[0]
    assert "Accept-Encoding: identity\r\n" in receiver.heads[0]


async def test_the_path_is_sent_as_it_was_registered(receiver: Receiver) -> None:
    await post(f"http://127.0.0.1:{receiver.port}/a%20b/%7e?x=%2F+&y=|")

    assert receiver.heads[0].startswith("POST /a%20b/%7e?x=%2F+&y=| HTTP/1.1\r\n")


async def test_no_connection_is_used_twice(receiver: Receiver) -> None:
    async with open_sender(insecure=True, version="0.1.0", tls=TRUSTING_NOBODY) as sender:
        for _ in range(3):
            await sender.post(receiver.url, HEADERS, BODY)

    assert receiver.connections == 3


async def test_a_cookie_is_never_given_back() -> None:
    async with receiving(answering("200 OK", "Set-Cookie: a=b; Path=/")) as receiver:
        async with open_sender(insecure=True, version="0.1.0", tls=TRUSTING_NOBODY) as sender:
            for _ in range(2):
                await sender.post(receiver.url, HEADERS, BODY)

        assert ["cookie" in head.lower() for head in receiver.heads] == [False, False]


@pytest.mark.parametrize("variable", ["http_proxy", "HTTP_PROXY", "https_proxy", "all_proxy", "ALL_PROXY"])
async def test_no_proxy_of_the_environment_is_used(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    async with receiving() as proxy:
        monkeypatch.setenv(variable, f"http://127.0.0.1:{proxy.port}")
        await post(receiver.url)

        assert (receiver.connections, proxy.connections) == (1, 0)


@pytest.mark.parametrize("status", [200, 201, 202, 204, 299])
async def test_every_2xx_is_a_success(status: int) -> None:
    async with receiving(answering(f"{status} Fine")) as receiver:
        answer = await post(receiver.url)

    assert (answer.status, answer.failure) == (status, None)


@pytest.mark.parametrize("status", [304, 400, 401, 404, 410, 429, 500, 503, 999])
async def test_every_other_status_is_a_failure(status: int) -> None:
    async with receiving(answering(f"{status} No", body=b"" if status == 304 else b"why")) as receiver:
        answer = await post(receiver.url)

    assert (answer.status, answer.failure) == (status, FailureKind.STATUS)


async def test_the_beginning_of_its_text_is_kept() -> None:
    async with receiving(answering("500 No", body="é".encode() * 4000)) as receiver:
        answer = await post(receiver.url)

    assert answer.text == "é" * (STORED_BODY_BYTES // 2)


async def test_bytes_that_are_no_text_are_replaced() -> None:
    async with receiving(answering("500 No", body=b"a\xff\xfeb\xc3")) as receiver:
        answer = await post(receiver.url)

    assert answer.text == "a\ufffd\ufffdb\ufffd"


async def test_an_answer_without_a_body_has_no_text(receiver: Receiver) -> None:
    assert (await post(receiver.url)).text is None


async def test_nothing_is_inflated() -> None:
    bomb = gzip.compress(bytes(50_000_000))
    async with receiving(answering("200 OK", "Content-Encoding: gzip", body=bomb)) as receiver:
        answer = await post(receiver.url)

    assert answer.text is not None
    assert answer.text.startswith("\x1f\ufffd\x08")
    assert len(answer.text) <= STORED_BODY_BYTES


@pytest.mark.parametrize(
    "first", [b"", b"Content-Length: 10000000000\r\n", b"Transfer-Encoding: chunked\r\n"]
)
async def test_an_endless_body_is_left_after_64_kilobytes(first: bytes) -> None:
    piece = b"4000\r\n" + b"x" * 0x4000 + b"\r\n" if b"chunked" in first else b"x" * 0x4000
    async with receiving(repeating(b"HTTP/1.1 500 No\r\n" + first + b"\r\n", piece)) as receiver:
        answer = await post(receiver.url)

    assert (answer.status, answer.text) == (500, "x" * STORED_BODY_BYTES)


async def test_a_body_that_drips_ends_with_the_attempt_and_the_status_counts() -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n"
    async with receiving(repeating(head, b"x", pause_s=0.01)) as receiver:
        answer = await post(receiver.url, total_s=DRIP_S)

    assert (answer.status, answer.failure) == (200, None)
    assert set(answer.text or "") == {"x"}


async def test_a_body_that_breaks_off_is_reported_as_far_as_it_came() -> None:
    cut = b"HTTP/1.1 503 No\r\nContent-Length: 1000\r\n\r\nnot to"
    async with receiving(saying(cut)) as receiver:
        answer = await post(receiver.url)

    assert (answer.status, answer.failure, answer.text) == (503, FailureKind.STATUS, "not to")


@pytest.mark.parametrize(
    ("said", "seconds"),
    [
        ("86400", 86400.0),
        ("0", 0.0),
        ("9" * 4000, WAIT_MOST_S),
        ("Sat, 21 Nov 2026 12:02:00 GMT", 120.0),
        ("Saturday, 21-Nov-26 12:02:00 GMT", 120.0),
        ("Sat Nov 21 12:02:00 2026", 120.0),
        ("Sat, 21 Nov 2026 11:00:00 GMT", 0.0),
        ("soon", None),
        ("-5", None),
        ("1.5", None),
        ("", None),
    ],
)
async def test_how_long_to_wait_is_reported_in_seconds(said: str, seconds: float | None) -> None:
    async with receiving(answering("429 Slow down", f"Retry-After: {said}")) as receiver:
        answer = await post(receiver.url, clock=lambda: NOW)

    assert (answer.status, answer.retry_after_s) == (429, seconds)


@given(st.text(max_size=60))
def test_no_text_of_a_wait_breaks_anything(text: str) -> None:
    waits = wait_of(text, lambda: NOW)

    assert waits is None or 0 <= waits <= WAIT_MOST_S


def never_answering(receiver: Receiver) -> Script:
    """Take the request and say nothing."""

    async def script(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await read_request(reader, receiver)
        await reader.read()

    return script


def resetting(receiver: Receiver) -> Script:
    """Take the request and reset the connection."""

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader, receiver)
        writer.transport.abort()

    return script


def refusing_to_read(_: Receiver) -> Script:
    """Read nothing, not even the request."""

    async def script(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await writer.wait_closed()

    return script


HEAD = b"HTTP/1.1 200 OK\r\n"

BROKEN: dict[str, tuple[Callable[[Receiver], Script], FailureKind]] = {
    "hangs": (never_answering, FailureKind.TIMEOUT),
    "reads nothing": (refusing_to_read, FailureKind.TIMEOUT),
    "drips its head": (repeating(HEAD + b"X: ", b"y", pause_s=0.01), FailureKind.TIMEOUT),
    "only ever continues": (repeating(b"", b"HTTP/1.1 100 Continue\r\n\r\n", 0.01), FailureKind.TIMEOUT),
    "hangs up": (saying(b""), FailureKind.CONNECTION_FAILED),
    "resets": (resetting, FailureKind.CONNECTION_FAILED),
    "half a head": (saying(HEAD + b"X: y\r\n"), FailureKind.CONNECTION_FAILED),
    "another protocol": (saying(b"SSH-2.0-OpenSSH_9.9\r\n"), FailureKind.BAD_ANSWER),
    "zeros": (saying(bytes(100_000)), FailureKind.BAD_ANSWER),
    "no status": (saying(b"HTTP/1.1 OK\r\n\r\n"), FailureKind.BAD_ANSWER),
    "two lengths": (
        saying(HEAD + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nx"),
        FailureKind.BAD_ANSWER,
    ),
    "a negative length": (saying(HEAD + b"Content-Length: -1\r\n\r\n"), FailureKind.BAD_ANSWER),
    "an endless line": (repeating(b"HTTP/1.1 200 ", b"x" * 4096), FailureKind.BAD_ANSWER),
    "an endless header": (repeating(HEAD + b"X: ", b"x" * 4096), FailureKind.BAD_ANSWER),
    "endless headers": (repeating(HEAD, b"X: y\r\n" * 100), FailureKind.BAD_ANSWER),
}


@pytest.mark.parametrize("how", BROKEN)
async def test_a_receiver_that_misbehaves_is_a_failure_of_its_kind(how: str) -> None:
    script, kind = BROKEN[how]
    async with receiving(script) as receiver:
        answer = await post(receiver.url, total_s=SOON_S if kind is FailureKind.TIMEOUT else PATIENCE_S)

    assert (answer.status, answer.failure) == (None, kind)


@settings(max_examples=30)
@given(st.binary(max_size=200))
def test_no_bytes_make_it_raise(said: bytes) -> None:
    async def attempt(begin: bytes) -> Answer:
        async with receiving(saying(begin + said)) as receiver:
            return await post(receiver.url, total_s=5.0)

    for begin in (b"", HEAD):
        answer = asyncio.run(attempt(begin))
        assert (answer.status is None) <= (answer.failure is not None)


async def test_nobody_listens(unused_tcp_port: int) -> None:
    answer = await post(f"http://127.0.0.1:{unused_tcp_port}/hook")

    assert answer.failure is FailureKind.CONNECTION_FAILED


async def test_a_name_that_does_not_exist() -> None:
    answer = await post("http://hooks.acme.example/", resolver=names([]))

    assert answer.failure is FailureKind.NAME_NOT_FOUND


async def test_a_name_server_that_hangs_is_left() -> None:
    async def hang(_: str) -> list[str]:
        await asyncio.Event().wait()
        return []

    answer = await post("http://hooks.acme.example/", resolver=hang, connect_s=SOON_S)

    assert answer.failure is FailureKind.TIMEOUT


async def test_the_systems_names_are_asked(receiver: Receiver) -> None:
    answer = await post(f"http://localhost:{receiver.port}/hook")

    assert answer.status == 200


async def test_a_name_too_many_is_not_looked_up() -> None:
    with pytest.raises(TimeoutError):
        await SystemNames(most=0)("localhost")


async def test_a_cancellation_ends_it_and_its_connection() -> None:
    knocked, left = asyncio.Event(), asyncio.Event()

    def of(receiver: Receiver) -> Script:
        async def script(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
            await read_request(reader, receiver)
            knocked.set()
            await reader.read()
            left.set()

        return script

    async with receiving(of) as receiver:
        attempt = asyncio.create_task(post(receiver.url))
        await knocked.wait()
        attempt.cancel()
        with pytest.raises(asyncio.CancelledError):
            await attempt
        await left.wait()


async def test_nothing_of_paths_or_answers_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with capture_logs() as lines:
        for script, _ in BROKEN.values():
            async with receiving(script) as receiver:
                await post(f"{receiver.url}/s3cret?s3cret", total_s=0.1)
        async with receiving(answering("500 s3cret", "X: s3cret", body=b"s3cret")) as receiver:
            await post(f"{receiver.url}/s3cret")
        await post("http://10.0.0.1/s3cret")

    assert "s3cret" not in caplog.text
    assert "s3cret" not in str(lines)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """An authority the sender may be reported to trust."""
    return Authority.make(tmp_path_factory.mktemp("authority"))


def serving_as(authority: Authority, *hosts: str) -> ssl.SSLContext:
    """What a receiver with a certificate for these hosts speaks."""
    identity = authority.sign("receiver", *hosts)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(identity.certificate, identity.key)
    return context


async def test_a_receiver_with_a_good_certificate_is_called(authority: Authority) -> None:
    async with receiving(tls=serving_as(authority, "hooks.acme.example")) as receiver:
        url = f"https://hooks.acme.example:{receiver.port}/hook"
        answer = await post(url, resolver=names(["127.0.0.1"]), tls=authority.client_context())

    assert (answer.status, receiver.bodies) == (200, [BODY])


async def test_a_certificate_of_nobody_we_know_is_refused(authority: Authority) -> None:
    async with receiving(tls=serving_as(authority)) as receiver:
        answer = await post(f"https://127.0.0.1:{receiver.port}/hook", tls=strict_tls())

    assert (answer.failure, receiver.heads) == (FailureKind.TLS_FAILED, [])


async def test_a_certificate_for_another_name_is_refused(authority: Authority) -> None:
    async with receiving(tls=serving_as(authority, "hooks.globex.example")) as receiver:
        url = f"https://hooks.acme.example:{receiver.port}/hook"
        answer = await post(url, resolver=names(["127.0.0.1"]), tls=authority.client_context())

    assert (answer.failure, receiver.heads) == (FailureKind.TLS_FAILED, [])


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
async def test_an_old_tls_is_refused(authority: Authority) -> None:
    old = serving_as(authority)
    old.minimum_version = old.maximum_version = ssl.TLSVersion.TLSv1_1
    old.set_ciphers("DEFAULT@SECLEVEL=0")
    async with receiving(tls=old) as receiver:
        answer = await post(f"https://127.0.0.1:{receiver.port}/hook", tls=authority.client_context())

    assert (answer.failure, receiver.heads) == (FailureKind.TLS_FAILED, [])


def test_tls_is_1_2_or_newer_with_names_that_are_checked() -> None:
    context = strict_tls()

    assert context.minimum_version == ssl.TLSVersion.TLSv1_2
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)


async def test_a_receiver_without_tls_is_refused() -> None:
    async with receiving(saying(b"HTTP/1.1 200 OK\r\n\r\n")) as receiver:
        answer = await post(f"https://127.0.0.1:{receiver.port}/hook", total_s=SOON_S)

    assert answer.failure in {FailureKind.TLS_FAILED, FailureKind.TIMEOUT}
    assert receiver.heads == []


async def test_a_handshake_that_never_ends_is_left() -> None:
    async with receiving(refusing_to_read) as receiver:
        answer = await post(f"https://127.0.0.1:{receiver.port}/hook", connect_s=SOON_S)

    assert answer.failure is FailureKind.TIMEOUT
