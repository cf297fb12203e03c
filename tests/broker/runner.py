"""A broker in a process of its own, to be killed, starved of disk and started again by tests."""

import asyncio
import os
import resource
import signal
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

import structlog

from app.broker.server import Broker
from app.broker.settings import BrokerSettings, Fsync


class BrokerProcess:
    """`async with BrokerProcess(directory) as process:` runs one; `kill` ends it without warning."""

    def __init__(self, directory: Path, *, fsync: Fsync = Fsync.INTERVAL, file_limit: int = 0) -> None:
        self._arguments = [str(directory), fsync.value, str(file_limit)]
        self._errors = asyncio.subprocess.DEVNULL if file_limit else None  # the limit holds for a log as well
        self._process: asyncio.subprocess.Process
        self.address = ""

    async def __aenter__(self) -> Self:
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "tests.broker.runner",
            *self._arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=self._errors,
            cwd=Path(__file__).parents[2],
        )
        assert self._process.stdout is not None
        self.address = (await asyncio.wait_for(self._process.stdout.readline(), 180)).decode().strip()
        assert self.address
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process.returncode is None:
            self._process.terminate()
        async with asyncio.timeout(180):
            await self._process.wait()

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


if __name__ == "__main__":
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    asyncio.run(serve(Path(sys.argv[1]), Fsync(sys.argv[2]), int(sys.argv[3])))
