"""Collect `veristream status`: readiness, backlogs and disk space."""

import asyncio
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from datetime import datetime
from functools import partial
from typing import Final

from rich.console import Group
from rich.filesize import decimal as filesize
from rich.live import Live
from rich.table import Table
from rich.text import Text

from app.composition.stores import Deployment, now, open_existing
from app.doctor.model_latency import read_model_latency
from app.doctor.running_service import ServiceCheck
from app.doctor.screening import shown_lists
from app.kafka.cluster import access_of
from app.kafka.diagnostics import reach
from app.observability.backlog import DiskUsage, ages_of, count_in_store
from app.observability.disk_space import places_of
from app.process.output import out
from app.process.startup import CannotStart
from app.settings import Settings, SettingsRefused
from schemas.base import Frozen, rfc3339
from schemas.problems import StoreUnavailable
from streams.retention.scheduler import count_backlog
from streams.runtime.lag import Waiting, measure_waiting

WATCH_EVERY_S: Final = 2.0


_WORDS: Final = {
    "events": "events not sent",
    "audit_chains": "audit chains to seal",
    "audit_rows": "audit rows to seal",
    "dead_letters": "dead letters",
    "evidence": "evidence past its date",
    "erasures": "approved erasures",
}


class Status(Frozen):
    """The collected status; every count is of the whole deployment, never of a tenant."""

    at: datetime
    ready: bool
    service: str
    """Where the service is ready, or why it is not."""
    broker: str | None
    """Why nothing could be counted in the broker; None when it answered."""
    lag: Mapping[str, int]
    """Records that wait for the agents, by topic."""
    waiting: Mapping[str, int]
    """Events not sent, chains with unsealed audit rows and those rows, evidence past its date, erasures, dead
    letters."""
    oldest_event_s: float
    """How long the oldest event that was not sent has waited, in seconds."""
    oldest_command_s: Mapping[str, float]
    """How long the oldest undecided command has waited, in seconds, by topic; 0 without any."""
    oldest_evidence_s: float
    """How long the oldest piece of evidence has been past its date, in seconds."""
    model_latency_s: Mapping[str, float]
    """Mean seconds of a job of the models by kind, where the metrics of the service can be read."""
    lists: Mapping[str, str]
    """The version of each list of the deployment, and when it was loaded."""
    disk_free_bytes: Mapping[str, int]
    disk_used_bytes: Mapping[str, int]


async def read_status(settings: Settings, url: str | None = None) -> Status:
    """Collect the status once; the service is queried at `url`, or at the address it started with.

    Raises:
        CannotStart: The stores cannot be opened.
    """
    async with open_existing(settings) as deployment:
        return await _read(settings, deployment, url)


async def watch(
    settings: Settings,
    url: str | None,
    show: Callable[[Status], object] | None = None,
    every_s: float = WATCH_EVERY_S,
) -> None:
    """Collect and show the status repeatedly, drawn on the screen by default, until interrupted."""
    with ExitStack() as stack:
        if show is None:
            screen = stack.enter_context(Live(console=out, auto_refresh=False))
            show = partial(_redraw, screen)
        async with open_existing(settings) as deployment:
            while True:
                show(await _read(settings, deployment, url))
                await asyncio.sleep(every_s)


def _redraw(screen: Live, status: Status) -> None:
    screen.update(draw(status), refresh=True)


def write_line(status: Status) -> None:
    """Write the status as one line of JSON, at once."""
    sys.stdout.write(status.model_dump_json() + "\n")
    sys.stdout.flush()


async def _read(settings: Settings, deployment: Deployment, url: str | None) -> Status:
    state = await ServiceCheck(settings, url, deployment)()
    latency = await read_model_latency(settings, state.url)
    service = next(one for one in state.findings if one.looked_at == "service")
    waiting, oldest_s = await count_in_store(deployment.stores, now())
    overdue = await count_backlog(deployment.stores, now)
    waiting |= {"evidence": overdue.pieces, "erasures": overdue.erasures}
    disks = DiskUsage(places_of(settings))
    await disks.measure()
    unsettled = Waiting({}, {})
    broker = None
    try:
        access = access_of(settings)
        await reach(access)
        unsettled = await measure_waiting(access)
        waiting["dead_letters"] = unsettled.dead_letters
    except (CannotStart, SettingsRefused, StoreUnavailable) as error:
        broker = str(error)
    return Status(
        at=now(),
        ready=service.ok,
        service=service.found,
        broker=broker,
        lag=unsettled.records,
        waiting=waiting,
        oldest_event_s=round(oldest_s, 1),
        oldest_command_s={}
        if broker
        else {topic: round(age, 1) for topic, age in ages_of(unsettled, now()).items()},
        oldest_evidence_s=round(overdue.oldest_s, 1),
        model_latency_s={kind: round(mean, 3) for kind, mean in latency.items()},
        lists=await shown_lists(deployment),
        disk_free_bytes=disks.free,
        disk_used_bytes=disks.used,
    )


def draw(status: Status) -> Group:
    """Return the status as aligned lines for a person."""
    rows = Table.grid(padding=(0, 2))
    for name, said in _lines(status):
        rows.add_row(name, said)
    return Group(Text(f"Veristream, {rfc3339(status.at)}", style="bold"), rows)


def _lines(status: Status) -> Iterator[tuple[str, Text]]:
    yield "service", Text(status.service, style="green" if status.ready else "bold red")
    if status.broker is not None:
        yield "broker", Text(status.broker, style="bold red")
    else:
        yield "records waiting", _counts({_short(topic): count for topic, count in status.lag.items()})
    for kind, count in status.waiting.items():
        yield _WORDS[kind], _counts({"": count})
    for topic, age_s in status.oldest_command_s.items():
        if age_s:
            yield f"oldest of {_short(topic)}", Text(f"{age_s:.0f} s")
    if status.oldest_event_s:
        yield "oldest event", Text(f"{status.oldest_event_s:.0f} s")
    if status.oldest_evidence_s:
        yield "oldest evidence", Text(f"{status.oldest_evidence_s:.0f} s past its date")
    if status.model_latency_s:
        means = (f"{kind} {mean * 1_000:.0f} ms" for kind, mean in status.model_latency_s.items())
        yield "model latency", Text(", ".join(means))
    for name, version in status.lists.items():
        yield f"list {name}", Text(version)
    yield "disk left", _sizes(status.disk_free_bytes)
    yield "size", _sizes(status.disk_used_bytes)


def _short(topic: str) -> str:
    """Return what a topic is called in a line: `audit`, `verifications`, `webhooks.deliveries`."""
    return topic.removeprefix("idv.").removesuffix(".v1").removesuffix(".commands")


def _counts(counts: Mapping[str, int]) -> Text:
    """Name those that are not zero."""
    some = ", ".join(f"{name} {count}".strip() for name, count in counts.items() if count)
    return Text(some, style="yellow") if some else Text("0")


def _sizes(sizes: Mapping[str, int]) -> Text:
    return Text(", ".join(f"{place} {filesize(size)}" for place, size in sizes.items()))
