"""Bind the front's port before slow start-up, and drain its connections at the end."""

import asyncio
import socket
from collections.abc import Iterator
from typing import Final

from aiohttp import web

from app.process.startup import taken
from app.settings import Settings

_EVERYWHERE: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - the names, nothing is bound
"""Where a front that listens on all addresses of its machine is reached on it."""


def listen(settings: Settings) -> socket.socket:
    """Bind the front's port, before anything slower is begun.

    Raises:
        CannotStart: The port is taken.
    """
    listening = socket.socket(socket.AF_INET6 if ":" in settings.host else socket.AF_INET)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if settings.reuse_port:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    try:
        listening.bind((settings.host, settings.port))
    except OSError as error:
        listening.close()
        raise taken(settings.port, settings.host, "--port", error) from error
    return listening


def listening_url(host: str, port: int) -> str:
    """Return the address at which the machine of a front reaches it."""
    reached = _EVERYWHERE.get(host, host)
    return f"http://[{reached}]:{port}" if ":" in reached else f"http://{reached}:{port}"


class Leaving:
    """State of a front that stops: it is not ready, and closes each connection after its next response."""

    def __init__(self) -> None:
        self.stopping = False

    async def probe(self) -> str | None:
        """Return why the front is not ready for new callers; None while it is."""
        return "it is stopping" if self.stopping else None

    async def sign(self, _: web.Request, response: web.StreamResponse) -> None:
        """Close the connection after this response while stopping; its client opens another one elsewhere."""
        if self.stopping:
            response.force_close()
            response.headers["Connection"] = "close"

    async def __call__(self, runner: web.AppRunner, listening: socket.socket, drain_s: float) -> None:
        """Report not ready for a while, so that load balancers notice; then close the listening socket.

        Requests under way are left to the runner's cleanup. A connection the system had already taken for
        us is served, which closing the port alone would reset.
        """
        self.stopping = True
        await asyncio.sleep(drain_s)
        listening.listen(0)  # the others who share the port get what comes now
        last = list(_accepted(listening))
        for site in list(runner.sites):
            await site.stop()
        for connection in last:
            await _serve(runner, connection)


def _accepted(listening: socket.socket) -> Iterator[socket.socket]:
    while True:
        try:
            connection, _ = listening.accept()
        except OSError:  # none is left
            return
        connection.setblocking(False)
        yield connection


async def _serve(runner: web.AppRunner, connection: socket.socket) -> None:
    server = runner.server
    if server is None:
        connection.close()
        return
    await asyncio.get_running_loop().connect_accepted_socket(server, connection)
