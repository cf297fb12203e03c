"""Ports that end the process at a chosen moment, as a power cut would: before or after a named step.

They stand around the product's own ports and change nothing else.
"""

import os
import signal
from collections.abc import Callable, Sequence
from dataclasses import replace
from enum import StrEnum
from typing import Any, Final, cast

from typing_extensions import override

from app.adapters.cassandra.journal import CassandraJournal
from app.adapters.sqlite import journal as sqlite_journal
from schemas.topics import Topic
from streams.ports.records import Journal
from streams.ports.stores import Stores
from streams.runtime.producer import LogWriter, Outgoing


class Point(StrEnum):
    """Where a worker ends, in the order of a command's life."""

    EVIDENCE_STORED = "evidence-kept"
    """What the evaluation made is kept; nothing is committed."""
    RECORD_WRITTEN = "record-written"
    """The record is written, its audit rows are not: within SQLite's transaction, after Cassandra's LWT."""
    ROWS_LINKED = "rows-linked"
    """On SQLite: the audit rows are written and linked to their chain; the transaction is not committed."""
    BATCH_WRITTEN = "batch-written"
    """On Cassandra: a batch of what follows a record is written; the journal does not know it yet."""
    COMMITTED = "committed"
    """The change stands in the store; the table knows nothing of it."""
    BEFORE_PRODUCE = "before-produce"
    """The table knows it, the decision topic does not."""
    PRODUCED = "produced"
    """The decision topic has it; the answer is on its way with it."""
    ANSWERED = "answered"
    """The answer is in the log; the command is not acknowledged."""
    BEFORE_MARK = "before-mark"
    """The events are in the log; the store still counts them as waiting."""
    BEFORE_SEAL = "before-seal"
    """On Cassandra: the links are made, and not in the chain."""
    SEALED = "sealed"
    """On Cassandra: the links are in the chain; the command to seal is not acknowledged."""


class Crash:
    """Ends the process with SIGKILL when it is met for the nth time."""

    def __init__(self, nth: int) -> None:
        self._left = nth

    def meet(self) -> None:
        """Live on, or not."""
        self._left -= 1
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)


class FailTimes(Crash):
    """Raises instead, the first times it is met: the errors in their order."""

    def __init__(self, *errors: Exception) -> None:
        super().__init__(0)
        self._errors = list(errors)

    @override
    def meet(self) -> None:
        if self._errors:
            raise self._errors.pop(0)


class CrashingPort:
    """A port, one of whose methods crashes before or after it does its work."""

    def __init__(self, port: object, method: str, crash: Crash, *, before: bool = False) -> None:
        self._port, self._method, self._crash, self._before = port, method, crash, before

    def __getattr__(self, name: str) -> Any:
        """Hand on what is asked of the port."""
        asked = getattr(self._port, name)
        return self._crashing(asked) if name == self._method else asked

    def _crashing(self, asked: Callable[..., Any]) -> Callable[..., Any]:
        async def ask(*arguments: object, **named: object) -> Any:
            if self._before:
                self._crash.meet()
            answer = await asked(*arguments, **named)
            if not self._before:
                self._crash.meet()
            return answer

        return ask


class CrashingWriter:
    """A writer that crashes before or after it writes to one topic."""

    def __init__(self, writer: LogWriter, topic: Topic, crash: Crash, *, before: bool) -> None:
        self._writer, self._topic, self._crash, self._before = writer, topic, crash, before

    async def write(self, *records: Outgoing) -> None:
        """Write, or die before or after it."""
        awaited = any(record.topic == self._topic for record in records)
        if awaited and self._before:
            self._crash.meet()
        await self._writer.write(*records)
        if awaited and not self._before:
            self._crash.meet()


def crashing_writer(writer: LogWriter, point: Point, crash: Crash) -> LogWriter:
    """Return the writer of a worker that ends at the point."""
    match point:
        case Point.BEFORE_PRODUCE | Point.PRODUCED:
            before = point is Point.BEFORE_PRODUCE
            return cast("LogWriter", CrashingWriter(writer, Topic.DECISIONS, crash, before=before))
        case Point.ANSWERED:
            return cast("LogWriter", CrashingWriter(writer, Topic.REPLIES, crash, before=False))
        case _:
            return writer


def crashing_stores(stores: Stores, point: Point, crash: Crash) -> Stores:
    """Return the stores of a worker that ends at the point."""
    match point:
        case Point.EVIDENCE_STORED:
            return replace(stores, evidence=_around(stores.evidence, "put", crash))
        case (
            Point.RECORD_WRITTEN
            | Point.ROWS_LINKED
            | Point.BATCH_WRITTEN
            | Point.COMMITTED
            | Point.BEFORE_MARK
        ):
            return replace(stores, journal=_crashing_journal(stores.journal, point, crash))
        case Point.BEFORE_SEAL | Point.SEALED:
            before = point is Point.BEFORE_SEAL
            return replace(stores, audit_log=_around(stores.audit_log, "seal", crash, before=before))
        case _:
            return stores


def _crashing_journal(journal: Journal, point: Point, crash: Crash) -> Any:
    match point:
        case Point.COMMITTED:
            return _around(journal, "commit", crash)
        case Point.BEFORE_MARK:
            return _around(journal, "mark_emitted", crash, before=True)
        case _ if isinstance(cast("Any", journal).inner, CassandraJournal):
            inner: Any = cast("Any", journal).inner
            request = "lwt" if point is Point.RECORD_WRITTEN else "batch"
            inner._session = CrashingPort(inner._session, request, crash)
        case _:
            _die_within_transactions(crash, before=point is Point.RECORD_WRITTEN)
    return journal


def _around(port: object, method: str, crash: Crash, *, before: bool = False) -> Any:
    return CrashingPort(port, method, crash, before=before)


CALLS: Final = (
    ("records", "get"),
    ("evidence", "get"),
    ("vault", "open"),
    ("evidence", "put"),
    ("vault", "seal"),
    ("journal", "commit"),
    ("journal", "mark_emitted"),
    ("audit_log", "head"),
    ("audit_log", "unsealed"),
    ("audit_log", "seal"),
)
"""Every call of a store that a worker makes on the way of a command that is decided."""


def failing_stores(stores: Stores, *errors: Exception, calls: Sequence[tuple[str, str]] = CALLS) -> Stores:
    """Return stores each of whose calls raises all the errors, one at a time, before it works."""
    for port, method in calls:
        failing = CrashingPort(getattr(stores, port), method, FailTimes(*errors), before=True)
        stores = replace(stores, **{port: cast("Any", failing)})
    return stores


ON_SQLITE: Final = tuple(
    point for point in Point if point not in {Point.BATCH_WRITTEN, Point.BEFORE_SEAL, Point.SEALED}
)
ON_CASSANDRA: Final = tuple(point for point in Point if point is not Point.ROWS_LINKED)


def _die_within_transactions(crash: Crash, *, before: bool) -> None:
    module = cast("Any", sqlite_journal)
    append = module.append_audit

    def meet_and_append(connection: Any, rows: Sequence[Any], key: bytes) -> None:
        if before:
            crash.meet()
        append(connection, rows, key)
        if not before:
            crash.meet()

    module.append_audit = meet_and_append
