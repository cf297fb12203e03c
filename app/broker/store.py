"""Metadata of the broker in SQLite: topics, committed offsets, cluster id, producer ids."""

import asyncio
import json
import sqlite3
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple, Self, TypeVar

T = TypeVar("T")

FIRST_PRODUCER_ID: Final = 1000
"""Where producer ids begin; any positive number would do."""

_TABLES: Final = """
create table if not exists fact(name text primary key, value text not null) without rowid;
create table if not exists topic(
    name text primary key, id text not null, partitions integer not null, configs text not null
) without rowid;
create table if not exists committed(
    groupname text, topic text, partition integer, position integer not null, epoch integer not null,
    metadata text, primary key (groupname, topic, partition)
) without rowid;
"""


@dataclass(frozen=True, slots=True)
class StoredTopic:
    """A topic as it is stored; its logs are in the directory named after its id."""

    name: str
    id: uuid.UUID
    partitions: int
    configs: Mapping[str, str]


class Committed(NamedTuple):
    """An offset a group committed."""

    offset: int
    epoch: int
    metadata: str | None


class CommittedRow(NamedTuple):
    """One committed offset with its full key."""

    group: str
    topic: str
    partition: int
    committed: Committed


class Store:
    """One connection on one thread; every method returns after its transaction and raises `sqlite3.Error`."""

    def __init__(self, path: Path, *, durable: bool) -> None:
        self._path = path
        self._synchronous = "full" if durable else "normal"
        self._thread = ThreadPoolExecutor(1, "broker-store")
        self._connection: sqlite3.Connection

    async def open(self) -> Self:
        """Open the file and make its tables."""
        await self._run(self._open)
        return self

    async def aclose(self) -> None:
        """Close the file."""
        await self._run(self._close)
        self._thread.shutdown()

    async def cluster_id(self, fresh: uuid.UUID) -> str:
        """Return this directory's cluster id; the first call keeps `fresh`."""
        return await self._run(lambda: self._fact("cluster", fresh.hex[:22]))

    async def topics(self) -> list[StoredTopic]:
        """Return every topic."""
        rows = await self._run(lambda: self._query("select name, id, partitions, configs from topic"))
        return [StoredTopic(name, uuid.UUID(hex_id), count, json.loads(c)) for name, hex_id, count, c in rows]

    async def put_topic(self, topic: StoredTopic) -> None:
        """Add or replace a topic."""
        row = (topic.name, topic.id.hex, topic.partitions, json.dumps(dict(topic.configs)))
        await self._run(lambda: self._write("insert or replace into topic values (?, ?, ?, ?)", [row]))

    async def drop_topic(self, name: str) -> None:
        """Remove a topic and what groups committed for it."""
        await self._run(lambda: self._drop_topic(name))

    async def committed(self) -> list[CommittedRow]:
        """Return every committed offset."""
        query = "select groupname, topic, partition, position, epoch, metadata from committed"
        rows = await self._run(lambda: self._query(query))
        return [CommittedRow(g, t, p, Committed(offset, epoch, m)) for g, t, p, offset, epoch, m in rows]

    async def commit(self, rows: Iterable[CommittedRow]) -> None:
        """Keep committed offsets, all or none."""
        values = [(row.group, row.topic, row.partition, *row.committed) for row in rows]
        query = "insert or replace into committed values (?, ?, ?, ?, ?, ?)"
        await self._run(lambda: self._write(query, values))

    async def drop_group(self, group: str) -> None:
        """Forget what a group committed."""
        await self._run(lambda: self._write("delete from committed where groupname = ?", [(group,)]))

    async def drop_commits(self, group: str, partitions: Iterable[tuple[str, int]]) -> None:
        """Forget what a group committed for these partitions, all or none."""
        rows = [(group, topic, index) for topic, index in partitions]
        query = "delete from committed where groupname = ? and topic = ? and partition = ?"
        await self._run(lambda: self._write(query, rows))

    async def reserve_producer_ids(self, count: int) -> int:
        """Return the first of `count` producer ids that were never given out."""
        return await self._run(lambda: self._reserve(count))

    async def _run(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    def _open(self) -> None:
        self._connection = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False)
        self._connection.execute("pragma journal_mode = wal")
        self._connection.execute(f"pragma synchronous = {self._synchronous}")
        self._connection.executescript(_TABLES)

    def _close(self) -> None:
        self._connection.close()

    def _query(self, query: str) -> list[Any]:
        return self._connection.execute(query).fetchall()

    def _write(self, query: str, rows: Sequence[tuple[object, ...]]) -> None:
        with _Transaction(self._connection):
            self._connection.executemany(query, rows)

    def _drop_topic(self, name: str) -> None:
        with _Transaction(self._connection):
            self._connection.execute("delete from topic where name = ?", (name,))
            self._connection.execute("delete from committed where topic = ?", (name,))

    def _fact(self, name: str, fresh: str) -> str:
        with _Transaction(self._connection):
            self._connection.execute("insert or ignore into fact values (?, ?)", (name, fresh))
            (value,) = self._connection.execute("select value from fact where name = ?", (name,)).fetchone()
        return str(value)

    def _reserve(self, count: int) -> int:
        with _Transaction(self._connection):
            query = "select value from fact where name = 'next_producer_id'"
            row = self._connection.execute(query).fetchone()
            first = int(row[0]) if row else FIRST_PRODUCER_ID
            values = ("next_producer_id", str(first + count))
            self._connection.execute("insert or replace into fact values (?, ?)", values)
        return first


class _Transaction:
    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def __enter__(self) -> None:
        self._connection.execute("begin immediate")

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            try:
                self._connection.execute("commit")
            except sqlite3.Error:
                self._roll_back()
                raise
        else:
            self._roll_back()

    def _roll_back(self) -> None:
        if self._connection.in_transaction:
            self._connection.execute("rollback")
