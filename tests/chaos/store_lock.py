"""The embedded store made unreachable from outside, as a stuck backup or another program would do it.

In WAL mode SQLite locks bytes of the `-shm` file (sqlite.org, "WAL-mode File Format", section 2.3.2).
"""

import asyncio
import fcntl
import os
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing, suppress
from pathlib import Path
from typing import Final

from app.adapters.files.data_dir import DATABASE_FILE

_FIRST_LOCK: Final = 120
_LOCKS: Final = 8
"""Write, checkpoint, recover, and five places for readers."""


@asynccontextmanager
async def nobody_reads_or_writes(data_dir: Path) -> AsyncIterator[None]:
    """Hold every lock of the database for the length of the context; who reads just now finishes."""
    file = os.open(data_dir / f"{DATABASE_FILE}-shm", os.O_RDWR)
    try:
        await asyncio.to_thread(fcntl.lockf, file, fcntl.LOCK_EX, _LOCKS, _FIRST_LOCK)
        yield
    finally:
        os.close(file)


@asynccontextmanager
async def nobody_writes(data_dir: Path) -> AsyncIterator[None]:
    """Hold the lock of the writer for the length of the context; reading goes on."""
    path = data_dir / DATABASE_FILE
    with closing(
        sqlite3.connect(path, isolation_level=None, timeout=60, check_same_thread=False)
    ) as connection:
        await asyncio.to_thread(connection.execute, "BEGIN IMMEDIATE")
        yield


async def can_be_written(data_dir: Path, within_s: float = 1.0) -> bool:
    """Return whether the lock of the writer is to be had, who has it for a moment."""
    with (
        suppress(sqlite3.OperationalError),
        closing(
            sqlite3.connect(
                data_dir / DATABASE_FILE, isolation_level=None, timeout=within_s, check_same_thread=False
            )
        ) as connection,
    ):
        await asyncio.to_thread(connection.execute, "BEGIN IMMEDIATE")
        return True
    return False
