"""The mended consumer: a seek in the middle of a delivery skips no record."""

import asyncio
from pathlib import Path

from app.broker.server import Broker
from app.gateway import Gateway
from schemas.verifications import SubmitVerification, VerificationDecided
from streams.runtime.consumer import mended
from streams.runtime.worker import running_worker
from streams.runtime.writer import LogWriter
from tests.agents.support import ask, decided, names, quick_settings, until_settled, verification_app

COMMANDS = 400
SEEK_EVERY = 30


async def test_seeking_while_records_are_delivered_skips_none(
    broker: Broker, writer: LogWriter, gateway: Gateway, tmp_path: Path
) -> None:
    """Recovery seeks every partition to its commit while the fetcher still delivers."""

    async def work(command: SubmitVerification) -> VerificationDecided:
        await asyncio.sleep(0.02)
        return decided(command)

    app = verification_app(writer, quick_settings(broker.address, tmp_path), lambda _: work)
    async with running_worker(lambda: app) as worker:
        await worker.wait_ready()
        asking = [asyncio.create_task(ask(gateway, name)) for name in names("seek", COMMANDS)]
        for count, answer in enumerate(asyncio.as_completed(asking)):
            await answer
            if count % SEEK_EVERY == 0:
                await mended(app.consumer).perform_seek()
        await until_settled(broker.address)
