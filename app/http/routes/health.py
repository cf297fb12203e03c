"""`/livez`, `/readyz` and `/metrics`: the routes, and the loopback port that serves them alone."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

from app.http.endpoints import OPERATOR, Answer, Call, Endpoint
from app.http.responses import json_value
from app.observability.health_probes import LATE, PROBE_S, Probe, ShowingProbe
from app.process.startup import LOOPBACK, taken

_FAMILY: Final = "Operation"
_STATUS: Final = {"type": "object", "properties": {"status": {"type": "string"}}, "required": ["status"]}
_LIST: Final = {
    "type": ["object", "null"],
    "description": "A list that is served; null while it cannot be built.",
    "properties": {"version": {"type": "string"}, "age_s": {"type": "integer", "minimum": 0}},
    "required": ["version", "age_s"],
}
_READINESS: Final = {
    "type": "object",
    "properties": {
        "status": {"enum": ["ready", "unavailable"]},
        "dependencies": {
            "type": "object",
            "additionalProperties": {
                "type": "object",
                "properties": {
                    "status": {"enum": ["up", "down"]},
                    "cause": {"type": "string"},
                    "lists": {"type": "object", "additionalProperties": _LIST},
                    "unavailable": {
                        "type": "integer",
                        "description": "Tenants whose published policy does not load any more.",
                    },
                },
                "required": ["status"],
            },
        },
        "start_id": {"type": "string", "description": "The audit row of this front's start."},
    },
    "required": ["status", "dependencies"],
}


@dataclass(frozen=True, slots=True)
class HealthRoutes:
    """What the routes of operation do."""

    probes: Mapping[str, Probe]
    registry: CollectorRegistry
    probe_timeout_s: float
    start_id: str | None = None
    """The audit row of the process's start; None where nobody asks for it."""

    def live(self) -> web.Response:
        """Answer that the event loop turns."""
        return json_value({"status": "live"})

    async def ready(self) -> web.Response:
        """Answer each dependency by name; 503 with the cause while one cannot be used."""
        names = list(self.probes)
        causes = await asyncio.gather(*(self._ask(self.probes[name]) for name in names))
        found = {name: _state(self.probes[name], cause) for name, cause in zip(names, causes, strict=True)}
        start = {} if self.start_id is None else {"start_id": self.start_id}
        if any(cause is not None for cause in causes):
            answer = json_value(
                {"status": "unavailable", "dependencies": found, **start}, HTTPStatus.SERVICE_UNAVAILABLE
            )
            answer.headers["Retry-After"] = "1"
            return answer
        return json_value({"status": "ready", "dependencies": found, **start})

    async def _ask(self, probe: Probe) -> str | None:
        try:
            async with asyncio.timeout(self.probe_timeout_s):
                return await probe()
        except TimeoutError:
            return LATE

    def metrics(self) -> web.Response:
        """Answer every metric of the process in the Prometheus text format."""
        body = generate_latest(self.registry)
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_LATEST})


def _state(probe: Probe, cause: str | None) -> dict[str, Any]:
    """Return how a dependency is, with what its probe shows beside it."""
    asked: object = probe
    shown = asked.shown() if isinstance(asked, ShowingProbe) else {}
    return {"status": "up", **shown} if cause is None else {"status": "down", "cause": cause, **shown}


def health_endpoints(routes: HealthRoutes, *, metrics_by_token: bool) -> tuple[Endpoint, ...]:
    """Return the routes as data; metrics only if enabled, and then for the operator's token alone."""

    async def live(_: Call) -> web.Response:
        return routes.live()

    async def ready(_: Call) -> web.Response:
        return await routes.ready()

    async def metrics(_: Call) -> web.Response:
        return routes.metrics()

    down = Answer("At least one dependency cannot be used; its cause is told.", _READINESS)
    endpoints = (
        Endpoint(
            method="GET",
            path="/livez",
            handler=live,
            summary="Tell whether the process lives",
            family=_FAMILY,
            answers={HTTPStatus.OK: Answer("It lives.", _STATUS)},
        ),
        Endpoint(
            method="GET",
            path="/readyz",
            handler=ready,
            summary="Tell whether every dependency can be used",
            family=_FAMILY,
            answers={HTTPStatus.OK: Answer("All can.", _READINESS), HTTPStatus.SERVICE_UNAVAILABLE: down},
        ),
        Endpoint(
            method="GET",
            path="/metrics",
            handler=metrics,
            summary="Read the metrics",
            family=_FAMILY,
            answers={HTTPStatus.OK: Answer("Prometheus text.", media_type="text/plain")},
            access=OPERATOR,
        ),
    )
    return endpoints if metrics_by_token else endpoints[:2]


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
