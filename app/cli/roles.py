"""Commands that run a role of the service, or read its dead letters: `up`, `front`, `worker`, `dlq` ..."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Annotated, TypeVar

import structlog
import typer

from app.cli.options import AsJson, BrokerPort, DataDir, Port, settings_of, start_settings_of
from app.process.output import err, out, say_json, say_pairs, table
from app.process.startup import (
    CannotStart,
    refuse_taken_ports,
    run,
    settle_memory,
    wait_for_stop_signal,
    warn_of_unknown_variables,
)
from app.settings import Settings
from schemas.problems import StoreUnavailable
from streams.runtime.kafka_client_config import LogAccess

if TYPE_CHECKING:
    from streams.runtime.dead_letters import DeadLetter

dead_letters = typer.Typer(no_args_is_help=True, help="Messages that could not be understood.")


HealthPort = Annotated[
    int | None,
    typer.Option("--health-port", help="Loopback port of /readyz and /metrics \\[default: none]."),
]


def up(
    data_dir: DataDir = None,
    port: Port = None,
    broker_port: BrokerPort = None,
    health_port: HealthPort = None,
) -> None:
    """Run everything in one process: broker, HTTP front and stream agents.

    Try:

      veristream up

      veristream up --port 9000 --data-dir /var/lib/veristream

      veristream up --health-port 8081
    """
    settings = start_settings_of(data_dir, port=port, broker_port=broker_port, health_port=health_port)
    run(run_all(settings))


def broker(data_dir: DataDir = None, broker_port: BrokerPort = None) -> None:
    """Run only the embedded Kafka-protocol broker.

    Try:

      veristream broker --broker-port 9092
    """
    run(run_broker(start_settings_of(data_dir, broker_port=broker_port)))


def front(
    data_dir: DataDir = None,
    port: Port = None,
    reuse_port: Annotated[
        bool | None, typer.Option("--reuse-port", help="Let several fronts share the port.")
    ] = None,
    health_port: HealthPort = None,
) -> None:
    """Run only the HTTP front, against the broker of the same data folder or SERVICE_KAFKA_BOOTSTRAP.

    Try:

      veristream front --port 8080

      veristream front --port 8080 --reuse-port
    """
    settings = start_settings_of(data_dir, port=port, reuse_port=reuse_port, health_port=health_port)
    run(run_front(settings))


def worker(
    data_dir: DataDir = None,
    streams: Annotated[str, typer.Option("--streams", help="Which agents, separated by commas.")] = "all",
    health_port: HealthPort = None,
) -> None:
    """Run only stream agents, against the broker of the same data folder or SERVICE_KAFKA_BOOTSTRAP.

    Try:

      veristream worker

      veristream worker --streams verification --health-port 8081
    """
    settings = start_settings_of(data_dir, health_port=health_port)
    run(run_worker(settings, chosen_streams(streams)))


@dead_letters.command("list")
def dlq_list(
    limit: Annotated[int, typer.Option("--limit", min=1, help="At most so many.")] = 100,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """List messages that were buried, with the reason and where they came from.

    Try:

      veristream dlq list --limit 20
    """
    say_dead_letters(asyncio.run(read_dead_letters(settings_of(data_dir), limit)), as_json=as_json)


@dead_letters.command("redrive")
def dlq_redrive(
    limit: Annotated[int, typer.Option("--limit", min=1, help="At most so many.")] = 100,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Send buried messages back to where they came from, each once; what was forged or cut short stays.

    Try:

      veristream dlq redrive --limit 20
    """
    say_pairs(asyncio.run(redrive_dead_letters(settings_of(data_dir), limit)), as_json=as_json)


log = structlog.get_logger("veristream")

T = TypeVar("T")


async def run_all(settings: Settings) -> None:
    """Run everything until stopped; the first line on stdout is the address, once ready."""
    from app.composition.engines import starting_chosen_forker
    from app.composition.restore_marker import refuse_marked

    refuse_marked(settings.data_dir)
    _begin(settings)
    with (
        err.status("starting broker, models and agents") as status,
        starting_chosen_forker(settings) as forker,
    ):
        from app.composition.wiring import running_all  # takes as long to import as the models to load

        async with running_all(settings, status.update, forker) as running:
            status.stop()
            _say_ready("veristream", f"{running.url}  (kafka {running.access.bootstrap})")
            await wait_for_stop_signal()
            err.print("stopping")


async def run_broker(settings: Settings) -> None:
    """Run the embedded broker until stopped.

    Raises:
        CannotStart: The deployment has a Kafka, or the broker cannot start.
    """
    from app.kafka.cluster import open_broker, prepare_topics

    if settings.kafka_bootstrap is not None:
        raise CannotStart("SERVICE_KAFKA_BOOTSTRAP names a Kafka; unset it to run the embedded one")
    _begin(settings)
    refuse_taken_ports(settings, with_broker=True)
    async with open_broker(settings) as access:
        await prepare_topics(access)  # on an emptied folder too, while fronts and workers still live
        _say_ready("broker", access.bootstrap)
        await wait_for_stop_signal()


async def run_front(settings: Settings) -> None:
    """Run the HTTP front until stopped."""
    from app.composition.front import open_front
    from app.composition.restore_marker import refuse_marked
    from app.composition.stores import open_deployment
    from app.composition.worker import STREAMS, require_keys
    from app.http.listen import listen
    from app.kafka.cluster import access_of, prepare_topics
    from streams.runtime.producer import LogWriter

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
                await wait_for_stop_signal()


async def run_worker(settings: Settings, streams: Sequence[str]) -> None:
    """Run agents until stopped."""
    from app.composition.restore_marker import refuse_marked
    from app.composition.stores import open_deployment
    from app.composition.worker import open_health, open_worker, require_keys
    from app.kafka.cluster import access_of, prepare_topics
    from streams.runtime.producer import LogWriter

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
            await wait_for_stop_signal()


def _begin(settings: Settings) -> None:
    from app.observability.logging import configure_logging

    configure_logging(settings.log_format, settings.log_level)
    warn_of_unknown_variables()
    if settings.webhooks_allow_insecure:
        log.warning("webhooks.insecure_receivers_allowed", fix="unset SERVICE_WEBHOOKS_ALLOW_INSECURE")


def _say_ready(role: str, where: str) -> None:
    settle_memory()
    out.print(f"{role} is ready: {where}", soft_wrap=True, highlight=False)


def chosen_streams(text: str) -> tuple[str, ...]:
    """Return the agents named, or all of them.

    Raises:
        CannotStart: One is unknown.
    """
    from app.composition.worker import STREAMS

    named = STREAMS if text == "all" else tuple(part.strip() for part in text.split(","))
    unknown = sorted(set(named) - set(STREAMS))
    if unknown:
        raise CannotStart(f"no such stream: {', '.join(unknown)}; there are: {', '.join(STREAMS)}")
    return named


async def read_dead_letters(settings: Settings, limit: int) -> "list[DeadLetter]":
    """Return the buried messages, oldest first."""
    from app.composition.stores import record_keys_of
    from app.kafka.cluster import access_of
    from streams.runtime.dead_letters import list_dead_letters

    access, keys = access_of(settings), await record_keys_of(settings)
    return await _with_broker(settings, access, lambda: list_dead_letters(access, keys, limit))


async def redrive_dead_letters(settings: Settings, limit: int) -> dict[str, int]:
    """Send buried messages back once, those that were genuine; return how many, and how many stay."""
    from app.composition.stores import record_keys_of
    from app.kafka.cluster import access_of
    from streams.runtime.dead_letters import Redriven
    from streams.runtime.dead_letters import redrive as redrive_letters
    from streams.runtime.producer import LogWriter

    access, keys = access_of(settings), await record_keys_of(settings)

    async def sent() -> Redriven:
        async with LogWriter(access, keys) as writer:
            return await redrive_letters(access, keys, writer, limit)

    done = await _with_broker(settings, access, sent)
    return {"redriven": done.sent, "withheld": done.withheld}


async def _with_broker(settings: Settings, access: LogAccess, asked: Callable[[], Awaitable[T]]) -> T:
    from app.kafka.diagnostics import reach

    try:
        await reach(access)
        return await asked()
    except StoreUnavailable as error:
        fix = "; see: veristream doctor" if settings.kafka_bootstrap else "; start one with: veristream up"
        raise CannotStart(f"no broker answers: {error}{fix}") from error


def say_dead_letters(letters: "Sequence[DeadLetter]", *, as_json: bool) -> None:
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
