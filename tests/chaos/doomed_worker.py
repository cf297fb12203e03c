"""A worker like any other, until it comes to a chosen point for the nth time and dies."""

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

from app.kafka_log import access_of, prepare_topics
from app.settings import read_settings
from app.startup import until_told_to_stop
from app.telemetry import configure_logging
from app.wiring import House, open_house, open_worker
from streams.runtime.writer import LogWriter
from tests.chaos.doom import Doom, Point, doomed_stores, doomed_writer


async def main(data_dir: Path, point: Point, nth: int) -> None:
    """Work until the point is met, or until told to stop."""
    settings = read_settings(data_dir=data_dir)
    configure_logging(settings.log_format, settings.log_level)
    access, doom = access_of(settings), Doom(nth)
    async with open_house(settings) as sound:
        house = House(doomed_stores(sound.stores, point, doom), sound.root_key)
        await prepare_topics(access)
        async with (
            LogWriter(access) as writer,
            open_worker(settings, house, doomed_writer(writer, point, doom), access),
        ):
            sys.stdout.write("worker is ready: doomed\n")
            sys.stdout.flush()
            await until_told_to_stop()


def run(arguments: Sequence[str]) -> None:
    """Be `doomed POINT NTH --data-dir DATA_DIR`."""
    _, point, nth, _, data_dir = arguments
    asyncio.run(main(Path(data_dir), Point(point), int(nth)))
