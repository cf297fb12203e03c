"""Run jobs of one kind as one, so that a batch costs a few statements whatever its size.

The interpreter lock changes hands at every step of a statement; beside a busy event loop that costs
far more than the step itself. So jobs are grouped by kind, and their rows go into one statement.
"""

import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, ClassVar, Final, Generic, Self, TypeAlias, TypeVar

from app.adapters.sqlite.batch_thread import JobResult, PendingJob
from schemas.problems import VeristreamError

Answer = TypeVar("Answer")
Asked = TypeVar("Asked")

Job: TypeAlias = Callable[[sqlite3.Connection], Answer]
"""Runs statements on a connection by itself; the transaction around it is the engine's."""

Rows: TypeAlias = Sequence[tuple[Any, ...]]
"""Parameters, one tuple for each row of VALUES."""

ROWS: Final = 256
"""Rows in one statement at most: with 13 columns well below SQLite's limit of 32,766 variables."""

STATEMENTS: Final = 512
"""Statements cached as text here and prepared by each connection: one for each power of two of rows."""

_VALUES: Final = "VALUES ("


class BatchJob(ABC, Generic[Answer]):
    """A job that runs with all others of its kind that wait."""

    touches: ClassVar[str]
    """What its rows are about; among kinds that touch the same, the order of submission is preserved."""

    @classmethod
    @abstractmethod
    def run(cls, connection: sqlite3.Connection, jobs: Sequence[Self]) -> Sequence[Answer | VeristreamError]:
        """Return each job's answer; a job answered with an error must have written nothing.

        What is raised instead undoes the batch; then every job runs by itself.
        """


AnyJob: TypeAlias = Job[Answer] | BatchJob[Answer]


@dataclass(slots=True)
class _Group:
    """Jobs that run as one; only jobs that are `BatchJob` are grouped."""

    run: Callable[[sqlite3.Connection, Sequence[Any]], Sequence[Any]]
    members: list[PendingJob[AnyJob[Any]]] = field(default_factory=list)


def each(jobs: Sequence[Asked], answer: Callable[[Asked], Answer]) -> list[Answer | VeristreamError]:
    """Return every job's answer, or the error that is its answer."""
    return [_attempt(job, answer) for job in jobs]


def _attempt(job: Asked, answer: Callable[[Asked], Answer]) -> Answer | VeristreamError:
    try:
        return answer(job)
    except VeristreamError as error:
        return error


def run_groups(
    connection: sqlite3.Connection, batch: Sequence[PendingJob[AnyJob[Any]]]
) -> Iterator[JobResult]:
    """Run a batch, kind by kind, and yield how each job ended; what a job raises ends it."""
    for group in _gather(batch):
        answers = group.run(connection, [waiting.job for waiting in group.members])
        for waiting, answer in zip(group.members, answers, strict=True):
            if isinstance(answer, VeristreamError):
                yield JobResult(waiting.future, error=answer)
            else:
                yield JobResult(waiting.future, answer)


def _gather(batch: Sequence[PendingJob[AnyJob[Any]]]) -> list[_Group]:
    """Put each job into the last group that touches the same, when that is of its kind."""
    groups: list[_Group] = []
    last: dict[str, _Group] = {}
    for waiting in batch:
        job = waiting.job
        if not isinstance(job, BatchJob):
            last.clear()
            groups.append(_Group(_run_alone, [waiting]))
            continue
        group = last.get(job.touches)
        if group is None or not isinstance(group.members[0].job, type(job)):
            group = last[job.touches] = _Group(type(job).run)
            groups.append(group)
        group.members.append(waiting)
    return groups


def _run_alone(connection: sqlite3.Connection, jobs: Sequence[Job[Answer]]) -> Sequence[Answer]:
    return [job(connection) for job in jobs]


def write_rows(connection: sqlite3.Connection, statement: str, rows: Rows, before: Sequence[Any] = ()) -> int:
    """Run a statement, written for one row of VALUES, for all; return how many rows it changed.

    `before`: the parameters that stand before VALUES.
    """
    return sum(cursor.rowcount for cursor in _run(connection, statement, rows, before))


def read_rows(connection: sqlite3.Connection, statement: str, rows: Rows) -> list[tuple[Any, ...]]:
    """Return what a question, written for one row of VALUES, finds for all."""
    return [found for cursor in _run(connection, statement, rows) for found in cursor.fetchall()]


def _run(
    connection: sqlite3.Connection, statement: str, rows: Rows, before: Sequence[Any] = ()
) -> Iterator[sqlite3.Cursor]:
    """Run it for parts of 1, 2, 4, 8 … rows: few statements are soon prepared, and none comes late."""
    start = 0
    while start < len(rows):
        size = min(ROWS, 1 << (len(rows) - start).bit_length() - 1)
        chunk, start = rows[start : start + size], start + size
        parameters = [*before, *(value for row in chunk for value in row)]
        yield connection.execute(for_rows(statement, size), parameters)


@lru_cache(STATEMENTS)
def for_rows(statement: str, count: int) -> str:
    """Return the statement with its one row of VALUES as often as said.

    As a list of keys, VALUES must stand in a subquery: SQLite uses no index for `IN (VALUES ...)` itself.
    """
    head, values, rest = statement.partition(_VALUES)
    row, _, tail = rest.partition(")")
    return head + values + "), (".join([row] * count) + ")" + tail
