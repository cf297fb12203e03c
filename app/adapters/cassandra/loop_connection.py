"""Connections of the driver served by the event loop of the service, instead of by a thread of the driver's.

An answer is read where it is waited for: no other thread is woken for it, and none has to wake the loop. The
driver still connects and prepares in threads of its own, and uses what is here from them.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from ssl import SSLSocket, SSLWantReadError, SSLWantWriteError
from typing import Any, ClassVar, Final

from cassandra.connection import ConnectionShutdown

from app.adapters.cassandra.driver import Connection

BUFFER_BYTES: Final = 65_536
"""Read, or handed over for sending, in one piece."""

_Shutdown: Final[Any] = ConnectionShutdown

_LATER: Final = (BlockingIOError, InterruptedError, SSLWantReadError, SSLWantWriteError)
"""The socket has nothing, or no room, just now."""


class LoopConnection(Connection):  # type: ignore[misc]  # ships no types
    """One connection; `on_loop` makes the class for a loop, for the driver makes connections by a class."""

    is_closed: bool
    _socket_writable: bool

    loop: ClassVar[asyncio.AbstractEventLoop]
    thread_id: ClassVar[int]
    """Of the thread that runs the loop."""

    in_buffer_size = out_buffer_size = BUFFER_BYTES

    @classmethod
    def create_timer(cls, timeout: float, callback: Callable[[], object]) -> "_Timer | asyncio.TimerHandle":
        """Call back on the loop after so many seconds, unless cancelled before."""
        if threading.get_ident() == cls.thread_id:
            return cls.loop.call_later(timeout, callback)
        timer = _Timer(callback)
        cls.loop.call_soon_threadsafe(cls.loop.call_later, timeout, timer.fire)
        return timer

    def __init__(self, *arguments: Any, **options: Any) -> None:
        """Connect; called in a thread of the driver's, which then waits for the connection to be ready."""
        super().__init__(*arguments, **options)
        self._unsent: deque[bytes] = deque()
        self._flushing = False
        """Whether the loop is about to send what is unsent, or waits for room to."""
        self._connect_socket()
        self._socket.setblocking(False)
        self._soon(self._begin)
        self._send_options_message()

    def _soon(self, work: Callable[[], object]) -> None:
        """Work on the loop: now, if this is its thread."""
        if threading.get_ident() == self.thread_id:
            work()
        else:
            self.loop.call_soon_threadsafe(work)

    def _begin(self) -> None:
        if not self.is_closed:
            self.loop.add_reader(self._socket, self._receive)

    def push(self, data: bytes) -> None:
        """Send at the end of this turn of the loop, in one piece with what else is sent in it."""
        self._unsent.append(data)
        if threading.get_ident() != self.thread_id:
            self.loop.call_soon_threadsafe(self._flush)
        elif not self._flushing:
            self._flushing = True
            self.loop.call_soon(self._flush)

    def _flush(self) -> None:
        if self.is_closed:
            return
        try:
            while self._unsent:
                data = b"".join(self._take())
                sent = self._socket.send(data)
                if sent < len(data):
                    self._unsent.appendleft(data[sent:])
        except _LATER:
            self._unsent.appendleft(data)
        except OSError as error:
            self.defunct(error)
            return
        self._flushing = bool(self._unsent)
        if self._flushing == self._socket_writable:
            self._socket_writable = not self._flushing  # else the driver counts it as busy
            if self._flushing:
                self.loop.add_writer(self._socket, self._flush)
            else:
                self.loop.remove_writer(self._socket)

    def _take(self) -> list[bytes]:
        """Take some of what is unsent; other threads may add to it meanwhile."""
        taken, size = [self._unsent.popleft()], 0
        while self._unsent and size < BUFFER_BYTES:
            taken.append(self._unsent.popleft())
            size += len(taken[-1])
        return taken

    def _receive(self) -> None:
        data = b"more"
        try:
            while data:
                data = self._socket.recv(BUFFER_BYTES)
                self._iobuf.write(data)
                if len(data) < BUFFER_BYTES and not isinstance(self._socket, SSLSocket):
                    break  # else there may be more that nothing announces
        except _LATER:
            pass
        except OSError as error:
            self.defunct(error)
            return
        if self._iobuf.tell():
            self.process_io_buffer()
        if not data:
            self.close()

    def close(self) -> None:
        """Close; what was asked and not answered fails."""
        with self.lock:
            if self.is_closed:
                return
            self.is_closed = True
        try:
            self._soon(self._end)
        except RuntimeError:  # the loop is closed, and watches nothing any more
            self._socket.close()
        if not self.is_defunct:
            self.error_all_requests(_Shutdown(f"the connection to {self.endpoint} was closed"))
        self.connected_event.set()

    def _end(self) -> None:
        self.loop.remove_reader(self._socket)
        self.loop.remove_writer(self._socket)
        self._socket.close()


class _Timer:
    """A timer that was asked for on another thread than the loop's."""

    def __init__(self, callback: Callable[[], object]) -> None:
        self._callback: Callable[[], object] | None = callback

    def fire(self) -> None:
        callback = self._callback
        if callback is not None:
            callback()

    def cancel(self) -> None:
        self._callback = None


def on_loop(loop: asyncio.AbstractEventLoop) -> type[LoopConnection]:
    """Return the class of connections that the loop of this thread serves."""
    attributes = {"loop": loop, "thread_id": threading.get_ident()}
    return type("LoopConnection", (LoopConnection,), attributes)
