"""Workers like any other, until they come to a chosen point: there they die, or fail."""

import asyncio
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from app.composition.stores import Deployment, open_deployment
from app.composition.wiring import open_worker
from app.kafka.cluster import access_of, prepare_topics
from app.observability.logging import configure_logging
from app.process.startup import until_told_to_stop
from app.settings import read_settings
from schemas.problems import StoreUnavailable
from streams.ports.stores import Stores
from streams.runtime.producer import LogWriter
from tests.chaos.crash_points import Crash, Point, crashing_stores, crashing_writer, failing_stores

WrapStores = Callable[[Stores], Stores]
WrapWriter = Callable[[LogWriter], LogWriter]


async def main(data_dir: Path, wrap_stores: WrapStores, wrap_writer: WrapWriter) -> None:
    """Work with ports that are not what they seem, until asked to stop."""
    settings = read_settings(data_dir=data_dir)
    configure_logging(settings.log_format, settings.log_level)
    access = access_of(settings)
    async with open_deployment(settings) as sound:
        deployment = Deployment(wrap_stores(sound.stores), sound.keys)
        await prepare_topics(access)
        async with (
            LogWriter(access, deployment.record_keys) as writer,
            open_worker(settings, deployment, wrap_writer(writer), access),
        ):
            sys.stdout.write("worker is ready: crashing\n")
            sys.stdout.flush()
            await until_told_to_stop()


def run(arguments: Sequence[str]) -> None:
    """Be `crashing POINT NTH --data-dir DATA_DIR`."""
    _, named, nth, _, data_dir = arguments
    point, crash = Point(named), Crash(int(nth))
    asyncio.run(
        main(
            Path(data_dir),
            lambda stores: crashing_stores(stores, point, crash),
            lambda writer: crashing_writer(writer, point, crash),
        )
    )


def run_failing(arguments: Sequence[str]) -> None:
    """Be `failing --data-dir DATA_DIR`: every call of a store fails twice in ways that pass."""
    errors = (StoreUnavailable("away"), RuntimeError("once"))
    asyncio.run(main(Path(arguments[-1]), lambda stores: failing_stores(stores, *errors), lambda log: log))


def run_burying(arguments: Sequence[str]) -> None:
    """Be `burying --data-dir DATA_DIR`: every commit fails in a way that does not pass."""
    errors = [KeyError("defect")] * 10_000
    asyncio.run(
        main(
            Path(arguments[-1]),
            lambda stores: failing_stores(stores, *errors, calls=[("journal", "commit")]),
            lambda log: log,
        )
    )
