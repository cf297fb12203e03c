"""Threads around SQLite: one writer that commits whoever waits together, and readers beside it."""

import asyncio
import os
import sqlite3
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future as ThreadFuture
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias, TypeVar

from app.adapters.sqlite.schema import migrate
from schemas.problems import StoreUnavailable, VeristreamError

Answer = TypeVar("Answer")
Job: TypeAlias = Callable[[sqlite3.Connection], Answer]
"""Runs statements on a connection; the transaction around it is the engine's."""

BATCH: Final = 128
"""Jobs in one commit at most, so that the first of them does not wait long."""

READERS: Final = 4
"""Threads that read and seal; more would only compete for two cores."""

BUSY_TIMEOUT_MS: Final = 5_000
"""How long a commit waits for another process's before the store counts as unavailable."""

CHECKPOINT_PAGES: Final = 4_000
"""Write-ahead log of 16 MB before it is folded into the file: a page changed often is folded once."""

LOG_LIMIT_BYTES: Final = 64 * 1024 * 1024
"""A write-ahead log that outgrew this while somebody read is cut back afterwards."""

FOLD_TIMEOUT_MS: Final = 200
"""How long emptying the log waits for readers; the next checkpoint comes anyway."""

WRITER_CACHE_KIB: Final = 65_536
READER_CACHE_KIB: Final = 8_192

_CARRIED: Final = (VeristreamError, sqlite3.Error, OSError, ValueError, TypeError, ArithmeticError)
"""What a job may raise to the one who asked; anything else is a defect of the job and ends its batch."""


@dataclass(frozen=True, slots=True)
class _Waiting:
    job: Job[Any]
    future: asyncio.Future[Any]


@dataclass(frozen=True, slots=True)
class _Outcome:
    future: asyncio.Future[Any]
    answer: Any = None
    error: BaseException | None = None


class Engine:
    """One database file, opened by `open_engine`; used from the event loop that opened it."""

    def __init__(self, path: Path, loop: asyncio.AbstractEventLoop) -> None:
        self._path = path
        self._loop = loop
        self._lock = threading.Lock()
        self._queue: deque[_Waiting] = deque()
        self._draining = False
        self._writer = ThreadPoolExecutor(1, "store-writer")
        self._connection = connect(path, cache_kib=WRITER_CACHE_KIB)
        self._readers = ThreadPoolExecutor(READERS, "store-reader")
        self._local = threading.local()
        self._opened = [self._connection]
        self._closed = False

    def write(self, job: Job[Answer]) -> asyncio.Future[Answer]:
        """Run the job in a transaction and return its answer once it is durable.

        Raises:
            StoreUnavailable: Nothing was written, or nothing is known.
        """
        self._refuse_when_closed()
        future: asyncio.Future[Answer] = self._loop.create_future()
        self._enqueue(_Waiting(job, future))
        return future

    def read(self, job: Job[Answer]) -> asyncio.Future[Answer]:
        """Run the job on a reader, beside the writer.

        Raises:
            StoreUnavailable: The file cannot be read for now.
        """
        self._refuse_when_closed()
        return self._loop.run_in_executor(self._readers, self._read, job)

    def stage_and_write(self, stage: Job[Job[Answer]]) -> asyncio.Future[Answer]:
        """Run `stage` on a reader's thread and the job it returns on the writer, with no stop between."""
        self._refuse_when_closed()
        future: asyncio.Future[Answer] = self._loop.create_future()
        staged = self._readers.submit(self._stage, stage, future)
        staged.add_done_callback(lambda done: self._pass_on(done.exception(), future))
        return future

    async def fold(self) -> None:
        """Fold the write-ahead log into the file and empty it, unless somebody is reading just now."""
        await self._loop.run_in_executor(self._writer, self._fold)

    async def aclose(self) -> None:
        """Finish what was asked and close the file; whoever asks later finds the store unavailable."""
        self._closed = True
        await asyncio.to_thread(self._close)

    def _close(self) -> None:
        self._readers.shutdown()
        self._writer.shutdown()
        for connection in reversed(self._opened):  # the writer last: it folds the log into the file
            connection.close()

    def _refuse_when_closed(self) -> None:
        if self._closed:
            raise StoreUnavailable("the store is closed")

    def _fold(self) -> None:
        with (
            suppress(sqlite3.OperationalError),
            closing(connect(self._path, cache_kib=READER_CACHE_KIB)) as own,
        ):
            own.execute(f"PRAGMA busy_timeout = {FOLD_TIMEOUT_MS}")
            own.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()

    def _read(self, job: Job[Answer]) -> Answer:
        try:
            return job(self._reader())
        except (sqlite3.Error, OSError) as error:
            raise _told(error) from error

    def _reader(self) -> sqlite3.Connection:
        connection: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = connect(self._path, cache_kib=READER_CACHE_KIB)
            connection.execute("PRAGMA query_only = ON")
            self._local.connection = connection
            self._opened.append(connection)
        return connection

    def _stage(self, stage: Job[Job[Answer]], future: asyncio.Future[Answer]) -> None:
        self._enqueue(_Waiting(stage(self._reader()), future))

    def _pass_on(self, error: BaseException | None, future: asyncio.Future[Any]) -> None:
        if error is not None:
            self._settle([_Outcome(future, error=_told(error))])

    def _enqueue(self, waiting: _Waiting) -> None:
        with self._lock:
            self._queue.append(waiting)
            if self._draining:
                return
            self._draining = True
        self._writer.submit(self._drain).add_done_callback(self._report_defect)

    def _take(self) -> list[_Waiting]:
        with self._lock:
            batch = [self._queue.popleft() for _ in range(min(len(self._queue), BATCH))]
            self._draining = bool(batch)
            return batch

    def _drain(self) -> None:
        batch = self._take()
        try:
            while batch:
                self._settle(self._commit(batch))
                batch = self._take()
        finally:
            if batch:
                self._abandon(batch)

    def _abandon(self, batch: Sequence[_Waiting]) -> None:
        """After a defect nobody may wait for ever, and the next batch must find a writer."""
        with self._lock:
            batch = [*batch, *self._queue]
            self._queue.clear()
            self._draining = False
        error = StoreUnavailable("a job of this batch is defective")
        self._settle([_Outcome(waiting.future, error=error) for waiting in batch])

    def _report_defect(self, drained: ThreadFuture[None]) -> None:
        error = drained.exception()
        if error is not None:
            context = {"message": "the store's writer met a defect", "exception": error}
            self._loop.call_soon_threadsafe(self._loop.call_exception_handler, context)

    def _commit(self, batch: Sequence[_Waiting]) -> list[_Outcome]:
        """Commit everybody's work at once; when one job raises, each gets a transaction of its own.

        No savepoints: they copy every page that a job touches, and jobs seldom raise.
        """
        try:
            return self._commit_together(batch)
        except _CARRIED as error:
            if len(batch) == 1 or isinstance(error, sqlite3.OperationalError):
                return [_Outcome(waiting.future, error=_told(error)) for waiting in batch]
        return [outcome for waiting in batch for outcome in self._commit([waiting])]

    def _commit_together(self, batch: Sequence[_Waiting]) -> list[_Outcome]:
        run = self._connection.execute
        try:
            run("BEGIN IMMEDIATE")
            outcomes = [_Outcome(waiting.future, waiting.job(self._connection)) for waiting in batch]
            run("COMMIT")
        finally:
            if self._connection.in_transaction:
                run("ROLLBACK")
        return outcomes

    def _settle(self, outcomes: Sequence[_Outcome]) -> None:
        self._loop.call_soon_threadsafe(_resolve, outcomes)


def _resolve(outcomes: Sequence[_Outcome]) -> None:
    for outcome in outcomes:
        if outcome.future.done():
            continue  # whoever asked has gone
        if outcome.error is None:
            outcome.future.set_result(outcome.answer)
        else:
            outcome.future.set_exception(outcome.error)


def _told(error: BaseException) -> BaseException:
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
        cached_statements=256,
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

    Raises:
        StoreUnavailable: The file cannot be used for now.
        SchemaRefused: A newer version, or another program, wrote the file.
    """
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))  # the files beside it get its mode
        with closing(connect(path, cache_kib=READER_CACHE_KIB)) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
            migrate(connection)
    except (sqlite3.Error, OSError) as error:
        raise StoreUnavailable(f"{path}: {error}") from error
