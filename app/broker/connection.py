"""One client's connection: frames in, answers out in the order of their requests."""

import asyncio
import inspect
import struct
from dataclasses import dataclass, field
from typing import Final, cast

import structlog
from kio.schema.errors import ErrorCode
from typing_extensions import override

from app.broker.apis.fetch import LongPoll
from app.broker.apis.table import Table
from app.broker.apis.versions import UnsupportedApiVersions
from app.broker.node import Api, Call, Node, Parked
from app.broker.wire import UNREADABLE, Codec, Head, codec, read_head, reword

log = structlog.get_logger()

API_VERSIONS_KEY: Final = 18
"""The one API that answers a version it does not know instead of closing (KIP-511)."""

MAX_CLIENT_ID_LENGTH: Final = 255
"""What is kept of a client's id; it becomes part of member ids."""

SMALLEST_FRAME: Final = 10
"""Key, version, correlation id and the length of the client's id."""

MAX_QUESTION_BYTES: Final = 2 * 1024 * 1024
"""The largest request without records: all items the frame check allows, and room for names."""

PAUSE_BYTES: Final = 1024 * 1024
"""A client that sends this much ahead of its answers is not read from until it is served."""

_PRODUCE_KEY: Final = 0
_LENGTH: Final = struct.Struct(">i")
_KEY: Final = struct.Struct(">ih")


@dataclass(slots=True)
class Listener:
    """What all connections of one broker share."""

    node: Node
    table: Table
    connections: set["Connection"] = field(default_factory=set)
    buffered: int = 0
    """Bytes of requests that have not been read whole."""


class Connection(asyncio.Protocol):
    """Serves one client; a request that must wait holds up only this connection."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._settings = listener.node.settings
        self._wakeups = listener.node.wakeups
        self._transport: asyncio.Transport
        self._buffer = bytearray()
        self._waiting: asyncio.Task[object] | Parked | None = None
        self._choked = False
        self._reading = True
        self._peer = self._host = ""
        self._port = 0

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        connections = self._listener.connections
        if len(connections) >= self._settings.max_connections:
            log.warning("broker.connection_limit", limit=self._settings.max_connections)
            self._transport.abort()
            return
        connections.add(self)
        self._peer = (transport.get_extra_info("peername") or ("",))[0]
        own_host, self._port = transport.get_extra_info("sockname")[:2]
        self._host = self._settings.advertised_host or own_host

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._listener.connections.discard(self)
        self._listener.buffered -= len(self._buffer)
        self._buffer.clear()
        if self._waiting is not None:
            self._waiting.cancel()

    @override
    def pause_writing(self) -> None:
        self._choked = True

    @override
    def resume_writing(self) -> None:
        self._choked = False
        self._serve()

    @override
    def data_received(self, data: bytes) -> None:
        self._buffer += data
        self._listener.buffered += len(data)
        self._serve()
        if self._listener.buffered > self._settings.max_buffered_bytes and self._buffer:
            self._refuse("broker.buffer_limit", buffered=len(self._buffer))

    def close(self) -> None:
        """Drop the client, for the broker stops."""
        self._transport.abort()

    def _serve(self) -> None:
        """Handle whole frames until one has to wait."""
        while self._waiting is None and not self._choked and not self._transport.is_closing():
            frame = self._next_frame()
            if frame is None:
                break
            self._take(frame)
        self._wakeups.drain()
        self._regulate()

    def _next_frame(self) -> bytes | None:
        buffer = self._buffer
        if len(buffer) < _LENGTH.size:
            return None
        (length,) = _LENGTH.unpack_from(buffer)
        if not SMALLEST_FRAME <= length <= self._most_bytes():
            self._refuse("broker.bad_frame", length=length)
            return None
        end = length + _LENGTH.size
        if len(buffer) < end:
            return None
        frame = bytes(memoryview(buffer)[_LENGTH.size : end])
        del buffer[:end]
        self._listener.buffered -= end
        return frame

    def _most_bytes(self) -> int:
        """Return how long the frame that has begun may be; only records need much."""
        buffer = self._buffer
        if len(buffer) < _KEY.size or _KEY.unpack_from(buffer)[1] == _PRODUCE_KEY:
            return self._settings.max_frame_bytes
        return min(MAX_QUESTION_BYTES, self._settings.max_frame_bytes)

    def _regulate(self) -> None:
        held_up = self._waiting is not None or self._choked
        reading = not (held_up and len(self._buffer) > PAUSE_BYTES)
        if reading != self._reading and not self._transport.is_closing():
            self._reading = reading
            if reading:
                self._transport.resume_reading()
            else:
                self._transport.pause_reading()

    def _take(self, frame: bytes) -> None:
        head = read_head(frame)
        api = self._listener.table.find(head.api_key, head.version)
        if api is None:
            self._turn_down(head)
            return
        spoken = codec(head.api_key, head.version)
        try:
            client_id, request = spoken.read(frame)
        except UNREADABLE as error:
            self._refuse(
                "broker.unreadable_request", api=head.api_key, version=head.version, error=str(error)
            )
            return
        if api.words is not None:
            request = reword(request, api.words)
        client_id = client_id[:MAX_CLIENT_ID_LENGTH]
        call = Call(self._listener.node, head.version, client_id, self._peer, self._host, self._port)
        answer = self._ask(api, call, request)
        if isinstance(answer, LongPoll):
            self._waiting = answer
            answer.then(lambda fetched: self._deliver(fetched, spoken, head))
        elif inspect.iscoroutine(answer):
            self._waiting = task = asyncio.ensure_future(answer)
            task.add_done_callback(lambda done: self._finished(done, spoken, head))
        elif answer is not None:
            self._send(spoken, head, answer)

    def _ask(self, api: Api, call: Call, request: object) -> object:
        """Call the handler; a fault of the broker ends this connection and is raised for the log."""
        answered = False
        try:
            answer = api.handler(call, request)
            answered = True
        finally:
            if not answered:
                self._transport.abort()
        return answer

    def _turn_down(self, head: Head) -> None:
        if head.api_key == API_VERSIONS_KEY:
            answer = UnsupportedApiVersions(ErrorCode.unsupported_version, self._listener.table.advertised)
            self._send(codec(API_VERSIONS_KEY, 0), head, answer)
            return
        self._refuse("broker.unserved_request", api=head.api_key, version=head.version)

    def _finished(self, task: asyncio.Task[object], spoken: Codec, head: Head) -> None:
        self._wakeups.drain()
        if task.cancelled():
            self._transport.abort()
            return
        error = task.exception()
        if error is not None:
            log.error("broker.request_failed", api=head.api_key, version=head.version, exc_info=error)
            self._transport.abort()
            return
        self._deliver(task.result(), spoken, head)

    def _deliver(self, answer: object, spoken: Codec, head: Head) -> None:
        """Send an answer that had to wait, then go on with what came after its request."""
        self._waiting = None
        if self._transport.is_closing():
            return
        if answer is not None:
            self._send(spoken, head, answer)
        self._serve()

    def _send(self, spoken: Codec, head: Head, answer: object) -> None:
        for piece in spoken.write(head.correlation_id, answer):
            self._transport.write(piece)

    def _refuse(self, event: str, **facts: object) -> None:
        log.warning(event, client=self._peer, **facts)
        self._listener.buffered -= len(self._buffer)
        self._buffer.clear()
        self._transport.abort()
