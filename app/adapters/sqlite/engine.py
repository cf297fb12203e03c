"""Threads around SQLite: a writer that commits in batches, a batch thread for look-ups, and readers."""

import asyncio
import fcntl
import os
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from app.adapters.sqlite.batch_thread import BatchThread, JobResult, PendingJob
from app.adapters.sqlite.batching import STATEMENTS, AnyJob, Job, run_groups
from app.adapters.sqlite.log_folding import LogFolder
from app.adapters.sqlite.migration import copy_before
from app.adapters.sqlite.schema import NEWEST, migrate, standing_version
from schemas.problems import StoreUnavailable, VeristreamError

Answer = TypeVar("Answer")
READERS: Final = 2
"""Threads for reads that take long: pages, files, walks; more would only compete for two cores."""

BUSY_TIMEOUT_MS: Final = 5_000
"""How long a commit waits for another process's before the store counts as unavailable."""

RETRY_MS: Final = 3
"""How long SQLite itself waits for another process's commit, in steps of a millisecond or two."""

TURN_RETRY_S: Final = 0.001
"""Between two looks whether it is this process's turn."""

TURN_TIMEOUT_S: Final = 0.5
"""A process that has its turn for so long is taken for stopped: until it goes on the others write without."""

CHECKPOINT_PAGES: Final = 36_000
"""Write-ahead log of 144 MB that did not begin anew after being folded beside the commits is folded by the
commit that fills it."""

LOG_LIMIT_BYTES: Final = 64 * 1024 * 1024
"""A write-ahead log that outgrew this while somebody read is cut back afterwards."""

WRITER_CACHE_KIB: Final = 65_536
READER_CACHE_KIB: Final = 8_192

_CARRIED: Final = (VeristreamError, sqlite3.Error, OSError, ValueError, TypeError, ArithmeticError)
"""What a job may raise to the one who asked; anything else is a defect of the job and ends its batch."""


class Engine:
    """One database file, opened by `open_engine`; used from the event loop that opened it."""

    def __init__(self, path: Path, loop: asyncio.AbstractEventLoop) -> None:
        self._path = path
        self._loop = loop
        self._local = threading.local()
        self._connection = connect(path, cache_kib=WRITER_CACHE_KIB)
        self._connection.execute(f"PRAGMA busy_timeout = {RETRY_MS}")
        self._turns = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        self._opened = [self._connection]
        self._writer: BatchThread[AnyJob[Any]] = BatchThread("store-writer", loop, self._commit)
        self._finder: BatchThread[AnyJob[Any]] = BatchThread("store-finder", loop, self._find)
        self._readers = ThreadPoolExecutor(READERS, "store-reader")
        self._folder = LogFolder(partial(connect, path, cache_kib=READER_CACHE_KIB))

    def write(self, job: AnyJob[Answer]) -> asyncio.Future[Answer]:
        """Run the job in a transaction and return its answer once it is durable.

        Raises:
            StoreUnavailable: Nothing was written, or nothing is known.
        """
        return self._writer.submit(job)

    def write_along(self, job: AnyJob[Answer], quiet_s: float) -> asyncio.Future[Answer]:
        """Run the job in a transaction of others, every eighth at most, or once nobody wrote for so long."""
        return self._writer.submit_along(job, quiet_s)

    def is_quiet(self, quiet_s: float) -> bool:
        """Tell whether nobody wrote for so long."""
        return self._writer.is_quiet(quiet_s)

    def find(self, job: AnyJob[Answer]) -> asyncio.Future[Answer]:
        """Run a job of microseconds, such as a read by key, in a batch with other look-ups."""
        return self._finder.submit(job)

    def read(self, job: Job[Answer]) -> asyncio.Future[Answer]:
        """Run a job that may take long on a reader, beside writer and look-ups."""
        return self._loop.run_in_executor(self._readers, self._read, job)

    def stage_and_write(self, stage: Job[AnyJob[Answer]]) -> asyncio.Future[Answer]:
        """Run `stage` on a reader's thread and the job it returns on the writer, with no stop between."""
        future: asyncio.Future[Answer] = self._loop.create_future()
        staged = self._readers.submit(self._stage, stage, future)
        staged.add_done_callback(partial(self._writer.report_defect, future))
        return future

    async def fold(self) -> None:
        """Fold the write-ahead log into the file and empty it, unless somebody is reading just now."""
        await self._loop.run_in_executor(self._writer.thread, self._folder.empty)

    async def aclose(self) -> None:
        """Finish what is queued and close the file; later calls raise `StoreUnavailable`."""
        self._finder.dispatch()
        self._writer.dispatch()
        self._writer.dispatch_along()
        await asyncio.to_thread(self._close)

    def _close(self) -> None:
        self._readers.shutdown()
        self._finder.close()
        self._writer.close()
        self._folder.close()
        for connection in reversed(self._opened):  # the writer last: it folds the log into the file
            connection.close()
        os.close(self._turns)

    def _read(self, job: Job[Answer]) -> Answer:
        try:
            return job(self._reader())
        except (sqlite3.Error, OSError) as error:
            raise _as_port_error(error) from error

    def _reader(self) -> sqlite3.Connection:
        connection: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = connect(self._path, cache_kib=READER_CACHE_KIB)
            connection.execute("PRAGMA query_only = ON")
            self._local.connection = connection
            self._opened.append(connection)
        return connection

    def _find(self, batch: Sequence[PendingJob[AnyJob[Any]]]) -> list[JobResult]:
        """Run all look-ups of a batch; an unreadable file fails them at once, not one by one."""
        try:
            return list(run_groups(self._reader(), batch))
        except _CARRIED as error:
            if len(batch) == 1 or isinstance(error, sqlite3.OperationalError):
                return [JobResult(waiting.future, error=_as_port_error(error)) for waiting in batch]
        return [outcome for waiting in batch for outcome in self._find([waiting])]

    def _stage(self, stage: Job[AnyJob[Answer]], future: asyncio.Future[Answer]) -> None:
        try:
            job = stage(self._reader())
        except _CARRIED as error:
            self._writer.settle([JobResult(future, error=_as_port_error(error))])
        else:
            self._writer.enqueue(PendingJob(job, future))

    def _commit(self, batch: Sequence[PendingJob[AnyJob[Any]]]) -> list[JobResult]:
        """Commit everybody's work at once; when one job raises, each gets a transaction of its own.

        No savepoints: they copy every page that a job touches, and jobs seldom raise.
        """
        try:
            return self._commit_batch(batch)
        except _CARRIED as error:
            if len(batch) == 1 or isinstance(error, sqlite3.OperationalError):
                return [JobResult(waiting.future, error=_as_port_error(error)) for waiting in batch]
        return [outcome for waiting in batch for outcome in self._commit([waiting])]

    def _commit_batch(self, batch: Sequence[PendingJob[AnyJob[Any]]]) -> list[JobResult]:
        run = self._connection.execute
        try:
            self._begin()
            outcomes = list(run_groups(self._connection, batch))
            run("COMMIT")
            self._folder.note_commit()
        finally:
            if self._connection.in_transaction:
                run("ROLLBACK")
        return outcomes

    def _begin(self) -> None:
        """Begin a transaction once no other process is in one; processes that write take turns.

        SQLite's own waiting steps up to 100 ms, and a process that commits again and again would begin its
        next transaction while another one sleeps.
        """
        began = time.monotonic()
        until = began + BUSY_TIMEOUT_MS / 1000
        with _turn(self._turns, began + TURN_TIMEOUT_S):
            while True:
                try:
                    self._connection.execute("BEGIN IMMEDIATE")
                except sqlite3.OperationalError as error:
                    if not _is_busy(error) or time.monotonic() >= until:
                        raise
                else:
                    return


@contextmanager
def _turn(folder: int, until: float) -> Iterator[None]:
    """Hold the lock of the folder (flock) that a process takes before it waits for the one that writes.

    Turns are for fairness, the database has its own lock: on a file system without `flock`, and when the
    lock is not to be had, there are none.
    """
    while time.monotonic() < until:
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(TURN_RETRY_S)
        except OSError:
            break
        else:
            break
    try:
        yield
    finally:
        with suppress(OSError):
            fcntl.flock(folder, fcntl.LOCK_UN)


def _is_busy(error: sqlite3.OperationalError) -> bool:
    """Return whether another connection has the lock; the low byte of the code tells."""
    return error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY


def _as_port_error(error: BaseException) -> BaseException:
    """Return the error in the words of the ports."""
    if isinstance(error, sqlite3.Error | OSError):
        unavailable = StoreUnavailable(str(error))
        unavailable.__cause__ = error
        return unavailable
    return error


def connect(path: Path, *, cache_kib: int) -> sqlite3.Connection:
    """Open a connection that commits durably; its user begins and ends transactions. Blocking."""
    connection = sqlite3.connect(
        path,
        timeout=BUSY_TIMEOUT_MS / 1000,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=STATEMENTS,
    )
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA secure_delete = FAST")
    connection.execute("PRAGMA temp_store = MEMORY")
    connection.execute(f"PRAGMA journal_size_limit = {LOG_LIMIT_BYTES}")
    connection.execute(f"PRAGMA cache_size = -{cache_kib}")
    connection.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")
    return connection


def prepare(path: Path) -> None:
    """Make the file, or bring an older one up; several processes may do so at once. Blocking.

    An older one is copied beside itself first, as `veristream.sqlite3.schema-N`.

    Raises:
        StoreUnavailable: The file cannot be used for now.
        SchemaRefused: A newer version, or another program, wrote the file, or the copy cannot be written.
    """
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))  # the files beside it get its mode
        with closing(connect(path, cache_kib=READER_CACHE_KIB)) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
            standing = standing_version(connection)
            if 0 < standing < NEWEST:
                copy_before(path, standing)
            migrate(connection)
    except (sqlite3.Error, OSError) as error:
        raise StoreUnavailable(f"{path}: {error}") from error
