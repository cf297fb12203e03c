"""Send webhooks with aiohttp: one request, bounded in time and size, to public addresses only."""

import codecs
import re
import ssl
from asyncio import get_running_loop, timeout, to_thread
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Final

import structlog
from aiohttp import (
    ClientConnectionError,
    ClientConnectorDNSError,
    ClientConnectorError,
    ClientResponse,
    ClientSession,
    ClientSSLError,
    ClientTimeout,
    DummyCookieJar,
    TCPConnector,
)
from multidict import CIMultiDict
from typing_extensions import override
from yarl import URL

from app.adapters.webhooks.address_guard import (
    AddressGuard,
    AddressRefused,
    GuardedResolver,
    LookUp,
    SystemNames,
)
from schemas.problems import Refused
from schemas.webhooks import FailureKind
from streams.webhooks.ports import Answer, WebhookSender
from streams.webhooks.urls import USUAL_PORTS, receiver_url

log = structlog.get_logger("veristream")

CONNECT_S: Final = 5.0
"""For name resolution, connection and TLS in sum (G55)."""

TOTAL_S: Final = 15.0
"""For one attempt, the reading of its answer included (G55)."""

READ_MOST: Final = 64 << 10
"""Bytes of an answer that are read before the connection is closed."""

STORED_BODY_BYTES: Final = 4 << 10
"""Bytes of an answer that are stored (G38)."""

HEADERS_MOST: Final = 128
LINE_MOST: Final = 8190
"""Bytes of a status line or header; with `HEADERS_MOST` an answer's head is never above a megabyte."""

WAIT_MOST_S: Final = 1e9
"""Longer waits are reported as this one."""

_KINDS: Final[tuple[tuple[type[BaseException], FailureKind], ...]] = (
    (AddressRefused, FailureKind.ADDRESS_REFUSED),
    (TimeoutError, FailureKind.TIMEOUT),
    (ssl.SSLError, FailureKind.TLS_FAILED),
    (ClientSSLError, FailureKind.TLS_FAILED),
    (ClientConnectorDNSError, FailureKind.NAME_NOT_FOUND),
    (ClientConnectionError, FailureKind.CONNECTION_FAILED),
    (OSError, FailureKind.CONNECTION_FAILED),
)
"""The first that is found among an error and its causes says what went wrong; none: it was not HTTP."""

Clock = Callable[[], datetime]


def utc_now() -> datetime:
    """Return the moment, for a `Retry-After` that names a date."""
    return datetime.now(UTC)


@asynccontextmanager
async def open_sender(
    *,
    insecure: bool,
    version: str,
    ports: Collection[int] = USUAL_PORTS,
    resolver: LookUp | None = None,
    connect_s: float = CONNECT_S,
    total_s: float = TOTAL_S,
    tls: ssl.SSLContext | None = None,
    clock: Clock = utc_now,
) -> AsyncIterator[WebhookSender]:
    """Open a sender; at the end of the context whatever is under way is cut off.

    `insecure` allows http, this machine's loopback and any port; without it `ports` are allowed. `tls` stands
    for the system's authorities where a test has its own. No environment variable about proxies is read, no
    cookie stored, no connection used twice.
    """
    guard = AddressGuard(insecure=insecure)
    connector = TCPConnector(
        resolver=GuardedResolver(resolver or SystemNames(), guard),
        socket_factory=guard.open_socket,
        ssl=tls if tls is not None else await to_thread(strict_tls),
        use_dns_cache=False,
        force_close=True,
        limit=0,
    )
    async with ClientSession(
        connector=connector,
        cookie_jar=DummyCookieJar(),
        trust_env=False,
        auto_decompress=False,
        timeout=ClientTimeout(total=None, connect=connect_s),
        read_bufsize=READ_MOST,
        max_line_size=LINE_MOST,
        max_field_size=LINE_MOST,
        max_headers=HEADERS_MOST,
    ) as session:
        yield AiohttpSender(
            session, insecure=insecure, ports=ports, version=version, total_s=total_s, clock=clock
        )


def strict_tls() -> ssl.SSLContext:
    """Return what TLS must be: TLS 1.2 or newer, a certificate of the system's authorities, its name right.

    It reads files.
    """
    context = ssl.create_default_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


@dataclass(slots=True)
class _Heard:
    """What was received of a response so far; it counts even if the rest never arrives."""

    status: int | None = None
    retry_after: str | None = None
    body: bytearray = field(default_factory=bytearray)


class AiohttpSender(WebhookSender):
    """Posts over a session that reaches public addresses only; made by `open_sender`."""

    def __init__(
        self,
        session: ClientSession,
        *,
        insecure: bool,
        ports: Collection[int],
        version: str,
        total_s: float,
        clock: Clock,
    ) -> None:
        self._session, self._clock = session, clock
        self._insecure, self._ports, self._total_s = insecure, ports, total_s
        self._own_headers = {"Accept-Encoding": "identity", "User-Agent": f"Veristream/{version}"}

    @override
    async def post(self, url: str, headers: Mapping[str, str], body: bytes) -> Answer:
        heard, failure = _Heard(), FailureKind.BAD_ANSWER
        loop = get_running_loop()
        began = loop.time()
        try:
            # What was registered under other settings, or by other rules, is judged by those of now.
            target = URL(receiver_url(url, insecure=self._insecure, ports=self._ports), encoded=True)
            async with timeout(self._total_s):
                await self._exchange(target, headers, body, heard)
        except Refused:
            failure = FailureKind.ADDRESS_REFUSED
        except Exception as error:  # noqa: BLE001 - whatever a receiver makes a library raise is its answer
            failure = failure_of(error)
            if failure is FailureKind.BAD_ANSWER and heard.status is None:
                log.info("webhook.response_decode_failed", host=URL(url).host, kind=type(error).__name__)
        latency_ms = round((loop.time() - began) * 1000)
        return _answer(heard, failure, latency_ms, self._clock)

    async def _exchange(self, url: URL, headers: Mapping[str, str], body: bytes, heard: _Heard) -> None:
        sent = CIMultiDict(self._own_headers)
        sent.update(headers)
        async with self._session.post(url, data=body, headers=sent, allow_redirects=False) as response:
            heard.status = response.status
            heard.retry_after = response.headers.get("Retry-After")
            try:
                await _read(response, heard.body)
            finally:
                response.close()


async def _read(response: ClientResponse, into: bytearray) -> None:
    async for chunk in response.content.iter_any():
        into += chunk[: READ_MOST - len(into)]
        if len(into) >= READ_MOST:
            return


def failure_of(error: BaseException) -> FailureKind:
    """Return the delivery failure that an error stands for."""
    found = list(_causes(error))
    broken = (ConnectionResetError, ConnectionAbortedError)
    if isinstance(error, ClientConnectorError) and isinstance(error.os_error, broken):
        return FailureKind.TLS_FAILED  # it was connected, and the handshake was broken off
    for type_, kind in _KINDS:
        if any(isinstance(each, type_) for each in found):
            return kind
    return FailureKind.BAD_ANSWER


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__


def _answer(heard: _Heard, failure: FailureKind, latency_ms: int, clock: Clock) -> Answer:
    if heard.status is None:
        return Answer(latency_ms=latency_ms, failure=failure)
    succeeded = HTTPStatus.OK <= heard.status < HTTPStatus.MULTIPLE_CHOICES
    return Answer(
        latency_ms=latency_ms,
        status=heard.status,
        failure=None if succeeded else FailureKind.STATUS,
        text=_first_text(heard.body),
        retry_after_s=wait_of(heard.retry_after, clock),
    )


def _first_text(body: bytearray) -> str | None:
    """Return the beginning of an answer as text; a character that the cut would split is left out."""
    if not body:
        return None
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    return decoder.decode(bytes(body[:STORED_BODY_BYTES]), final=len(body) <= STORED_BODY_BYTES)


def wait_of(retry_after: str | None, clock: Clock) -> float | None:
    """Return the seconds of `Retry-After`; None when there are none (RFC 9110 10.2.3)."""
    text = (retry_after or "").strip()
    if re.fullmatch(r"[0-9]+", text):
        return float(text) if len(text) < len(f"{WAIT_MOST_S:.0f}") else WAIT_MOST_S
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return min(max(0.0, (moment - clock()).total_seconds()), WAIT_MOST_S)
