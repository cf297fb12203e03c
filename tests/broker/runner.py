"""A broker in a process of its own, to be killed, starved of disk and started again by tests."""

import asyncio
import os
import resource
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import structlog

from app.broker.server import Broker
from app.broker.settings import BrokerSettings, Fsync
from tests.prefork import Forked, fork


class BrokerProcess:
    """`async with BrokerProcess(directory) as process:` runs one; `kill` ends it without warning."""

    def __init__(self, directory: Path, *, fsync: Fsync = Fsync.INTERVAL, file_limit: int = 0) -> None:
        self._arguments = [str(directory), fsync.value, str(file_limit)]
        # the limit holds for a log as well
        self._log = Path(os.devnull) if file_limit else directory.with_name(f"{directory.name}.log")
        self._process: Forked
        self.address = ""

    async def __aenter__(self) -> Self:
        self._process = await fork(run_broker, self._arguments, os.environ, self._log, vision=False)
        self.address = (await asyncio.wait_for(self._process.stdout.readline(), 180)).decode().strip()
        assert self.address, self._log.read_text()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process.returncode is None:
            self._process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(180):
            await self._process.wait()
        sys.stderr.write(self._log.read_text())  # shown where the test fails

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    async def kill(self) -> None:
        """End it as a power switch would end a process."""
        self._process.send_signal(signal.SIGKILL)
        async with asyncio.timeout(180):
            await self._process.wait()

    def give_space(self) -> None:
        """Lift the limit of file sizes while it runs."""
        resource.prlimit(self._process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)


async def serve(directory: Path, fsync: Fsync, file_limit: int) -> None:
    """Run until asked to stop; no file may grow beyond `file_limit` bytes, if it is not 0."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    settings = BrokerSettings(directory, fsync=fsync, flush_interval_s=0.02, segment_bytes=200_000)
    async with Broker(settings) as broker:
        if file_limit:
            resource.setrlimit(resource.RLIMIT_FSIZE, (file_limit, resource.RLIM_INFINITY))
        os.write(1, f"{broker.address}\n".encode())
        await stop.wait()


def run_broker(arguments: Sequence[str]) -> None:
    """Be the process: a directory, when to sync, and the limit of file sizes."""
    directory, fsync, file_limit = arguments
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    asyncio.run(serve(Path(directory), Fsync(fsync), int(file_limit)))
