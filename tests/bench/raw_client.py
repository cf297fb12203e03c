"""HTTP/1.1 over connections that are kept, as cheap as the load of a bench should be."""

import asyncio
from collections import deque
from dataclasses import dataclass, field
from typing import Final, cast
from urllib.parse import urlsplit

from typing_extensions import override

_HEAD_END: Final = b"\r\n\r\n"
_LENGTH: Final = b"content-length:"


class _Connection(asyncio.Protocol):
    """One connection with at most one request under way."""

    def __init__(self) -> None:
        self._transport: asyncio.WriteTransport
        self.ended = False
        self._received = b""
        self._waiting: asyncio.Future[int] | None = None

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.WriteTransport", transport)

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self.ended = True
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(ConnectionError("the connection ended"))

    @override
    def data_received(self, data: bytes) -> None:
        self._received += data
        end = self._received.find(_HEAD_END)
        if end < 0:
            return
        head = self._received[:end].lower()
        length = int(head.partition(_LENGTH)[2].split(None, 1)[0])
        if len(self._received) < end + len(_HEAD_END) + length:
            return
        status, self._received = int(head.split(None, 2)[1]), b""
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(status)

    def ask(self, request: bytes) -> asyncio.Future[int]:
        """Send a whole request; done with the status of its answer."""
        self._waiting = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return self._waiting


@dataclass(slots=True)
class RawClient:
    """Posts JSON to one address."""

    url: str
    token: str
    _free: deque[_Connection] = field(default_factory=deque)

    async def post(self, body: bytes, idempotency: str | None = None) -> int:
        """Post the body, under an Idempotency-Key if one is given, and return the status.

        Raises:
            ConnectionError: The server ended the connection without an answer.
        """
        parts = urlsplit(self.url)
        named = "" if idempotency is None else f"Idempotency-Key: {idempotency}\r\n"
        head = (
            f"POST {parts.path} HTTP/1.1\r\nHost: {parts.netloc}\r\nAuthorization: Bearer {self.token}\r\n"
            f"Content-Type: application/json\r\n{named}Content-Length: {len(body)}\r\n\r\n"
        )
        while self._free and self._free[0].ended:
            self._free.popleft()
        connection = self._free.popleft() if self._free else await self._connect()
        status = await connection.ask(head.encode() + body)
        self._free.append(connection)
        return status

    async def _connect(self) -> _Connection:
        parts = urlsplit(self.url)
        loop = asyncio.get_running_loop()
        host, port = parts.hostname or "", parts.port or 80
        return (await loop.create_connection(_Connection, host, port))[1]
