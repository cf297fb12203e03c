"""A receiver of webhooks on a free port: it keeps every request and answers as it is asked to."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Self

from aiohttp import web
from standardwebhooks import Webhook


@dataclass(frozen=True, slots=True)
class Hit:
    """A request that arrived."""

    path: str
    headers: Mapping[str, str]
    """By their names in lower case."""
    body: bytes

    @property
    def event_id(self) -> str:
        """Which event it tells."""
        return self.headers["webhook-id"]

    @property
    def attempt(self) -> int:
        """Which attempt it says it is."""
        return int(self.headers["webhook-attempt"])

    def verify(self, secret: str) -> None:
        """Raise what the independent library raises, if it was not signed with the secret."""
        key: str | bytes = secret if secret.startswith("whsec_") else secret.encode()
        Webhook(key).verify(self.body, dict(self.headers))


Answering = Callable[[web.Request, Hit], Awaitable[web.Response]]


def saying(status: int, **headers: str) -> Answering:
    """Answer with a status; `Retry_After` is written `Retry-After`."""

    async def answer(_: web.Request, __: Hit) -> web.Response:
        return web.Response(status=status, headers={k.replace("_", "-"): v for k, v in headers.items()})

    return answer


async def hanging(_: web.Request, __: Hit) -> web.Response:
    """Never answer."""
    await asyncio.Event().wait()
    raise AssertionError


async def resetting(request: web.Request, _: Hit) -> web.Response:
    """Cut the connection off."""
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


@dataclass(slots=True)
class Receiver:
    """What it got, and what it says: an answer for all paths, or one of their own for some."""

    port: int = 0
    answer: Answering = field(default_factory=lambda: saying(204))
    answers: dict[str, Answering] = field(default_factory=dict)
    hits: list[Hit] = field(default_factory=list)
    arrived: asyncio.Condition = field(default_factory=asyncio.Condition)

    def url(self, path: str = "/hook") -> str:
        """Where a path is."""
        return f"http://127.0.0.1:{self.port}{path}"

    def at(self, path: str) -> list[Hit]:
        """What came to a path."""
        return [hit for hit in self.hits if hit.path == path]

    async def until(self, condition: Callable[[Self], bool], within_s: float = 180.0) -> None:
        """Return once what arrived fulfils the condition; raise TimeoutError when it does not."""
        async with asyncio.timeout(within_s), self.arrived:
            await self.arrived.wait_for(lambda: condition(self))

    async def take(self, request: web.Request) -> web.Response:
        """Keep a request and answer it."""
        headers = {name.lower(): value for name, value in request.headers.items()}
        hit = Hit(request.path, headers, await request.read())
        self.hits.append(hit)
        async with self.arrived:
            self.arrived.notify_all()
        return await self.answers.get(request.path, self.answer)(request, hit)


@asynccontextmanager
async def open_receiver(answer: Answering | None = None) -> AsyncIterator[Receiver]:
    """Listen on a free port of the loopback; hanging requests are cut off at the end."""
    receiver = Receiver()
    if answer is not None:
        receiver.answer = answer
    app = web.Application()
    app.router.add_post("/{path:.*}", receiver.take)
    runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    receiver.port = runner.addresses[0][1]
    try:
        yield receiver
    finally:
        await runner.cleanup()
