"""The server beneath the routes: malformed HTTP is answered as a problem, connections are capped."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import structlog
from aiohttp import web
from aiohttp.web_request import BaseRequest
from typing_extensions import override

from app.http.ports import KEEPALIVE_S
from app.http.problems import render
from app.telemetry import Metrics
from schemas.ids import encode_id
from schemas.problems import ProblemCode, Refusal

_MALFORMED = Refusal(code=ProblemCode.MALFORMED_JSON, detail="The request is not well-formed HTTP.")
_FAILED = Refusal(code=ProblemCode.STORE_FAILED, detail="The request could not be carried out.")

_OVERLOADED = Refusal(code=ProblemCode.OVERLOADED, detail="Too many connections are open.")

_LINGERING_S = 5.0
"""How long the rest of a refused body is read and thrown away, so that the answer reaches its sender."""

_log: structlog.stdlib.BoundLogger = structlog.get_logger("veristream.http")


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What answering below the routes needs."""

    base_url: str
    standing: dict[str, str]
    metrics: Metrics
    fresh_uuid: Callable[[], UUID]
    max_connections: int

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

    __slots__ = ("_around",)

    def __init__(self, server: "FrontServer", around: Surroundings, **kwargs: Any) -> None:
        super().__init__(server, **kwargs)
        self._around = around

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        server = self._manager
        if server is not None and len(server.connections) >= self._around.max_connections:
            self._around.metrics.refused_connections.inc()
            if isinstance(transport, asyncio.WriteTransport):
                transport.write(self._around.full())
            transport.close()
            return
        super().connection_made(transport)

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

    def __init__(self, plain: web.Server, around: Surroundings) -> None:
        super().__init__(self._answer, request_factory=plain.request_factory)
        self._routes = plain.request_handler
        self._around = around

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
            loop=asyncio.get_running_loop(),
            keepalive_timeout=KEEPALIVE_S,
            lingering_time=_LINGERING_S,
            access_log=None,
            logger=_silent_logger(),
        )


class FrontRunner(web.AppRunner):
    """Runs the application on `FrontServer`s."""

    __slots__ = ("_around",)

    def __init__(self, app: web.Application, around: Surroundings, shutdown_timeout_s: float = 10.0) -> None:
        super().__init__(app, access_log=None, shutdown_timeout=shutdown_timeout_s)
        self._around = around

    @override
    async def _make_server(self) -> web.Server:
        return FrontServer(await super()._make_server(), self._around)


def _silent_logger() -> logging.Logger:
    """Return the logger for what aiohttp says of a connection: tracebacks with the bytes it was sent."""
    logger = logging.getLogger("veristream.http.aiohttp")
    logger.setLevel(logging.CRITICAL)
    return logger
