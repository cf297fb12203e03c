"""One client connection: read frames, and answer requests in their order."""

import asyncio
import inspect
import struct
from dataclasses import dataclass, field
from typing import Final, cast

import structlog
from kio.schema.errors import ErrorCode
from typing_extensions import override

from app.broker.apis.fetch import LongPoll
from app.broker.apis.fetch_sessions import FetchSessions
from app.broker.apis.refusals import READER_KEYS, REFUSALS
from app.broker.apis.table import Table, UnsupportedApiVersions
from app.broker.errors import SignInRefused, UsersUnusable
from app.broker.node import Api, Call, Node, Parked
from app.broker.sign_in import Mistakes, SignIn
from app.broker.users import EVERYTHING, Access, Users
from app.broker.wire import UNREADABLE, Codec, Head, codec, read_head, reword

log = structlog.get_logger()

API_VERSIONS_KEY: Final = 18
"""The one API that answers a version it does not know instead of closing (KIP-511)."""

MAX_CLIENT_ID_LENGTH: Final = 255
"""Characters of a client's id that are used; they become part of member ids."""

SIGN_IN_KEYS: Final = frozenset({API_VERSIONS_KEY, 17, 36})
"""All a client may ask before it has signed in: ApiVersions, SaslHandshake, SaslAuthenticate."""

MAX_SIGN_IN_BYTES: Final = 64 * 1024
"""The largest request before that; Java's clients send less than 1 KiB."""

SMALLEST_FRAME: Final = 10
"""Key, version, correlation id and the length of the client's id."""

MAX_QUESTION_BYTES: Final = 2 * 1024 * 1024
"""The largest request without records: all items the frame check allows, and room for names."""

PAUSE_BYTES: Final = 1024 * 1024
"""A client that sends this much ahead of its answers is not read from until it is served."""

NOTHING: Final = Access("", frozenset())
"""What a client may do before it has signed in, besides that."""

MAX_READER_CONNECTIONS: Final = 32
"""Of one user who may only read; a Kafka client opens two or three."""

_PRODUCE_KEY: Final = 0
_LENGTH: Final = struct.Struct(">i")
_KEY: Final = struct.Struct(">ih")


@dataclass(slots=True)
class Listener:
    """State that all connections of one broker share."""

    node: Node
    table: Table
    users: Users | None = None
    """None: nobody need sign in."""
    connections: set["Connection"] = field(default_factory=set)
    unauthenticated: dict["Connection", None] = field(default_factory=dict)
    """Those that have not signed in, the oldest first."""
    mistakes: Mistakes = field(default_factory=Mistakes)
    buffered: int = 0
    """Bytes of requests that have not been read whole."""

    def drop_unauthenticated(self) -> None:
        """Close the oldest connections that have not signed in, when there are more than may be."""
        asked = self.node.settings.authentication
        while asked is not None and len(self.unauthenticated) > asked.max_unauthenticated:
            oldest = next(iter(self.unauthenticated))
            del self.unauthenticated[oldest]
            oldest.close()

    def drop_deleted_users(self) -> None:
        """Close connections of users that were deleted or replaced by others of the same name."""
        for connection in [one for one in self.connections if one.outdated]:
            connection.close()


class Connection(asyncio.Protocol):
    """Serves one client; a waiting request blocks only this connection.

    A fetch that waits for records is answered as soon as its client sends more: what follows on the
    connection, such as the first fetch of another assignment, would wait for it.
    """

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
        self._access: Access | None = EVERYTHING if listener.users is None else None
        self._sign_in: SignIn | None = None
        self._sessions = FetchSessions()
        self._deadline: asyncio.TimerHandle | None = None

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        connections = self._listener.connections
        if len(connections) >= self._settings.max_connections:
            log.warning("broker.connection_limit_reached", limit=self._settings.max_connections)
            self._transport.abort()
            return
        connections.add(self)
        self._peer = (transport.get_extra_info("peername") or ("",))[0]
        own_host, self._port = transport.get_extra_info("sockname")[:2]
        self._host = self._settings.advertised_host or own_host
        self._expect_sign_in()

    def _expect_sign_in(self) -> None:
        asked, users = self._settings.authentication, self._listener.users
        if asked is None or users is None:
            return
        self._sign_in = SignIn(users, self._listener.mistakes, self._peer)
        loop = asyncio.get_running_loop()
        self._deadline = loop.call_later(asked.deadline_s, self._refuse, "broker.sign_in_timed_out")
        self._listener.unauthenticated[self] = None
        self._listener.drop_unauthenticated()

    def _signed_in(self) -> None:
        """Check whether the sign-in is complete; from then on the user's requests are served."""
        if self._sign_in is None or self._access is not None or self._sign_in.access is None:
            return
        access = self._sign_in.access
        own = sum(1 for one in self._listener.connections if one.user == access.name)
        if not access.unlimited and own >= MAX_READER_CONNECTIONS:
            self._refuse("broker.reader_limit_reached", user=access.name, limit=MAX_READER_CONNECTIONS)
            return
        self._access = access
        self._authenticated()

    def _authenticated(self) -> None:
        self._listener.unauthenticated.pop(self, None)
        if self._deadline is not None:
            self._deadline.cancel()

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._listener.connections.discard(self)
        self._authenticated()
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
        if isinstance(self._waiting, LongPoll):
            self._waiting.finish()  # which serves what came
        else:
            self._serve()
        if self._listener.buffered > self._settings.max_buffered_bytes and self._buffer:
            self._refuse("broker.buffer_limit_reached", buffered=len(self._buffer))

    def close(self) -> None:
        """Drop the client, for the broker stops or does not want it."""
        self._transport.abort()

    @property
    def user(self) -> str:
        """The signed-in user; empty before the sign-in and where none is required."""
        return "" if self._access is None else self._access.name

    @property
    def outdated(self) -> bool:
        """Whether its user was deleted since it signed in."""
        return self._access is not None and self._sign_in is not None and self._sign_in.outdated

    def _serve(self) -> None:
        """Handle whole frames until one must wait."""
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
            self._refuse("broker.frame_rejected", length=length)
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
        if self._access is None:
            return min(MAX_SIGN_IN_BYTES, self._settings.max_frame_bytes)
        if len(buffer) < _KEY.size or _KEY.unpack_from(buffer)[1] == _PRODUCE_KEY:
            return self._settings.max_frame_bytes
        return min(MAX_QUESTION_BYTES, self._settings.max_frame_bytes)

    def _regulate(self) -> None:
        blocked = self._waiting is not None or self._choked
        reading = not (blocked and len(self._buffer) > PAUSE_BYTES)
        if reading != self._reading and not self._transport.is_closing():
            self._reading = reading
            if reading:
                self._transport.resume_reading()
            else:
                self._transport.pause_reading()

    def _take(self, frame: bytes) -> None:
        if self._access is None and self._sign_in is not None and self._sign_in.bare:
            self._take_bare(self._sign_in, frame)
            return
        head = read_head(frame)
        if self._access is None and head.api_key not in SIGN_IN_KEYS:
            self._refuse("broker.sign_in_missing", api=head.api_key)
            return
        api = self._listener.table.find(head.api_key, head.version)
        if api is None:
            self._turn_down(head)
            return
        spoken = codec(head.api_key, head.version)
        try:
            client_id, request = spoken.read(frame)
        except UNREADABLE as error:
            self._refuse("broker.request_rejected", api=head.api_key, version=head.version, error=str(error))
            return
        if api.words is not None:
            request = reword(request, api.words)
        client_id = client_id[:MAX_CLIENT_ID_LENGTH]
        answer = self._ask(api, self._call(head, client_id), request)
        self._signed_in()
        if isinstance(answer, LongPoll):
            self._waiting = answer
            answer.then(lambda fetched: self._deliver(fetched, spoken, head))
        elif inspect.iscoroutine(answer):
            self._waiting = task = asyncio.ensure_future(answer)
            task.add_done_callback(lambda done: self._finished(done, spoken, head))
        elif answer is not None:
            self._send(spoken, head, answer)

    def _take_bare(self, sign_in: SignIn, message: bytes) -> None:
        """Carry a message of the mechanism that has no request around it; a refusal has no answer then."""
        try:
            answer = sign_in.take(message)
        except (SignInRefused, UsersUnusable) as error:
            log.warning("broker.sign_in_refused", client=self._peer, error=type(error).__name__)
            self._waiting = task = asyncio.ensure_future(sign_in.delay())
            task.add_done_callback(lambda _: self._transport.abort())
            return
        self._transport.write(_LENGTH.pack(len(answer)) + answer)
        self._signed_in()

    def _call(self, head: Head, client_id: str) -> Call:
        node, access = self._listener.node, self._access or NOTHING
        at = self._peer, self._host, self._port
        return Call(node, head.version, client_id, *at, access, self._sign_in, self._sessions)

    def _ask(self, api: Api, call: Call, request: object) -> object:
        """Call the handler, or refuse what is not the client's; a fault ends the connection and is raised."""
        answered = False
        try:
            if call.access.unlimited or api.key in READER_KEYS:
                answer = api.handler(call, request)
            else:
                answer = REFUSALS[api.key](request)
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
        self._refuse("broker.request_refused", api=head.api_key, version=head.version)

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
        """Send a delayed answer, then continue with the next request."""
        self._waiting = None
        if self._transport.is_closing():
            return
        if answer is not None:
            self._send(spoken, head, answer)
        self._serve()

    def _send(self, spoken: Codec, head: Head, answer: object) -> None:
        for piece in spoken.write(head.correlation_id, answer):
            self._transport.write(piece)
        if self._sign_in is not None and self._sign_in.failed:
            self._transport.close()

    def _refuse(self, event: str, **facts: object) -> None:
        log.warning(event, client=self._peer, **facts)
        self._listener.buffered -= len(self._buffer)
        self._buffer.clear()
        self._transport.abort()
