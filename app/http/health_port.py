"""The health port: `/livez`, `/readyz` and `/metrics` of a process, on loopback."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from aiohttp import web
from prometheus_client import CollectorRegistry

from app.http.routes.health import HealthRoutes
from app.observability.health_probes import PROBE_S, Probe
from app.process.ports import LOOPBACK, taken


@asynccontextmanager
async def serving_health(
    port: int, probes: Mapping[str, Probe], registry: CollectorRegistry, *, with_metrics: bool = True
) -> AsyncIterator[str]:
    """Serve `/livez`, `/readyz` and, unless turned off, `/metrics` on loopback; yields the address.

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
        raise taken(port, LOOPBACK, "--health-port", error) from error
