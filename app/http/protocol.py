"""HTTP server protocol: answer malformed HTTP with a problem, and cap connections."""

import asyncio
import fcntl
import logging
import sys
import termios
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, cast
from uuid import UUID

import structlog
from aiohttp import web
from aiohttp.web_request import BaseRequest
from typing_extensions import override

from app.http.connections import ConnectionLimits, Connections, keep_dropping_unread
from app.http.ports import KEEPALIVE_S
from app.http.problems import render
from app.observability.metrics import Metrics
from schemas.ids import encode_id
from schemas.problems import ProblemCode, Refusal
from streams.runtime.background import BackgroundTask

_MALFORMED = Refusal(code=ProblemCode.MALFORMED_JSON, detail="The request is not well-formed HTTP.")
_FAILED = Refusal(code=ProblemCode.STORE_FAILED, detail="The request could not be carried out.")

_OVERLOADED = Refusal(code=ProblemCode.OVERLOADED, detail="Too many connections are open.")

_LINGERING_S = 5.0
"""How long the rest of a refused body is read and thrown away, so that the answer reaches its sender."""

_log: structlog.stdlib.BoundLogger = structlog.get_logger("veristream.http")


@dataclass(frozen=True, slots=True)
class ProtocolDependencies:
    """Dependencies of responses below the routes."""

    base_url: str
    standing: dict[str, str]
    metrics: Metrics
    fresh_uuid: Callable[[], UUID]
    limits: ConnectionLimits

    def answer(self, refusal: Refusal) -> web.Response:
        """Return a refusal as a route would give it; the connection ends with it."""
        request_id = encode_id("req", self.fresh_uuid())
        response = render(refusal, self.base_url, "/", request_id)
        response.headers.update(self.standing)
        response.headers["X-Request-Id"] = request_id
        response.force_close()
        return response

    def full(self) -> bytes:
        """Return the whole answer to a connection that is one too many, as it goes over the wire."""
        response = self.answer(_OVERLOADED)
        body = response.body if isinstance(response.body, bytes) else b""
        lines = [f"HTTP/1.1 {response.status} {response.reason}", "Connection: close"]
        lines += [f"Content-Length: {len(body)}", *(f"{n}: {v}" for n, v in response.headers.items())]
        return "\r\n".join([*lines, "", ""]).encode() + body


class FrontProtocol(web.RequestHandler):
    """One connection."""

    __slots__ = ("_around", "_connections", "_wire")

    def __init__(
        self, server: "FrontServer", around: ProtocolDependencies, connections: Connections, **kwargs: Any
    ) -> None:
        super().__init__(server, **kwargs)
        self._around = around
        self._connections = connections
        self._wire: asyncio.WriteTransport | None = None
        """The transport until the connection is lost; `transport` is None once it is closing."""

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        wire = cast("asyncio.Transport", transport)  # uvloop's is none by its class
        peer = transport.get_extra_info("peername")
        if not self._connections.admit(self, str(peer[0]) if isinstance(peer, tuple) else None):
            self._around.metrics.refused_connections.inc()
            wire.write(self._around.full())
            wire.close()
            return
        self._wire = wire
        super().connection_made(wire)

    @override
    def connection_lost(self, exc: BaseException | None) -> None:
        self._connections.remove(self)
        self._wire = None
        super().connection_lost(exc)

    @property
    def idle(self) -> bool:
        """Whether no request is under way."""
        return not self._request_in_progress and not self._messages

    @property
    def idle_until(self) -> float:
        """When it ends if it stays idle, by the loop's clock."""
        return self._next_keepalive_close_time

    @property
    def unsent_bytes(self) -> int:
        """How much of its answers the client has not taken; 0 once the system has taken the rest of them."""
        unsent_bytes = self._wire.get_write_buffer_size() if self._wire is not None else 0
        return unsent_bytes + self._queued_bytes() if unsent_bytes else 0

    def _queued_bytes(self) -> int:
        """Return what the system has taken and the client has not acknowledged (tcp(7), SIOCOUTQ)."""
        answer = bytearray(4)
        if self._wire is not None:
            plain = self._wire.get_extra_info("socket")
            with suppress(OSError, ValueError):  # not offered by this system, or the socket is closed
                fcntl.ioctl(plain.fileno(), termios.TIOCOUTQ, answer)
        return int.from_bytes(answer, sys.byteorder)

    def drop(self) -> None:
        """End it at once; what is unsent is lost."""
        self._around.metrics.dropped_connections.inc()
        if self._wire is not None:
            end = self._wire.abort if self.unsent_bytes else self._wire.close
            end()

    @override
    def handle_error(
        self,
        request: BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Answer what no route could; what was sent is neither repeated nor logged."""
        malformed = status < 500  # noqa: PLR2004 - the line between their fault and ours
        if malformed:
            self._around.metrics.malformed.inc()
        response = self._around.answer(_MALFORMED if malformed else _FAILED)
        event = "http.malformed" if malformed else "http.broken"
        _log.info(event, request_id=response.headers["X-Request-Id"], kind=type(exc).__name__)
        if request.writer.output_size > 0:
            raise ConnectionError("an answer was under way; another cannot follow")
        return response


class FrontServer(web.Server):
    """Makes a `FrontProtocol` for each connection."""

    def __init__(self, plain: web.Server, around: ProtocolDependencies) -> None:
        super().__init__(self._answer, request_factory=plain.request_factory)
        self._routes = plain.request_handler
        self._around = around
        self._open = Connections(around.limits)
        self._dropping = BackgroundTask(
            lambda: keep_dropping_unread(self._open, around.limits.write_timeout_s), "unread-answers"
        )

    def start(self) -> None:
        """Begin to drop connections whose answers stay unread."""
        self._dropping.start()

    async def stop(self) -> None:
        """Leave the connections alone."""
        await self._dropping.stop()

    async def _answer(self, request: BaseRequest) -> web.StreamResponse:
        """Answer through the routes; what aiohttp refuses before them is a problem as well."""
        try:
            return await self._routes(request)
        except web.HTTPException:
            return self._around.answer(_MALFORMED)

    @override
    def __call__(self) -> web.RequestHandler:
        return FrontProtocol(
            self,
            self._around,
            self._open,
            loop=asyncio.get_running_loop(),
            keepalive_timeout=KEEPALIVE_S,
            lingering_time=_LINGERING_S,
            access_log=None,
            logger=_silent_logger(),
        )


class FrontRunner(web.AppRunner):
    """Runs the application on `FrontServer`s."""

    __slots__ = ("_around", "_front")

    def __init__(
        self, app: web.Application, around: ProtocolDependencies, shutdown_timeout_s: float = 10.0
    ) -> None:
        super().__init__(app, access_log=None, shutdown_timeout=shutdown_timeout_s)
        self._around = around
        self._front: FrontServer | None = None

    @override
    async def _make_server(self) -> web.Server:
        server = self._front = FrontServer(await super()._make_server(), self._around)
        server.start()
        return server

    @override
    async def cleanup(self) -> None:
        await super().cleanup()
        if self._front is not None:
            await self._front.stop()


def _silent_logger() -> logging.Logger:
    """Return the logger for what aiohttp says of a connection: tracebacks with the bytes it was sent."""
    logger = logging.getLogger("veristream.http.aiohttp")
    logger.setLevel(logging.CRITICAL)
    return logger
