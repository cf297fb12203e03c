"""A worker like any other whose deliveries are brisk: what takes days takes half a minute."""

import asyncio
import sys
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Final

from app.composition.stores import open_deployment
from app.composition.webhooks import WebhookPace
from app.composition.wiring import open_worker
from app.kafka.cluster import access_of, prepare_topics
from app.observability.logging import configure_logging
from app.process.startup import until_told_to_stop
from app.settings import read_settings
from streams.runtime.producer import LogWriter
from streams.webhooks.rules import Pace
from streams.webhooks.scheduler import SweepPace

STEPS_S: Final = (0.0, 0.2, 0.4, 0.8, 1.2, 2.0, 3.0, 4.0, 5.0, 6.0)
"""Ten steps, each longer than the one before it, as the promised ones are."""

BRISK: Final = WebhookPace(
    attempts=Pace(
        schedule=tuple(timedelta(seconds=step) for step in STEPS_S), lost_after=timedelta(seconds=3)
    ),
    sweep=SweepPace(again_after=timedelta(seconds=4), older_every=timedelta(seconds=10)),
    sweep_every_s=0.2,
    answer_within_s=1.0,
    settled_after=timedelta(seconds=10),
    refan_every_s=5.0,
)


def run(arguments: Sequence[str]) -> None:
    """Be `brisk --data-dir DATA_DIR`."""
    asyncio.run(_work(Path(arguments[-1])))


async def _work(data_dir: Path) -> None:
    settings = read_settings(data_dir=data_dir)
    configure_logging(settings.log_format, settings.log_level)
    access = access_of(settings)
    async with open_deployment(settings) as deployment:
        await prepare_topics(access)
        async with (
            LogWriter(access, deployment.record_keys) as writer,
            open_worker(settings, deployment, writer, access, pace=BRISK),
        ):
            sys.stdout.write("worker is ready: brisk\n")
            sys.stdout.flush()
            await until_told_to_stop()
