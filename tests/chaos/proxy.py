"""A TCP proxy that spoils what passes it: late, never, only one way, or cut off."""

import asyncio
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from enum import Enum, auto
from types import TracebackType
from typing import Final, Self

_CHUNK: Final = 65_536
_LINGER_NOT: Final = struct.pack("ii", 1, 0)
"""SO_LINGER of zero seconds: closing sends RST."""


class Way(Enum):
    """Which half of a connection."""

    THERE = auto()
    """From the client to the server."""
    BACK = auto()
    """From the server to the client."""


BOTH: Final = frozenset(Way)


class Proxy:
    """Stands before one server on a free port; an async context.

    `posing` is for Kafka's protocol: the address of the broker in its answers is replaced by the
    proxy's, else clients would learn where the broker is and go past the proxy.
    """

    def __init__(self, host: str, port: int, *, posing: bool = False) -> None:
        self._upstream = (host, port)
        self._posing = posing
        self._server: asyncio.Server | None = None
        self._pairs: set[tuple[asyncio.StreamWriter, asyncio.StreamWriter]] = set()
        self._flowing = {way: asyncio.Event() for way in Way}
        for way in Way:
            self._flowing[way].set()
        self._swallowing: set[Way] = set()
        self._refusing = False
        self.latency_s = 0.0
        """How long every piece is held, each way."""
        self.swallowed_bytes = 0
        self._losing: bytes | None = None
        self.lost = 0
        """How many answers were lost by `lose_answer`."""

    @classmethod
    def before(cls, address: str, *, posing: bool = False) -> Self:
        """Make a proxy before `host:port`."""
        host, _, port = address.rpartition(":")
        return cls(host, int(port), posing=posing)

    async def __aenter__(self) -> Self:
        """Begin to listen."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Cut every connection and stop listening."""
        assert self._server is not None
        self._server.close()
        self.reset()
        for flowing in self._flowing.values():
            flowing.set()
        await self._server.wait_closed()

    @property
    def port(self) -> int:
        """Where it listens."""
        assert self._server is not None
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    @property
    def address(self) -> str:
        """Where it listens, as `host:port`."""
        return f"127.0.0.1:{self.port}"

    @contextmanager
    def delayed(self, ways: frozenset[Way] = BOTH) -> Iterator[None]:
        """Let nothing pass these ways for the length of the context; it passes afterwards.

        So a black hole in a network looks: nobody is notified, and TCP repeats everything once it is gone.
        """
        for way in ways:
            self._flowing[way].clear()
        try:
            yield
        finally:
            for way in ways:
                self._flowing[way].set()

    @contextmanager
    def swallowing(self, way: Way) -> Iterator[None]:
        """Lose what passes this way, then cut every connection: a stream with a hole is of no use."""
        self._swallowing.add(way)
        try:
            yield
        finally:
            self.reset()
            self._swallowing.discard(way)

    @contextmanager
    def refusing(self) -> Iterator[None]:
        """Cut every connection, and each new one at once."""
        self._refusing = True
        self.reset()
        try:
            yield
        finally:
            self._refusing = False

    def lose_answer(self, marker: bytes) -> None:
        """Lose the next answer that holds this, and cut every connection then."""
        self._losing = marker

    def reset(self) -> None:
        """Cut every connection with RST."""
        for pair in list(self._pairs):
            for writer in pair:
                _cut(writer)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._refusing:
            _cut(writer)
            return
        try:
            far_reader, far_writer = await asyncio.open_connection(*self._upstream)
        except OSError:
            _cut(writer)
            return
        pair = (writer, far_writer)
        self._pairs.add(pair)
        try:
            there = asyncio.create_task(self._pump(reader, far_writer, Way.THERE))
            back = asyncio.create_task(self._pump(far_reader, writer, Way.BACK))
            await asyncio.wait({there, back}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._pairs.discard(pair)
            for pump in (there, back):
                pump.cancel()
            for side in pair:
                side.close()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, way: Way) -> None:
        with suppress(OSError):
            while piece := await reader.read(_CHUNK):
                if self.latency_s:
                    await asyncio.sleep(self.latency_s)
                await self._flowing[way].wait()
                if way is Way.BACK and self._losing is not None and self._losing in piece:
                    self._losing, self.lost = None, self.lost + 1
                    self.reset()
                    return
                if way in self._swallowing:
                    self.swallowed_bytes += len(piece)
                    continue
                writer.write(self._posed(piece) if way is Way.BACK else piece)
                await writer.drain()

    def _posed(self, piece: bytes) -> bytes:
        """Return the answer with this proxy's port behind the broker's address, as Kafka writes both."""
        if not self._posing:
            return piece
        host, port = self._upstream
        return piece.replace(
            host.encode() + struct.pack(">i", port), host.encode() + struct.pack(">i", self.port)
        )


def _cut(writer: asyncio.StreamWriter) -> None:
    raw = writer.get_extra_info("socket")
    if raw is not None:
        with suppress(OSError):
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_NOT)
    writer.transport.abort()
