"""`doomed_worker.py DATA_DIR POINT NTH`: a worker like any other, until it comes to the point and dies."""

import asyncio
import sys
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


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), Point(sys.argv[2]), int(sys.argv[3])))
