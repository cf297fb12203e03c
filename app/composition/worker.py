"""Run the stream agents with their engines, webhook delivery, metrics and probes."""

import asyncio
import random
import secrets
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from functools import partial
from typing import Final

import faust
from prometheus_client import Histogram

from app.adapters.files.data_dir import STREAMS_FOLDER
from app.adapters.files.evaluation_attempts import FilesystemTries
from app.adapters.security.crypto import RootKey
from app.composition.agents import AGENTS, AgentDependencies
from app.composition.audit_checkpoints import open_checkpoint_writer, upkeep
from app.composition.backtest_process import ChildProcess, backtest_figures
from app.composition.engines import open_chosen_engines
from app.composition.lists import ProcessLists, open_lists
from app.composition.start_audit import writing_start
from app.composition.stores import Deployment, new_id, now
from app.composition.transactions import PoliciesProbe, transaction_figures
from app.composition.webhooks import FULL_PACE, WebhookPace, WebhookPorts, open_delivering
from app.http.routes.health import serving_health
from app.kafka.request_reply import KeyRequests, RequestReply
from app.lists.downloading import fetch
from app.lists.serving import ListsProbe, list_figures
from app.lists.updating import ListUpdates, updating_lists
from app.observability.backlog import DiskUsage, measuring
from app.observability.disk_space import places_of
from app.observability.health_probes import probes_of
from app.observability.metrics import process_registry, watching_loop
from app.process.startup import READY_S, CannotStart
from app.settings import Settings
from app.vision.forker import Forker
from app.vision.pool import job_times
from schemas.topics import Topic
from streams.audit.commit import Commit, CommitAndPublish
from streams.backtests.runner import BacktestRunner
from streams.dispositions.scheduler import DispositionScheduler
from streams.lists.screening import ListScreening
from streams.name_screenings.monitoring import MonitoringSweep
from streams.retention.expiry import ListEntryRemoval, RecordExpiry
from streams.retention.scheduler import RetentionSweeper, sweeping_evidence
from streams.runtime.app import StreamSettings, build_app
from streams.runtime.authentication import RecordKeys
from streams.runtime.event_publisher import KafkaEventPublisher
from streams.runtime.guard import Guard
from streams.runtime.kafka_client_config import LogAccess
from streams.runtime.producer import LogWriter
from streams.runtime.record_removal import Removal, removing_records
from streams.runtime.replays import Replays
from streams.runtime.supervisor import Figure, Worker, running_worker
from streams.runtime.tables import partitions_of
from streams.sessions.removal import SessionRemoval
from streams.sessions.scheduler import SessionScheduler
from streams.transactions.scheduler import HoldScheduler
from streams.verification.engines import Engines
from streams.verification.removal import PictureRemoval
from streams.wallets.listed import LoadedWalletLists
from streams.webhooks.removal import DeliveryRemoval

STREAMS: Final = tuple(AGENTS)
"""Every agent a worker can run."""


NEED_ENGINES: Final = frozenset({"verification", "sessions"})
"""Streams that look at images: sessions at selfies and at frames of movements."""

SCREENING: Final = frozenset({"verification", "transactions", "screenings", "reviews"})
"""What compares names with lists, or binds a disposition to an entry of one."""

SENDING: Final = frozenset({"webhooks", "deliveries"})
"""What the sender of webhooks runs, which needs no root key."""


@asynccontextmanager
async def open_worker(
    settings: Settings,
    deployment: Deployment,
    writer: LogWriter,
    access: LogAccess,
    streams: Iterable[str] = STREAMS,
    pace: WebhookPace = FULL_PACE,
    forker: Forker | None = None,
    lists: ProcessLists | None = None,
) -> AsyncIterator[Worker]:
    """Run the agents; models are loaded and warm, and partitions assigned, when the context is entered.

    Raises:
        CannotStart: A model cannot be used, or the agents do not become ready.
    """
    chosen = tuple(streams)
    require_keys(deployment, chosen)
    async with AsyncExitStack() as stack:
        engines, times = None, job_times()
        if not NEED_ENGINES.isdisjoint(chosen):
            engines = await stack.enter_async_context(open_chosen_engines(settings, forker, times))
        if SCREENING.isdisjoint(chosen):
            lists = None
        elif lists is None:
            opening = open_lists(settings, deployment, writer, access, whole=True)
            lists = await stack.enter_async_context(opening)
        around = await _open_dependencies(
            stack, settings, deployment, writer, access, chosen, pace, engines, lists
        )
        checkpoints = None
        if "audit" in chosen:
            checkpoints = open_checkpoint_writer(settings, deployment, access, writer)
            stack.push_async_callback(checkpoints.finish)  # once the agents have ended
        worker = await stack.enter_async_context(_running(settings, access, chosen, around))
        if checkpoints is not None:
            await stack.enter_async_context(upkeep(deployment, access, writer, worker, checkpoints))
        commit = CommitAndPublish(deployment.stores.journal, around.announcer)
        await _open_sweeps(stack, settings, deployment, writer, chosen, worker, commit, lists)
        await stack.enter_async_context(around.delivering.looked_after())
        _show(worker, around, lists, times)
        await _require_ready(worker)
        await stack.enter_async_context(writing_start(commit, "worker", settings))
        yield worker


async def _open_dependencies(
    stack: AsyncExitStack,
    settings: Settings,
    deployment: Deployment,
    writer: LogWriter,
    access: LogAccess,
    chosen: Sequence[str],
    pace: WebhookPace,
    engines: Engines | None,
    lists: ProcessLists | None,
) -> AgentDependencies:
    """Open what the agents work with."""
    stores, keys = deployment.stores, deployment.record_keys
    announcer = await stack.enter_async_context(KafkaEventPublisher(writer, stores))
    guard = Guard(writer, keys, Replays(access, keys), now=now, uniform=random.SystemRandom().uniform)
    hooks = WebhookPorts(stores, writer, now, settings.webhooks_allow_insecure, pace, settings.webhooks_ports)
    delivering = await stack.enter_async_context(open_delivering(hooks, chosen))
    return AgentDependencies(
        stores,
        deployment.keys,
        announcer,
        guard,
        writer,
        now,
        engines,
        delivering,
        tries=None if engines is None else FilesystemTries(settings.data_dir / "tries"),
        screening=None if lists is None else ListScreening(lists.current, now),
        wallet_lists=None if lists is None else LoadedWalletLists(lists.current, now),
        lists=None if lists is None else lists.current,
        ask_key=await stack.enter_async_context(KeyRequests(partial(_key_replies, access, writer, keys))),
    )


def _show(worker: Worker, around: AgentDependencies, lists: ProcessLists | None, times: Histogram) -> None:
    """Add to the worker's metrics and probes what its agents work with."""
    worker.figures += [*around.delivering.figures, guard_figure(around.guard)]
    if lists is not None:
        worker.figures += list_figures(lists.deployment.lists, now)
        worker.figures += transaction_figures(around.transaction_counters)
        worker.probes["policies"] = PoliciesProbe(around.transaction_counters)
        worker.probes["lists"] = ListsProbe(lists.deployment, now)
        if lists.names is not None:
            worker.figures += lists.names.figures
            worker.probes["names"] = lists.names.probe
    if around.engines is not None and around.engines.load is not None:
        worker.figures.append(times)
        worker.probes["engines"] = around.engines.load.probe


@asynccontextmanager
async def _running(
    settings: Settings, access: LogAccess, chosen: Sequence[str], around: AgentDependencies
) -> AsyncIterator[Worker]:
    """Run the agents, and measure the disks that they write to."""
    load = None if around.engines is None else around.engines.load
    running = running_worker(
        partial(_build_app, settings, access, chosen, around),
        waited_at=lambda: around.guard.waited_at,
        finished=lambda: load.progress if load is not None else 0,
    )
    disks = DiskUsage(places_of(settings))
    async with running as worker, measuring(disks.measure):
        worker.figures += disks.figures
        yield worker


@asynccontextmanager
async def _maintaining(
    settings: Settings,
    deployment: Deployment,
    writer: LogWriter,
    worker: Worker,
    commit: Commit,
    lists: ProcessLists | None,
) -> AsyncIterator[None]:
    """Remove what is past its period, and update lists where that is asked for, while responsible for it."""
    sweeper = RetentionSweeper(deployment.stores, writer.write, now)
    worker.figures += sweeper.figures
    is_responsible = partial(worker.is_assigned, Topic.RETENTION_COMMANDS, 0)
    removals: dict[str, Removal] = {
        "deliveries": DeliveryRemoval(deployment.stores, now),
        "sessions": SessionRemoval(deployment.stores, now),
        "lists": ListEntryRemoval(deployment.stores, now),
        "pictures": PictureRemoval(deployment.stores, now),
        "records": RecordExpiry(deployment.stores, now),
    }
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(sweeping_evidence(sweeper, is_responsible))
        await stack.enter_async_context(removing_records(removals, is_responsible))
        if lists is not None and settings.lists_update is not None:
            period = timedelta(hours=int(settings.lists_update.removesuffix("h")))
            updates = ListUpdates(lists.publishing(commit), fetch, period, is_responsible, now)
            await stack.enter_async_context(updating_lists(updates))
        yield


async def _open_sweeps(
    stack: AsyncExitStack,
    settings: Settings,
    deployment: Deployment,
    writer: LogWriter,
    chosen: Sequence[str],
    worker: Worker,
    commit: Commit,
    lists: ProcessLists | None,
) -> None:
    """Start what looks for work that is due."""
    records = deployment.stores.records
    if "sessions" in chosen:
        await stack.enter_async_context(SessionScheduler(records, writer, now).running())
    if "transactions" in chosen:
        await stack.enter_async_context(HoldScheduler(records, writer, now).running())
    if "screenings" in chosen:
        await stack.enter_async_context(DispositionScheduler(records, writer, now).running())
    if "screenings" in chosen and lists is not None:
        monitoring = MonitoringSweep(records, writer.write, lists.current.versions, now)
        is_first = partial(worker.is_assigned, Topic.SCREENING_COMMANDS, 0)
        await stack.enter_async_context(monitoring.running(is_first))
    if "policies" in chosen:
        backtests = BacktestRunner(records, commit, ChildProcess(settings.data_dir), new_id("wrk"), now)
        await stack.enter_async_context(backtests.looking())
        worker.figures += backtest_figures(backtests)
    if "retention" in chosen:
        maintaining = _maintaining(settings, deployment, writer, worker, commit, lists)
        await stack.enter_async_context(maintaining)


def _key_replies(access: LogAccess, writer: LogWriter, keys: RecordKeys) -> RequestReply:
    """Return what reads the answers of keys, under a name of its own and in any partition of answers."""
    partition = secrets.randbelow(partitions_of(Topic.REPLIES))
    return RequestReply(
        access, writer, keys, name=f"worker-{secrets.token_hex(6)}", now=now, instance=partition
    )


def _build_app(
    settings: Settings, access: LogAccess, streams: Sequence[str], around: AgentDependencies
) -> faust.App:
    app = build_app(
        StreamSettings(
            access=access,
            datadir=settings.data_dir / STREAMS_FOLDER,
            session_timeout_s=settings.worker_session_timeout_s,
        )
    )
    for name in streams:
        AGENTS[name](app, around)
    return app


async def _require_ready(worker: Worker) -> None:
    try:
        async with asyncio.timeout(READY_S):
            await worker.wait_ready()
    except TimeoutError:
        raise CannotStart("the agents did not become ready; see the log above") from None


def require_keys(deployment: Deployment, streams: Iterable[str]) -> RootKey | None:
    """Return the root key if the streams need it, None if the sender's key is enough for them.

    Raises:
        CannotStart: They need it, and the process was given the sender's key alone.
    """
    return None if SENDING.issuperset(streams) else deployment.root_key


def guard_figure(guard: Guard) -> Figure:
    """Return how the records ended that this process's agents met."""
    said = "Records of the log, by how they ended."
    return Figure("veristream_records_total", said, "end", lambda: dict(guard.ends))


@asynccontextmanager
async def open_health(
    settings: Settings, deployment: Deployment, access: LogAccess, writer: LogWriter, worker: Worker
) -> AsyncIterator[str | None]:
    """Report how a process of agents is, on the health port if one is set; yields its address.

    Raises:
        CannotStart: The port is taken.
    """
    if settings.health_port is None:
        yield None
        return
    registry = process_registry(worker, worker.figures)
    probes = probes_of(deployment.stores, access, worker, writer, places_of(settings))
    async with (
        watching_loop(registry),
        serving_health(settings.health_port, probes, registry, with_metrics=settings.metrics != "off") as url,
    ):
        yield url
