"""Work on a data folder in a process of its own, which is killed at the nth write: a statement or a file.

Every statement that changes a SQLite file and every file that is made, renamed or removed below the folder
counts, in whichever module it happens.
"""

import asyncio
import os
import signal
import sqlite3
import sys
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

from app.__main__ import main
from app.composition.stores import open_deployment
from app.settings import Settings
from tests.bench.year_traffic import YearTraffic
from tests.builders import NOW
from tests.handlers.test_erasure import ErasureStage

UNTIL: Final = timedelta(days=200)
"""When everything of the traffic that ends has ended."""

CHANGING: Final = ("INSERT", "UPDATE", "DELETE", "REPLACE", "COMMIT", "CREATE", "DROP")
FILES: Final = frozenset({
    "os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.link", "os.truncate", "os.chmod",
})  # fmt: skip
WRITING: Final = os.O_WRONLY | os.O_RDWR | os.O_CREAT


class Writes:
    """Counts writes below a folder, and ends the process at the nth, before it is done."""

    def __init__(self, folder: Path, nth: int) -> None:
        self._folder = str(folder)
        self._nth = nth
        self._lock = threading.Lock()
        self.count = 0

    def watch(self) -> None:
        """Begin to count; there is no way back."""
        sys.addaudithook(self._on_event)
        connect = sqlite3.connect

        def connect_watched(*given: Any, **named: Any) -> sqlite3.Connection:
            connection: sqlite3.Connection = connect(*given, **named)
            connection.set_trace_callback(self._on_statement)
            return connection

        sqlite3.connect = connect_watched  # type: ignore[assignment]  # in this process alone

    def _on_event(self, event: str, given: tuple[Any, ...]) -> None:
        writes = event in FILES or (event == "open" and isinstance(given[2], int) and given[2] & WRITING)
        if writes and str(given[0]).startswith(self._folder):
            self._meet()

    def _on_statement(self, statement: str) -> None:
        if statement.lstrip().upper().startswith(CHANGING):
            self._meet()

    def _meet(self) -> None:
        with self._lock:
            self.count += 1
            if self.count == self._nth:
                os.kill(os.getpid(), signal.SIGKILL)


async def expire(settings: Settings, now: datetime) -> None:
    """Let everything that sweeps sweep, and carry out what it asks for."""
    async with open_deployment(settings) as deployment:
        await YearTraffic(deployment.stores, 0).sweep(now)


async def erase(settings: Settings, now: datetime) -> None:
    """Carry out the erasure that was asked for."""
    async with open_deployment(settings) as deployment:
        stage = ErasureStage()
        stage.stores, stage.now = deployment.stores, now
        await stage.execute()


JOBS: Final[Mapping[str, Callable[[Settings, datetime], Awaitable[None]]]] = {
    "expire": expire,
    "erase": erase,
}
"""What is not a command of its own."""


def run_upkeep(arguments: Sequence[str]) -> None:
    """Be the process: a folder, the write to end at (0: none), a job or a command with its arguments."""
    folder, nth, job, *more = arguments
    writes = Writes(Path(folder), int(nth))
    writes.watch()
    if job in JOBS:
        settings = Settings(data_dir=Path(folder))
        asyncio.run(_run(job, settings))
    else:
        sys.argv = ["veristream", job, *more]
        try:
            main()
        except SystemExit as end:
            if end.code:
                raise
    os.write(1, f"\nwrites {writes.count}\n".encode())


async def _run(job: str, settings: Settings) -> None:
    await JOBS[job](settings, NOW + UNTIL if job == "expire" else NOW)
