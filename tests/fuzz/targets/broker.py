"""Bytes sent to a running broker by one who has not signed in, by a reader and by the service itself."""

import asyncio
import atexit
import struct
import tempfile
from contextlib import AbstractAsyncContextManager
from functools import cache
from pathlib import Path
from typing import Any, Final

from structlog.testing import capture_logs
from typing_extensions import override

from app.broker.connection import Connection
from app.broker.users import EVERYTHING, Access
from tests.broker.builders import one
from tests.broker.frames import every_frame, written
from tests.broker.requests import fetch_request, produce_request
from tests.broker.signing_in import READABLE, Guarded, guarded_broker

CHANGING: Final = frozenset({19, 20, 37, 44})
"""APIs that make, grow, change and delete topics, which the service itself may; files would pile up."""

TURNS: Final = 4
"""Turns of the event loop in which a request's first answer comes."""

_faults: list[str] = []


class FakeTransport(asyncio.Transport):
    """Takes what is written and forgets it."""

    def __init__(self) -> None:
        super().__init__({"peername": ("127.0.0.1", 1), "sockname": ("127.0.0.1", 2)})
        self._closed = False

    @override
    def write(self, data: Any) -> None:
        assert isinstance(data, bytes)

    @override
    def is_closing(self) -> bool:
        return self._closed

    @override
    def close(self) -> None:
        self._closed = True

    abort = close

    @override
    def pause_reading(self) -> None:
        """Nothing reads."""

    resume_reading = pause_reading


@cache
def _running() -> tuple[asyncio.AbstractEventLoop, Guarded, AbstractAsyncContextManager[Guarded]]:
    """Start a broker at the first input; it ends with `close`, or with the process."""
    loop = asyncio.new_event_loop()
    loop.set_exception_handler(lambda _, context: _faults.append(repr(context)))
    folder = tempfile.TemporaryDirectory()
    atexit.register(folder.cleanup)
    opened = guarded_broker(Path(folder.name))
    guarded = loop.run_until_complete(opened.__aenter__())
    loop.run_until_complete(guarded.broker._topics.create(READABLE, 2, {}))
    return loop, guarded, opened


def close() -> None:
    """Stop the broker and its background tasks, if it was started."""
    if _running.cache_info().currsize:
        loop, _, opened = _running()
        loop.run_until_complete(opened.__aexit__(None, None, None))
        loop.close()
        _running.cache_clear()


_FRAMES = (*every_frame(), written(produce_request(READABLE, one(b"v"))), written(fetch_request(READABLE, 0)))
SEEDS = tuple(
    bytes([who]) + struct.pack(">i", len(frame)) + frame
    for who, frame in ((number % 3, frame) for number, frame in enumerate(_FRAMES))
)


def target(data: bytes) -> None:
    """Send the bytes after the first, which says who sends them."""
    accesses = (None, Access("billing", frozenset({READABLE})), EVERYTHING)
    access = accesses[data[0] % 3] if data else None
    if access is EVERYTHING and any(data[at : at + 2] in _KEYS for at in range(5, len(data))):
        access = accesses[1]
    with capture_logs() as logs:
        loop, guarded, _ = _running()
        listener = guarded.broker._listener
        assert listener is not None
        loop.run_until_complete(_send(Connection(listener), access, data[1:]))
    _faults.extend(repr(entry) for entry in logs if entry["event"] == "broker.request_failed")
    if _faults:
        raise AssertionError(_faults.pop())


_KEYS: Final = {struct.pack(">h", key) for key in CHANGING}
"""How a request for one of them begins."""


async def _send(connection: Connection, access: Access | None, data: bytes) -> None:
    connection.connection_made(FakeTransport())
    if access is not None:
        connection._access = access
    connection.data_received(data)
    for _ in range(TURNS):
        await asyncio.sleep(0)
    connection.connection_lost(None)
    await asyncio.sleep(0)
