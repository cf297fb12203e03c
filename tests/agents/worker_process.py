"""A worker as a process, `worker_process.py verification|audit BOOTSTRAP DIRECTORY`; files are its store."""

import asyncio
import os
import signal
import sys
from pathlib import Path

import faust

from schemas.audit import SealAudit
from schemas.verifications import SubmitVerification, VerificationDecided
from streams.audit import agent as audit
from streams.ports.stores import WorkingState
from streams.runtime.app import build_app
from streams.runtime.kafka_client_config import LogAccess
from streams.runtime.producer import LogWriter
from streams.runtime.supervisor import running_worker
from streams.verification.change import Remembered
from tests.agents.support import (
    KEYS,
    decided,
    quick_guard,
    quick_settings,
    remembered,
    verification_app,
)

WORK_S = 0.03


class FileStore:
    """Keeps the first of each command and the number of times it was carried out."""

    def __init__(self, directory: Path, state: WorkingState[Remembered]) -> None:
        self._directory = directory
        self._state = state

    async def __call__(self, command: SubmitVerification) -> VerificationDecided:
        """Decide once; answer a replay with the first decision."""
        if self._state.get(command.verification_id) is not None:
            return decided(command, replayed=True)
        await asyncio.sleep(WORK_S)
        replayed = not keep(self._directory, command.request_id)
        self._state.put(command.verification_id, remembered(command))
        return decided(command, replayed=replayed)


def keep(directory: Path, name: str) -> bool:
    """Keep a name; False when it was kept before."""
    try:
        os.close(os.open(directory / name, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


def build(stream: str, writer: LogWriter, bootstrap: str, directory: Path) -> faust.App:
    """The app of one stream."""
    settings = quick_settings(bootstrap, directory / "faust")
    if stream == "verification":
        return verification_app(writer, settings, lambda state: FileStore(directory, state))
    app = build_app(settings)

    async def seal(command: SealAudit) -> None:
        await asyncio.sleep(WORK_S)
        for event_id in command.event_ids:
            keep(directory, event_id)

    audit.register(app, quick_guard(writer, LogAccess(bootstrap)), seal)
    return app


async def main(stream: str, bootstrap: str, directory: Path) -> None:
    """Run until SIGTERM."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    async with (
        LogWriter(LogAccess(bootstrap), KEYS) as writer,
        running_worker(lambda: build(stream, writer, bootstrap, directory)) as worker,
    ):
        await worker.wait_ready()
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        await stop.wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], Path(sys.argv[3])))
