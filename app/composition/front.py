"""Run the HTTP front: its ports, its limits, and the socket it serves."""

import asyncio
import secrets
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Final, TypeVar

import structlog
from aiohttp import web
from prometheus_client import CollectorRegistry

from app.adapters.security.key_versions import CursorKeys
from app.composition.front_ports import open_front_ports
from app.composition.lists import ProcessLists
from app.composition.start_audit import AGAIN_AFTER_S, SettingMarks, write_front_start
from app.composition.stores import Deployment, now
from app.configuration.front import is_secure, parse_rate_limits
from app.http.listen import Leaving, listening_url
from app.http.ports import FrontPorts, FrontSettings
from app.http.rate_limit_sharing import LimitSharing
from app.http.rate_limits import RateLimiter
from app.http.routes.health import serving_health
from app.http.server import create_app, make_runner
from app.kafka.request_reply import RequestReply
from app.observability.health_probes import Probe
from app.process.startup import taken
from app.settings import Settings, SettingsRefused
from app.vision.forker import Forker
from schemas.problems import StoreUnavailable
from schemas.topics import Topic
from streams.catalog.handler import Catalogue
from streams.ports.records import Change, Committed
from streams.runtime.kafka_client_config import LogAccess
from streams.runtime.producer import LogWriter
from streams.runtime.supervisor import Worker
from streams.runtime.tables import partitions_of

STORE_S: Final = 60.0
"""How long a start asks again of a store that does not answer in time; a busy Cassandra was seen to be late
after it had opened its tables."""

T = TypeVar("T")

log = structlog.get_logger("veristream")


@asynccontextmanager
async def open_front(
    settings: Settings,
    deployment: Deployment,
    writer: LogWriter,
    access: LogAccess,
    listening: socket.socket,
    worker: Worker | None = None,
    drain_s: float = 0.0,
    forker: Forker | None = None,
    lists: ProcessLists | None = None,
) -> AsyncIterator[str]:
    """Serve HTTP on a bound socket; yields the address callers use.

    At its end it is not ready for `drain_s`, then takes no more connections, and finishes what is under way.

    Raises:
        StoreUnavailable: No broker answers, or the store does not answer for `STORE_S`.
    """
    async with AsyncExitStack() as stack:
        url, leaving = _public_url(settings, listening), Leaving()
        name, keys = f"front-{secrets.token_hex(6)}", deployment.record_keys
        request_reply = await stack.enter_async_context(
            RequestReply(access, writer, keys, name=name, now=now, instance=_instance(settings))
        )
        opening = open_front_ports(
            settings, deployment, writer, access, request_reply, leaving, worker, forker, lists
        )
        ports = await stack.enter_async_context(opening)
        start_id = await _write_start(settings, deployment, ports, listening)
        chosen = _front_settings(settings, deployment, url, start_id)
        limiter = RateLimiter(chosen.rate_limits)
        if chosen.rate_limits is not None:
            await stack.enter_async_context(LimitSharing(access, writer, limiter, keys, name))
        app = create_app(ports, chosen, limiter)
        app.on_response_prepare.append(leaving.sign)
        app.on_shutdown.append(lambda _: request_reply.release(settings.stop_grace_s))
        runner = make_runner(app, ports, chosen, shutdown_timeout_s=settings.stop_grace_s)
        await runner.setup()
        stack.push_async_callback(runner.cleanup)
        await stack.enter_async_context(_health_port(settings, ports.probes, ports.registry))
        await _listen(settings, runner, listening)
        stack.push_async_callback(leaving, runner, listening, drain_s)
        yield url


async def _write_start(
    settings: Settings, deployment: Deployment, ports: FrontPorts, listening: socket.socket
) -> str:
    """Write the first catalogue if there is none, and the row of this start; returns the id of the row."""
    await while_unavailable(Catalogue(ports.stores.records, ports.commit, now).install_first)
    marks, address = SettingMarks.under(deployment.root_key), listening_url(*listening.getsockname()[:2])

    async def commit(change: Change) -> Committed:  # again the same change, whose row is then one
        return await while_unavailable(partial(ports.commit, change))

    return await write_front_start(commit, settings, marks, address)


async def while_unavailable(
    act: Callable[[], Awaitable[T]], for_s: float = STORE_S, again_after_s: float = AGAIN_AFTER_S
) -> T:
    """Repeat an act for so long while the store is unavailable; one that may be repeated.

    Raises:
        StoreUnavailable: It still is.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + for_s
    while True:
        try:
            return await act()
        except StoreUnavailable as error:
            if loop.time() > deadline:
                raise
            log.warning("front.store_late", cause=str(error))
        await asyncio.sleep(again_after_s)


async def _listen(settings: Settings, runner: web.AppRunner, listening: socket.socket) -> None:
    try:
        await web.SockSite(runner, listening).start()
    except OSError as error:  # another process took the port between our two steps
        raise taken(settings.port, settings.host, "--port", error) from error


def _public_url(settings: Settings, listening: socket.socket) -> str:
    url = settings.base_url or f"http://{settings.host}:{listening.getsockname()[1]}"
    if settings.base_url is None and is_secure(url):
        log.warning("front.plain_http_served", fix="set SERVICE_BASE_URL to the https address of its proxy")
    return url


@asynccontextmanager
async def _health_port(
    settings: Settings, probes: Mapping[str, Probe], registry: CollectorRegistry
) -> AsyncIterator[None]:
    """Serve the health port beside the front's, if one is set."""
    if settings.health_port is None:
        yield
        return
    with_metrics = settings.metrics != "off"
    async with serving_health(settings.health_port, probes, registry, with_metrics=with_metrics) as address:
        log.info("health.listening", address=address)
        yield


def _front_settings(settings: Settings, deployment: Deployment, url: str, start_id: str) -> FrontSettings:
    return FrontSettings(
        base_url=url.rstrip("/"),
        cursor_keys=CursorKeys(deployment.root_key),
        operator_token=settings.platform_operator_token,
        rate_limits=parse_rate_limits(settings.rate_limits),
        webhooks_allow_insecure=settings.webhooks_allow_insecure,
        webhooks_ports=settings.webhooks_ports,
        trusted_proxies=settings.trusted_proxies,
        metrics_by_token=_metrics_by_token(settings),
        connections_per_address=settings.connections_per_address,
        start_id=start_id,
    )


def _metrics_by_token(settings: Settings) -> bool:
    if settings.metrics == "token" and settings.platform_operator_token is None:
        raise SettingsRefused(
            "SERVICE_METRICS is token, but there is none; set SERVICE_PLATFORM_OPERATOR_TOKEN (or _FILE)"
        )
    return settings.metrics == "token"


def _instance(settings: Settings) -> int:
    """Return the partition of answers this front reads; two fronts that share one only read more."""
    if settings.front_instance is not None:
        return settings.front_instance
    return secrets.randbelow(partitions_of(Topic.REPLIES))
