"""A deployment of several processes behind one port, and a steady load on it."""

import asyncio
import itertools
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from aiohttp import ClientConnectionError, ClientSession, ClientTimeout, TCPConnector

from tests.engines.jvm import free_ports
from tests.journeys.service import (
    METRICS,
    SHOW_METRICS,
    Role,
    begin_deployment,
    make_tenant,
    small_request,
    start_preloaded,
)

CALLERS: Final = 8
REST_S: Final = 0.4
"""Some 15 to 20 verifications a second, and no more than a busy machine can take."""

SETTINGS: Final = {"SERVICE_FRONT_INSTANCE": "3", **METRICS}
"""Both fronts read the same partition of answers, and must not mix them up."""


@dataclass(slots=True)
class Deployment:
    """Fronts that share a port, and workers, over one broker and one store."""

    data_dir: Path
    given: dict[str, str]
    port: int
    key: str
    fronts: list[Role] = field(default_factory=list)
    workers: list[Role] = field(default_factory=list)

    @property
    def url(self) -> str:
        """The one address of all fronts."""
        return f"http://127.0.0.1:{self.port}"

    async def start_front(self) -> Role:
        """Start a front on the shared port."""
        arguments = ("front", "--port", str(self.port), "--reuse-port")
        front = await start_preloaded(self.data_dir, *arguments, given=self.given)
        self.fronts.append(front)
        return front

    async def start_worker(self) -> Role:
        """Start a worker of all streams."""
        worker = await start_preloaded(self.data_dir, "worker", given=self.given)
        self.workers.append(worker)
        return worker

    @asynccontextmanager
    async def another_front(self, **given: str) -> AsyncIterator[Role]:
        """Run one more front, on a port of its own and with settings of its own."""
        front = await start_preloaded(self.data_dir, "front", "--port", "0", given={**self.given, **given})
        try:
            yield front
        finally:
            await front.kill()

    async def restart_workers(self) -> None:
        """Restart them one after the other."""
        for worker in tuple(self.workers):
            await self.end(self.workers, worker)
            await self.start_worker()

    async def restart_fronts(self) -> None:
        """Restart them one after the other."""
        for front in tuple(self.fronts):
            await self.end(self.fronts, front)
            await self.start_front()

    async def end(self, roles: list[Role], role: Role) -> None:
        """Tell one to stop, and wait until it did."""
        roles.remove(role)
        assert await role.stop() == 0, role.log.read_text()

    async def post(
        self, client: ClientSession, subject: str, idempotency: str, url: str | None = None
    ) -> tuple[int, str]:
        """Post a sandbox verification; its status, and the code if it is a problem."""
        headers = {"Authorization": f"Bearer {self.key}", "Idempotency-Key": idempotency}
        sent = client.post(
            f"{url or self.url}/v1/verifications", json=small_request(subject), headers=headers
        )
        async with sent as answer:
            body: dict[str, Any] = await answer.json(content_type=None)
            return answer.status, str(body.get("code", ""))


async def a_test_key(data_dir: Path) -> str:
    """Make a tenant and return a test key of it."""
    begin_deployment(data_dir)
    _, _, key = await make_tenant(data_dir)
    return key


@asynccontextmanager
async def deployed(data_dir: Path, given: Mapping[str, str] | None = None) -> AsyncIterator[Deployment]:
    """Run two fronts and two workers; without settings of a Kafka, on an embedded broker of their own."""
    chosen = {**SETTINGS, **(given or {})}
    broker = None if "SERVICE_KAFKA_BOOTSTRAP" in chosen else await start_preloaded(data_dir, "broker")
    deployment = Deployment(data_dir, chosen, free_ports(1)[0], "")
    try:
        deployment.key = await a_test_key(data_dir)
        fronts, workers = (
            [begin() for _ in "ab"] for begin in (deployment.start_front, deployment.start_worker)
        )
        await asyncio.gather(*fronts, *workers)
        yield deployment
    finally:
        roles = [*deployment.fronts, *deployment.workers]
        await asyncio.gather(*(role.kill() for role in roles))
        if broker is not None:
            await broker.stop()


@asynccontextmanager
async def caller(*, keep_alive: bool = True) -> AsyncIterator[ClientSession]:
    """A client with connections of its own; without `keep_alive` one for each request."""
    connector = TCPConnector(limit=0, force_close=not keep_alive)
    async with ClientSession(connector=connector, timeout=ClientTimeout(total=300)) as client:
        yield client


class Load:
    """Callers who post, wait for the answer, rest and post again, until asked to end; counts the answers.

    Half of them keep their connection, half open one for each request. They do what any load balancer does:
    a request whose connection broke before one byte of an answer is sent once more, on another connection,
    with its idempotency key. `sent_again` tells how often.
    """

    def __init__(self, deployment: Deployment) -> None:
        self.answers: Counter[tuple[int, str]] = Counter()
        self.sent_again = 0
        self.slowest_s = 0.0
        self._deployment = deployment
        self._numbers = itertools.count()

    async def run(self, ending: asyncio.Event) -> None:
        """Post until asked to end, and wait for every answer."""
        async with caller() as keeping, caller(keep_alive=False) as fresh, asyncio.TaskGroup() as callers:
            for number in range(CALLERS):
                callers.create_task(self._call(keeping if number % 2 else fresh, fresh, ending))

    async def _call(self, client: ClientSession, other: ClientSession, ending: asyncio.Event) -> None:
        while not ending.is_set():
            await self._one(client, other, next(self._numbers))
            await asyncio.sleep(REST_S)

    async def _one(self, client: ClientSession, other: ClientSession, number: int) -> None:
        subject, key, begun = f"sim:approved@{number}", f"load-{number}", time.monotonic()
        try:
            answer = await self._deployment.post(client, subject, key)
        except ClientConnectionError:
            self.sent_again += 1
            answer = await self._deployment.post(other, subject, key)
        self.answers[answer] += 1
        self.slowest_s = max(self.slowest_s, time.monotonic() - begun)


async def restart_everything(deployment: Deployment) -> Load:
    """Restart both workers and both fronts one after the other under a steady load, as an upgrade does."""
    load, ending = Load(deployment), asyncio.Event()
    running = asyncio.create_task(load.run(ending))
    try:
        await deployment.restart_workers()
        await deployment.restart_fronts()
    finally:
        ending.set()
        await running
    result = f"{dict(load.answers)}, sent again {load.sent_again}, slowest {load.slowest_s:.1f} s"
    print(f"rolling restart: {result}")  # noqa: T201 - the measured numbers
    return load


async def ask_all_partitions(
    deployment: Deployment, name: str, url: str | None = None
) -> Counter[tuple[int, str]]:
    """Post enough verifications at once that every partition gets some, and count the answers."""
    begun = time.monotonic()
    async with caller() as client:
        asked = (deployment.post(client, f"sim:approved@{name}-{n}", f"{name}-{n}", url) for n in range(48))
        found = Counter(await asyncio.gather(*asked))
    print(f"{name}: {dict(found)}, the last after {time.monotonic() - begun:.1f} s")  # noqa: T201
    return found


async def until_under_way(client: ClientSession, url: str) -> None:
    """Return once a front has a verification under way beside the question itself.

    Each question comes over a connection of its own, so that with two fronts on one port either is asked.
    """
    while True:
        async with client.get(f"{url}/metrics", headers={"Connection": "close", **SHOW_METRICS}) as answer:
            output = await answer.text()
        waiting = next(line for line in output.splitlines() if line.startswith("veristream_http_in_flight "))
        if float(waiting.split()[1]) > 1:
            return
        await asyncio.sleep(0.05)
