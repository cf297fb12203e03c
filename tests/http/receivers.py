"""Receivers of webhooks that do as a script says, down to the bytes, and count who knocked."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Final

from app.adapters.webhooks.address_guard import LookUp
from app.adapters.webhooks.sender import Clock, open_sender, utc_now
from streams.webhooks.ports import Answer

HEADERS: Final = {"webhook-id": "evt_1", "content-type": "application/json"}
BODY: Final = b'{"id":"evt_1", "type":"ping"}'

EVERY_PORT: Final = range(1, 65536)
"""For receivers of the tests, which listen where a port is free."""

TRUSTING_NOBODY: Final = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""Made in no time, unlike one with the system's authorities."""

PATIENCE_S: Final = 60.0
"""How long a post may take by default; a machine may stand still for longer than the product waits."""

Script = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@dataclass(slots=True)
class Receiver:
    """A listener on a loopback port."""

    port: int = 0
    connections: int = 0
    heads: list[str] = field(default_factory=list)
    """The request lines and headers that arrived whole."""
    bodies: list[bytes] = field(default_factory=list)

    @property
    def url(self) -> str:
        """Where it takes webhooks, in plain HTTP."""
        return f"http://127.0.0.1:{self.port}/hook"


async def read_request(reader: asyncio.StreamReader, receiver: Receiver) -> None:
    """Read one request whole and keep it."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    lines = dict(line.lower().split(": ", 1) for line in head.split("\r\n")[1:] if ": " in line)
    receiver.bodies.append(await reader.readexactly(int(lines.get("content-length", "0"))))
    receiver.heads.append(head)


def saying(answer: bytes, *, end: bool = True) -> Callable[[Receiver], Script]:
    """Read the request, say this, and end the connection, or hold it open until the other side ends it."""

    def of(receiver: Receiver) -> Script:
        async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await read_request(reader, receiver)
            writer.write(answer)
            await writer.drain()
            if not end:
                await reader.read()

        return script

    return of


def repeating(first: bytes, then: bytes, pause_s: float = 0.0) -> Callable[[Receiver], Script]:
    """Read the request, say the first, and say the other again and again until nobody listens."""

    def of(receiver: Receiver) -> Script:
        async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await read_request(reader, receiver)
            writer.write(first)
            while not writer.is_closing():
                writer.write(then)
                await writer.drain()
                await asyncio.sleep(pause_s)

        return script

    return of


def answering(status: str, *headers: str, body: bytes = b"") -> Callable[[Receiver], Script]:
    """Answer as a server of HTTP/1.1 does."""
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", "Connection: keep-alive", *headers]
    return saying(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1") + body, end=False)


@asynccontextmanager
async def receiving(
    script_of: Callable[[Receiver], Script] | None = None,
    *,
    tls: ssl.SSLContext | None = None,
    everywhere: bool = False,
) -> AsyncIterator[Receiver]:
    """Listen on a free port; every connection follows the script, by default a 200.

    `everywhere` is on every address of this machine, of both families where there are two.
    """
    receiver = Receiver()
    script = (script_of or answering("200 OK"))(receiver)
    under_way: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        receiver.connections += 1
        with suppress(OSError, EOFError):
            await script(reader, writer)
        writer.close()

    def begin(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(serve(reader, writer))
        under_way.add(task)
        task.add_done_callback(under_way.discard)

    server = await asyncio.start_server(begin, sock=_listening(everywhere=everywhere), ssl=tls)
    receiver.port = server.sockets[0].getsockname()[1]
    async with server:
        yield receiver
        for task in under_way:
            task.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)


def _listening(*, everywhere: bool) -> socket.socket:
    if not everywhere:
        return socket.create_server(("127.0.0.1", 0))
    if socket.has_dualstack_ipv6():
        return socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True)
    return socket.create_server(("0.0.0.0", 0))  # noqa: S104 - a refused address is one of these


def names(*answers: Sequence[str]) -> LookUp:
    """Be a name server that gives these answers one after the other, the last one again and again."""
    left = list(answers)

    async def look_up(_: str) -> Sequence[str]:
        return left.pop(0) if len(left) > 1 else left[0]

    return look_up


async def post(
    url: str,
    *,
    insecure: bool = True,
    ports: Collection[int] = EVERY_PORT,
    version: str = "0.1.0",
    resolver: LookUp | None = None,
    connect_s: float = PATIENCE_S,
    total_s: float = PATIENCE_S,
    tls: ssl.SSLContext = TRUSTING_NOBODY,
    clock: Clock = utc_now,
) -> Answer:
    """Post once, by default with a sender that may call the loopback."""
    async with open_sender(
        insecure=insecure,
        ports=ports,
        version=version,
        resolver=resolver,
        connect_s=connect_s,
        total_s=total_s,
        tls=tls,
        clock=clock,
    ) as sender:
        return await sender.post(url, HEADERS, BODY)
