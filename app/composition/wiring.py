"""The one place where stores, engines, agents and front are put together, for commands and tests alike.

The stores themselves are opened by `stores`, which commands that need nothing else import alone.
"""

import asyncio
import random
import secrets
import socket
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Final

import faust
import structlog
from aiohttp import web
from prometheus_client import CollectorRegistry
from uuid_utils.compat import uuid7

from app.adapters.files.data_dir import STREAMS_FOLDER
from app.adapters.files.evaluation_attempts import FilesystemTries
from app.adapters.security.crypto import Purpose, RootKey
from app.adapters.security.passwords import open_passwords
from app.composition.agents import AGENTS, AgentDependencies
from app.composition.audit_checkpoints import open_checkpoint_writer, upkeep
from app.composition.engines import open_chosen_engines, open_chosen_forker
from app.composition.start_audit import SettingMarks, write_front_start, writing_start
from app.composition.stores import Deployment, new_id, now, open_deployment, people_of
from app.composition.webhooks import FULL_PACE, WebhookPace, WebhookPorts, open_delivering
from app.configuration.public_url import is_secure
from app.configuration.rate_limits import parse_rate_limits
from app.http.health_port import serving_health
from app.http.listen import Leaving, listen, listening_url
from app.http.ports import FrontPorts, FrontSettings
from app.http.rate_limit_sharing import LimitSharing
from app.http.rate_limits import RateLimiter
from app.http.server import create_app, make_runner
from app.intake.admission import Admission, open_admission
from app.intake.capture import build_capture_intake, open_image_pool
from app.intake.capture_tokens import CaptureTokens
from app.intake.verifications import Intake
from app.kafka.cluster import open_broker, prepare_topics
from app.kafka.request_reply import Gateway
from app.observability.backlog import DiskUsage, measuring
from app.observability.disk_space import places_of
from app.observability.health_probes import Probe, probes_of
from app.observability.metrics import build_metrics
from app.observability.process_metrics import process_registry, watching_loop
from app.process.ports import refuse_taken_ports, taken
from app.process.startup import READY_S, CannotStart
from app.settings import Settings, SettingsRefused
from app.vision.engines import open_forker
from app.vision.forker import Forker
from app.vision.job_times import job_times
from app.vision.pooled import PooledImageDecoder
from schemas.topics import Topic
from streams.audit.commit import CommitAndTell
from streams.catalog.handler import Catalogue
from streams.reviewers.context import People
from streams.runtime.app import StreamSettings, build_app
from streams.runtime.event_publisher import KafkaEventPublisher
from streams.runtime.guard import Guard
from streams.runtime.kafka_client_config import LogAccess
from streams.runtime.producer import LogWriter
from streams.runtime.replays import Replays
from streams.runtime.supervisor import Figure, Worker, running_worker
from streams.runtime.tables import partitions_of
from streams.sessions.scheduler import Sweeper, sweeping_sessions
from streams.sign_in.session_cookies import RecogniseReviewer
from streams.tenants.api_keys import TenantKeys
from streams.tenants.handler import Authenticate
from streams.tenants.key_usage import NoteKeyUse

log = structlog.get_logger("veristream")

STREAMS: Final = tuple(AGENTS)
"""Every agent a worker can run."""

SENDING: Final = frozenset({"webhooks", "deliveries"})
"""What the sender of webhooks runs, which needs no root key."""

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Running:
    """A service that is ready."""

    url: str
    access: LogAccess
    deployment: Deployment


@asynccontextmanager
async def open_worker(
    settings: Settings,
    deployment: Deployment,
    writer: LogWriter,
    access: LogAccess,
    streams: Iterable[str] = STREAMS,
    pace: WebhookPace = FULL_PACE,
    forker: Forker | None = None,
) -> AsyncIterator[Worker]:
    """Run the agents; models are loaded and warm, and partitions assigned, when the context is entered.

    Raises:
        CannotStart: A model cannot be used, or the agents do not become ready.
    """
    chosen = tuple(streams)
    require_keys(deployment, chosen)
    async with AsyncExitStack() as stack:
        engines, times = None, job_times()
        if "verification" in chosen:
            engines = await stack.enter_async_context(open_chosen_engines(settings, forker, times))
        announcer = await stack.enter_async_context(KafkaEventPublisher(writer, deployment.stores.journal))
        keys = deployment.record_keys
        guard = Guard(writer, keys, Replays(access, keys), now=now, uniform=random.SystemRandom().uniform)
        hooks = WebhookPorts(
            deployment.stores, writer, now, settings.webhooks_allow_insecure, pace, settings.webhooks_ports
        )
        delivering = await stack.enter_async_context(open_delivering(hooks, chosen))
        tries = None if engines is None else FilesystemTries(settings.data_dir / "tries")
        around = AgentDependencies(
            deployment.stores, deployment.keys, announcer, guard, writer, now, engines, delivering, tries
        )

        def build() -> faust.App:
            app = build_app(
                StreamSettings(
                    access=access,
                    datadir=settings.data_dir / STREAMS_FOLDER,
                    session_timeout_s=settings.worker_session_timeout_s,
                )
            )
            for name in chosen:
                AGENTS[name](app, around)
            return app

        checkpoints = None
        if "audit" in chosen:
            checkpoints = open_checkpoint_writer(settings, deployment, access, writer)
            stack.push_async_callback(checkpoints.finish)  # once the agents have ended
        load = engines.load if engines is not None else None
        worker = await stack.enter_async_context(
            running_worker(
                build,
                waited_at=lambda: guard.waited_at,
                finished=lambda: load.progress if load is not None else 0,
            )
        )
        disks = DiskUsage(places_of(settings))
        await stack.enter_async_context(measuring(disks.measure))
        worker.figures += disks.figures
        if checkpoints is not None:
            await stack.enter_async_context(upkeep(deployment, access, writer, worker, checkpoints))
        if "sessions" in chosen:
            await stack.enter_async_context(
                sweeping_sessions(Sweeper(deployment.stores.records, writer, now))
            )
        await stack.enter_async_context(delivering.looked_after())
        worker.figures += [*delivering.figures, guard_figure(guard)]
        if engines is not None and engines.load is not None:
            worker.figures.append(times)
            worker.probes["engines"] = engines.load.probe
        try:
            async with asyncio.timeout(READY_S):
                await worker.wait_ready()
        except TimeoutError:
            raise CannotStart("the agents did not become ready; see the log above") from None
        commit = CommitAndTell(deployment.stores.journal, announcer)
        await stack.enter_async_context(writing_start(commit, "worker", settings))
        yield worker


def require_keys(deployment: Deployment, streams: Iterable[str]) -> RootKey | None:
    """Return the root key if the streams need it, None if the sender's key is enough for them.

    Raises:
        CannotStart: They need it, and the process was given the sender's key alone.
    """
    return None if SENDING.issuperset(streams) else deployment.root_key


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
) -> AsyncIterator[str]:
    """Serve HTTP on a bound socket; yields the address callers use.

    At its end it is not ready for `drain_s`, then takes no more connections, and finishes what is under way.

    Raises:
        StoreUnavailable: No broker answers.
    """
    async with AsyncExitStack() as stack:
        url = settings.base_url or f"http://{settings.host}:{listening.getsockname()[1]}"
        if settings.base_url is None and is_secure(url):
            log.warning("front.in_the_clear", mend="set SERVICE_BASE_URL to the https address of its proxy")
        name, leaving = f"front-{secrets.token_hex(6)}", Leaving()
        gateway = await stack.enter_async_context(
            Gateway(access, writer, deployment.record_keys, name=name, now=now, instance=_instance(settings))
        )
        told = [] if worker is None else worker.figures
        registry = process_registry(worker, [*told, _gateway_figure(gateway)])
        await stack.enter_async_context(watching_loop(registry))
        asked = probes_of(deployment.stores, access, worker, writer, places_of(settings))
        probes = {**asked, "front": leaving.probe}
        announcer = await stack.enter_async_context(KafkaEventPublisher(writer, deployment.stores.journal))
        commit = CommitAndTell(deployment.stores.journal, announcer)
        if forker is None:
            forker = await stack.enter_async_context(open_forker())
        images = PooledImageDecoder(await stack.enter_async_context(open_image_pool(forker)))
        people = people_of(deployment, commit, await stack.enter_async_context(open_passwords()), settings)
        noting = NoteKeyUse(deployment.stores.journal.commit)
        stack.push_async_callback(noting.aclose)
        places = settings.verifications_at_once or settings.vision_workers
        admission = await stack.enter_async_context(open_admission(places, settings.answer_timeout_s))
        ports = _front_ports(
            settings, deployment, gateway, people, noting, probes, registry, images, writer, admission
        )
        await Catalogue(ports.stores.records, ports.commit, now).install_first()
        marks, address = SettingMarks.under(deployment.root_key), listening_url(*listening.getsockname()[:2])
        start_id = await write_front_start(ports.commit, settings, marks, address)
        chosen = FrontSettings(
            base_url=url.rstrip("/"),
            cursor_key=deployment.root_key.derive(Purpose.CURSORS),
            older_cursor_keys=tuple(key.derive(Purpose.CURSORS) for key in deployment.root_key.others),
            operator_token=settings.platform_operator_token,
            rate_limits=parse_rate_limits(settings.rate_limits),
            webhooks_allow_insecure=settings.webhooks_allow_insecure,
            webhooks_ports=settings.webhooks_ports,
            trusted_proxies=settings.trusted_proxies,
            metrics_by_token=_metrics_by_token(settings),
            connections_per_address=settings.connections_per_address,
            start_id=start_id,
        )
        limiter = RateLimiter(chosen.rate_limits)
        if chosen.rate_limits is not None:
            sharing = LimitSharing(access, writer, limiter, deployment.record_keys, name)
            await stack.enter_async_context(sharing)
        app = create_app(ports, chosen, limiter)
        app.on_response_prepare.append(leaving.sign)
        app.on_shutdown.append(lambda _: gateway.release(settings.stop_grace_s))
        runner = make_runner(app, ports, chosen, shutdown_timeout_s=settings.stop_grace_s)
        await runner.setup()
        stack.push_async_callback(runner.cleanup)
        if settings.health_port is not None:
            health = await stack.enter_async_context(
                _health(settings, settings.health_port, probes, registry)
            )
            log.info("health.listening", address=health)
        try:
            await web.SockSite(runner, listening).start()
        except OSError as error:  # another process took the port between our two steps
            raise taken(settings.port, settings.host, "--port", error) from error
        stack.push_async_callback(leaving, runner, listening, drain_s)
        yield url


def _metrics_by_token(settings: Settings) -> bool:
    if settings.metrics == "token" and settings.platform_operator_token is None:
        raise SettingsRefused(
            "SERVICE_METRICS is token, but there is none; set SERVICE_PLATFORM_OPERATOR_TOKEN (or _FILE)"
        )
    return settings.metrics == "token"


def _health(
    settings: Settings, port: int, probes: Mapping[str, Probe], registry: CollectorRegistry
) -> AbstractAsyncContextManager[str]:
    return serving_health(port, probes, registry, with_metrics=settings.metrics != "off")


def guard_figure(guard: Guard) -> Figure:
    """Return how the records ended that this process's agents met."""
    said = "Records of the log, by how they ended."
    return Figure("veristream_records_total", said, "end", lambda: dict(guard.ends))


def _gateway_figure(gateway: Gateway) -> Figure:
    said = "Answers of agents that were passed over: nobody waited any more, or no agent of ours wrote them."

    def read() -> dict[str, float]:
        return {"late": gateway.late_answers, "forged": gateway.forged_answers}

    return Figure("veristream_answers_passed_over_total", said, "reason", read)


def _instance(settings: Settings) -> int:
    """Return the partition of answers this front reads; two fronts that share one only read more."""
    if settings.front_instance is not None:
        return settings.front_instance
    return secrets.randbelow(partitions_of(Topic.REPLIES))


@asynccontextmanager
async def open_health(
    settings: Settings, deployment: Deployment, access: LogAccess, writer: LogWriter, worker: Worker
) -> AsyncIterator[str | None]:
    """Tell how a process of agents is, on the health port if one is set; yields its address.

    Raises:
        CannotStart: The port is taken.
    """
    if settings.health_port is None:
        yield None
        return
    registry = process_registry(worker, worker.figures)
    probes = probes_of(deployment.stores, access, worker, writer, places_of(settings))
    async with watching_loop(registry), _health(settings, settings.health_port, probes, registry) as url:
        yield url


def _front_ports(
    settings: Settings,
    deployment: Deployment,
    gateway: Gateway,
    people: People,
    noting: NoteKeyUse,
    probes: dict[str, Probe],
    registry: CollectorRegistry,
    images: PooledImageDecoder,
    writer: LogWriter,
    admission: Admission,
) -> FrontPorts:
    stores, pepper = deployment.stores, deployment.root_key.derive(Purpose.API_KEY_PEPPER)
    intake = Intake(
        gateway=gateway,
        records=stores.records,
        evidence=stores.evidence,
        vault=stores.vault,
        images=images,
        clock=now,
        admission=admission,
        answer_timeout_s=settings.answer_timeout_s,
    )
    tokens = CaptureTokens(deployment.root_key.derive(Purpose.CAPTURE_TOKENS), now)
    return FrontPorts(
        authenticate=Authenticate(stores.records, pepper, now, noting),
        recognise_reviewer=RecogniseReviewer(
            stores.records, stores.journal, people.cookie_pepper, now, people.session_idle
        ),
        recognise_capture=tokens.recognise,
        gateway=gateway,
        intake=intake,
        capture=build_capture_intake(stores.evidence, images, now),
        capture_tokens=tokens,
        stores=stores,
        commit=people.commit,
        people=people,
        keys=TenantKeys(stores.records, people.commit, pepper, now, new_id),
        hand=writer.write,
        probes=probes,
        clock=now,
        fresh_uuid=uuid7,
        metrics=build_metrics(registry),
        registry=registry,
    )


@asynccontextmanager
async def running_all(settings: Settings, tell: Tell = lambda _: None) -> AsyncIterator[Running]:
    """Run broker, agents and front in this process; ready when the context is entered.

    Raises:
        CannotStart: A part cannot start; the message names the mend.
    """
    with listen(settings) as listening:
        refuse_taken_ports(settings, with_broker=True)
        async with open_deployment(settings) as deployment, open_broker(settings) as access:
            tell("creating topics")
            await prepare_topics(access)
            tell("loading and warming the models, starting the agents")
            async with (
                open_chosen_forker(settings) as forker,
                LogWriter(access, deployment.record_keys) as writer,
                open_worker(settings, deployment, writer, access, forker=forker) as worker,
                open_front(settings, deployment, writer, access, listening, worker, forker=forker) as url,
            ):
                yield Running(url=url, access=access, deployment=deployment)
