"""How a process is: what it asks of its dependencies, and a loopback port that tells."""

import asyncio
import math
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Final

from aiohttp import web
from prometheus_client import CollectorRegistry

from app.http.ports import Probe
from app.http.routes.health import HealthRoutes
from app.kafka_reach import Unreachable, reach
from app.startup import CannotStart
from schemas.problems import StoreUnavailable
from streams.ports import Stores
from streams.runtime.access import LogAccess
from streams.runtime.worker import Worker

LOOPBACK: Final = "127.0.0.1"

PROBE_S: Final = 2.0
"""A dependency that has not answered by then counts as down."""

BROKER_S: Final = 1.5
"""A broker that has not greeted by then counts as down; what is left of the probe finds out why."""

WRITE_EVERY_S: Final = 5.0
"""How old the last proof that the store can be written may be; each costs one flush to the disk."""


class StoreProbe:
    """Tells whether the store reads and writes; a disk that is full reads very well.

    It writes one row that says nothing, not oftener than every few seconds while all is well, and one at a
    time: a probe that is given up leaves its write under way, and the next one waits for the same.
    """

    def __init__(self, stores: Stores, clock: Callable[[], float] = time.monotonic) -> None:
        self._stores = stores
        self._clock = clock
        self._wrote_at = -math.inf
        self._writing: asyncio.Task[None] | None = None

    async def __call__(self) -> str | None:
        """Return why the store cannot be used, or None."""
        try:
            await self._stores.audit_log.unsealed_tenants()
            if self._clock() - self._wrote_at >= WRITE_EVERY_S:
                await self._write()
        except StoreUnavailable as error:
            return str(error)
        return None

    async def _write(self) -> None:
        if self._writing is None:
            self._writing = asyncio.create_task(self._stores.journal.touch(), name="store-probe")
            self._writing.add_done_callback(self._note)
        await asyncio.shield(self._writing)

    def _note(self, written: asyncio.Task[None]) -> None:
        self._writing = None
        if not written.cancelled() and written.exception() is None:
            self._wrote_at = self._clock()


def probes_of(stores: Stores, access: LogAccess, worker: Worker | None) -> dict[str, Probe]:
    """Return what `/readyz` asks: the store, the broker, and the agents of this process if it has any."""

    async def broker() -> str | None:
        try:
            await reach(access, BROKER_S)
        except Unreachable as error:
            return str(error)
        return None

    async def agents() -> str | None:
        if worker is None or not worker.ready:
            return "partitions are being assigned or tables recovered"
        return None if worker.healthy else "records wait and none is finished"

    probes: dict[str, Probe] = {"store": StoreProbe(stores), "broker": broker}
    return probes if worker is None else {**probes, "agents": agents, **worker.probes}


@asynccontextmanager
async def serving_health(
    port: int, probes: Mapping[str, Probe], registry: CollectorRegistry, *, with_metrics: bool = True
) -> AsyncIterator[str]:
    """Serve `/livez`, `/readyz` and, unless told not to, `/metrics` on loopback; yields the address.

    Port 0: a free one. Anything but GET and HEAD is 405 with `Allow` (S66).

    Raises:
        CannotStart: The port is taken.
    """
    routes = HealthRoutes(probes, registry, PROBE_S)

    async def live(_: web.Request) -> web.Response:
        return routes.live()

    async def ready(_: web.Request) -> web.Response:
        return await routes.ready()

    async def metrics(_: web.Request) -> web.Response:
        return routes.metrics()

    app = web.Application()
    app.add_routes([web.get("/livez", live), web.get("/readyz", ready)])
    if with_metrics:
        app.add_routes([web.get("/metrics", metrics)])
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        await _listen(runner, port)
        yield f"http://{LOOPBACK}:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def _listen(runner: web.AppRunner, port: int) -> None:
    try:
        await web.TCPSite(runner, LOOPBACK, port).start()
    except OSError as error:
        raise CannotStart(f"health port {port} cannot be had; choose another with --health-port") from error
