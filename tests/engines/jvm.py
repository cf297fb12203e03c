"""One Java server as a child process: started, waited for, paused, killed, started again on what it kept."""

import asyncio
import hashlib
import os
import random
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import ClassVar, Final, Self

from tests.engines.java import FIX, find_java, java_version
from tests.engines.maven import Jars, made_once, resolve
from tests.tied import tied

PORTS: Final = range(15_000, 32_000)
"""Below the range the system hands to clients."""

SHARES: Final = 8
"""Each process of a test run takes ports of its own share: one that is free may be taken any moment."""

START_S: Final = 300.0
"""How long a start may take on a busy machine; a few seconds are usual."""

STOP_S: Final = 120.0
"""How long a server may take to end by itself; Cassandra was seen to need seven seconds."""

POLL_S: Final = 0.05
"""Seconds between two looks at a port nobody listens on yet."""

QUICK: Final = (
    *("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-Djava.awt.headless=true"),
    *("-XX:+UnlockDiagnosticVMOptions", "-XX:-BytecodeVerificationRemote"),  # of released jars
)
"""A start in two seconds matters more here than speed after ten minutes."""


class EngineNotStarted(Exception):
    """A server ended, or stayed deaf, instead of serving; the message carries the end of its log."""


ARCHIVE: Final = "classes.jsa"
"""Classes in the form they have in memory (JEP 350); who maps them starts in two thirds of the time."""


def archive_folder(jars: Path) -> Path:
    """Where the archive of the classes in these jars is; another build of Java has another place."""
    digest = hashlib.sha256(java_version().encode()).hexdigest()[:12]
    return jars.with_name(f"{jars.name}-classes-{digest}")


def java_command(jars: Path, *arguments: str) -> list[str]:
    """The command line of a program in these jars, which maps the archive of their classes if there is one.

    Raises:
        EngineNotStarted: There is no Java to run it with.
    """
    java = find_java()
    if java is None:
        raise EngineNotStarted(f"no Java 17 was found: {FIX}")
    archive = archive_folder(jars) / ARCHIVE
    mapped = [f"-XX:SharedArchiveFile={archive}"] if archive.is_file() else []
    return [java, *QUICK, *mapped, "-cp", f"{jars}/*", *arguments]


def free_ports(count: int) -> list[int]:
    """Ports of the loopback address nobody listens on.

    While a server is dead, nobody else is given its port, and no client that keeps knocking there can be
    connected to itself.
    """
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    found: list[int] = []
    while len(found) < count:
        port = random.choice(PORTS[worker % SHARES :: SHARES])
        with socket.socket() as trial:
            if port not in found and trial.connect_ex(("127.0.0.1", port)) != 0:
                found.append(port)
    return found


class JvmServer:
    """A Java server with a folder and ports of its own; both outlive its process.

    The first one of its kind runs once before, to leave the archive of its classes.
    """

    jars: ClassVar[Jars]

    def __init__(self, folder: Path, *, ports: int) -> None:
        self.folder = folder
        self.ports = free_ports(ports)
        self.archive: Path | None = None
        """Where it leaves the archive of its classes when it ends by itself."""
        self._process: subprocess.Popen[bytes] | None = None

    async def __aenter__(self) -> Self:
        """Start it; a start that fails leaves nothing running."""
        try:
            await self.start()
        except BaseException:
            await self.kill()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        """End it the quick way: nobody reads what it kept any more."""
        await self.kill()

    @property
    def pid(self) -> int:
        """The process id of the running server."""
        assert self._process is not None, "the server was not started"
        return self._process.pid

    def is_running(self) -> bool:
        """Whether its process lives, paused or not."""
        return self._process is not None and self._process.poll() is None

    @property
    def ports_of_clients(self) -> list[int]:
        """The ports it must listen on before it counts as started; Kafka opens its listeners one by one."""
        return self.ports[:1]

    @property
    def log(self) -> Path:
        """What it printed, over all its lives."""
        return self.folder / "server.log"

    @staticmethod
    def plain(folder: Path) -> "JvmServer":
        """A server of this kind with nothing special about it."""
        raise NotImplementedError

    async def command(self, jars: Path) -> list[str]:
        """Prepare the folder and return the command line; called before every start."""
        raise NotImplementedError

    async def greet(self) -> None:
        """Return as soon as it serves; called once its port accepts."""

    async def start(self) -> None:
        """Start it on its folder and ports, and wait until it serves.

        Raises:
            EngineNotStarted: It ended or stayed deaf; the message carries its log.
        """
        assert not self.is_running(), "the server runs already"
        self.folder.mkdir(parents=True, exist_ok=True)
        jars = await asyncio.to_thread(resolve, self.jars)
        if self.archive is None:
            make = partial(leave_archive, self.plain)
            await asyncio.to_thread(made_once, archive_folder(jars), make)
        command = await self.command(jars)
        if self.archive is not None:
            command.insert(1, f"-XX:ArchiveClassesAtExit={self.archive}")
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(  # noqa: ASYNC220, S603 - a handle any event loop may use
                [*tied(), *command],
                stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                env={**os.environ, "MALLOC_ARENA_MAX": "2"}, start_new_session=True,
            )  # fmt: skip
        deadline = time.monotonic() + START_S
        while not all([await _accepts(port) for port in self.ports_of_clients]):
            if not self.is_running() or time.monotonic() > deadline:
                raise EngineNotStarted(f"{' '.join(command[-2:])} does not serve:\n{self._last_words()}")
            await asyncio.sleep(POLL_S)
        await self.greet()

    async def kill(self) -> None:
        """End it at once, as a lost machine would; a dead one stays dead."""
        if self._process is not None:
            self._process.kill()
            await self._ended()

    async def stop(self) -> None:
        """Ask it to end, and wait until it did."""
        if self._process is not None:
            self._process.terminate()
            await self._ended()

    async def restart(self) -> None:
        """Kill it and start it again on the same folder and ports."""
        await self.kill()
        await self.start()

    def pause(self) -> None:
        """Freeze it: connections stay open, nothing is answered from here on.

        When `kill` returns the signal is only sent: on a busy machine the server once answered after it.
        """
        os.kill(self.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def resume(self) -> None:
        """Let it go on."""
        os.kill(self.pid, signal.SIGCONT)

    async def _ended(self) -> None:
        assert self._process is not None
        try:
            await asyncio.to_thread(self._process.wait, STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            await asyncio.to_thread(self._process.wait)

    def _last_words(self) -> str:
        return self.log.read_text(errors="replace")[-4_000:]


def leave_archive(plain: Callable[[Path], JvmServer], folder: Path) -> None:
    """Run a server from its start to its end, so that it leaves the archive of its classes in the folder.

    Raises:
        EngineNotStarted: It did not start, or was ended before it had written the archive.
    """

    async def run() -> None:
        server = plain(folder.with_name("server"))
        server.archive = folder / ARCHIVE
        async with server:
            await server.stop()
        if not server.archive.is_file():  # a folder without one would stay in the cache for ever
            said = server.log.read_text(encoding="utf-8", errors="replace")[-4_000:]
            raise EngineNotStarted(f"it ended without leaving an archive of its classes:\n{said}")

    folder.mkdir()
    asyncio.run(run())


async def _accepts(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    return True
