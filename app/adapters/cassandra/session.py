"""Requests to Cassandra from the event loop: prepared, bounded, in batches; errors as the ports name them."""

import asyncio
import random
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from app.adapters.cassandra.binding import LoggedBatch, Prepared
from app.adapters.cassandra.driver import AWAY, LIGHTWEIGHT, NEVER_SENT, PLAIN, REFUSED, SERIAL
from app.adapters.cassandra.pooled_connections import Page
from app.adapters.cassandra.requests import Requests
from schemas.problems import StoreUnavailable

Row: TypeAlias = tuple[Any, ...]
"""The selected columns, in their order."""

CONTENDED_S: Final = 10.0
"""How long the outcome of a lightweight transaction may stay unknown before the store is unavailable."""

PAUSE_S: Final = 0.02
"""At most so long before the second try, in seconds; twice as long before each further one."""

LONGEST_PAUSE_S: Final = 0.5

DEFINE_S: Final = 30.0
"""How long a change of the schema may take, in seconds."""

BATCH_BYTES: Final = 40 * 1024
"""A logged batch is parted above it; Cassandra refuses one above 50 KiB, and counts four fifths of this."""

_ROW_BYTES: Final = 64
"""What a row takes beside its values, about."""


@dataclass(frozen=True, slots=True, eq=False)
class Statement:
    """CQL with `?` for values; write it once, as a constant: it is prepared once for each session."""

    cql: str


Write: TypeAlias = tuple[Statement, Sequence[object]]
"""A statement and its values."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """A lightweight transaction, and how to know afterwards whether it was the one that wrote."""

    write: Write
    """`INSERT ... IF NOT EXISTS`, or `UPDATE ... IF ...`, on one partition."""
    standing: Write
    """Reads what stands there, by the same key."""
    own: Mapping[str, object]
    """Columns of a row of `standing` that have these values only if this very attempt wrote them."""


@dataclass(frozen=True, slots=True)
class Settled:
    """The result of a lightweight transaction."""

    applied: bool
    rows: Sequence[Mapping[str, Any]] = ()
    """When it was not applied: what `standing` found, by column name."""


@dataclass(slots=True)
class Session:
    """A session of the driver, used from one event loop; `open_session` makes it.

    Every method raises `StoreUnavailable` when nothing is known of what was asked. What Cassandra
    refuses as malformed is a defect here and is raised as the driver's `RequestValidationException`.
    """

    cluster: Any
    driver: Any
    requests: Requests
    _ready: dict[Statement, Prepared] = field(default_factory=dict)
    _preparing: dict[Statement, "asyncio.Future[Prepared]"] = field(default_factory=dict)
    _last_write_time: int = 0

    def write_time(self, micros: int) -> int:
        """Return the moment, or one soon after it that no other write has which asked here.

        Of two writes of one microsecond Cassandra takes some columns from the one and some from the other.
        """
        self._last_write_time = max(self._last_write_time + 1, micros)
        return self._last_write_time

    async def execute(
        self, statement: Statement, parameters: Sequence[object] = (), *, serial: bool = False
    ) -> Sequence[Row]:
        """Return the first page of the answer: all of it when the statement has a LIMIT (5,000 rows at most).

        `serial` reads behind every lightweight transaction, at LOCAL_SERIAL; else at LOCAL_QUORUM.
        """
        bound = await self._bind((statement, parameters))
        page = await self._ask(bound, SERIAL if serial else PLAIN)
        return [tuple(row.values()) for row in page.rows] if serial else page.rows

    async def pages(
        self, statement: Statement, parameters: Sequence[object] = (), *, fetch_size: int = 1_000
    ) -> AsyncIterator[Sequence[Row]]:
        """Yield the answer page by page, however long it is; a page may be empty."""
        bound = await self._bind((statement, parameters))
        bound.fetch_size = fetch_size
        page = await self._ask(bound, PLAIN)
        yield page.rows
        while page.next_page is not None:
            page = await self._ask(bound, PLAIN, page.next_page)
            yield page.rows

    async def batch(self, writes: Sequence[Write]) -> None:
        """Write all of it or nothing in the end (LOGGED); every write must be idempotent.

        After `StoreUnavailable` it may still be written later.
        """
        if not writes:
            return
        first = await self._bind(writes[0])
        if len(writes) == 1:
            await self._ask(first, PLAIN)
            return
        whole = LoggedBatch(first)
        for statement, parameters in writes[1:]:
            whole.append(self._ready.get(statement) or await self._prepare(statement), parameters)
        await self._ask(whole, PLAIN)

    async def lwt(self, attempt: Attempt) -> Settled:
        """Compare and set; while the outcome is unknown it is tried again, and what stands then decides.

        So `applied` is never a guess: it is what the server said, or this attempt's own values were
        found standing at LOCAL_SERIAL. After `StoreUnavailable` it may still be applied later.
        """
        bound = await self._bind(attempt.write)
        doubt: BaseException | None = None
        until = self.requests.loop.time() + CONTENDED_S
        pause_s = PAUSE_S
        while doubt is None or self.requests.loop.time() < until:
            try:
                page = await self.requests.ask(bound, LIGHTWEIGHT, again=doubt is not None)
            except AWAY as error:
                if isinstance(error, REFUSED if doubt else NEVER_SENT):
                    raise _as_port_error(error) from error
                doubt = error
                await asyncio.sleep(pause_s * random.SystemRandom().random())
                pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
                continue
            if page.rows[0]["[applied]"]:  # a batch answers once for each row
                return Settled(applied=True)
            rows = await self._standing(attempt)
            return Settled(applied=doubt is not None and _is_own(attempt, rows), rows=rows)
        raise _as_port_error(doubt) from doubt

    async def define(self, cql: str) -> None:
        """Change the schema, and return once all nodes agree on it."""
        try:
            await asyncio.to_thread(self.driver.execute, cql, timeout=DEFINE_S, execution_profile=PLAIN)
        except AWAY as error:
            raise _as_port_error(error) from error

    async def _standing(self, attempt: Attempt) -> Sequence[Mapping[str, Any]]:
        bound = await self._bind(attempt.standing)
        return (await self._ask(bound, SERIAL)).rows

    async def _bind(self, write: Write) -> Any:
        statement, parameters = write
        prepared = self._ready.get(statement) or await self._prepare(statement)
        return prepared.bind(parameters)

    def _prepare(self, statement: Statement) -> "asyncio.Future[Prepared]":
        """Prepare once, in a thread: the driver blocks; it prepares again by itself where a node forgot."""
        known = self._preparing.get(statement)
        if known is None:
            known = self._preparing[statement] = asyncio.ensure_future(self._prepare_now(statement))
            known.add_done_callback(lambda _: self._preparing.pop(statement))
        return asyncio.shield(known)

    async def _prepare_now(self, statement: Statement) -> Prepared:
        try:
            prepared = Prepared(await asyncio.to_thread(self.driver.prepare, statement.cql))
        except AWAY as error:
            raise _as_port_error(error) from error
        self._ready[statement] = prepared
        return prepared

    async def _ask(self, query: Any, profile: str, after: bytes | None = None) -> Page:
        """Send, and once more where nothing is known of the first time; all that is asked is idempotent."""
        again = False
        while True:
            try:
                return await self.requests.ask(query, profile, after, again=again)
            except AWAY as error:
                if again or isinstance(error, NEVER_SENT):
                    raise _as_port_error(error) from error
                again = True


def _is_own(attempt: Attempt, rows: Sequence[Mapping[str, Any]]) -> bool:
    return any(all(row.get(name) == value for name, value in attempt.own.items()) for row in rows)


def _as_port_error(error: BaseException | None) -> BaseException:
    """Return the error in the words of the ports; a refused statement is a defect and stays what it is."""
    if isinstance(error, REFUSED):
        return error
    return StoreUnavailable(f"Cassandra: {type(error).__name__}")


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """Writes for one batch."""

    writes: Sequence[Write]
    size: int
    """In bytes, about."""


def part_of(writes: Sequence[Write]) -> Part:
    """Return writes that must not be parted."""
    return Part(writes, sum(map(_bytes_of, writes)))


def parted(writes: Sequence[Write]) -> list[Part]:
    """Part what is too large for one batch; the last write stays the last."""
    parts: list[Part] = []
    part: list[Write] = []
    size = 0
    for write in writes:
        own = _bytes_of(write)
        if size + own > BATCH_BYTES and part:
            parts.append(Part(part, size))
            part, size = [], 0
        part.append(write)
        size += own
    return [*parts, Part(part, size)]


def _bytes_of(write: Write) -> int:
    return _ROW_BYTES + sum([len(value) for value in write[1] if isinstance(value, (str, bytes))])
