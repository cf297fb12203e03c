"""What the commands do that run a role or reach the broker; the other modules need less."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import structlog

from app.composition.restore_marker import refuse_marked
from app.composition.stores import open_deployment, record_keys_of
from app.composition.wiring import STREAMS, open_front, open_health, open_worker, require_keys, running_all
from app.http.listen import listen
from app.kafka.cluster import access_of, open_broker, prepare_topics
from app.kafka.diagnostics import reach
from app.observability.logging import configure_logging
from app.process.output import err, out, say_json, table
from app.process.ports import refuse_taken_ports
from app.process.startup import CannotStart, settle_memory, until_told_to_stop
from app.process.unknown_variables import warn_of_unknown_variables
from app.settings import Settings
from schemas.problems import StoreUnavailable
from streams.runtime.dead_letters import DeadLetter, Redriven, list_dead_letters
from streams.runtime.dead_letters import redrive as redrive_letters
from streams.runtime.kafka_client_config import LogAccess
from streams.runtime.producer import LogWriter

log = structlog.get_logger("veristream")

T = TypeVar("T")


async def up(settings: Settings) -> None:
    """Run everything until told to stop; the first line on stdout is the address, once ready."""
    refuse_marked(settings.data_dir)
    _begin(settings)
    with err.status("starting broker, models and agents") as status:
        async with running_all(settings, tell=status.update) as running:
            status.stop()
            _say_ready("veristream", f"{running.url}  (kafka {running.access.bootstrap})")
            await until_told_to_stop()
            err.print("stopping")


async def broker(settings: Settings) -> None:
    """Run the embedded broker until told to stop.

    Raises:
        CannotStart: The deployment has a Kafka, or the broker cannot start.
    """
    if settings.kafka_bootstrap is not None:
        raise CannotStart("SERVICE_KAFKA_BOOTSTRAP names a Kafka; unset it to run the embedded one")
    _begin(settings)
    refuse_taken_ports(settings, with_broker=True)
    async with open_broker(settings) as access:
        await prepare_topics(access)  # on an emptied folder too, while fronts and workers still live
        _say_ready("broker", access.bootstrap)
        await until_told_to_stop()


async def front(settings: Settings) -> None:
    """Run the HTTP front until told to stop."""
    refuse_marked(settings.data_dir)
    _begin(settings)
    access = access_of(settings)
    with listen(settings) as listening:
        refuse_taken_ports(settings, with_broker=False)
        async with open_deployment(settings) as deployment:
            require_keys(deployment, STREAMS)
            await prepare_topics(access)
            async with (
                LogWriter(access, deployment.record_keys) as writer,
                open_front(
                    settings, deployment, writer, access, listening, drain_s=settings.front_drain_s
                ) as url,
            ):
                _say_ready("front", url)
                await until_told_to_stop()


async def worker(settings: Settings, streams: Sequence[str]) -> None:
    """Run agents until told to stop."""
    refuse_marked(settings.data_dir)
    _begin(settings)
    refuse_taken_ports(settings, with_broker=False)
    access = access_of(settings)
    async with open_deployment(settings) as deployment:
        require_keys(deployment, streams)
        await prepare_topics(access)
        async with (
            LogWriter(access, deployment.record_keys) as writer,
            open_worker(settings, deployment, writer, access, streams) as agents,
            open_health(settings, deployment, access, writer, agents) as health,
        ):
            _say_ready("worker", ",".join(streams) + (f"  ({health})" if health else ""))
            await until_told_to_stop()


def _begin(settings: Settings) -> None:
    configure_logging(settings.log_format, settings.log_level)
    warn_of_unknown_variables()
    if settings.webhooks_allow_insecure:
        log.warning("webhooks.insecure_receivers_allowed", mend="unset SERVICE_WEBHOOKS_ALLOW_INSECURE")


def _say_ready(role: str, where: str) -> None:
    settle_memory()
    out.print(f"{role} is ready: {where}", soft_wrap=True, highlight=False)


def chosen_streams(text: str) -> tuple[str, ...]:
    """Return the agents named, or all of them.

    Raises:
        CannotStart: One is unknown.
    """
    named = STREAMS if text == "all" else tuple(part.strip() for part in text.split(","))
    unknown = sorted(set(named) - set(STREAMS))
    if unknown:
        raise CannotStart(f"no such stream: {', '.join(unknown)}; there are: {', '.join(STREAMS)}")
    return named


async def dead_letters(settings: Settings, limit: int) -> list[DeadLetter]:
    """Return the buried messages, oldest first."""
    access, keys = access_of(settings), await record_keys_of(settings)
    return await _with_broker(settings, access, lambda: list_dead_letters(access, keys, limit))


async def redrive(settings: Settings, limit: int) -> dict[str, int]:
    """Send buried messages back once, those that were genuine; return how many, and how many stay."""
    access, keys = access_of(settings), await record_keys_of(settings)

    async def sent() -> Redriven:
        async with LogWriter(access, keys) as writer:
            return await redrive_letters(access, keys, writer, limit)

    done = await _with_broker(settings, access, sent)
    return {"redriven": done.sent, "withheld": done.withheld}


async def _with_broker(settings: Settings, access: LogAccess, asked: Callable[[], Awaitable[T]]) -> T:
    try:
        await reach(access)
        return await asked()
    except StoreUnavailable as error:
        mend = "; see: veristream doctor" if settings.kafka_bootstrap else "; start one with: veristream up"
        raise CannotStart(f"no broker answers: {error}{mend}") from error


def say_dead_letters(letters: Sequence[DeadLetter], *, as_json: bool) -> None:
    """Print buried messages, without what they carry."""
    rows = [
        {
            "offset": letter.offset,
            "source": f"{letter.delivery.topic}/{letter.delivery.partition}@{letter.delivery.offset}",
            "buried_at": letter.written_at,
            "reason": letter.reason,
            "redriven": letter.redriven,
        }
        for letter in letters
    ]
    if as_json:
        say_json(rows)
    elif not rows:
        out.print("No dead letters.")
    else:
        out.print(table("Dead letters", tuple(rows[0]), [tuple(row.values()) for row in rows]))
