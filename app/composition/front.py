"""Run the HTTP front: its ports, its limits, and the socket it serves."""

import secrets
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager

import structlog
from aiohttp import web
from prometheus_client import CollectorRegistry
from uuid_utils.compat import uuid7

from app.adapters.security.crypto import Purpose
from app.adapters.security.passwords import open_passwords
from app.composition.lists import ProcessLists, open_lists
from app.composition.start_audit import SettingMarks, write_front_start
from app.composition.stores import Deployment, new_id, now, people_of
from app.configuration.public_url import is_secure
from app.configuration.rate_limits import parse_rate_limits
from app.http.listen import Leaving, listening_url
from app.http.ports import FrontPorts, FrontSettings
from app.http.rate_limit_sharing import LimitSharing
from app.http.rate_limits import RateLimiter
from app.http.routes.health import serving_health
from app.http.server import create_app, make_runner
from app.intake.admission import Admission, open_admission
from app.intake.capture import CaptureTokens, build_capture_intake, open_image_pool
from app.intake.dispositions import DispositionIntake
from app.intake.history import HistoryIntake
from app.intake.name_screenings import NameScreeningIntake
from app.intake.transactions import TransactionIntake
from app.intake.verifications import Intake
from app.kafka.request_reply import RequestReply
from app.observability.disk_space import places_of
from app.observability.health_probes import Probe, probes_of
from app.observability.metrics import build_metrics, process_registry, watching_loop
from app.process.startup import taken
from app.settings import Settings, SettingsRefused
from app.vision.engines import open_forker
from app.vision.forker import Forker
from app.vision.pooled import PooledImageDecoder
from schemas.topics import Topic
from streams.audit.commit import CommitAndPublish
from streams.catalog.handler import Catalogue
from streams.lists.handler import ChangeLists
from streams.policies.list_names import ListsInUse
from streams.policies.published import PublishedPolicies
from streams.reviewers.context import People
from streams.runtime.event_publisher import KafkaEventPublisher
from streams.runtime.kafka_client_config import LogAccess
from streams.runtime.producer import LogWriter
from streams.runtime.supervisor import Figure, Worker
from streams.runtime.tables import partitions_of
from streams.sign_in.session_cookies import RecogniseReviewer
from streams.tenants.api_keys import TenantKeys
from streams.tenants.handler import Authenticate
from streams.tenants.key_usage import NoteKeyUse
from streams.transactions.keyed_hashes import KeyedHashes
from streams.wallets.handler import AssessWallets
from streams.wallets.listed import LoadedWalletLists
from streams.wallets.nodes import NodeNames

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
        StoreUnavailable: No broker answers.
    """
    async with AsyncExitStack() as stack:
        url = _public_url(settings, listening)
        name, leaving = f"front-{secrets.token_hex(6)}", Leaving()
        request_reply = await stack.enter_async_context(
            RequestReply(
                access, writer, deployment.record_keys, name=name, now=now, instance=_instance(settings)
            )
        )
        figures = [] if worker is None else worker.figures
        registry = process_registry(worker, [*figures, _replies_figure(request_reply)])
        await stack.enter_async_context(watching_loop(registry))
        asked = probes_of(deployment.stores, access, worker, writer, places_of(settings))
        probes = {**asked, "front": leaving.probe}
        announcer = await stack.enter_async_context(KafkaEventPublisher(writer, deployment.stores))
        commit = CommitAndPublish(deployment.stores.journal, announcer)
        if forker is None:
            forker = await stack.enter_async_context(open_forker())
        images = PooledImageDecoder(await stack.enter_async_context(open_image_pool(forker)))
        people = people_of(deployment, commit, await stack.enter_async_context(open_passwords()), settings)
        noting = NoteKeyUse(deployment.stores.journal.commit)
        stack.push_async_callback(noting.aclose)
        places = settings.verifications_at_once or settings.vision_workers + 1
        admission = await stack.enter_async_context(open_admission(places, settings.answer_timeout_s))
        if lists is None:
            opening = open_lists(settings, deployment, writer, access, whole=False)
            lists = await stack.enter_async_context(opening)
        ports = _front_ports(
            settings, deployment, request_reply, people, noting, probes, registry, images, writer, admission,
            lists,
        )  # fmt: skip
        await Catalogue(ports.stores.records, ports.commit, now).install_first()
        marks, address = SettingMarks.under(deployment.root_key), listening_url(*listening.getsockname()[:2])
        start_id = await write_front_start(ports.commit, settings, marks, address)
        chosen = _front_settings(settings, deployment, url, start_id)
        limiter = RateLimiter(chosen.rate_limits)
        if chosen.rate_limits is not None:
            sharing = LimitSharing(access, writer, limiter, deployment.record_keys, name)
            await stack.enter_async_context(sharing)
        app = create_app(ports, chosen, limiter)
        app.on_response_prepare.append(leaving.sign)
        app.on_shutdown.append(lambda _: request_reply.release(settings.stop_grace_s))
        runner = make_runner(app, ports, chosen, shutdown_timeout_s=settings.stop_grace_s)
        await runner.setup()
        stack.push_async_callback(runner.cleanup)
        await stack.enter_async_context(_health_port(settings, probes, registry))
        try:
            await web.SockSite(runner, listening).start()
        except OSError as error:  # another process took the port between our two steps
            raise taken(settings.port, settings.host, "--port", error) from error
        stack.push_async_callback(leaving, runner, listening, drain_s)
        yield url


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


def _metrics_by_token(settings: Settings) -> bool:
    if settings.metrics == "token" and settings.platform_operator_token is None:
        raise SettingsRefused(
            "SERVICE_METRICS is token, but there is none; set SERVICE_PLATFORM_OPERATOR_TOKEN (or _FILE)"
        )
    return settings.metrics == "token"


def _replies_figure(request_reply: RequestReply) -> Figure:
    said = "Answers of agents that were passed over: nobody waited any more, or no agent of ours wrote them."

    def read() -> dict[str, float]:
        return {"late": request_reply.late_answers, "forged": request_reply.forged_answers}

    return Figure("veristream_answers_passed_over_total", said, "reason", read)


def _instance(settings: Settings) -> int:
    """Return the partition of answers this front reads; two fronts that share one only read more."""
    if settings.front_instance is not None:
        return settings.front_instance
    return secrets.randbelow(partitions_of(Topic.REPLIES))


def _front_ports(
    settings: Settings,
    deployment: Deployment,
    request_reply: RequestReply,
    people: People,
    noting: NoteKeyUse,
    probes: dict[str, Probe],
    registry: CollectorRegistry,
    images: PooledImageDecoder,
    writer: LogWriter,
    admission: Admission,
    lists: ProcessLists,
) -> FrontPorts:
    stores, pepper = deployment.stores, deployment.root_key.derive(Purpose.API_KEY_PEPPER)
    intake = Intake(
        request_reply=request_reply,
        records=stores.records,
        evidence=stores.evidence,
        vault=stores.vault,
        images=images,
        clock=now,
        admission=admission,
        answer_timeout_s=settings.answer_timeout_s,
    )
    hashes = KeyedHashes(deployment.root_key.derive(Purpose.TRANSACTION_HASHES))
    transactions = TransactionIntake(
        request_reply=request_reply,
        records=stores.records,
        vault=stores.vault,
        hashes=hashes,
        clock=now,
    )
    name_screenings = NameScreeningIntake(
        request_reply, stores.records, stores.vault, hashes, now, settings.answer_timeout_s
    )
    history = HistoryIntake(
        request_reply, stores.records, people.commit, stores.vault, transactions.hashes, now
    )
    tokens = CaptureTokens(deployment.root_key.derive(Purpose.CAPTURE_TOKENS), now)
    return FrontPorts(
        authenticate=Authenticate(stores.records, pepper, now, noting),
        recognise_reviewer=RecogniseReviewer(
            stores.records, stores.journal, people.cookie_pepper, now, people.session_idle
        ),
        recognise_capture=tokens.recognise,
        request_reply=request_reply,
        intake=intake,
        transactions=transactions,
        name_screenings=name_screenings,
        dispositions=DispositionIntake(
            request_reply, stores.records, stores.vault, hashes, now, settings.answer_timeout_s
        ),
        history=history,
        capture=build_capture_intake(stores.evidence, images, now),
        capture_tokens=tokens,
        stores=stores,
        commit=people.commit,
        people=people,
        keys=TenantKeys(stores.records, people.commit, pepper, now, new_id),
        wallets=AssessWallets(
            stores,
            people.commit,
            LoadedWalletLists(lists.current, now),
            NodeNames(deployment.root_key.derive(Purpose.WALLET_LEDGER)),
            now,
        ),
        lists=ChangeLists(
            lists.storage,
            people.commit,
            now,
            new_id,
            ListsInUse(PublishedPolicies(stores.records)),
            lists.announce,
        ),
        publish_list=lists.publishing(people.commit),
        hand=writer.write,
        probes=probes,
        clock=now,
        fresh_uuid=uuid7,
        metrics=build_metrics(registry),
        registry=registry,
    )
